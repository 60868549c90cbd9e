// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/op/op_details.hpp>
#include <shardwise/op/value.hpp>

#include <array>
#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What an operation computes; `op/<kind>.hpp` has its shapes, flops, traffic and workspace.
enum class OpKind : std::uint8_t {
    embedding,    // rows of a table by id
    norm,         // layer norm or rms norm over the last axis (or over each head)
    linear,       // in * weight^T (+ bias)
    rope,         // rotary position embedding, in place on queries or keys
    attention,    // softmax(q k^T) v with a key-value cache
    activation,   // gelu, silu, relu; with two inputs the gated product act(a) * b
    add,          // element-wise sum (residual, positions)
    route,        // top-k experts of each token from router scores
    experts,      // one linear per expert over the rows routed to it
    combine,      // weighted sum of the experts' rows back into token order
    last_token,   // the last row of each sequence, or the first, or their mean
    scale,        // element-wise product with a number, in place
    part,         // the same columns of every unit (head) of a value
    gated_delta,  // the gated delta rule over a state of each sequence, after a short convolution
};

/// One step of a block: what it reads, what it makes, and its sizes. Plain data for estimator, cost model and executor.
struct Operation {
    OpKind kind = OpKind::add;
    std::array<ValueId, 4> inputs{no_value, no_value, no_value, no_value};
    ValueId output = no_value;
    /// Parameters relative to the block's module ("self_attn.q_proj.weight"); a `*` stands for every expert, or head. After a / the name is
    /// a full one: of what several blocks share.
    std::array<std::string_view, 4> parameters{};
    /// Of linear, experts, embedding (rows, width) and norm (width, -); of part the columns of a unit before and after.
    std::int64_t in_features = 0;
    std::int64_t out_features = 0;
    /// What its kind has beside: see the functions.
    OpDetails details{};

    /// Of attention and rope.
    [[nodiscard]] constexpr AttentionShape const& attention() const { return details.attention(); }
    /// Of gated_delta.
    [[nodiscard]] constexpr DeltaShape const& delta() const { return details.delta(); }
    /// Of norm.
    [[nodiscard]] constexpr NormRule const& norm() const { return details.norm(); }
    /// Of embedding.
    [[nodiscard]] constexpr TableRule const& table() const { return details.table(); }
    /// Of route, experts and combine.
    [[nodiscard]] constexpr Routing const& routing() const { return details.routing(); }
    /// Of linear.
    [[nodiscard]] constexpr StoredHeads const& stored_heads() const { return details.heads(); }
    /// Of activation.
    [[nodiscard]] constexpr ActivationKind activation() const { return details.activation(); }
    /// Of part.
    [[nodiscard]] constexpr std::int64_t first_column() const { return details.part().first; }
    /// Of last_token.
    [[nodiscard]] constexpr TakenRow taken_row() const { return details.row(); }
    /// Of scale.
    [[nodiscard]] constexpr double factor() const { return details.scale().factor; }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
