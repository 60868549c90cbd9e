// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/optional.hpp>
#include <shardwise/placement/dialect/detail/balanced_limits.hpp>
#include <shardwise/placement/dialect/detail/dialect_run.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What infer_auto_device_map and get_balanced_memory take besides the model and its limits.
struct AccelerateOptions {
    DialectStrategy strategy = DialectStrategy::balanced;
    /// The dtype that floating tensors are loaded in; narrower ones keep their own.
    Optional<Dtype> dtype;
    /// Tensors that are loaded in a dtype of their own, by full name.
    std::vector<std::pair<std::string, Dtype>> special_dtypes;
    /// Classes whose instances are never split.
    std::vector<std::string_view> no_split;
    /// Lets a smaller module go first on a device on which the next one does not fit.
    bool fallback_allocation = false;
    bool offload_buffers = false;
    /// Merges the entries of a prefix that all went to one device.
    bool clean_result = true;
};

namespace detail {

/// The bits that accelerate counts for an element: a bool is one.
[[nodiscard]] constexpr std::int64_t accelerate_bits(Dtype dtype) {
    return dtype == Dtype::boolean ? 1 : bits(dtype);
}

/// Whether accelerate counts a tensor in the dtype of the load: every type whose name does not begin with int, uint or
/// bool, torch's quantised types among them.
[[nodiscard]] constexpr bool is_cast_by_accelerate(DtypeTraits const& row) {
    for (std::string_view const prefix : {"int", "uint", "bool"}) {
        if (row.torch_name.substr(0, prefix.size()) == prefix) return false;
    }
    return true;
}

[[nodiscard]] inline SizeTable accelerate_sizes(ExpandedTree const& tree, AccelerateOptions const& options) {
    WidthTable widths{};
    for (auto const& row : dtype_table) {
        auto& width = widths[static_cast<std::size_t>(row.dtype)];
        width = accelerate_bits(row.dtype);
        if (options.dtype && is_cast_by_accelerate(row)) width = std::min(width, accelerate_bits(*options.dtype));
    }
    std::vector<SizeException> exceptions;
    for (ExpandedTree::Index i = 0; tree.has_stored_bytes() && i < tree.tensor_count(); ++i) {
        auto const stored = tree.tensor(i).stored_bytes;
        if (stored < 0) continue;
        auto const dense = tree.elements()[i] * widths[static_cast<std::size_t>(tree.dtypes()[i])];
        exceptions.emplace_back(i, options.dtype ? std::min(dense, stored * 8) : stored * 8);
    }
    for (auto const& [name, dtype] : options.special_dtypes) {
        auto const tensor = tree.find_tensor(name);
        if (!tensor) continue;  // as accelerate does
        exceptions.emplace_back(*tensor, tree.elements()[*tensor] * accelerate_bits(dtype));
    }
    return SizeTable(tree, widths, std::move(exceptions));
}

}  // namespace detail

/// The device map that accelerate's infer_auto_device_map makes, on the budgets of its get_balanced_memory where the
/// strategy is balanced.
///
/// Equal to accelerate's as an unordered map, with tied groups taken in registration order (accelerate takes them in
/// the order of a hash seed). Where accelerate raises, the map is valid and says so in `is_repaired`: a tied parameter
/// whose other module was placed or split before (IndexError), balanced_low_0 over GPUs not named 0, 1, 2, ...
/// (KeyError), a fractional size with fallback (AttributeError), a limit for disk with a balanced strategy
/// (RuntimeError). The last two need no repair. Like accelerate, it gives own buffers of split modules no device; a
/// warning names them.
///
/// Source  accelerate 1.15 utils/modeling.py
[[nodiscard]] inline DialectMap infer_accelerate_map(ExpandedTree const& tree, MaxMemory const& max_memory,
                                                     AccelerateOptions const& options = {}) {
    auto const sizes = detail::accelerate_sizes(tree, options);
    detail::FillSettings settings{};
    settings.is_whole = detail::whole_classes(tree, options.no_split);
    settings.has_fallback = options.fallback_allocation;
    settings.offloads_buffers = options.offload_buffers;
    settings.merges = options.clean_result;
    auto devices = detail::greedy_devices(max_memory);
    bool is_balanced = true;
    if (options.strategy != DialectStrategy::sequential) {
        is_balanced = detail::balance_limits(tree, sizes, settings.is_whole, !options.no_split.empty(),
                                             detail::BalanceRule::accelerate,
                                             options.strategy == DialectStrategy::balanced_low_0, devices);
    }
    auto map = detail::fill(tree, sizes, std::move(devices), settings);
    if (!is_balanced) detail::mark_repaired(map, settings.library);
    return map;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
