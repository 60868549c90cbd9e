// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/split.hpp>
#include <shardwise/memory/request.hpp>
#include <shardwise/model/tensor.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The share of a tensor that one rank holds: its rows and columns by the shard rule, uneven where units do not divide.
/// stored_bytes stay those of the whole: shard_bytes prices packed shares.
[[nodiscard]] constexpr Tensor shard_of(Tensor const& tensor, Parallelism const& parallel, RankPlace const& place) {
    auto const& rule = tensor.shard;
    auto share = tensor;
    if (rule.experts > 0 && parallel.ep > 1) share.shape[0] = split_units(rule.experts, parallel.ep, place.ep).size();
    if (parallel.tp > 1 && rule.kind != ShardKind::replicated && rule.count > 0) {
        auto& extent = share.shape[rule.dim];
        auto const own =
            split_units(rule.kind == ShardKind::packed_qkv ? rule.heads : rule.count, parallel.tp, place.tp).size();
        switch (rule.kind) {
            case ShardKind::replicated: break;
            case ShardKind::units: extent = extent / rule.count * own; break;
            case ShardKind::kv_heads:
                extent = extent / rule.count * split_kv_heads(rule.heads, rule.count, parallel.tp, place.tp).size();
                break;
            case ShardKind::packed_qkv: {
                auto const head = extent / (rule.heads + 2 * rule.count);
                extent = head * (own + 2 * split_kv_heads(rule.heads, rule.count, parallel.tp, place.tp).size());
                break;
            }
            case ShardKind::packed_parts: extent = extent / rule.count * own; break;
        }
    }
    return share;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
