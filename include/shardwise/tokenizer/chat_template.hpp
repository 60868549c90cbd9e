// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/tokenizer/chat_layout.hpp>
#include <shardwise/tokenizer/jinja/evaluate.hpp>
#include <shardwise/tokenizer/jinja/execute.hpp>
#include <shardwise/tokenizer/jinja/loops.hpp>
#include <shardwise/tokenizer/jinja/parse_template.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a chat template is given beside the limits: what transformers' apply_chat_template gives, without tools and documents.
struct ChatTemplateInput {
    std::span<ChatMessage const> messages = {};
    /// Whether the text ends where the answer begins.
    bool adds_generation_prompt = true;
    /// The texts of special tokens under their names, such as bos_token; a name that is missing is undefined.
    std::span<std::pair<std::string, std::string> const> special_tokens = {};
    /// What strftime_now writes; a template that asks for the date is refused without it.
    std::optional<std::tm> now = {};
};

namespace detail::jinja {

[[nodiscard]] constexpr ErrorCode code_of(JinjaFault fault) {
    switch (fault) {
        case JinjaFault::refused:
            return ErrorCode::invalid_argument;
        case JinjaFault::wrong:
            return ErrorCode::invalid_field;
        case JinjaFault::unsupported:
            return ErrorCode::unsupported;
        case JinjaFault::limit:
            break;
    }
    return ErrorCode::capacity_exceeded;
}

/// The fault of a template as an error that names the line.
[[nodiscard]] inline Error template_error(JinjaFault fault, int line, std::string_view reason) {
    Error error{code_of(fault)};
    error.in("chat_template").at("line " + std::to_string(line));
    if (fault == JinjaFault::refused)
        return error.because("the model's chat template refuses the conversation: " + std::string(reason));
    return error.because(reason);
}

}  // namespace detail::jinja

/// A model's layout of conversations, written in Jinja: read once, and run for every conversation. It gives, to the byte, what
/// transformers' apply_chat_template(tokenize=False) gives. A value; any number of threads may use it.
///
/// Example  auto const layout = ChatTemplate::parse(loaded->chat_template); auto const text = layout->render({messages});
class ChatTemplate {
public:
    /// Errors  malformed_file with the line where it is no Jinja; unsupported for what this interpreter does not have;
    ///         capacity_exceeded beyond 1 MiB
    [[nodiscard]] static Result<ChatTemplate> parse(std::string_view text) {
        if (text.size() > max_size) {
            return Error{ErrorCode::capacity_exceeded}
                .in("chat_template")
                .because("is longer than a template may be")
                .got(static_cast<std::int64_t>(text.size()))
                .at_most(static_cast<std::int64_t>(max_size));
        }
        auto const refuse = [](detail::jinja::JinjaSyntaxFault const& fault) {
            auto const code = fault.is_unsupported ? ErrorCode::unsupported : ErrorCode::malformed_file;
            return Error{code}.in("chat_template").at("line " + std::to_string(fault.line)).because(fault.reason);
        };
        detail::jinja::JinjaLexer lexer(to_valid_utf8(text));
        auto tokens = lexer.run();
        if (!tokens) return refuse(lexer.fault());
        detail::jinja::JinjaParser parser(*std::move(tokens));
        auto root = parser.run();
        if (!root) return refuse(parser.fault());
        return ChatTemplate(std::move(root));
    }

    /// The text of a conversation. Encode it without the tokens that the tokenizer adds: the template has written them.
    ///
    /// Errors  invalid_argument with the template's own words where it refuses the conversation (raise_exception); invalid_field
    ///         where Jinja would refuse what it does; unsupported; capacity_exceeded at a limit
    [[nodiscard]] Result<std::string> render(ChatTemplateInput const& input, ChatTemplateLimits limits = {}) const {
        using detail::jinja::JinjaValue;
        detail::jinja::JinjaGlobals globals;
        detail::jinja::JinjaRunState building({});
        std::vector<JinjaValue> messages;
        for (auto const& message : input.messages) {
            limits.bytes += bytes_per_byte * message.text.size();
            messages.push_back(building.make_dict(
                {{JinjaValue(std::string("role")), JinjaValue(std::string(detail::role_name(message.role)))},
                 {JinjaValue(std::string("content")), JinjaValue(to_valid_utf8(message.text))}}));
        }
        for (auto const& [name, text] : input.special_tokens)
            globals.emplace_back(name, JinjaValue(to_valid_utf8(text)));
        globals.emplace_back("messages", building.make_list(std::move(messages)));
        globals.emplace_back("tools", JinjaValue::none());
        globals.emplace_back("documents", JinjaValue::none());
        globals.emplace_back("add_generation_prompt", JinjaValue::boolean(input.adds_generation_prompt));
        return render_with(globals, input.now, limits);
    }

    /// Used by render and by tests: any values under any names.
    [[nodiscard]] Result<std::string> render_with(detail::jinja::JinjaGlobals const& globals,
                                                  std::optional<std::tm> const& now, ChatTemplateLimits limits) const {
        detail::jinja::JinjaRunState run(limits);
        detail::jinja::JinjaInterpreter interpreter(run, globals, now);
        auto text = interpreter.render(*root_);
        if (run.is_failed()) return detail::jinja::template_error(run.fault(), run.fault_line(), run.reason());
        return text;
    }

    /// A text, and what of it the assistant writes.
    struct Marked {
        std::string text;
        std::vector<detail::jinja::TextSpan> spans;
    };
    /// Whether the template says what the assistant writes: it has {% generation %}.
    [[nodiscard]] bool marks_answers() const { return marks_answers(*root_); }
    /// The same text with what the template marks.
    ///
    /// Errors  as render; unsupported where something is marked whose place in the text is not known
    [[nodiscard]] Result<Marked> render_marked(detail::jinja::JinjaGlobals const& globals,
                                               ChatTemplateLimits limits) const {
        detail::jinja::JinjaRunState run(limits);
        detail::jinja::JinjaInterpreter interpreter(run, globals, {});
        auto text = interpreter.render(*root_);
        if (run.is_failed()) return detail::jinja::template_error(run.fault(), run.fault_line(), run.reason());
        if (interpreter.has_lost_spans())
            return Error{ErrorCode::unsupported}
                .in("chat_template")
                .because("marks an answer within a macro or a text that is set, whose place is not known");
        return Marked{std::move(text), interpreter.spans()};
    }

private:
    [[nodiscard]] static bool marks_answers(detail::jinja::JinjaNode const& node) {
        if (node.kind == detail::jinja::JinjaNodeKind::generation) return true;
        for (auto const& child : node.children) {
            if (child && marks_answers(*child)) return true;
        }
        return false;
    }
    static constexpr std::size_t max_size = std::size_t{1} << 20U;
    static constexpr std::uint64_t bytes_per_byte = 256;

    explicit ChatTemplate(std::shared_ptr<detail::jinja::JinjaNode const> root) : root_(std::move(root)) {}

    std::shared_ptr<detail::jinja::JinjaNode const> root_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
