// SPDX-License-Identifier: Apache-2.0
#include <shardwise/tokenizer/chat_layout.hpp>

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

using namespace shardwise;

namespace {

std::vector<ChatMessage> const conversation{
    {ChatRole::system, "Be brief."}, {ChatRole::user, "Hi"}, {ChatRole::assistant, "Hello."}, {ChatRole::user, "Bye "}};

std::string laid_out(std::string_view chat_template, std::vector<ChatMessage> const& messages) {
    auto const format = recognize_chat_format(chat_template);
    if (!format) return format.error().message();
    auto const text = lay_out_chat(*format, messages);
    return text ? *text : text.error().message();
}

// The parts of the published templates that tell their layout.
constexpr std::string_view smollm2 =
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou "
    "are a helpful AI "
    "assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + "
    "'\n' + "
    "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' "
    "}}{% endif %}";
constexpr std::string_view qwen25 =
    "{{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}{{- '<|im_start|>system\\nYou are Qwen, "
    "created by Alibaba "
    "Cloud. You are a helpful assistant.<|im_end|>\\n' }}";
constexpr std::string_view llama2 =
    "{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}{{ bos_token + "
    "'[INST] ' + "
    "content.strip() + ' [/INST]' }}{{ ' '  + content.strip() + ' ' + eos_token }}{{ ' ' + eos_token }}";
constexpr std::string_view llama3 =
    "{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + "
    "'<|eot_id|>' %}";
constexpr std::string_view mistral2 =
    "{{ bos_token }}{{ '[INST] ' + message['content'] + ' [/INST]' }}{{ message['content'] + eos_token}}";
constexpr std::string_view mistral3 =
    "{{- \"[INST] \" + message[\"content\"] + \"[/INST]\" }}{{- \" \" + message[\"content\"]|trim + eos_token}}";
constexpr std::string_view gemma =
    "{{ bos_token }}{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' "
    "}}{{'<start_of_turn>model\n'}}";
constexpr std::string_view phi3 =
    "{{'<|user|>' + '\n' + message['content'] + '<|end|>' + '\n' + '<|assistant|>' + '\n'}}{{message['content'] + "
    "'<|end|>' + '\n'}}";

}  // namespace

TEST_CASE("A conversation is laid out as the model's template would") {
    CHECK(laid_out(smollm2, conversation) ==
          "<|im_start|>system\nBe "
          "brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello.<|im_end|>\n"
          "<|im_start|>user\nBye <|im_end|>\n<|im_start|>assistant\n");
    CHECK(laid_out(llama2, conversation) ==
          "[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHi [/INST] Hello. </s><s>[INST] Bye [/INST]");
    CHECK(laid_out(llama3, conversation) ==
          "<|start_header_id|>system<|end_header_id|>\n\nBe "
          "brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
          "<|start_header_id|>assistant<|end_header_id|>\n\nHello.<|eot_id|><|start_header_id|>user<|end_header_id|>"
          "\n\nBye<|eot_id|>"
          "<|start_header_id|>assistant<|end_header_id|>\n\n");
    CHECK(laid_out(mistral2, conversation) == "[INST] Be brief.\n\nHi [/INST]Hello.</s>[INST] Bye  [/INST]");
    CHECK(laid_out(mistral3, conversation) == "[INST] Be brief.\n\nHi[/INST] Hello.</s>[INST] Bye [/INST]");
    CHECK(laid_out(gemma, conversation) ==
          "<start_of_turn>user\nBe "
          "brief.\n\nHi<end_of_turn>\n<start_of_turn>model\nHello.<end_of_turn>\n<start_of_turn>user\nBye"
          "<end_of_turn>\n<start_of_turn>model\n");
    CHECK(laid_out(phi3, conversation) ==
          "<|system|>\nBe brief.<|end|>\n<|user|>\nHi<|end|>\n<|assistant|>\nHello.<|end|>\n<|user|>\nBye "
          "<|end|>\n<|assistant|>\n");
}

TEST_CASE("A ChatML template's own system message is said where the conversation has none") {
    std::vector<ChatMessage> const question{{ChatRole::user, "Hi"}};
    CHECK(laid_out(smollm2, question) ==
          "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
          "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
    CHECK(default_system_message(qwen25) == "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.");
    CHECK(default_system_message("<|im_start|>user\n<|im_end|>").empty());
    CHECK(default_system_message("<|im_start|>system\nno end").empty());
}

TEST_CASE("A template that is not known is refused with its text") {
    auto const unknown = recognize_chat_format("{{ 'Human: ' + message['content'] }}");
    REQUIRE(!unknown);
    CHECK(unknown.error().code() == ErrorCode::unsupported);
    CHECK(unknown.error().message().find("Human: ") != std::string::npos);
    auto const none = recognize_chat_format("");
    REQUIRE(!none);
    CHECK(none.error().code() == ErrorCode::missing_field);
}

TEST_CASE("A conversation whose last turn is not the user's is refused") {
    CHECK(!lay_out_chat(ChatFormat{}, {}));
    std::vector<ChatMessage> const answered{{ChatRole::user, "Hi"}, {ChatRole::assistant, "Hello"}};
    auto const text = lay_out_chat(ChatFormat{}, answered);
    REQUIRE(!text);
    CHECK(text.error().code() == ErrorCode::invalid_argument);
}
