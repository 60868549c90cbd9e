// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/core/dtype.hpp>
#include <shardwise/core/span.hpp>
#include <shardwise/core/unit_split.hpp>
#include <shardwise/op/operation.hpp>
#include <shardwise/op/value.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// One pass through the model: how many tokens it computes and how many they can see.
struct Step {
    std::int64_t batch = 1;
    /// Tokens that the pass computes for each sequence: the prompt in prefill, 1 in decode.
    std::int64_t new_tokens = 1;
    /// Tokens of each sequence once the pass is done, the new ones included.
    std::int64_t context = 1;
    /// The element type of activations.
    Dtype dtype = Dtype::bf16;
    /// The element type of the key-value cache.
    Dtype kv_dtype = Dtype::bf16;
    /// True where multi-head latent attention caches the latent.
    bool is_latent_cached = true;
    /// True where layers with a window attend to the window only; their cache may still hold more.
    bool is_windowed = true;
    /// True where every token is scored, not only each sequence's last.
    bool is_training = false;
    /// The most tokens of all sequences together; 0: no limit.
    std::int64_t token_limit = 0;

    [[nodiscard]] constexpr std::int64_t tokens() const {
        auto const all = batch * new_tokens;
        return token_limit > 0 && token_limit < all ? token_limit : all;
    }
};

/// Which rank of which groups computes an operation.
struct OpRank {
    std::int64_t tp = 1;
    std::int64_t tp_rank = 0;
    std::int64_t ep = 1;
    std::int64_t ep_rank = 0;
    /// Rows of replicated values are sharded over the tensor-parallel ranks.
    bool is_sequence_parallel = false;
};

/// What the sizes of an operation depend on: its block's values, the step, the rank.
struct OpContext {
    Span<Value const> values;
    Step step{};
    OpRank rank{};
    /// Experts of each token in this block, and all of them; 0 where the block has none.
    std::int64_t experts_per_token = 0;
    std::int64_t experts = 0;
    /// True where one row of each sequence stands for it in training too (bert's pooler).
    bool is_pooled = false;
    /// By value: which of its units stay together on a rank; empty: units stand alone.
    Span<UnitGrain const> grains{};

    [[nodiscard]] constexpr Value const& value(ValueId id) const { return values[static_cast<std::size_t>(id)]; }
    [[nodiscard]] constexpr UnitGrain grain(ValueId id) const {
        return grains.size() == 0 ? UnitGrain{} : grains[static_cast<std::size_t>(id)];
    }

    /// The experts whose weights this rank holds.
    [[nodiscard]] constexpr std::int64_t local_experts() const {
        return rank.ep == 1 ? experts : split_units(experts, rank.ep, rank.ep_rank).size();
    }
    /// Rows that experts of this rank compute at most: each token brings one row per chosen expert.
    [[nodiscard]] constexpr std::int64_t routed_rows() const {
        auto const local = local_experts();
        return step.tokens() * (experts_per_token < local || experts == 0 ? experts_per_token : local);
    }
    [[nodiscard]] constexpr std::int64_t rows(Value const& value) const {
        switch (value.rows) {
            case Rows::tokens: {
                auto const tokens = step.tokens();
                bool const is_dealt = rank.is_sequence_parallel && value.spread == Spread::replicated;
                return is_dealt ? split_units(tokens, rank.tp, rank.tp_rank).size() : tokens;
            }
            case Rows::sequences:
                return step.is_training && !is_pooled ? step.tokens() : step.batch;
            case Rows::routed:
                return routed_rows();
        }
        return 0;
    }
    /// Columns of a value on this rank.
    [[nodiscard]] constexpr std::int64_t columns(ValueId id) const {
        return value(id).columns(rank.tp, rank.tp_rank, grain(id));
    }
    [[nodiscard]] constexpr std::int64_t elements(ValueId id) const { return rows(value(id)) * columns(id); }
    /// The memory of a value on this rank.
    [[nodiscard]] constexpr Bytes bytes(ValueId id) const {
        if (id == no_value) return Bytes{0};
        return Bytes{ceil_divide(elements(id) * (value(id).is_fp32 ? 32 : bits(step.dtype)), 8)};
    }
    /// The share that this rank holds of `units` heads, which `made` is cut by.
    [[nodiscard]] constexpr std::int64_t share(std::int64_t units, ValueId made) const {
        return rank.tp == 1 ? units : grain(made).share(units, rank.tp, rank.tp_rank).size();
    }
};

/// What an operation costs on one rank.
///
/// Units  bytes are activations read and written; parameters and the cache are counted apart
struct OpWork {
    double flops = 0.0;
    double traffic = 0.0;
    double kv_read = 0.0;
    /// Memory that it needs beside its inputs and its output.
    Bytes workspace{};
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
