// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/files/checkpoint.hpp>
#include <shardwise/model/files/end_tokens.hpp>
#include <shardwise/model/files/open_checkpoint.hpp>
#include <shardwise/session/run_on_threads.hpp>
#include <shardwise/tokenizer/files/load_tokenizer.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Loads a model over the ranks that `options` ask for and gives the text with which it goes on after a prompt: the
/// most probable token each time, up to the end of the text or `max_new_tokens`. For other choices, or several texts:
/// run_on_threads.
///
/// `model` is a folder, a .gguf file, or org/name in the Hugging Face cache, of a family of `List`.
///
/// Errors  those of finding and reading the model and its tokenizer; why no family describes the model;
///         as run_on_threads
///
/// Example  examples/06_run/main.cpp
template <class List = Architectures>
[[nodiscard]] Result<std::string> complete_text(std::string const& model, std::string_view prompt,
                                                std::int64_t max_new_tokens, RunOptions const& options = {}) {
    auto source = find_model(model, {}, HubCache(HubEnvironment::current()));
    if (!source) return source.error();
    OpenCheckpoint files(*std::move(source));
    auto const checkpoint = read_checkpoint<List>(files);
    if (!checkpoint) return checkpoint.error();
    if (checkpoint->not_described) return *checkpoint->not_described;
    auto const loaded = load_tokenizer(files);
    if (!loaded) return loaded.error();
    auto stops = end_tokens(files);
    if (!stops) return stops.error();
    auto ids = loaded->tokenizer.encode(prompt);
    if (!ids) return ids.error();
    GenerationRequest request;
    request.prompt = *std::move(ids);
    request.max_new_tokens = max_new_tokens;
    request.stop_tokens = *std::move(stops);
    auto const report = run_on_threads(files, checkpoint->model, {request}, options);
    if (!report) return report.error();
    return loaded->tokenizer.decode(report->generations.front().tokens);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
