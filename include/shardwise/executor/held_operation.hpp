// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/executor/held_experts.hpp>
#include <shardwise/executor/held_table.hpp>
#include <shardwise/executor/latent_attention.hpp>
#include <shardwise/executor/step_rotations.hpp>
#include <shardwise/kernels/attention_options.hpp>
#include <shardwise/kernels/delta_weights.hpp>
#include <shardwise/kernels/router_options.hpp>
#include <shardwise/op/head_share.hpp>
#include <shardwise/op/operation.hpp>
#include <shardwise/parallel/column_linear.hpp>
#include <shardwise/parallel/row_linear.hpp>
#include <shardwise/parallel/sharded_norm.hpp>
#include <shardwise/parallel/vocab_head.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A norm's scale and shift (a norm without parameters has neither), and how it computes.
template <ComputeBackend Backend>
struct HeldNorm {
    Buffer<float, Backend> weight;
    Buffer<float, Backend> bias;
    /// Where ranks share its rows, what this one adds up of them.
    std::optional<NormShare> share;
    /// What it normalises: rows of so many columns.
    std::int64_t width = 0;
    float epsilon = 0.0F;
    /// What is added to the weight.
    float offset = 0.0F;
    bool is_layer = false;
    /// Only the first columns of a row, not each row of heads.
    bool is_first_part = false;
    /// The weight has a row for each of the rank's heads.
    bool has_head_weights = false;
};

/// How many of a value's columns rotate, and how.
struct HeldRope {
    std::int64_t columns = 0;
    RotatedHeads heads;
};

/// How the rank's heads attend.
template <ComputeBackend Backend>
struct HeldAttention {
    AttentionOptions options;
    HeadShare share;
    /// Of each of its heads a score without a value or, by distance, how its scores fall; or nothing.
    Buffer<float, Backend> per_head;
    bool is_by_distance = false;
    /// Queries, keys and values are one value.
    bool is_fused = false;
    /// Of a latent attention: the number of the operation that expands the latent.
    std::size_t expands = 0;
};

/// What corrects a router's scores, where it has that, and how it chooses.
template <ComputeBackend Backend>
struct HeldRouter {
    Buffer<float, Backend> correction;
    RouterOptions options;
};

/// What an activation reads.
enum class ActivationForm : std::uint8_t {
    one,       // act(in)
    pair,      // act(gate) * up
    halves,    // the same of the halves of one value
    one_gate,  // rows times the activation of one number each
    xielu,     // four numbers of its own
};

/// How an activation computes, and what a xielu's formula takes.
template <ComputeBackend Backend>
struct HeldActivation {
    ActivationForm form = ActivationForm::one;
    Buffer<float, Backend> numbers;
};

/// A vector: a row of types of tokens.
template <ComputeBackend Backend>
struct HeldVector {
    Buffer<float, Backend> values;
};

/// The product that makes logits, the rank's of a vocabulary, and what bends them; 0: nothing.
template <ComputeBackend Backend>
struct HeldLogits {
    ColumnLinear<Backend> product;
    std::int64_t vocabulary = 0;
    TensorPlace place;
    float soft_cap = 0.0F;

    [[nodiscard]] Result<> check_columns(std::int64_t in, std::int64_t out) const {
        if (auto const fits = product.check_columns(in, out); !fits) return fits;
        return detail::check_logits(out, vocabulary, place);
    }
    template <class Visit>
    void for_each_weight(Visit const& visit) {
        product.for_each_weight(visit);
    }
};

/// Of a gated delta rule: its rank's heads, and what they multiply with.
template <ComputeBackend Backend>
struct HeldDelta {
    DeltaShape shape;
    float epsilon = 0.0F;
    Buffer<float, Backend> convolution;
    Buffer<float, Backend> dt_bias;
    /// -exp(A_log).
    Buffer<float, Backend> decay;
    Buffer<float, Backend> norm;

    [[nodiscard]] DeltaWeights<Backend> weights() const {
        return {convolution.view(), dt_bias.view(), decay.view(), norm.view(), epsilon};
    }
};

/// What a rank holds of one operation, and what is known when it is loaded of how it computes.
template <ComputeBackend Backend, ReductionPolicy Policy>
using HeldOperation =
    std::variant<std::monostate, HeldNorm<Backend>, HeldTable<Backend>, HeldVector<Backend>, ColumnLinear<Backend>,
                 RowLinear<Backend, Policy>, HeldLogits<Backend>, LatentHeads<Backend>, ExpertColumns<Backend>,
                 ExpertRows<Backend, Policy>, HeldDelta<Backend>, HeldRope, HeldAttention<Backend>, HeldRouter<Backend>,
                 HeldActivation<Backend>>;

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
