#pragma once

#include <shardwise/core/split.hpp>
#include <shardwise/memory/request.hpp>
#include <shardwise/model/tensor.hpp>

#include <cstdint>

namespace shardwise::inline v0 {

/// The share of a tensor that one rank holds: its rows and columns by the shard rule, uneven where units do not divide.
///
/// Units  stored_bytes, where a file gives them, shrink with the number of elements, rounded up
[[nodiscard]] constexpr Tensor shard_of(Tensor const& tensor, Parallelism const& parallel, RankPlace const& place) {
    auto const& rule = tensor.shard;
    auto share = tensor;
    if (rule.experts > 0 && parallel.ep > 1) share.shape[0] = split_units(rule.experts, parallel.ep, place.ep).size();
    if (parallel.tp > 1 && rule.kind != ShardKind::replicated && rule.count > 0) {
        auto& extent = share.shape[rule.dim];
        auto const own = split_units(rule.kind == ShardKind::packed_qkv ? rule.heads : rule.count, parallel.tp, place.tp).size();
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
    if (tensor.stored_bytes >= 0 && !(share.shape == tensor.shape)) {
        auto const whole = tensor.shape.elements();
        // In parts, so that the product of bytes and elements cannot overflow.
        auto const part = share.shape.elements();
        auto const per_element = whole > 0 ? tensor.stored_bytes / whole : 0;
        auto const rest = whole > 0 ? tensor.stored_bytes % whole : 0;
        auto const extra = static_cast<double>(rest) * static_cast<double>(part) / static_cast<double>(whole > 0 ? whole : 1);
        auto const floor = static_cast<std::int64_t>(extra);
        share.stored_bytes = per_element * part + floor + (static_cast<double>(floor) < extra ? 1 : 0);
    }
    return share;
}

}  // namespace shardwise::inline v0
