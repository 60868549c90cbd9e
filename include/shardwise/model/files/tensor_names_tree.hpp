// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/tree_totals.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The tensors of the expanded model that one name stands for: one, or the same one of each of several experts.
struct TensorSet {
    Tensor const* tensor = nullptr;
    std::int64_t first = 0;
    std::int64_t stride = 0;
    std::int64_t count = 1;
};

/// Numbers the tensors of the expanded model in the order of `walk`, and finds the numbers by name without expanding
/// it.
///
/// Memory  8 bytes per module body and child
class TreeTensors {
public:
    /// The tree must outlive this.
    explicit TreeTensors(ModuleTree const& tree)
        : tree_(&tree), sizes_(tree.modules().size()), offsets_(tree.children().size()) {
        // Children are added before their parents.
        for (std::size_t id = 0; id < sizes_.size(); ++id) {
            auto const& module = tree.module(static_cast<ModuleId>(id));
            std::int64_t next = module.tensor_count;
            for (std::uint32_t i = 0; i < module.child_count; ++i) {
                auto const& child = tree.child(module, i);
                offsets_[module.first_child + i] = next;
                next += sizes_[child.module] * child.count;
            }
            sizes_[id] = next;
        }
    }

    [[nodiscard]] ModuleTree const& tree() const { return *tree_; }
    /// How many tensors the expanded model has.
    [[nodiscard]] std::int64_t size() const { return sizes_.empty() ? 0 : sizes_[tree_->root()]; }
    /// How many of them a body has, its children's included.
    [[nodiscard]] std::int64_t size_of(ModuleId module) const { return sizes_[module]; }
    /// Where a body's i-th child begins, counted from the body's first tensor.
    [[nodiscard]] std::int64_t offset_of(Module const& module, std::uint32_t i) const {
        return offsets_[module.first_child + i];
    }

    /// The tensor of a full name, or the tensors of a name in which one component is `*`, any number of a run from 0.
    [[nodiscard]] std::optional<TensorSet> find(std::string_view name) const {
        if (sizes_.empty()) return std::nullopt;
        Module const* module = &tree_->module(tree_->root());
        TensorSet set;
        for (auto dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.')) {
            auto const part = name.substr(0, dot);
            auto const* child = find_run(*module, part);
            if (child == nullptr) break;
            auto const slot = static_cast<std::uint32_t>(child - &tree_->child(*module, 0));
            set.first += offset_of(*module, slot);
            if (part == "*") {
                set.stride = sizes_[child->module];
                set.count = child->count;
            } else if (child->name.empty()) {
                set.first += (*detail::parse_number(part) - child->first) * sizes_[child->module];
            }
            module = &tree_->module(child->module);
            name.remove_prefix(dot + 1);
        }
        for (std::uint32_t i = 0; i < module->tensor_count; ++i) {
            set.tensor = &tree_->tensor(*module, i);
            if (set.tensor->name == name) return set.first += i, set;
        }
        return std::nullopt;
    }

    /// Calls visit(number, tensor) for every tensor, in their order.
    template <class Visit>
    void for_each(Visit visit) const {
        if (!sizes_.empty()) visit_body(tree_->root(), 0, visit);
    }

    /// The full name of a tensor by its number.
    [[nodiscard]] std::string name_of(std::int64_t number) const {
        std::string name;
        Module const* module = &tree_->module(tree_->root());
        while (number >= module->tensor_count) {
            std::uint32_t slot = 0;
            while (slot + 1 < module->child_count && offset_of(*module, slot + 1) <= number) ++slot;
            auto const& child = tree_->child(*module, slot);
            number -= offset_of(*module, slot);
            auto const k = sizes_[child.module] == 0 ? 0 : number / sizes_[child.module];
            number -= k * sizes_[child.module];
            name += child.name.empty() ? std::to_string(child.first + k) : std::string(child.name);
            name += '.';
            module = &tree_->module(child.module);
        }
        return name += tree_->tensor(*module, static_cast<std::uint32_t>(number)).name;
    }

private:
    template <class Visit>
    void visit_body(ModuleId id, std::int64_t first, Visit& visit) const {
        auto const& module = tree_->module(id);
        for (std::uint32_t i = 0; i < module.tensor_count; ++i) visit(first + i, tree_->tensor(module, i));
        for (std::uint32_t i = 0; i < module.child_count; ++i) {
            auto const& child = tree_->child(module, i);
            auto const size = sizes_[child.module];
            for (std::int32_t k = 0; k < child.count && size > 0; ++k) {
                visit_body(child.module, first + offset_of(module, i) + k * size, visit);
            }
        }
    }
    [[nodiscard]] Child const* find_run(Module const& module, std::string_view part) const {
        if (part != "*") return find_child(*tree_, module, part);
        if (module.child_count != 1) return nullptr;
        auto const& child = tree_->child(module, 0);
        return child.name.empty() ? &child : nullptr;
    }

    ModuleTree const* tree_;
    std::vector<std::int64_t> sizes_;
    std::vector<std::int64_t> offsets_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
