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

/// Whose rules a transformers map follows: they changed after 5.0, whose balanced budgets were too small for a large
/// embedding and sent ample models to the last GPU and the cpu (transformers #46823).
enum class TransformersRules : std::uint8_t { v5_23, v5_0 };

/// What transformers' `device_map="auto"` takes besides the model and its limits.
struct TransformersOptions {
    TransformersRules rules = TransformersRules::v5_23;
    DialectStrategy strategy = DialectStrategy::balanced;
    /// The dtype that the model is made in: real floating tensors of 16 bits and more take it; narrower ones are
    /// quantised.
    Optional<Dtype> dtype;
    /// The quantizer's bits per element of the tensors that it packs, by full name (its param_element_size).
    std::vector<std::pair<std::string, std::int64_t>> element_bits;
    /// The share of each limit that the quantizer leaves (its adjust_max_memory): 0.9 for bitsandbytes, quanto and
    /// torchao.
    double budget_share = 1.0;
    /// Memory that a GPU's allocator has reserved and does not use. 5.0 adds it to the balanced budgets, up to the limit
    /// that was given; 5.23 balances after it looked, so that given limits stay what they are.
    std::vector<DeviceLimit> unused_reserved;
    /// Classes whose instances are never split.
    std::vector<std::string_view> no_split;
    bool offload_buffers = false;
    /// Merges the entries of a prefix that all went to one device.
    bool clean_result = true;
};

namespace detail {

[[nodiscard]] inline SizeTable transformers_sizes(ExpandedTree const& tree, TransformersOptions const& options) {
    WidthTable widths{};
    for (auto const& row : dtype_table) {
        auto& width = widths[static_cast<std::size_t>(row.dtype)];
        bool const is_plain =
            row.dtype == Dtype::f64 || row.dtype == Dtype::f32 || row.dtype == Dtype::f16 || row.dtype == Dtype::bf16;
        // torch stores no element in less than a byte.
        width = std::max<std::int64_t>(8, bits(options.dtype && is_plain ? *options.dtype : row.dtype));
    }
    std::vector<SizeException> exceptions;
    for (ExpandedTree::Index i = 0; tree.has_stored_bytes() && i < tree.tensor_count(); ++i) {
        auto const stored = tree.tensor(i).stored_bytes;
        if (stored >= 0) exceptions.emplace_back(i, stored * 8);
    }
    for (auto const& [name, width] : options.element_bits) {
        if (auto const tensor = tree.find_tensor(name))
            exceptions.emplace_back(*tensor, tree.elements()[*tensor] * width);
    }
    return SizeTable(tree, widths, std::move(exceptions));
}

}  // namespace detail

/// The device map that transformers makes for `device_map="auto"`, "balanced", "balanced_low_0" or "sequential".
///
/// These are the rules of transformers' own fork (since 5.0): sizes are those of the elements in memory (a bool is a
/// byte), tied keys count under the name that they are tied to, mps counts as a GPU, there is no fallback. Balanced
/// budgets leave 1.25 times the largest whole block or leaf beyond the even share; in 5.0 it was the first block or the
/// mean leaf. transformers 4.57 calls accelerate instead: there
/// infer_accelerate_map is the answer. Tied groups come in registration order, where transformers takes the order of a
/// hash seed; where it raises, the map is valid and says so in `is_repaired`, as infer_accelerate_map does.
///
/// Source  transformers 5.23 and 5.0 integrations/accelerate.py _get_device_map
[[nodiscard]] inline DialectMap infer_transformers_map(ExpandedTree const& tree, MaxMemory const& max_memory,
                                                       TransformersOptions const& options = {}) {
    auto const sizes = detail::transformers_sizes(tree, options);
    detail::FillSettings settings{};
    settings.is_whole = detail::whole_classes(tree, options.no_split);
    settings.offloads_buffers = options.offload_buffers;
    settings.merges = options.clean_result;
    settings.library = "transformers";
    auto const given = detail::greedy_devices(max_memory);
    auto devices = given;
    bool const is_old = options.rules == TransformersRules::v5_0;
    settings.ties = is_old ? detail::TieRule::per_parameter : detail::TieRule::per_module;
    bool is_balanced = true;
    if (options.strategy != DialectStrategy::sequential) {
        auto const rule = is_old ? detail::BalanceRule::transformers_5_0 : detail::BalanceRule::transformers;
        is_balanced = detail::balance_limits(tree, sizes, settings.is_whole, !options.no_split.empty(), rule,
                                             options.strategy == DialectStrategy::balanced_low_0, devices);
    }
    for (std::size_t i = 0; i < devices.size(); ++i) {
        auto& limit = devices[i].limit;
        if (options.budget_share != 1.0) {
            limit = static_cast<std::int64_t>(static_cast<double>(limit) / 8.0 * options.budget_share * 8.0);
        }
        for (auto const& reserved : options.unused_reserved) {
            if (!is_old || reserved.device != devices[i].device || reserved.device.kind != DeviceClass::gpu) continue;
            limit += std::clamp<std::int64_t>(reserved.limit.count(), 0, detail::highest_limit) * 8;
        }
        limit = std::min(limit, given[i].limit);
    }
    auto map = detail::fill(tree, sizes, std::move(devices), settings);
    if (!is_balanced) detail::mark_repaired(map, settings.library);
    return map;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
