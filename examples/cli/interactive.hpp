// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/model/config.hpp>
#include <shardwise/session/run_options.hpp>

#include "arguments.hpp"
#include "load_model.hpp"

#include <cstdint>

namespace shardwise::cli {

/// True where `run` asks for prompts itself: no prompt was given, and there is a person at a terminal to ask.
[[nodiscard]] bool is_interactive(Arguments const& arguments);

/// The tokens that a conversation with a model has room for.
[[nodiscard]] std::int64_t conversation_context(ModelConfig const& config);

/// Asks for one prompt after another and streams the answers, until the input ends (Ctrl-D). An interrupt (Ctrl-C) ends
/// the answer that is being given. With --chat every prompt is a turn of one conversation; without, each stands alone.
/// `model` is runnable; `request` says how to generate; `options.context` is the conversation's.
///
/// Errors  unsupported without a tokenizer; those of ChatPrompt for --chat; those of running
[[nodiscard]] Result<> run_interactive(Arguments const& arguments, LoadedModel& model, GenerationRequest request,
                                       RunOptions options);

}  // namespace shardwise::cli
