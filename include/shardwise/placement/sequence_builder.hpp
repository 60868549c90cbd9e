// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/core/span.hpp>
#include <shardwise/memory/weights.hpp>
#include <shardwise/model/tree_totals.hpp>
#include <shardwise/placement/unit.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How finely a tree is cut into units.
enum class Granularity : std::uint8_t {
    modules,  // leaf modules and instances of no-split classes
    tensors,  // every tensor by itself: what a custom map may name
};

namespace detail {

/// True where `path` names a module at or above `name`.
[[nodiscard]] constexpr bool is_prefix(std::string_view path, std::string_view name) {
    if (path.empty()) return true;
    if (name.size() < path.size() || name.substr(0, path.size()) != path) return false;
    return name.size() == path.size() || name[path.size()] == '.';
}

/// Cuts a module tree into placement units. `weigh(tensor, position)` prices one tensor; where that does not depend on layers
/// and names, equal bodies are priced once.
template <class Weigh>
class SequenceBuilder {
public:
    constexpr SequenceBuilder(ModuleTree const& tree, Span<std::string_view const> no_split, Granularity granularity,
                              Weigh weigh, LayerPosition const& root, bool is_priced_by_place)
        : tree_(tree), no_split_(no_split), granularity_(granularity), weigh_(weigh), root_(root),
          is_priced_by_place_(is_priced_by_place), prices_(tree.modules().size(), Bytes{-1}) {}

    constexpr ModuleSequence build() && {
        // Constant expressions pay for room, programs for growing.
        if (!std::is_constant_evaluated()) sequence_.units.reserve(max_units());
        if (!tree_.modules().empty()) visit(tree_.root(), {}, ModuleRole::none, root_);
        for (auto const& tie : tree_.ties()) resolve(tie);
        return std::move(sequence_);
    }

private:
    constexpr bool is_whole(Module const& module) const {
        if (granularity_ == Granularity::tensors) return false;
        if (module.child_count == 0) return true;
        for (auto const& name : no_split_) {
            if (module.class_name == name) return true;
        }
        return false;
    }

    /// How many units there are at most.
    constexpr std::size_t max_units() const {
        // Bodies are added before those that use them.
        List<std::size_t> counts;
        counts.reserve(tree_.modules().size());
        for (auto const& module : tree_.modules()) {
            std::size_t count = is_whole(module) ? 1 : module.tensor_count;
            for (std::uint32_t i = 0; i < module.child_count && !is_whole(module); ++i) {
                auto const& child = tree_.child(module, i);
                count += static_cast<std::size_t>(child.count) * counts[child.module];
            }
            counts.push_back(count);
        }
        return counts.empty() ? 0 : counts[tree_.root()];
    }

    constexpr Bytes price(ModuleId id, LayerPosition const& position) {
        if (!is_priced_by_place_ && prices_[id] >= Bytes{}) return prices_[id];
        auto const& module = tree_.module(id);
        Bytes sum{};
        for (std::uint32_t i = 0; i < module.tensor_count; ++i) sum += weigh_(tree_.tensor(module, i), position);
        for (std::uint32_t i = 0; i < module.child_count; ++i) {
            auto const& child = tree_.child(module, i);
            sum += price(child.module, position.inside(child, tree_.module(child.module))) * child.count;
        }
        prices_[id] = sum;
        return sum;
    }

    /// True where a map must cover the module: it has a parameter or a buffer that checkpoints store.
    constexpr bool is_stored(ModuleId id) const {
        auto const& module = tree_.module(id);
        for (std::uint32_t i = 0; i < module.tensor_count; ++i) {
            if (tree_.tensor(module, i).kind != TensorKind::transient_buffer) return true;
        }
        for (std::uint32_t i = 0; i < module.child_count; ++i) {
            auto const& child = tree_.child(module, i);
            if (child.count > 0 && is_stored(child.module)) return true;
        }
        return false;
    }

    constexpr void append(std::string_view path, ModuleRole role, LayerPosition const& position, Bytes weights) {
        PlacementUnit unit;
        unit.path = path;
        unit.role = role;
        unit.layer = LayerId{static_cast<std::int32_t>(position.layer)};
        unit.weights = weights;
        sequence_.units.push_back(unit);
    }

    constexpr void visit(ModuleId id, std::string_view path, ModuleRole role, LayerPosition const& position) {
        auto const& module = tree_.module(id);
        if (is_whole(module)) {
            auto const weights = price(id, position);
            if (weights > Bytes{} || is_stored(id)) append(path, role, position, weights);
            return;
        }
        auto const own = [&](bool is_buffer) {
            for (std::uint32_t i = 0; i < module.tensor_count; ++i) {
                auto const& tensor = tree_.tensor(module, i);
                if (tensor.is_parameter() == is_buffer) continue;
                auto const weights = weigh_(tensor, position);
                if (weights == Bytes{} && tensor.kind == TensorKind::transient_buffer) continue;
                append(joined(path, tensor.name), role, position, weights);
                sequence_.units.back().is_tensor = true;
            }
        };
        own(false);
        for (std::uint32_t i = 0; i < module.child_count; ++i) {
            auto const& child = tree_.child(module, i);
            auto const child_role = child.role == ModuleRole::none || child.role == ModuleRole::expert ? role : child.role;
            auto inner = position.inside(child, tree_.module(child.module));
            for (std::int32_t k = 0; k < child.count; ++k) {
                auto const name = child.name.empty() ? sequence_.names.number(static_cast<std::size_t>(child.first + k))
                                                     : child.name;
                if (child.role == ModuleRole::layer) inner.layer = next_layer_++;
                visit(child.module, joined(path, name), child_role, inner);
            }
        }
        own(true);
    }

    constexpr std::string_view joined(std::string_view path, std::string_view name) {
        if (path.empty()) return name;
        return sequence_.names.join(path, ".", name);
    }

    constexpr std::size_t unit_of(std::string_view name) const {
        for (std::size_t i = 0; i < sequence_.units.size(); ++i) {
            if (is_prefix(sequence_.units[i].path, name)) return i;
        }
        return sequence_.units.size();
    }

    /// Where a tensor stands, found by walking down its name.
    constexpr LayerPosition position_of(std::string_view name, LayerId layer) const {
        auto position = root_;
        auto const* module = &tree_.module(tree_.root());
        for (auto dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.')) {
            auto const* child = find_child(tree_, *module, name.substr(0, dot));
            if (child == nullptr) break;
            module = &tree_.module(child->module);
            position = position.inside(*child, *module);
            name.remove_prefix(dot + 1);
        }
        position.layer = layer.value();
        return position;
    }

    /// The tied name costs nothing; its unit goes where the first name is when nothing else is in it.
    constexpr void resolve(Tie const& tie) {
        auto const other = unit_of(tie.other);
        auto const* tensor = find_tensor(tree_, tie.other);
        if (other == sequence_.units.size() || tensor == nullptr) return;
        auto& unit = sequence_.units[other];
        unit.weights -= weigh_(*tensor, position_of(tie.other, unit.layer));
        auto const first = unit_of(tie.first);
        if (first == other || first == sequence_.units.size()) return;
        if (unit.weights > Bytes{}) {
            sequence_.tied.push_back({sequence_.names.join(tie.other), static_cast<std::int32_t>(first)});
            return;
        }
        sequence_.tied.push_back(TiedName{unit.path, static_cast<std::int32_t>(first), unit.is_tensor});
        sequence_.units.erase(sequence_.units.begin() + static_cast<std::ptrdiff_t>(other));
        for (auto& tied : sequence_.tied) {
            if (tied.unit > static_cast<std::int32_t>(other)) --tied.unit;
        }
    }

    ModuleTree const& tree_;
    Span<std::string_view const> no_split_;
    Granularity granularity_;
    Weigh weigh_;
    LayerPosition root_;
    bool is_priced_by_place_;
    List<Bytes> prices_;
    ModuleSequence sequence_;
    std::int64_t next_layer_ = 0;
};

}  // namespace detail

/// The units of a model in registration order, with their weights; modules without anything to place are left out.
///
/// Order  parameters of a split module, then its children, then its buffers: the order in which accelerate queues them
template <class Weigh>
[[nodiscard]] constexpr ModuleSequence build_sequence(ModuleTree const& tree, Span<std::string_view const> no_split,
                                                      Weigh weigh, Granularity granularity = Granularity::modules,
                                                      LayerPosition const& root = {}, bool is_priced_by_place = false) {
    return detail::SequenceBuilder<Weigh>(tree, no_split, granularity, weigh, root, is_priced_by_place).build();
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
