// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/trace_ring.hpp>
#include <shardwise/executor/block_cut.hpp>
#include <shardwise/executor/held_operation.hpp>
#include <shardwise/executor/kv_cache.hpp>
#include <shardwise/kernels/step_table.hpp>
#include <shardwise/memory/activations.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// New tokens of one sequence in one step.
struct SequencePart {
    /// The sequence's place in the cache.
    std::int64_t slot = 0;
    /// Tokens in the cache.
    std::int64_t past = 0;
    std::int64_t tokens = 1;
};

/// A block as one rank holds it.
template <ComputeBackend Backend, ReductionPolicy Policy>
struct HeldBlock {
    BlockBody const* program = nullptr;
    /// The number of its plan.
    std::size_t body = 0;
    /// Of a layer, its number among the layers.
    std::int32_t number = 0;
    bool is_layer = false;
    BlockCut cut;
    std::vector<HeldOperation<Backend, Policy>> operations;
    Buffer<float, Backend> frequencies;
    float rope_scale = 1.0F;
    /// Its attention's number among the layers of the cache.
    std::size_t cache_layer = 0;
};

/// What one step computes.
template <ComputeBackend Backend>
struct StepView {
    StepTable<Backend> const& table;
    std::span<SequencePart const> parts;
    TensorView<float, 1, Backend> scratch;
    KvCache<Backend>* cache = nullptr;
    /// Rows that the arena has room for of what experts make.
    std::int64_t routed_room = 0;
    Tracer tracer{};
};

/// Where a walk is: the arena holds the hidden state of `rows` rows at `hidden`.
template <ComputeBackend Backend>
struct WalkState {
    float* arena;
    TensorView<float, 2, Backend> logits;
    float* hidden;
};

/// What the host knows of a router's choice: by expert its first row, and the end of the last.
struct CountedRows {
    /// The value that holds the choice.
    ValueId choice = no_value;
    std::vector<std::int32_t> first;
};

/// Where the values of a block lie while a step is walked.
template <ComputeBackend Backend, ReductionPolicy Policy>
class BlockValues {
public:
    using Matrix = TensorView<float, 2, Backend>;

    BlockValues(HeldBlock<Backend, Policy> const& block, ActivationPlan const& plan, StepView<Backend> const& step,
                WalkState<Backend> const& state)
        : block_(block), plan_(plan), step_(step), arena_(state.arena) {}

    [[nodiscard]] std::int64_t rows(Value const& value) const {
        if (value.rows == Rows::routed) return routed_rows;
        return value.rows == Rows::sequences ? static_cast<std::int64_t>(step_.parts.size()) : step_.table.tokens();
    }
    [[nodiscard]] Matrix view(ValueId id) const {
        auto const item = plan_.item_of[static_cast<std::size_t>(id)];
        return {at(item), {rows(of(id)), block_.cut.width(id)}};
    }
    /// An operation's workspace: the order of its experts' rows.
    [[nodiscard]] std::int32_t* table(std::size_t operation) const {
        return reinterpret_cast<std::int32_t*>(at(plan_.workspace_of[operation]));
    }
    [[nodiscard]] Value const& of(ValueId id) const { return block_.program->values()[static_cast<std::size_t>(id)]; }

    /// Pairs of a token and an expert.
    std::int64_t routed_rows = 0;
    CountedRows counted;

private:
    [[nodiscard]] float* at(std::int64_t item) const {
        return arena_ + plan_.layout.offsets[static_cast<std::size_t>(item)].count() / 4;
    }

    HeldBlock<Backend, Policy> const& block_;
    ActivationPlan const& plan_;
    StepView<Backend> const& step_;
    float* arena_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
