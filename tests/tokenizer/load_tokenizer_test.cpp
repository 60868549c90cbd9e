// SPDX-License-Identifier: Apache-2.0
#include <shardwise/tokenizer/files/load_tokenizer.hpp>

#include <doctest/doctest.h>
#include <temporary_folder.hpp>

#include <string>

using namespace shardwise;

namespace {

constexpr char const* tokenizer_json =
    R"({"model":{"type":"BPE","vocab":{"a":0,"b":1,"<s>":2},"merges":[]},"added_tokens":[]})";

/// The chat template of a folder with these files; "-" leaves a file out.
std::string template_of(std::string const& config, std::string const& file) {
    testing::TemporaryFolder const folder;
    ModelSource source;
    source.config = folder.write("tokenizer.json", tokenizer_json);
    source.kind = SourceKind::config;
    if (config != "-") (void)folder.write("tokenizer_config.json", config);
    if (file != "-") (void)folder.write("chat_template.jinja", file);
    auto const loaded = load_tokenizer(source);
    REQUIRE_MESSAGE(loaded, loaded.error().message());
    return loaded->chat_template;
}

}  // namespace

// transformers 4.57.6, tokenization_utils_base.py: a chat_template.jinja replaces what tokenizer_config.json says; of a list of
// named templates apply_chat_template takes "default".
TEST_CASE("load_tokenizer: a chat template in a file of its own counts before that of tokenizer_config.json") {
    CHECK(template_of("-", "-").empty());
    CHECK(template_of(R"({"chat_template":"inner"})", "-") == "inner");
    CHECK(template_of("-", "outer") == "outer");
    CHECK(template_of(R"({"chat_template":"inner"})", "outer") == "outer");
    CHECK(template_of(R"({"bos_token":"<s>"})", "outer") == "outer");
}

TEST_CASE("load_tokenizer: of a list of named chat templates the default one is taken") {
    std::string const list =
        R"([{"name":"tool_use","template":"tools"},{"name":"default","template":"plain"},{"template":"nameless"}])";
    CHECK(template_of(R"({"chat_template":)" + list + "}", "-") == "plain");
    CHECK(template_of(R"({"chat_template":[{"name":"tool_use","template":"tools"}]})", "-").empty());
    CHECK(template_of(R"({"chat_template":[1,null,{"name":1,"template":2}]})", "-").empty());
    CHECK(template_of(R"({"chat_template":7})", "-").empty());
}

// transformers 4.57.6: special_tokens_map of AutoTokenizer.from_pretrained; null is no token, and what no file says is the class's.
TEST_CASE("load_tokenizer: the texts of special tokens are those that transformers gives to chat templates") {
    auto const texts = [](std::string const& config, std::string const& map = {}) {
        testing::TemporaryFolder const folder;
        ModelSource source;
        source.config = folder.write("tokenizer.json", tokenizer_json);
        source.kind = SourceKind::config;
        (void)folder.write("tokenizer_config.json", config);
        if (!map.empty()) (void)folder.write("special_tokens_map.json", map);
        auto const loaded = load_tokenizer(source);
        REQUIRE_MESSAGE(loaded, loaded.error().message());
        std::string all;
        for (auto const& [name, text] : loaded->special_tokens) all += name + "=" + text + " ";
        return all;
    };
    CHECK(texts(R"({"bos_token":"<s>","eos_token":{"content":"</s>","lstrip":false},"pad_token":null})") ==
          "bos_token=<s> eos_token=</s> ");
    CHECK(texts(R"({"tokenizer_class":"LlamaTokenizer","eos_token":"<e>"})") ==
          "bos_token=<s> eos_token=<e> unk_token=<unk> ");
    CHECK(texts(R"({"tokenizer_class":"Qwen2TokenizerFast","eos_token":"<e>","pad_token":null})") ==
          "eos_token=<e> unk_token=<|endoftext|> ");
    CHECK(texts(R"({"tokenizer_class":"PreTrainedTokenizerFast"})").empty());
    std::string const map = R"({"bos_token":"<m>"})";
    CHECK(texts(R"({"bos_token":"<s>"})", map) == "bos_token=<m> ");
    CHECK(texts(R"({"bos_token":"<s>","added_tokens_decoder":{}})", map) == "bos_token=<s> ");
}
