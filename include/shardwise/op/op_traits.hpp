// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/op/gradient.hpp>
#include <shardwise/op/step.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What sets the pace of an operation on a device: matrix products, the attention kernel, or everything element by element.
enum class OpUnit : std::uint8_t { products, attention, vectors };

/// The matrix that an operation's first parameter is, out_features x in_features of a product.
enum class OpWeights : std::uint8_t {
    none,     // at most vectors
    dense,    // read whole in each step
    table,    // rows are looked up
    experts,  // one for each expert, of which a step reads the chosen
};

/// What the struct of an operation (`op/<kind>.hpp`) states; it adds its `name`, `work`, `gradient`, and what differs from here.
template <OpKind Kind, OpUnit Unit, OpWeights Weights = OpWeights::none>
struct OpTraits {
    static constexpr OpKind kind = Kind;
    static constexpr OpUnit unit = Unit;
    static constexpr OpWeights weights = Weights;

    /// True where an element (of a norm: a row) is read before it is written: the output may take an input's place.
    static constexpr bool is_element_wise = false;

    /// True where the ranks' summands of inputs (the first, the second) become summands of the output: the all-reduce may
    /// wait until after the operation.
    static constexpr bool keeps_partial(Operation const&, bool /*is_first_partial*/, bool /*is_second_partial*/) {
        return false;
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
