// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/session/generation.hpp>

#include <cstdint>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A request that waits for a slot of the cache.
struct WaitingRequest {
    std::int64_t number = 0;
    GenerationRequest request;
};
/// A sequence with pages of the cache.
struct RunningSequence {
    std::int64_t number = 0;
    std::int64_t slot = 0;
    GenerationRequest request;
    /// Prompt and output.
    std::vector<std::int32_t> tokens;
    /// Of them, those in the cache.
    std::int64_t computed = 0;
    /// Of a model with an encoder, the prompt that is still to be encoded; `request.prompt` is what its decoder begins with.
    std::vector<std::int32_t> source{};

    [[nodiscard]] std::int64_t made() const { return static_cast<std::int64_t>(tokens.size() - request.prompt.size()); }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
