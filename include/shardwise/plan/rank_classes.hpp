// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/memory/model_parts.hpp>
#include <shardwise/memory/request.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/op/work.hpp>

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

/// A dimension that tensor-parallel ranks share, and what of it stays together.
struct GrainedSplit {
    UnitSplit split{};
    UnitGrain grain{};

    friend constexpr bool operator==(GrainedSplit const&, GrainedSplit const&) = default;
};

/// Everything that tensor-parallel ranks share, each split once: what decides whether two ranks hold the same.
[[nodiscard]] inline List<GrainedSplit> find_splits(Model const& model, ModelParts const& parts) {
    List<GrainedSplit> splits;
    auto const add = [&](UnitSplit split, UnitGrain grain = {}) {
        split.is_grouped = false;
        if (!split.is_shared() || split.count < 1) return;
        GrainedSplit const found{split, grain};
        for (auto const& known : splits) {
            if (known == found) return;
        }
        splits.push_back(found);
    };
    for (auto const& part : parts.parts) {
        for (auto const& known : part.grains) add(known.tensor->shard, known.grain);
    }
    for (auto const& tensor : model.tree.tensors()) add(tensor.shard);
    for (auto const& [id, grains] : parts.bodies) {
        auto const& body = model.program.bodies()[static_cast<std::size_t>(id)];
        auto const& values = body.values();
        for (std::size_t i = 0; i < values.size(); ++i) {
            if (values[i].spread == Spread::sharded) add(values[i].split, grains.empty() ? UnitGrain{} : grains[i]);
        }
        for (auto const& op : body.operations()) {
            auto const grain = grains.empty() ? UnitGrain{} : grains[static_cast<std::size_t>(op.output)];
            add(heads_of(op), grain);
        }
    }
    return splits;
}

/// The classes of the ranks of a tp * ep group; `rows` are those that sequence parallelism shards, 0 where it is off.
[[nodiscard]] inline RankClasses find_rank_classes(List<GrainedSplit> const& splits, std::int64_t tp, std::int64_t ep,
                                                   std::int64_t experts, std::int64_t rows) {
    auto const share = [tp](std::int64_t units, std::int64_t rank) { return split_units(units, tp, rank).size(); };
    auto const are_alike = [&](std::int64_t a, std::int64_t b) {
        if (a == 0 || b == 0 || (rows > 0 && share(rows, a) != share(rows, b))) return a == b;
        for (auto const& [split, grain] : splits) {
            if (split.units_of(tp, a, grain) != split.units_of(tp, b, grain)) return false;
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
