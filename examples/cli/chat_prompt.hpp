// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/tokenizer/chat_layout.hpp>
#include <shardwise/tokenizer/chat_template.hpp>
#include <shardwise/tokenizer/files/load_tokenizer.hpp>

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace shardwise::cli {

/// Lays out conversations for --chat: by the model's own template or, where that cannot be run, by a built-in layout whose marks
/// it has, which stderr is told once.
class ChatPrompt {
public:
    /// Errors  missing_field where the model has no template; those of ChatTemplate::parse where no built-in layout stands in,
    ///         and then the whole template goes to stderr
    [[nodiscard]] static Result<ChatPrompt> make(LoadedTokenizer const& loaded);

    /// The tokens of a conversation, up to where its answer begins.
    ///
    /// Errors  those of ChatTemplate::render; invalid_argument as lay_out_chat; those of the tokenizer
    [[nodiscard]] Result<std::vector<TokenId>> encode(Tokenizer const& tokenizer,
                                                      std::span<ChatMessage const> messages);

private:
    /// Goes over to a built-in layout.
    ///
    /// Errors  `why` where the template has the marks of none
    [[nodiscard]] Result<> fall_back(Error const& why);

    std::string text_;
    SpecialTokenTexts special_tokens_;
    std::optional<ChatTemplate> layout_;
    std::optional<ChatFormat> format_;
};

}  // namespace shardwise::cli
