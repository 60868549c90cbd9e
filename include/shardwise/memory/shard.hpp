// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/memory/request.hpp>
#include <shardwise/model/parameter_shard.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What one rank of a request holds of a tensor, which outlives the answer; `grain` is what stays together of it where shardwise loads
/// it (LayerPosition::grain).
[[nodiscard]] constexpr ParameterShard shard_of(Tensor const& tensor, Parallelism const& parallel,
                                                RankPlace const& place, UnitGrain grain = {}) {
    return {tensor, parallel.tp, place.tp, parallel.ep, place.ep, grain};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
