// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/on_call.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/model/files/file_family.hpp>
#include <shardwise/session/run_options.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

SHARDWISE_ON_CALL
[[nodiscard]] Result<std::string> complete_text(FileFamilies families, std::string const& model,
                                                std::string_view prompt, std::int64_t max_new_tokens,
                                                RunOptions const& options);

}  // namespace detail

/// Loads a model over the ranks that `options` ask for and gives the text with which it goes on after a prompt: the
/// most probable token each time, up to the end of the text or `max_new_tokens`. For other choices, or several texts:
/// run_on_threads.
///
/// `model` is a folder, a .gguf file, or org/name in the Hugging Face cache, of a family of `Architectures`.
///
/// Errors  those of finding and reading the model and its tokenizer; why no family describes the model;
///         as run_on_threads
///
/// Example  examples/06_run/main.cpp
SHARDWISE_ON_CALL
[[nodiscard]] Result<std::string> complete_text(std::string const& model, std::string_view prompt,
                                                std::int64_t max_new_tokens, RunOptions const& options = {});

/// The same for a model of a family of `List`.
template <class List>
[[nodiscard]] Result<std::string> complete_text(std::string const& model, std::string_view prompt,
                                                std::int64_t max_new_tokens, RunOptions const& options = {}) {
    return detail::complete_text(file_families<List>(), model, prompt, max_new_tokens, options);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
