// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/memory/model_parts.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What stands at a slot: parts of the module tree, by their index, and blocks of the program, by their number in ModelParts::bodies.
struct SlotKind {
    List<std::size_t> parts;
    List<std::size_t> bodies;

    friend bool operator==(SlotKind const&, SlotKind const&) = default;
};

/// A tie between two slots: its second name costs nothing where both are on one stage.
struct SlotTie {
    std::int64_t first = 0;
    std::int64_t other = 0;
    std::size_t tie = 0;
};

/// A model as a pipeline cuts it: one slot for each layer, in order, with what stands beside that layer (the
/// embedding with the first, the head with the last). Slots that hold the same are of one kind, so that a kind is
/// priced once.
struct LayerSlots {
    List<SlotKind> kinds;
    /// The kind of each slot.
    List<std::size_t> kind_of;
    List<SlotTie> ties;

    [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(kind_of.size()); }
    /// The kind of most slots.
    [[nodiscard]] std::size_t most_frequent() const {
        List<std::int64_t> counts(kinds.size());
        std::size_t most = 0;
        for (auto const kind : kind_of) {
            if (++counts[kind] > counts[most]) most = kind;
        }
        return most;
    }
    [[nodiscard]] SlotKind const& kind(std::int64_t slot) const {
        return kinds[kind_of[static_cast<std::size_t>(slot)]];
    }
};

namespace detail {

/// The first part that is priced like this one: layers of one list that run and weigh the same are one.
[[nodiscard]] inline std::size_t first_like(ModelParts const& parts, std::size_t index, bool is_per_layer) {
    auto const& part = parts.parts[index];
    if (is_per_layer || part.role != ModuleRole::layer || part.position.layer < 0) return index;
    for (std::size_t i = 0; i < index; ++i) {
        auto const& other = parts.parts[i];
        bool const is_layer = other.role == ModuleRole::layer && other.position.layer >= 0;
        if (is_layer && other.module == part.module && other.body == part.body && other.path == part.path) return i;
    }
    return index;
}

}  // namespace detail

/// The slots of a model; a model without layers has one.
[[nodiscard]] inline LayerSlots find_slots(Model const& model, ModelParts const& parts, bool is_per_layer) {
    auto const count = static_cast<std::size_t>(parts.layers > 0 ? parts.layers : 1);
    List<SlotKind> slots(count);
    auto const clamped = [count](std::int64_t layer) {
        auto const slot = static_cast<std::size_t>(layer > 0 ? layer : 0);
        return slot < count ? slot : count - 1;
    };
    for (std::size_t i = 0; i < parts.parts.size(); ++i) {
        auto const& part = parts.parts[i];
        bool const is_run = part.role == ModuleRole::layer && part.position.layer >= 0;
        auto const like = detail::first_like(parts, i, is_per_layer);
        for (std::int64_t k = 0; k < (is_run ? part.count : 1); ++k)
            slots[clamped(part.layer + k)].parts.push_back(like);
    }
    for (std::size_t slot = 0; slot < count; ++slot) {
        auto const layer = static_cast<std::int64_t>(slot);
        parts.for_each_block(model.program, layer, layer + 1,
                             [&](std::size_t body, std::int64_t) { slots[slot].bodies.push_back(body); });
    }
    LayerSlots result;
    for (auto& slot : slots) {
        std::size_t kind = 0;
        while (kind < result.kinds.size() && !(result.kinds[kind] == slot)) ++kind;
        if (kind == result.kinds.size()) result.kinds.push_back(slot);
        result.kind_of.push_back(kind);
    }
    for (std::size_t i = 0; i < parts.ties.size(); ++i) {
        auto const slot_of = [&](std::size_t part) {
            return static_cast<std::int64_t>(clamped(parts.parts[part].layer));
        };
        result.ties.push_back({slot_of(parts.ties[i].first), slot_of(parts.ties[i].other), i});
    }
    return result;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
