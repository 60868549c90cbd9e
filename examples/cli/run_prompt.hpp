// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/model/files/open_checkpoint.hpp>
#include <shardwise/session/generation.hpp>
#include <shardwise/session/run_options.hpp>
#include <shardwise/tokenizer/tokenizer.hpp>

#include "arguments.hpp"

#include <cstdint>
#include <optional>
#include <string>
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

/// What is told of a text that may pass from one list of frequencies to the other (longrope); nothing of others.
[[nodiscard]] std::optional<std::string> long_rotations(Model const& model, GenerationRequest const& request,
                                                        RunOptions const& options);

}  // namespace shardwise::cli
