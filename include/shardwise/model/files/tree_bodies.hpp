// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/stable_sort.hpp>
#include <shardwise/model/files/number_table.hpp>
#include <shardwise/model/module_tree.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The different bodies of a tree that is being made, each kept once. Names are kept once elsewhere: their addresses stand
/// for them.
///
/// Memory  44 bytes per body, 136 per tensor, 32 per child; a third as much again for a moment when it becomes a tree
class TreeBodies {
public:
    /// Makes room for so many tensors and for the modules that hold them, within `most` bytes each: growing would take twice
    /// as much for a moment, and room that is not used takes no memory.
    void expect_tensors(std::size_t count, std::size_t most) {
        tensors_.reserve(std::min(count, most / sizeof(Tensor)));
        modules_.reserve(std::min(8 * count, most / sizeof(Module)));
        children_.reserve(std::min(8 * count, most / sizeof(Child)));
    }
    /// All tensors so far, those of open modules included.
    [[nodiscard]] std::span<Tensor> tensors() { return tensors_; }

    /// Adds a tensor to those [first, first + count) of an open module; `first` moves where others came in between.
    void append(Tensor const& tensor, std::uint32_t& first, std::uint32_t& count) {
        if (first + count != tensors_.size()) {
            auto const moved = static_cast<std::uint32_t>(tensors_.size());
            for (std::uint32_t i = 0; i < count; ++i) {
                Tensor const earlier = tensors_[first + i];
                tensors_.push_back(earlier);
            }
            first = moved;
        }
        tensors_.push_back(tensor);
        ++count;
    }
    /// The body that consists of these; a new one, or one that is known: then its tensors are dropped.
    ModuleId find_or_add(std::string_view class_name, std::uint32_t first, std::uint32_t count,
                         std::span<Child const> children) {
        auto const own = tensors().subspan(first, count);
        auto const comes_first = [](Tensor const& tensor) { return tensor.is_parameter(); };
        if (!std::is_partitioned(own.begin(), own.end(), comes_first)) {
            detail::stable_sort(own.begin(), own.end(),
                                [&](auto const& a, auto const& b) { return comes_first(a) && !comes_first(b); });
        }
        auto const is_this = [&](ModuleId known) { return is_equal(modules_[known], class_name, own, children); };
        auto const body = numbers_.find_or_add(hash_of(class_name, own, children), is_this);
        if (!body.second) {
            // What it contains is known too: nothing was added after its tensors.
            if (count > 0) tensors_.resize(first);
            return body.first;
        }
        modules_.push_back({class_name, count > 0 ? first : static_cast<std::uint32_t>(tensors_.size()), count,
                            static_cast<std::uint32_t>(children_.size()), static_cast<std::uint32_t>(children.size())});
        children_.insert(children_.end(), children.begin(), children.end());
        return body.first;
    }

    /// The most that it takes until it is a tree, with `index` bytes beside it that are free by then.
    [[nodiscard]] std::size_t memory(std::size_t index) const {
        auto const tensors = tensors_.size() * sizeof(Tensor);
        auto const modules = modules_.size() * sizeof(Module);
        auto const children = children_.size() * sizeof(Child);
        index += numbers_.memory();
        return tensors + modules + children + std::max({index, tensors, modules, children});
    }

    /// The tree, without its ties.
    [[nodiscard]] ModuleTree take(ModuleId root, NameArena names) && {
        numbers_ = {};
        return {std::move(names), take_list(modules_), take_list(tensors_), take_list(children_), root};
    }

private:
    template <class T>
    static List<T> take_list(std::vector<T>& values) {
        List<T> list(values.data(), values.data() + values.size());
        std::vector<T>().swap(values);
        return list;
    }
    [[nodiscard]] bool is_equal(Module const& module, std::string_view class_name, std::span<Tensor const> tensors,
                                std::span<Child const> children) const {
        return module.class_name == class_name && module.tensor_count == tensors.size() &&
               module.child_count == children.size() &&
               std::equal(tensors.begin(), tensors.end(), tensors_.data() + module.first_tensor) &&
               std::equal(children.begin(), children.end(), children_.data() + module.first_child);
    }
    [[nodiscard]] static std::uint32_t hash_of(std::string_view class_name, std::span<Tensor const> tensors,
                                               std::span<Child const> children) {
        std::uint64_t hash = 0;
        auto const mix = [&hash](std::uint64_t value) {
            hash = (hash ^ value) * 0x9E3779B97F4A7C15ULL;
            hash ^= hash >> 29U;
        };
        auto const mix_name = [&mix](std::string_view name) { mix(reinterpret_cast<std::uintptr_t>(name.data())); };
        mix_name(class_name);
        for (auto const& tensor : tensors) {
            mix_name(tensor.name);
            mix(static_cast<std::uint64_t>(tensor.dtype) * 4 + static_cast<std::uint64_t>(tensor.kind));
            mix(static_cast<std::uint64_t>(tensor.stored_bytes));
            for (auto const extent : tensor.shape) mix(static_cast<std::uint64_t>(extent));
        }
        for (auto const& child : children) {
            mix_name(child.name);
            mix(child.module);
            mix(static_cast<std::uint64_t>(child.first) << 32U | static_cast<std::uint32_t>(child.count));
        }
        return static_cast<std::uint32_t>(hash >> 32U);
    }

    std::vector<Module> modules_;
    std::vector<Tensor> tensors_;
    std::vector<Child> children_;
    NumberTable numbers_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
