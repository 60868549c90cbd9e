// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/session/declared/complete_text.hpp>

#if SHARDWISE_HAS_BODY(COMPLETE_TEXT)
#include <shardwise/model/architectures.hpp>
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

namespace detail {

SHARDWISE_ON_CALL_BODY
Result<std::string> complete_text(FileFamilies families, std::string const& model, std::string_view prompt,
                                  std::int64_t max_new_tokens, RunOptions const& options) {
    auto source = find_model(model, {}, HubCache(HubEnvironment::current()));
    if (!source) return source.error();
    OpenCheckpoint files(*std::move(source));
    auto const checkpoint = read_checkpoint(families, files);
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

}  // namespace detail

SHARDWISE_ON_CALL_BODY
Result<std::string> complete_text(std::string const& model, std::string_view prompt, std::int64_t max_new_tokens,
                                  RunOptions const& options) {
    return detail::complete_text(file_families<Architectures>(), model, prompt, max_new_tokens, options);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
#endif
