// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/core/split.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// One step of sums of products: the product by a range of a weight's inputs is put into a slot, or a slot is added to
/// another (left + right, into the left).
struct ProductStep {
    static constexpr std::int64_t no_slot = -1;

    /// As the weight counts them; of a product.
    UnitRange inputs;
    std::int64_t to = 0;
    /// no_slot: a product. Otherwise slots[to] += slots[from].
    std::int64_t from = no_slot;

    [[nodiscard]] constexpr bool is_product() const { return from == no_slot; }
};

/// Sums of products by ranges of a weight's inputs, in an order that is fixed beforehand: what a rank computes of a tree.
struct ProductSums {
    /// The inputs that the ranges make up, one after another in the order of the steps.
    UnitRange inputs;
    List<ProductStep> steps;
    /// Slots [0, sums) are results; slots after them, in which steps keep what is not yet added.
    std::int64_t sums = 0;
    std::int64_t scratch = 0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
