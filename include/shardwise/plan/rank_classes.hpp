// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/memory/request.hpp>
#include <shardwise/model/architecture.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Ranks of one tensor- and expert-parallel group by what they hold: of ranks with the same share of everything the
/// first stands for all. The group's first rank is a class of its own: it also gathers the logits.
struct RankClasses {
    /// The first rank of each class.
    List<RankPlace> places;
    /// The class of each rank, tensor-parallel ranks next to each other.
    List<std::size_t> class_of;
};

namespace detail {

/// Counts of units that are sharded over tensor-parallel ranks, and of heads that share key-value heads; each once.
struct ShardedUnits {
    struct Heads {
        std::int64_t heads = 0;
        std::int64_t kv_heads = 0;

        friend bool operator==(Heads const&, Heads const&) = default;
    };
    List<std::int64_t> units;
    List<Heads> heads;

    void add(std::int64_t count) {
        for (auto const known : units) {
            if (known == count) return;
        }
        if (count > 0) units.push_back(count);
    }
    void add_heads(std::int64_t query, std::int64_t kv) {
        if (query < 1 || kv < 1) return;
        for (auto const& known : heads) {
            if (known == Heads{query, kv}) return;
        }
        heads.push_back({query, kv});
    }
};

}  // namespace detail

/// Everything that tensor-parallel ranks hold in units: what decides whether two ranks hold the same.
[[nodiscard]] inline detail::ShardedUnits find_dealt_units(Model const& model) {
    detail::ShardedUnits sharded;
    for (auto const& tensor : model.tree.tensors()) {
        auto const& rule = tensor.shard;
        switch (rule.kind) {
            case ShardKind::replicated:
                break;
            case ShardKind::units:
            case ShardKind::packed_parts:
                sharded.add(rule.count);
                break;
            case ShardKind::kv_heads:
                sharded.add_heads(rule.heads, rule.count);
                break;
            case ShardKind::packed_qkv:
                sharded.add(rule.heads);
                sharded.add_heads(rule.heads, rule.count);
                break;
        }
    }
    for (auto const& body : model.program.bodies()) {
        for (auto const& value : body.values()) {
            if (value.spread != Spread::sharded) continue;
            if (value.serves_heads > 0)
                sharded.add_heads(value.serves_heads, value.units);
            else
                sharded.add(value.units);
            sharded.add_heads(value.units, value.packed_kv_heads);
        }
        for (auto const& op : body.operations()) {
            if (op.kind == OpKind::gated_delta) sharded.add(op.delta.key_heads);
            if (op.kind != OpKind::attention) continue;
            sharded.add(op.attention.heads);
            sharded.add_heads(op.attention.heads, op.attention.kv_heads);
        }
    }
    return sharded;
}

/// The classes of the ranks of a tp * ep group; `rows` are those that sequence parallelism shards, 0 where it is off.
[[nodiscard]] inline RankClasses find_rank_classes(detail::ShardedUnits const& sharded, std::int64_t tp,
                                                   std::int64_t ep, std::int64_t experts, std::int64_t rows) {
    auto const share = [tp](std::int64_t units, std::int64_t rank) { return split_units(units, tp, rank).size(); };
    auto const are_alike = [&](std::int64_t a, std::int64_t b) {
        if (a == 0 || b == 0 || (rows > 0 && share(rows, a) != share(rows, b))) return a == b;
        for (auto const units : sharded.units) {
            if (share(units, a) != share(units, b)) return false;
        }
        for (auto const& [heads, kv_heads] : sharded.heads) {
            if (split_kv_heads(heads, kv_heads, tp, a).size() != split_kv_heads(heads, kv_heads, tp, b).size())
                return false;
        }
        return true;
    };
    List<std::int64_t> tp_places;
    List<std::size_t> tp_class;
    for (std::int64_t rank = 0; rank < tp; ++rank) {
        std::size_t known = 0;
        while (known < tp_places.size() && !are_alike(tp_places[known], rank)) ++known;
        if (known == tp_places.size()) tp_places.push_back(rank);
        tp_class.push_back(known);
    }
    // The first ranks hold the larger shares of experts.
    auto const larger = ep > 1 && experts % ep != 0 ? experts % ep : ep;
    RankClasses classes;
    for (std::int64_t place = 0; place < ep; place = place < larger ? larger : ep) {
        for (auto const rank : tp_places) classes.places.push_back({.tp = rank, .ep = place});
    }
    for (std::int64_t rank = 0; rank < ep; ++rank) {
        for (auto const known : tp_class) classes.class_of.push_back(known + (rank < larger ? 0 : tp_places.size()));
    }
    return classes;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
