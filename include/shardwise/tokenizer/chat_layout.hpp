// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/assert.hpp>
#include <shardwise/core/result.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How a model was taught to tell the turns of a conversation apart.
enum class ChatLayout : std::uint8_t { chatml, llama2, llama3, mistral, gemma, phi3 };

[[nodiscard]] constexpr std::string_view name_of(ChatLayout layout) {
    switch (layout) {
        case ChatLayout::chatml:
            return "ChatML";
        case ChatLayout::llama2:
            return "llama-2";
        case ChatLayout::llama3:
            return "llama-3";
        case ChatLayout::mistral:
            return "mistral";
        case ChatLayout::gemma:
            return "gemma";
        case ChatLayout::phi3:
            return "phi-3";
    }
    return "unknown";
}

/// Who says something.
enum class ChatRole : std::uint8_t { system, user, assistant };

/// One turn of a conversation.
struct ChatMessage {
    ChatRole role = ChatRole::user;
    std::string text;
};

/// A layout and what differs between the templates that write it.
struct ChatFormat {
    ChatLayout layout = ChatLayout::chatml;
    std::string default_system;                // said where the conversation has no system message
    std::string_view instruction = "[INST] ";  // before and after the user's turn, llama-2 and mistral
    std::string_view end_instruction = " [/INST]";
    bool spaces_answers = true;  // a space stands before an answer
};

/// The system message that a ChatML template puts before conversations that have none; empty where it has none.
[[nodiscard]] inline std::string_view default_system_message(std::string_view chat_template) {
    constexpr std::string_view begin = "<|im_start|>system";
    for (auto at = chat_template.find(begin); at != std::string_view::npos; at = chat_template.find(begin, at + 1)) {
        auto rest = chat_template.substr(at + begin.size());
        // Templates write the line's end as it is, or as \n within a string.
        if (rest.starts_with("\\n")) {
            rest.remove_prefix(2);
        } else if (rest.starts_with("\n")) {
            rest.remove_prefix(1);
        } else {
            continue;
        }
        auto const text = rest.substr(0, rest.find("<|im_end|>"));
        // An expression instead of a text: the message that was given.
        if (text.empty() || text.size() == rest.size() || text.find_first_of("'\"{}") != std::string_view::npos)
            continue;
        return text;
    }
    return {};
}

/// Which well-known layout a template (Jinja) writes, by the marks that it has; the template is not executed.
///
/// Errors  missing_field where the template is empty; unsupported with the beginning of any other
[[nodiscard]] inline Result<ChatFormat> recognize_chat_format(std::string_view chat_template) {
    auto const has = [&](std::string_view mark) { return chat_template.find(mark) != std::string_view::npos; };
    if (chat_template.empty()) {
        return Error{ErrorCode::missing_field}
            .at("chat_template")
            .because("the model has no layout of conversations")
            .fix("write the prompt as the model expects it, without --chat");
    }
    ChatFormat format;
    if (has("<|im_start|>") && has("<|im_end|>")) {
        format.default_system = default_system_message(chat_template);
        return format;
    }
    if (has("<|start_header_id|>") && has("<|eot_id|>")) return ChatFormat{ChatLayout::llama3, {}};
    if (has("<start_of_turn>") && has("<end_of_turn>")) return ChatFormat{ChatLayout::gemma, {}};
    if (has("<|user|>") && has("<|assistant|>") && has("<|end|>")) return ChatFormat{ChatLayout::phi3, {}};
    if (has("[INST]") && has("[/INST]")) {
        format.layout = has("<<SYS>>") ? ChatLayout::llama2 : ChatLayout::mistral;
        // Mistral's templates differ in their spaces.
        if (has("' [INST] '") || has("\" [INST] \"")) format.instruction = " [INST] ";
        if (!has("[INST] ")) format.instruction = "[INST]";
        if (!has(" [/INST]")) format.end_instruction = "[/INST]";
        format.spaces_answers = has("' ' + ") || has("\" \" + ");
        return format;
    }
    return Error{ErrorCode::unsupported}
        .at("chat_template")
        .because("is none of ChatML, llama-2, llama-3, mistral, gemma, phi-3: " +
                 std::string(chat_template.substr(0, 120)))
        .fix("write the prompt as the model expects it, without --chat");
}

namespace detail {

[[nodiscard]] inline std::string_view without_outer_space(std::string_view text) {
    constexpr std::string_view space = " \t\r\n\v\f";
    auto const first = text.find_first_not_of(space);
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(space) - first + 1);
}

[[nodiscard]] constexpr std::string_view role_name(ChatRole role) {
    switch (role) {
        case ChatRole::system:
            return "system";
        case ChatRole::user:
            return "user";
        case ChatRole::assistant:
            break;
    }
    return "assistant";
}

/// Layouts whose every turn stands between marks.
[[nodiscard]] inline std::string marked_turns(ChatLayout layout, std::span<ChatMessage const> messages) {
    std::string out;
    std::string system;
    for (auto const& message : messages) {
        std::string const role{role_name(message.role)};
        switch (layout) {
            case ChatLayout::llama3:
                out += "<|start_header_id|>" + role + "<|end_header_id|>\n\n";
                (out += without_outer_space(message.text)) += "<|eot_id|>";
                break;
            case ChatLayout::phi3:
                out += "<|" + role + "|>\n" + message.text + "<|end|>\n";
                break;
            case ChatLayout::gemma:
                // Gemma has no system turn: what it says stands before the first user's.
                if (message.role == ChatRole::system) {
                    (system += message.text) += "\n\n";
                    continue;
                }
                out += "<start_of_turn>" + (message.role == ChatRole::user ? role : std::string("model")) + "\n";
                ((out += system) += without_outer_space(message.text)) += "<end_of_turn>\n";
                system.clear();
                break;
            case ChatLayout::chatml:
            case ChatLayout::llama2:
            case ChatLayout::mistral:
                out += "<|im_start|>" + role + "\n" + message.text + "<|im_end|>\n";
        }
    }
    switch (layout) {
        case ChatLayout::llama3:
            return out + "<|start_header_id|>assistant<|end_header_id|>\n\n";
        case ChatLayout::phi3:
            return out + "<|assistant|>\n";
        case ChatLayout::gemma:
            return out + "<start_of_turn>model\n";
        case ChatLayout::chatml:
        case ChatLayout::llama2:
        case ChatLayout::mistral:
            break;
    }
    return out + "<|im_start|>assistant\n";
}

/// Layouts that put the user's turns between [INST] and [/INST], and what the system says into the first of them.
[[nodiscard]] inline std::string instruction_turns(ChatFormat const& format, std::span<ChatMessage const> messages) {
    bool const is_llama2 = format.layout == ChatLayout::llama2;
    std::string out;
    std::string system;
    for (auto const& message : messages) {
        if (message.role == ChatRole::system) {
            system = is_llama2 ? "<<SYS>>\n" + message.text + "\n<</SYS>>\n\n" : message.text + "\n\n";
        } else if (message.role == ChatRole::user) {
            auto const text = system + message.text;
            // What encode puts before a text begins the first turn.
            if (is_llama2 && !out.empty()) out += "<s>";
            out += format.instruction;
            out += is_llama2 ? without_outer_space(text) : std::string_view(text);
            out += format.end_instruction;
            system.clear();
        } else {
            SHARDWISE_ASSERT(message.role == ChatRole::assistant);
            if (format.spaces_answers) out += ' ';
            out += is_llama2 ? without_outer_space(message.text) : std::string_view(message.text);
            out += is_llama2 ? " </s>" : "</s>";
        }
    }
    return out;
}

}  // namespace detail

/// A conversation as the model expects it, up to where its answer begins. Encode it with special tokens found in the text;
/// the token that begins a sequence is not part of it.
///
/// Errors  invalid_argument where nobody says anything, or the last turn is not the user's
/// Source  the templates of SmolLM2, Llama-2-chat, Llama-3-Instruct, Mistral-7B-Instruct-v0.2, gemma-2-it, Phi-3-mini
[[nodiscard]] inline Result<std::string> lay_out_chat(ChatFormat const& format, std::span<ChatMessage const> messages) {
    if (messages.empty() || messages.back().role != ChatRole::user) {
        return Error{ErrorCode::invalid_argument}.at("chat").because("the last message is not the user's");
    }
    bool const has_instructions = format.layout == ChatLayout::llama2 || format.layout == ChatLayout::mistral;
    if (has_instructions) return detail::instruction_turns(format, messages);
    if (format.default_system.empty() || messages.front().role == ChatRole::system) {
        return detail::marked_turns(format.layout, messages);
    }
    std::vector<ChatMessage> all{{ChatRole::system, format.default_system}};
    all.insert(all.end(), messages.begin(), messages.end());
    return detail::marked_turns(format.layout, all);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
