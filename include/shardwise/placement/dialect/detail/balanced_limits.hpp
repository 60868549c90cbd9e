// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/placement/dialect/detail/greedy_map.hpp>
#include <shardwise/placement/dialect/detail/size_table.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
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

/// The size of the largest block that is kept whole; nothing where the model has no block of these classes.
///
/// Units  bits
[[nodiscard]] inline std::optional<std::int64_t> largest_whole_block(ExpandedTree const& tree, SizeTable const& sizes,
                                                                     std::vector<char> const& is_whole) {
    std::optional<std::int64_t> largest;
    for (ExpandedTree::Index module = 0; module < tree.module_count(); ++module) {
        if (is_whole[tree.class_id(module)] == 0) continue;
        largest = std::max(largest.value_or(0), sizes.of_module(module));
    }
    return largest;
}

/// How a dialect measures the room that balancing leaves beyond an even share.
enum class BalanceRule : std::uint8_t {
    accelerate,        // the first block of each class, or the mean of the modules with tensors and none below
    transformers_5_0,  // the same, but the mean is over the own tensors of every module that has any
    transformers,      // 5.23: the largest block, or the largest module by its own tensors
};

/// The sizes of the leaves, added up and counted; the model itself is none.
///
/// Units  bits
struct LeafSizes {
    std::int64_t total = 0;
    std::int64_t count = 0;
    std::int64_t largest = 0;
};

[[nodiscard]] inline LeafSizes leaf_sizes(ExpandedTree const& tree, SizeTable const& sizes, bool has_inner) {
    using Index = ExpandedTree::Index;
    CountedTensors const counted(tree);
    LeafSizes leaves{};
    for (Index module = 1; module < tree.module_count(); ++module) {
        auto const first = tree.first_tensor(module);
        auto const own = counted(first, tree.own_end(module));
        if (own == 0) continue;
        if (!has_inner && counted(first, tree.subtree_end(module)) != own) continue;
        auto const size = sizes.of_own_tensors(module);
        leaves.total += size;
        ++leaves.count;
        leaves.largest = std::max(leaves.largest, size);
    }
    return leaves;
}

/// What balancing adds to an even share, in bytes; nothing where the library raises ValueError: no class matches.
[[nodiscard]] inline std::optional<std::int64_t> balance_reserve(ExpandedTree const& tree, SizeTable const& sizes,
                                                                 std::vector<char> const& is_whole,
                                                                 bool has_whole_classes, BalanceRule rule) {
    auto const leaves = leaf_sizes(tree, sizes, rule != BalanceRule::accelerate);
    if (rule == BalanceRule::transformers) {
        auto const block = largest_whole_block(tree, sizes, is_whole);
        if (has_whole_classes && !block) return std::nullopt;
        return static_cast<std::int64_t>(1.25 * static_cast<double>(std::max(block.value_or(0), leaves.largest)) / 8.0);
    }
    // Python divides as doubles do.
    auto const mean = static_cast<std::int64_t>(static_cast<double>(leaves.total) / 8.0 /
                                                static_cast<double>(std::max<std::int64_t>(leaves.count, 1)));
    auto const block = static_cast<double>(first_whole_block(tree, sizes, is_whole)) / 8.0;
    return static_cast<std::int64_t>(1.25 * std::max(block, static_cast<double>(mean)));
}

/// Lowers the limits of all GPUs but the last to an even share of the model and some reserve; with `keeps_first_low`
/// the first holds only what the others cannot. Returns false where the library raises: KeyError where GPUs are not
/// named 0, 1, 2, ..., and in transformers 5.23 ValueError where no module is of a class to be kept whole.
///
/// Source  accelerate 1.15 utils/modeling.py, transformers 5.0 and 5.23 integrations/accelerate.py get_balanced_memory
inline bool balance_limits(ExpandedTree const& tree, SizeTable const& sizes, std::vector<char> const& is_whole,
                           bool has_whole_classes, BalanceRule rule, bool keeps_first_low,
                           std::vector<GreedyDevice>& devices) {
    std::vector<GreedyDevice*> gpus;
    std::int64_t shares = 0;
    std::int64_t named = 0;
    for (auto& device : devices) {
        bool const is_gpu = device.device.kind == DeviceClass::gpu;
        if (is_gpu && device.device.index == named) ++named;
        if (device.limit <= 0) continue;
        if (is_gpu) gpus.push_back(&device);
        // On the machines that can be asked, accelerate does not take mps for a GPU; transformers does.
        if (is_gpu || (rule != BalanceRule::accelerate && device.device.kind == DeviceClass::mps)) ++shares;
    }
    if (shares == 0) return true;
    auto const reserve = balance_reserve(tree, sizes, is_whole, has_whole_classes, rule);
    if (gpus.empty()) return reserve.has_value();
    if (shares == 1) keeps_first_low = false;

    auto const share = sizes.total() / (8 * (keeps_first_low ? shares - 1 : shares));
    auto const cap = (share + reserve.value_or(0)) * 8;
    bool const is_numbered = named >= shares;
    GreedyDevice* const low = is_numbered ? devices.data() : gpus.front();
    for (std::size_t i = 0; i + 1 < gpus.size(); ++i) {
        if (keeps_first_low && gpus[i] == low) continue;
        gpus[i]->limit = std::min(cap, gpus[i]->limit);
    }
    if (!keeps_first_low) return reserve.has_value();
    std::int64_t others = 0;
    if (is_numbered) {
        // GPUs without memory are not counted, but they are summed: of 0, 1 (no memory), 2 accelerate sums GPU 1.
        for (std::int64_t i = 1; i < shares; ++i) others += devices[static_cast<std::size_t>(i)].limit;
    } else {
        for (std::size_t i = 1; i < gpus.size(); ++i) others += gpus[i]->limit;
    }
    low->limit = std::min(std::max<std::int64_t>(0, sizes.total() - others), low->limit);
    return is_numbered && reserve.has_value();
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
