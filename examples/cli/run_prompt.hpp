// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/model/files/open_checkpoint.hpp>
#include <shardwise/tokenizer/tokenizer.hpp>

#include "arguments.hpp"

#include <cstdint>
#include <optional>
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

/// The prompt of the command line. `files` are the model's.
///
/// Errors  invalid_argument; what readers of tokenizers and of the prompt's file refuse; those of ChatPrompt for --chat
[[nodiscard]] Result<RunPrompt> read_prompt(Arguments const& arguments, OpenCheckpoint& files);

}  // namespace shardwise::cli
