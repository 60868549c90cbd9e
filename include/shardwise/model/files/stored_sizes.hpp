// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/files/tensor_names_hash.hpp>
#include <shardwise/model/files/tensor_names_tree.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How a file stores one tensor of the model.
struct StoredTensor {
    /// All its bytes, scales and codebooks included; negative: the file says nothing of it.
    std::int64_t bytes = -1;
    Dtype dtype = Dtype::f32;
    /// True where the bytes do not follow from shape and dtype: packed weights, GGUF blocks.
    bool is_packed = false;
    /// Of packed weights: Tensor::stored_block.
    std::int32_t block = 1;
    /// True where a tensor of the file says which group each input is of (compressed-tensors): such weights are
    /// decoded, unless that order is the plain one, which the header does not say.
    bool has_order = false;
};

namespace detail {

/// Copies a tree with the sizes of a file, bodies that are still equal once.
class StoredSizesWriter {
public:
    StoredSizesWriter(TreeTensors const& tensors, std::span<StoredTensor const> stored)
        : tensors_(tensors), tree_(tensors.tree()), stored_(stored), untouched_(tree_.modules().size(), none) {
        // changes_[i]: how many of the first i tensors have a size of their own.
        changes_.reserve(stored.size() + 1);
        std::int64_t count = 0;
        changes_.push_back(0);
        for (auto const& tensor : stored) changes_.push_back(count += tensor.bytes >= 0 ? 1 : 0);
    }

    ModuleTree write() {
        if (tree_.modules().empty()) return {};
        out_.set_root(copy(tree_.root(), 0));
        for (auto const& tie : tree_.ties()) out_.tie(kept(tie.first), kept(tie.other));
        for (auto const name : tree_.no_split_classes()) out_.keep_whole(kept(name));
        return std::move(out_);
    }

private:
    static constexpr ModuleId none = UINT32_MAX;

    /// Each distinct text once in the new tree's own arena.
    std::string_view kept(std::string_view text) {
        auto const found = texts_.find(text);
        if (found != texts_.end()) return *found;
        return *texts_.insert(out_.names().join(text)).first;
    }
    struct Hash {
        std::size_t operator()(std::string_view text) const { return hash_name(text); }
    };

    ModuleId copy(ModuleId id, std::int64_t first) {
        auto const last = first + tensors_.size_of(id);
        bool const is_untouched = changes_[static_cast<std::size_t>(first)] == changes_[static_cast<std::size_t>(last)];
        if (is_untouched && untouched_[id] != none) return untouched_[id];
        auto const& module = tree_.module(id);
        std::vector<Tensor> tensors;
        for (std::uint32_t i = 0; i < module.tensor_count; ++i) {
            tensors.push_back(tree_.tensor(module, i));
            apply(tensors.back(), stored_[static_cast<std::size_t>(first + i)]);
        }
        std::vector<Child> children;
        for (std::uint32_t i = 0; i < module.child_count; ++i) copy_run(module, i, first, children);
        auto const copied = find_or_add(id, module, tensors, children);
        if (is_untouched) untouched_[id] = copied;
        return copied;
    }
    static void apply(Tensor& tensor, StoredTensor const& stored) {
        if (stored.bytes < 0) return;
        if (!stored.is_packed) {
            tensor.dtype = stored.dtype;
            tensor.stored_bytes = -1;
            if (tensor.bytes().count() == stored.bytes) return;
        }
        tensor.stored_bytes = stored.bytes;
        tensor.stored_block = stored.block;
    }
    /// Appends one child, or a run of children as runs of those that are still alike.
    void copy_run(Module const& module, std::uint32_t i, std::int64_t first, std::vector<Child>& children) {
        auto const& child = tree_.child(module, i);
        auto const begin = first + tensors_.offset_of(module, i);
        auto const step = tensors_.size_of(child.module);
        for (std::int32_t k = 0; k < child.count; ++k) {
            auto const id = copy(child.module, begin + k * step);
            if (k > 0 && children.back().module == id) {
                ++children.back().count;
            } else {
                children.push_back({kept(child.name), id, child.role, child.first + k, 1});
            }
        }
    }
    ModuleId find_or_add(ModuleId id, Module const& module, std::vector<Tensor>& tensors,
                         std::vector<Child> const& children) {
        std::string key;
        auto const note = [&key](auto value) {
            char raw[sizeof value];
            std::memcpy(raw, &value, sizeof value);
            key.append(raw, sizeof value);
        };
        note(id);
        for (auto const& tensor : tensors) note(tensor.stored_bytes), note(tensor.dtype), note(tensor.stored_block);
        for (auto const& child : children) note(child.module), note(child.first), note(child.count);
        auto const [place, is_new] = bodies_.emplace(std::move(key), none);
        if (is_new) {
            for (auto& tensor : tensors) tensor.name = kept(tensor.name);
            place->second = out_.add(kept(module.class_name), tensors, children);
        }
        return place->second;
    }

    TreeTensors const& tensors_;
    ModuleTree const& tree_;
    std::span<StoredTensor const> stored_;
    std::vector<std::int64_t> changes_;
    std::vector<ModuleId> untouched_;
    std::unordered_map<std::string, ModuleId> bodies_;
    std::unordered_set<std::string_view, Hash> texts_;
    ModuleTree out_;
};

}  // namespace detail

/// A copy of the tree in which each tensor has the dtype and the bytes that a file stores. Layers that the file stores
/// alike stay one run; a run of layers that it stores differently becomes several.
///
/// `stored` has an entry per tensor of the expanded model, in the order of TreeTensors.
[[nodiscard]] inline ModuleTree with_stored_sizes(TreeTensors const& tensors, std::span<StoredTensor const> stored) {
    return detail::StoredSizesWriter(tensors, stored).write();
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
