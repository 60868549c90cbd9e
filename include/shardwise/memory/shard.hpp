// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/split.hpp>
#include <shardwise/memory/request.hpp>
#include <shardwise/model/shard_extent.hpp>
#include <shardwise/model/tensor.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The share of a tensor that one rank holds: its rows and columns by the shard rule, uneven where units do not divide.
/// stored_bytes stay those of the whole: shard_bytes prices packed shares.
[[nodiscard]] constexpr Tensor shard_of(Tensor const& tensor, Parallelism const& parallel, RankPlace const& place) {
    auto const& rule = tensor.shard;
    auto share = tensor;
    if (rule.experts > 0 && parallel.ep > 1) share.shape[0] = split_units(rule.experts, parallel.ep, place.ep).size();
    if (rule.kind != ShardKind::replicated) {
        auto& extent = share.shape[rule.dim];
        extent = shard_extent(rule, extent, parallel.tp, place.tp);
    }
    return share;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
