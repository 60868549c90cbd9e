// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/isa.hpp>
#include <shardwise/core/bytes.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/executor/count_operation.hpp>
#include <shardwise/executor/held_format.hpp>
#include <shardwise/executor/layer_home.hpp>
#include <shardwise/executor/layer_rope.hpp>
#include <shardwise/executor/merge_adapter.hpp>
#include <shardwise/executor/ops/executed_ops.hpp>
#include <shardwise/executor/parameter_name.hpp>
#include <shardwise/executor/pipeline_stage.hpp>
#include <shardwise/executor/step_capacity.hpp>
#include <shardwise/executor/step_rotations.hpp>
#include <shardwise/executor/stored_parameters.hpp>
#include <shardwise/model/block_path.hpp>
#include <shardwise/op/rope_frequencies.hpp>
#include <shardwise/parallel/place.hpp>
#include <shardwise/parallel/weight_stream.hpp>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The memory of one rank of a run before it is loaded: what its context's counting allocator will have given out.
struct PredictedMemory {
    /// As products read them, with what panels and blocks are filled up by; tables, vectors, rotary frequencies. Of layers
    /// that are fetched for every step what the cpu keeps, and the memory that they are fetched into.
    Bytes weights{};
    Bytes kv_cache{};
    /// Where the values of blocks lie: what estimate_memory counts in the type of activations, with `prefill_chunk` the tokens of a step.
    Bytes activations{};
    /// Scratch of kernels and sums, the table of a step, its cosines and sines.
    Bytes scratch{};
    /// Activations that a product brings into a form of its own while it runs; on devices the workspace of the vendor's products.
    Bytes products{};
    /// The most that there is of weights while layers are loaded and moved out; 0 where all stay.
    Bytes loading{};
    /// Of a rank on a device, in the host's memory: the layers that the cpu keeps, pinned, and what those on disk are read into.
    Bytes pinned{};

    /// The most that there is at once.
    [[nodiscard]] constexpr Bytes total() const {
        return std::max(weights + kv_cache + activations + scratch + products, loading);
    }
    /// How much less that is where activations lie elsewhere.
    [[nodiscard]] constexpr Bytes less_apart() const {
        return total() - std::max(weights + kv_cache + scratch + products, loading);
    }
};

/// How the parameters of a checkpoint are held by ranks that load them with these options.
[[nodiscard]] inline FormatOf formats_of(StoredParameters const& parameters, LoadOptions const& options = {}) {
    return [&parameters, options](std::string const& name) -> Result<ParameterFormat> {
        auto const stored = detail::find_adapted(parameters, options, name);
        if (!stored) return stored.error();
        auto const held = held_format(*stored, parameters.model(), options);
        if (!held) return held.error();
        return ParameterFormat{held->format, held->group, stored->tensor->shard.kind == ShardKind::replicated};
    };
}

namespace detail {

/// Adds up what a rank holds of one block after another.
template <ComputeBackend Backend, ReductionPolicy Policy>
class MemoryPredictor {
public:
    explicit MemoryPredictor(CountedRank const& rank) : rank_(rank) { tally_.grain = allocation_grain<Backend>(); }

    /// Adds a block, whose weights lie there between its uses.
    [[nodiscard]] Result<> add(BlockBody const& body, std::string const& prefix, LayerHome home) {
        tally_.packed = 0;
        if (auto const done = add_resident(body, prefix); !done) return done;
        if (home == LayerHome::resident) return {};
        // As OffloadedBlocks does it: there is room for all of the layer's weights elsewhere before any of them goes.
        // Of a device's that is on the host.
        loading_ = std::max(loading_, tally_.weights + (HasHostMemory<Backend> ? tally_.packed : 0));
        if (home == LayerHome::disk || !HasHostMemory<Backend>) tally_.weights -= tally_.packed;
        if (!HasHostMemory<Backend>) count_pinned(home);
        largest_fetched_ = std::max(largest_fetched_, tally_.packed);
        ++fetched_layers_;
        return {};
    }

    /// Errors  size_overflow where the step's table has more bytes than 63 bits count
    [[nodiscard]] Result<PredictedMemory> sum() const {
        auto const fetched = std::min(fetched_layers_, weight_stream_depth) * largest_fetched_;
        auto const table = step_table_bytes(step_bounds(rank_.limits, static_cast<std::int64_t>(windows_.size())));
        if (!table) return Error{ErrorCode::size_overflow}.in("step table").at("tokens").got(rank_.limits.step_tokens);
        return PredictedMemory{
            .weights = Bytes{tally_.weights + fetched},
            .kv_cache = Bytes{tally_.cache},
            .activations = allocated_bytes<Backend>(Bytes{arena_}),
            .scratch = allocated_bytes<Backend>(Bytes{4 * scratch_}) + Bytes{turns_} + allocated_bytes<Backend>(*table),
            .products = Bytes{tally_.prepared},
            .loading = Bytes{loading_},
            .pinned = Bytes{pinned_ + std::min<std::int64_t>(read_layers_, 2) * largest_read_}};
    }

private:
    /// As OffloadedDeviceBlocks and DeviceWeightStream take pinned memory.
    void count_pinned(LayerHome home) {
        if (home == LayerHome::cpu) {
            pinned_ += tally_.packed;
        } else if (tally_.packed > 0) {
            largest_read_ = std::max(largest_read_, tally_.packed);
            ++read_layers_;
        }
    }
    /// What a rank has of a block while all of it is resident.
    [[nodiscard]] Result<> add_resident(BlockBody const& body, std::string const& prefix) {
        auto const cut = cut_block<Policy>(rank_, body, prefix);
        if (!cut) return cut.error();
        auto const block = rank_.block(body, *cut);
        bool has_rotation = false;
        for (auto const& op : body.operations()) {
            auto const done = count_operation<Backend, Policy>(tally_, rank_, block, op, prefix);
            if (!done) return done;
            // Layers that see equally far share a sequence's list of pages.
            if (auto const layer = cached_layer(op, *cut)) windows_.insert(layer->window);
            if (op.kind == OpKind::rope && !std::exchange(has_rotation, true)) add_rotation(op.attention());
        }
        auto const arena = plan_largest_step(local_body(body, *cut), rank_.limits, rank_.experts).layout.peak.count();
        arena_ = std::max(arena_, arena);
        scratch_ = std::max(scratch_, scratch_floats<Backend, Policy>(block));
        return {};
    }

    /// As StepRotations holds it: each kind once.
    void add_rotation(AttentionShape const& shape) {
        auto const kind = rotation_kind(rank_.model.config, shape);
        if (std::find(rotations_.begin(), rotations_.end(), kind) != rotations_.end()) return;
        rotations_.push_back(kind);
        auto const frequencies = rotary_elements(rank_.model.config.rope, kind.width) / 2;
        tally_.add_weights(4 * frequencies);
        auto const turns = 4 * StepRotations<Backend>::step_floats(rank_.limits.step_tokens, frequencies);
        turns_ += allocated_bytes<Backend>(Bytes{turns}).count();
    }

    CountedRank rank_;
    /// `packed` is that of the block that was added last.
    MemoryTally tally_;
    /// Of what is cached.
    std::set<std::int64_t> windows_;
    std::int64_t fetched_layers_ = 0;
    std::int64_t largest_fetched_ = 0;
    std::int64_t loading_ = 0;
    std::int64_t pinned_ = 0;
    std::int64_t read_layers_ = 0;
    std::int64_t largest_read_ = 0;
    std::int64_t arena_ = 0;
    /// In floats.
    std::int64_t scratch_ = 0;
    /// Cosines and sines of a step.
    std::int64_t turns_ = 0;
    std::vector<RotationKind> rotations_;
};

}  // namespace detail

/// What a rank that has all experts, or its share of them without what exchanges their rows, will hold of a stage, by
/// the rules that loading, caching and the arena allocate by: nothing is read but what `format_of` reads.
///
/// Units  bytes as the counting allocator has them: as asked for on the host, in whole parts of its block on a device
/// Errors  those of `format_of` and of cuts that are not legal; size_overflow
template <ComputeBackend Backend, ReductionPolicy Policy>
[[nodiscard]] Result<PredictedMemory> predict_memory(Model const& model, FormatOf const& format_of, TensorPlace place,
                                                     ExecutorLimits const& limits, IsaLevel isa,
                                                     TensorPlace experts = {}, StageBlocks const& stage = {}) {
    std::int64_t number = 0;
    detail::MemoryPredictor<Backend, Policy> predictor({model, format_of, place, experts, limits, isa});
    for (auto const& block : model.program.blocks()) {
        if (block.role == ModuleRole::head && !limits.has_head) break;
        for (std::int32_t i = 0; i < block.count; ++i, ++number) {
            if (!stage.has(number)) continue;
            auto const prefix = block_path(block, i);
            auto const done = predictor.add(model.program.body(block), prefix, stage.home(number));
            if (!done) return done.error();
        }
    }
    return predictor.sum();
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
