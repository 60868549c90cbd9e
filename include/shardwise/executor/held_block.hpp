// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/assert.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/trace_ring.hpp>
#include <shardwise/executor/block_cut.hpp>
#include <shardwise/executor/held_operation.hpp>
#include <shardwise/executor/kv_cache.hpp>
#include <shardwise/executor/source_operations.hpp>
#include <shardwise/executor/step_capacity.hpp>
#include <shardwise/executor/step_rotations.hpp>
#include <shardwise/kernels/step_table.hpp>
#include <shardwise/memory/activations.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
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
    std::byte* data = nullptr;
    std::int64_t width = 0;
    Rows rows = Rows::tokens;
    /// True of what lies in float whatever activations are.
    bool is_in_float = false;
};

/// An operation as a rank has bound it when the model was loaded: what it holds and how it computes, what it reads and where it writes.
template <ComputeBackend Backend, ReductionPolicy Policy>
struct BoundOperation {
    Operation const* op = nullptr;
    HeldOperation<Backend, Policy> held;
    std::array<BoundValue, 4> inputs{};
    BoundValue output{};
    /// What a norm adds to its input first, which join_residual_norms has found; of no width where it does not.
    BoundValue addend{};
    /// An addition that the norm after it does.
    bool is_joined = false;
    /// The order of its experts' rows; null where it has none.
    std::int32_t* workspace = nullptr;
    /// Of what is kept of sequences, the number among the layers of the cache.
    std::size_t cache_layer = 0;
    /// It makes of an encoder's states what is kept of them: once for a sequence.
    bool is_of_source = false;

    /// True of what computes when a sequence's source is encoded.
    [[nodiscard]] bool keeps_source() const {
        return is_of_source || (op->kind == OpKind::attention && op->attention().is_cross);
    }
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
    /// Its input is what the tokens' ids say.
    bool reads_ids = false;
    BlockCut cut;
    std::vector<BoundOperation<Backend, Policy>> operations;
    BoundValue input;
    /// Of a decoder's layer, the encoder's states; null elsewhere.
    BoundValue source;
    bool is_encoder = false;
    /// The number of its rotation among those of the rank, where it has one.
    std::size_t rotation = 0;

    /// Says where its values and workspaces lie; check_bound asks whether operations fit between them.
    void bind(PlannedBody const& planned, std::byte* arena) {
        auto const& plan = planned.plan;
        auto const at = [&](std::int64_t item) {
            return arena + plan.layout.offsets[static_cast<std::size_t>(item)].count();
        };
        auto const value = [&](ValueId id) -> BoundValue {
            if (id == no_value) return {};
            auto const of = static_cast<std::size_t>(id);
            auto const& local = planned.local.values()[of];
            return {at(plan.item_of[of]), cut.width(id), local.rows, local.is_fp32};
        };
        input = value(0);
        auto const of_source = source_operations(*program);
        source = value(of_source.states);
        for (std::size_t number_of = 0; number_of < operations.size(); ++number_of) {
            auto& bound = operations[number_of];
            for (std::size_t slot = 0; slot < bound.inputs.size(); ++slot)
                bound.inputs[slot] = value(bound.op->inputs[slot]);
            bound.output = value(bound.op->output);
            bound.is_of_source = of_source.is_of_source[number_of];
            if (auto const item = plan.workspace_of[number_of]; item >= 0)
                bound.workspace = reinterpret_cast<std::int32_t*>(at(item));
        }
        if (operations.empty()) return;
        auto const& first = *operations.front().op;
        reads_ids = first.kind == OpKind::embedding && first.inputs[0] == 0 && program->values()[0].width == 1;
    }
};

/// What one step computes.
template <ComputeBackend Backend>
struct StepView {
    StepTable<Backend> const& table;
    std::span<SequencePart const> parts;
    TensorView<float, 1, Backend> scratch;
    KvCache<Backend>* cache = nullptr;
    StepRotations<Backend> const* rotations = nullptr;
    /// Rows that the arena has room for of what experts make.
    std::int64_t routed_room = 0;
    /// What activations lie in.
    Dtype activations = Dtype::f32;
    Tracer tracer{};
    /// The step encodes sources: what decoders' layers keep of them is made, and nothing else of theirs.
    bool is_encoding = false;
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
    std::byte* hidden;
    /// Of the block that is walked; its memory is kept from step to step.
    CountedRows& counted;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
