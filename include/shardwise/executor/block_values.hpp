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

/// Where a value of a block lies in the rank's arena, and how wide the rank has it: in every step.
struct BoundValue {
    float* data = nullptr;
    std::int64_t width = 0;
    Rows rows = Rows::tokens;
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
    std::vector<BoundValue> values;
    /// Of each operation; null where it has none.
    std::vector<std::int32_t*> workspaces;
    Buffer<float, Backend> frequencies;
    float rope_scale = 1.0F;
    /// Its attention's number among the layers of the cache.
    std::size_t cache_layer = 0;

    /// Says where its values and workspaces lie.
    void bind(ActivationPlan const& plan, float* arena) {
        auto const at = [&](std::int64_t item) {
            return arena + plan.layout.offsets[static_cast<std::size_t>(item)].count() / 4;
        };
        for (std::size_t id = 0; id < program->values().size(); ++id)
            values.push_back({at(plan.item_of[id]), cut.width(static_cast<ValueId>(id)), program->values()[id].rows});
        for (auto const item : plan.workspace_of)
            workspaces.push_back(item < 0 ? nullptr : reinterpret_cast<std::int32_t*>(at(item)));
    }
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

/// What the host knows of a router's choice: by expert its first row, and the end of the last.
struct CountedRows {
    /// The value that holds the choice.
    ValueId choice = no_value;
    std::vector<std::int32_t> first;
};

/// Where a walk is: the arena holds the hidden state at `hidden`.
template <ComputeBackend Backend>
struct WalkState {
    TensorView<float, 2, Backend> logits;
    float* hidden;
    /// Of the block that is walked; its memory is kept from step to step.
    CountedRows& counted;
};

/// Where the values of a block lie while a step is walked.
template <ComputeBackend Backend, ReductionPolicy Policy>
class BlockValues {
public:
    using Matrix = TensorView<float, 2, Backend>;

    BlockValues(HeldBlock<Backend, Policy> const& block, StepView<Backend> const& step)
        : block_(block), tokens_(step.table.tokens()), sequences_(static_cast<std::int64_t>(step.parts.size())) {}

    [[nodiscard]] Matrix view(ValueId id) const {
        auto const& value = block_.values[static_cast<std::size_t>(id)];
        return {value.data, {rows(value.rows), value.width}};
    }
    /// An operation's workspace: the order of its experts' rows.
    [[nodiscard]] std::int32_t* table(std::size_t operation) const { return block_.workspaces[operation]; }
    [[nodiscard]] Value const& of(ValueId id) const { return block_.program->values()[static_cast<std::size_t>(id)]; }

    /// Pairs of a token and an expert.
    std::int64_t routed_rows = 0;

private:
    [[nodiscard]] std::int64_t rows(Rows of) const {
        return of == Rows::routed ? routed_rows : of == Rows::sequences ? sequences_ : tokens_;
    }

    HeldBlock<Backend, Policy> const& block_;
    std::int64_t tokens_;
    std::int64_t sequences_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
