// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/placement/dialect/detail/greedy_map.hpp>
#include <shardwise/placement/dialect/detail/size_table.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Counts the tensors of a range that take memory of their own.
class CountedTensors {
public:
    using Index = ExpandedTree::Index;

    explicit CountedTensors(ExpandedTree const& tree) : duplicates_(tree.duplicates()) {}

    [[nodiscard]] Index operator()(Index first, Index end) const {
        if (duplicates_.empty()) return end - first;
        auto const low = std::lower_bound(duplicates_.begin(), duplicates_.end(), first);
        auto const high = std::lower_bound(low, duplicates_.end(), end);
        return end - first - static_cast<Index>(high - low);
    }

private:
    std::span<ExpandedTree::Index const> duplicates_;
};

/// The size of the largest block that balancing leaves room for: of each class kept whole the instance that is met
/// first, parameters before buffers.
///
/// Units  bits
[[nodiscard]] inline std::int64_t first_whole_block(ExpandedTree const& tree, SizeTable const& sizes,
                                                    std::vector<char> const& is_whole) {
    using Index = ExpandedTree::Index;
    auto const holds = [&tree](Index module, bool parameters) {
        for (auto i = tree.first_tensor(module); i < tree.subtree_end(module); ++i) {
            if (tree.tensor(i).is_parameter() == parameters && !tree.is_duplicate(i)) return true;
        }
        return false;
    };
    auto wanted = is_whole;
    auto left = static_cast<std::size_t>(std::count(wanted.begin(), wanted.end(), 1));
    std::int64_t largest = 0;
    for (bool const parameters : {true, false}) {
        if (!parameters && !tree.has_buffers()) break;
        for (Index module = 1; module < tree.module_count() && left > 0; ++module) {
            auto& is_wanted = wanted[tree.class_id(module)];
            if (is_wanted == 0 || !holds(module, parameters)) continue;
            is_wanted = 0;
            --left;
            largest = std::max(largest, sizes.of_module(module));
        }
    }
    return largest;
}

/// How a dialect counts the mean size of a leaf.
enum class LeafRule : std::uint8_t {
    childless,    // accelerate: modules with tensors and no module with tensors below
    own_tensors,  // transformers: the own tensors of every module that has any
};

/// The mean size of the leaves in whole bytes; the model itself is none.
[[nodiscard]] inline std::int64_t mean_leaf_bytes(ExpandedTree const& tree, SizeTable const& sizes, LeafRule rule) {
    using Index = ExpandedTree::Index;
    CountedTensors const counted(tree);
    std::int64_t total = 0;
    std::int64_t leaves = 0;
    for (Index module = 1; module < tree.module_count(); ++module) {
        auto const first = tree.first_tensor(module);
        auto const own = counted(first, tree.own_end(module));
        if (own == 0) continue;
        if (rule == LeafRule::childless && counted(first, tree.subtree_end(module)) != own) continue;
        total += sizes.of_own_tensors(module);
        ++leaves;
    }
    // Python divides as doubles do.
    return static_cast<std::int64_t>(static_cast<double>(total) / 8.0 /
                                     static_cast<double>(std::max<std::int64_t>(leaves, 1)));
}

/// Lowers the limits of all GPUs but the last to an even share of the model and some room; with `keeps_first_low` the
/// first holds only what the others cannot. Returns false where the library raises KeyError: it counts on GPUs named 0,
/// 1, 2, ...
///
/// Source  accelerate 1.15 utils/modeling.py get_balanced_memory
inline bool balance_limits(ExpandedTree const& tree, SizeTable const& sizes, std::vector<char> const& is_whole,
                           LeafRule rule, bool keeps_first_low, std::vector<GreedyDevice>& devices) {
    std::vector<GreedyDevice*> gpus;
    std::int64_t shares = 0;
    std::int64_t named = 0;
    for (auto& device : devices) {
        bool const is_gpu = device.device.kind == DeviceClass::gpu;
        if (is_gpu && device.device.index == named) ++named;
        if (device.limit <= 0) continue;
        if (is_gpu) gpus.push_back(&device);
        // On the machines that can be asked, accelerate does not take mps for a GPU; transformers does.
        if (is_gpu || (rule == LeafRule::own_tensors && device.device.kind == DeviceClass::mps)) ++shares;
    }
    if (gpus.empty()) return true;
    if (shares == 1) keeps_first_low = false;

    auto const share = sizes.total() / (8 * (keeps_first_low ? shares - 1 : shares));
    auto const block = static_cast<double>(first_whole_block(tree, sizes, is_whole)) / 8.0;
    auto const leaf = static_cast<double>(mean_leaf_bytes(tree, sizes, rule));
    auto const cap = (share + static_cast<std::int64_t>(1.25 * std::max(block, leaf))) * 8;
    bool const is_numbered = named >= shares;
    GreedyDevice* const low = is_numbered ? devices.data() : gpus.front();
    for (std::size_t i = 0; i + 1 < gpus.size(); ++i) {
        if (keeps_first_low && gpus[i] == low) continue;
        gpus[i]->limit = std::min(cap, gpus[i]->limit);
    }
    if (!keeps_first_low) return true;
    std::int64_t others = 0;
    if (is_numbered) {
        // GPUs without memory are not counted, but they are summed: of 0, 1 (no memory), 2 accelerate sums GPU 1.
        for (std::int64_t i = 1; i < shares; ++i) others += devices[static_cast<std::size_t>(i)].limit;
    } else {
        for (std::size_t i = 1; i < gpus.size(); ++i) others += gpus[i]->limit;
    }
    low->limit = std::min(std::max<std::int64_t>(0, sizes.total() - others), low->limit);
    return is_numbered;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
