// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/session/declared/embed.hpp>

#if SHARDWISE_HAS_BODY(RUN)
#include <shardwise/executor/stored_parameters.hpp>
#include <shardwise/session/embed_on_backend.hpp>
#include <shardwise/session/run_on_vendor.hpp>

#include <cstdint>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

SHARDWISE_ON_CALL_BODY
Result<std::vector<Embedding>> embed_on_threads(OpenCheckpoint& files, Model const& model,
                                                std::vector<std::vector<std::int32_t>> const& texts,
                                                EmbedOptions const& options) {
    if (!options.devices.empty()) return detail::embed_on_vendor(files, model, texts, options);
    return embed_on_backend<Host>(files, model, texts, options);
}

SHARDWISE_ON_CALL_BODY
Result<std::vector<Embedding>> embed_on_threads(ModelSource const& source, Model const& model,
                                                std::vector<std::vector<std::int32_t>> const& texts,
                                                EmbedOptions const& options) {
    OpenCheckpoint files(source);
    return embed_on_threads(files, model, texts, options);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
#endif
