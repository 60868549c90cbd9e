// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/model/files/model_source.hpp>
#include <shardwise/tokenizer/chat_layout.hpp>
#include <shardwise/tokenizer/tokenizer.hpp>

#include "arguments.hpp"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace shardwise::cli {

/// What the model is asked, in its own tokens.
struct RunPrompt {
    std::vector<std::int32_t> ids;
    /// Nothing where the files have no tokenizer: ids are all there is then.
    std::optional<Tokenizer> tokenizer;
};

/// Checks that exactly one of --prompt, --prompt-file and --prompt-ids is given, and what goes with it.
///
/// Errors  invalid_argument
[[nodiscard]] Result<> check_prompt_flags(Arguments const& arguments);

/// The layout that a model's template writes, for --chat; the whole text of one that is not recognised goes to stderr.
///
/// Errors  those of recognize_chat_format
[[nodiscard]] Result<ChatFormat> find_chat_format(std::string_view chat_template);

/// The prompt of the command line. `source` is the model's.
///
/// Errors  invalid_argument; what readers of tokenizers and of the prompt's file refuse; unsupported for --chat with a template
///         that is not recognised
[[nodiscard]] Result<RunPrompt> read_prompt(Arguments const& arguments, ModelSource const& source);

}  // namespace shardwise::cli
