// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/unit_split.hpp>
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

/// What an operation keeps of each sequence from step to step, by the head: a key and a value of every token, or a state of one size.
struct KeptHeads {
    /// How ranks share the heads; replicated: each rank keeps all that there is.
    UnitSplit split{};
    /// Elements of a token, in the cache's type.
    std::int64_t key = 0;
    std::int64_t value = 0;
    /// Tokens that a query sees; 0: all.
    std::int64_t window = 0;
    /// Numbers in fp32, however long the sequence is. It cannot go back to an earlier token.
    std::int64_t state = 0;

    [[nodiscard]] constexpr bool is_kept() const { return key + value + state > 0; }
    /// The heads of rank `rank` of `tp`; `grain` says which stay together.
    [[nodiscard]] constexpr std::int64_t heads(std::int64_t tp, std::int64_t rank, UnitGrain grain = {}) const {
        return split.is_shared() ? split.units_of(tp, rank, grain) : 1;
    }
};

/// What the struct of an operation (`op/<kind>.hpp`) states; it adds its `name`, `work`, `gradient`, and what differs from here.
template <OpKind Kind, OpUnit Unit, OpWeights Weights = OpWeights::none>
struct OpTraits {
    static constexpr OpKind kind = Kind;
    static constexpr OpUnit unit = Unit;
    static constexpr OpWeights weights = Weights;

    /// True where an element (of a norm: a row) is read before it is written: the output may take an input's place.
    static constexpr bool is_element_wise = false;

    /// What it keeps of a sequence; of latents where they are cached (Step::is_latent_cached).
    static constexpr KeptHeads kept(Operation const&, bool /*is_latent_cached*/) { return {}; }
    /// The heads that tensor-parallel ranks share in it, beside the units of its values.
    static constexpr UnitSplit heads(Operation const&) { return {}; }

    /// True where the ranks' summands of inputs (the first, the second) become summands of the output: the all-reduce may
    /// wait until after the operation.
    static constexpr bool keeps_partial(Operation const&, bool /*is_first_partial*/, bool /*is_second_partial*/) {
        return false;
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
