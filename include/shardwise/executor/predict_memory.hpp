// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/isa.hpp>
#include <shardwise/backend/host/multiply.hpp>
#include <shardwise/core/bytes.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/executor/layer_home.hpp>
#include <shardwise/executor/load_options.hpp>
#include <shardwise/executor/pipeline_stage.hpp>
#include <shardwise/executor/step_room.hpp>
#include <shardwise/executor/stored_parameters.hpp>
#include <shardwise/model/architectures.hpp>
#include <shardwise/op/packed_weight.hpp>
#include <shardwise/op/rope_frequencies.hpp>
#include <shardwise/parallel/detail/product_tree.hpp>
#include <shardwise/parallel/detail/tree_plan.hpp>
#include <shardwise/parallel/place.hpp>
#include <shardwise/parallel/weight_slice.hpp>
#include <shardwise/parallel/weight_stream.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The format in which a rank holds a parameter.
struct ParameterFormat {
    WeightFormat format = WeightFormat::f32;
    std::int64_t group = 0;
    /// True where every rank holds the whole table.
    bool is_replicated = false;
};

/// Says how a parameter is held, by its full name.
using FormatOf = std::function<Result<ParameterFormat>(std::string const& name)>;

/// The memory of one rank of a run before it is loaded: what its context's counting allocator will have given out.
struct PredictedMemory {
    /// As products read them, with what panels and blocks are filled up by; tables, vectors, rotary frequencies. Of layers
    /// that are fetched for every step what the cpu keeps, and the memory that they are fetched into.
    Bytes weights{};
    Bytes kv_cache{};
    /// Where the values of blocks lie: what estimate_memory counts in fp32, with `prefill_chunk` the tokens of a step.
    Bytes activations{};
    /// Scratch of kernels and sums, ids and positions of a step.
    Bytes scratch{};
    /// Activations that a product brings into a form of its own while it runs.
    Bytes products{};
    /// The most that there is of weights while layers are loaded and moved out; 0 where all stay.
    Bytes loading{};

    /// The most that there is at once.
    [[nodiscard]] constexpr Bytes total() const {
        return std::max(weights + kv_cache + activations + scratch + products, loading);
    }
};

/// How the parameters of a checkpoint are held by ranks that load them with these options.
[[nodiscard]] inline FormatOf formats_of(StoredParameters const& parameters, LoadOptions const& options = {}) {
    return [&parameters, options](std::string const& name) -> Result<ParameterFormat> {
        auto const stored = parameters.find(name);
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
    MemoryPredictor(Model const& model, FormatOf const& format_of, TensorPlace place, ExecutorLimits const& limits,
                    IsaLevel isa, TensorPlace experts)
        : model_(model), format_of_(format_of), place_(place), experts_(experts), limits_(limits), isa_(isa) {}

    /// Adds a block, whose weights lie there between its uses.
    [[nodiscard]] Result<> add(BlockBody const& body, std::string const& prefix, LayerHome home) {
        packed_ = 0;
        if (auto const done = add_resident(body, prefix); !done) return done;
        if (home == LayerHome::resident) return {};
        // As OffloadedBlocks does it: there is room for all of the layer's weights elsewhere before any of them goes.
        loading_ = std::max(loading_, weights_ + packed_);
        if (home == LayerHome::disk) weights_ -= packed_;
        largest_fetched_ = std::max(largest_fetched_, packed_);
        ++fetched_layers_;
        return {};
    }

    [[nodiscard]] PredictedMemory sum() const {
        return {.weights = Bytes{weights_ + std::min(fetched_layers_, weight_stream_depth) * largest_fetched_},
                .kv_cache = Bytes{cache_},
                .activations = Bytes{4 * arena_},
                .scratch = Bytes{4 * (scratch_ + 2 * limits_.step_tokens)},
                .products = Bytes{products_},
                .loading = Bytes{loading_}};
    }

private:
    /// What a rank has of a block while all of it is resident.
    [[nodiscard]] Result<> add_resident(BlockBody const& body, std::string const& prefix) {
        auto const name_of = [&](Operation const& op) {
            auto name = prefix.empty() ? std::string(op.parameters[0]) : prefix + "." + std::string(op.parameters[0]);
            // Experts are held alike.
            auto const number = name.find('*');
            if (number != std::string::npos) name.replace(number, 1, std::to_string(own_experts(op).begin));
            return name;
        };
        auto const cut = BlockCutter<Policy>(body, place_, [&](Operation const& op) -> Result<WeightGrain> {
                             auto const held = format_of_(name_of(op));
                             if (!held) return held.error();
                             return weight_grain(held->format, held->group);
                         }).cut();
        if (!cut) return cut.error();
        bool has_frequencies = false;
        for (auto const& op : body.operations()) {
            ParameterFormat held;
            bool const is_held =
                op.kind == OpKind::linear || op.kind == OpKind::embedding || op.kind == OpKind::experts;
            if (is_held && !op.parameters[0].empty()) {
                auto const found = format_of_(name_of(op));
                if (!found) return found.error();
                held = *found;
            }
            if (auto const done = add_operation(op, body, *cut, held); !done) return done;
            if (op.kind == OpKind::rope && !std::exchange(has_frequencies, true))
                weights_ += 4 * (rotary_elements(model_.config.rope, rotated_width(op.attention)) / 2);
        }
        auto const arena = plan_largest_step(local_body(body, *cut), limits_, experts_).layout.peak.count();
        arena_ = std::max(arena_, ceil_divide(arena, 4));
        scratch_ =
            std::max(scratch_, scratch_floats<Backend, Policy>(body, *cut, place_, limits_, model_.config.vocab_size));
        return {};
    }

    [[nodiscard]] Result<> add_operation(Operation const& op, BlockBody const& body, BlockCut const& cut,
                                         ParameterFormat held) {
        auto const vector = [&](std::size_t slot, std::int64_t elements) {
            if (!op.parameters[slot].empty()) weights_ += 4 * elements;
        };
        switch (op.kind) {
            case OpKind::norm:
                vector(0, spans_ranks(op, body.values()[static_cast<std::size_t>(op.output)]) ? cut.width(op.output)
                                                                                              : op.in_features);
                vector(1, op.in_features);
                return {};
            case OpKind::embedding: {
                auto const rows =
                    held.is_replicated ? op.in_features : split_units(op.in_features, place_.ranks, place_.rank).size();
                weights_ += rows * data_bytes(held.format, op.out_features);
                auto const scales = scale_bytes(held.format, op.out_features, held.group);
                weights_ += rows * (held.format == WeightFormat::int8 ? 4 : scales);
                return {};
            }
            case OpKind::linear:
            case OpKind::experts:
                return add_product(op, body, cut, held);
            case OpKind::route:
                vector(0, op.experts);
                return {};
            case OpKind::attention: {
                if (cut.heads) vector(0, cut.heads->query.size());
                if (cut.heads && model_.config.alibi) weights_ += 4 * cut.heads->query.size();
                if (!op.attention.is_causal) return {};
                auto const bytes = kv_layer_bytes(kv_layer(op.attention, *cut.heads), kv_room(limits_));
                if (!bytes) return Error{ErrorCode::size_overflow}.in("kv cache").at("context").got(limits_.context);
                cache_ += bytes->count();
                return {};
            }
            case OpKind::rope: case OpKind::activation: case OpKind::add: case OpKind::combine:
            case OpKind::last_token: break;
        }
        return {};
    }

    /// What expands a latent is held by heads.
    [[nodiscard]] Result<> add_latent(AttentionShape const& shape, std::int64_t heads, ParameterFormat held) {
        auto const bytes = latent_weight_bytes(held.format, shape, heads, held.group);
        if (!bytes) return Error{ErrorCode::size_overflow}.in("weight").got(heads);
        add_packed(bytes->count());
        if (heads == 0) return {};
        auto const width = shape.latent - shape.rotary;
        auto const kernel = product_kernel(held.format, isa_);
        products_ =
            std::max(products_, prepared_buffer_bytes(prepared_row_bytes(kernel, UnitRange{0, width}), latent_rows));
        return {};
    }

    [[nodiscard]] Result<> add_product(Operation const& op, BlockBody const& body, BlockCut const& cut,
                                       ParameterFormat held) {
        for (auto const& reader : body.operations()) {
            auto const& shape = reader.attention;
            if (reader.kind != OpKind::attention || shape.latent == 0 || reader.inputs[2] != op.output) continue;
            return add_latent(shape, cut.heads->query.size(), held);
        }
        auto const& made = body.values()[static_cast<std::size_t>(op.output)];
        bool const is_experts = op.kind == OpKind::experts;
        auto const layers = is_experts ? own_experts(op).size() : std::int64_t{1};
        auto const rows = is_experts                     ? limits_.step_tokens * experts_.ranks
                          : made.rows == Rows::sequences ? limits_.sequences
                                                         : limits_.step_tokens;
        auto const kernel = product_kernel(held.format, isa_);
        auto const hold = [&](std::int64_t outputs, std::int64_t inputs, std::int64_t row_bytes) -> Result<> {
            if (outputs == 0 || inputs == 0) return {};
            auto const bytes = packed_weight_bytes(held.format, outputs, inputs, held.group);
            if (!bytes) return Error{ErrorCode::size_overflow}.in("weight").got(outputs);
            add_packed(layers * bytes->count());
            products_ = std::max(products_, prepared_buffer_bytes(row_bytes, rows));
            return {};
        };
        auto const bias = [&](std::int64_t outputs) {
            if (!op.parameters[1].empty()) weights_ += layers * 4 * outputs;
        };
        if (made.spread != Spread::partial) {
            auto const own = cut.width(op.output);
            bias(own);
            return hold(own, op.in_features, prepared_row_bytes(kernel, UnitRange{0, op.in_features}));
        }
        bias(op.out_features);
        auto const& pieces = *cut.pieces[static_cast<std::size_t>(op.inputs[0])];
        auto const own = pieces.inputs_of_rank(place_.ranks, place_.rank).size();
        if (!Policy::has_fixed_tree || own == 0)
            return hold(op.out_features, own, prepared_row_bytes(kernel, UnitRange{0, own}));
        auto const lead = lead_inputs(held.format, pieces, place_);
        auto const sums = product_sums(TreePlan(pieces.count, place_.ranks, place_.rank), pieces, place_, lead);
        return hold(op.out_features, lead + own, prepared_row_bytes(kernel, sums));
    }

    void add_packed(std::int64_t bytes) {
        weights_ += bytes;
        packed_ += bytes;
    }
    [[nodiscard]] UnitRange own_experts(Operation const& op) const {
        return split_units(op.experts, experts_.ranks, experts_.rank);
    }

    Model const& model_;
    FormatOf const& format_of_;
    TensorPlace place_;
    TensorPlace experts_;
    ExecutorLimits const& limits_;
    IsaLevel isa_;
    std::int64_t weights_ = 0;
    /// Of the block that was added last, what products read.
    std::int64_t packed_ = 0;
    std::int64_t fetched_layers_ = 0;
    std::int64_t largest_fetched_ = 0;
    std::int64_t loading_ = 0;
    std::int64_t cache_ = 0;
    /// In floats.
    std::int64_t arena_ = 0;
    std::int64_t scratch_ = 0;
    std::int64_t products_ = 0;
};

}  // namespace detail

/// What a rank that has all experts, or its share of them without what exchanges their rows, will hold of a stage, by
/// the rules that loading, caching and the arena allocate by: nothing is read but what `format_of` reads.
///
/// Units  bytes as asked for, as the counting allocator has them
/// Errors  those of `format_of` and of cuts that are not legal; size_overflow
template <ComputeBackend Backend, ReductionPolicy Policy>
[[nodiscard]] Result<PredictedMemory> predict_memory(Model const& model, FormatOf const& format_of, TensorPlace place,
                                                     ExecutorLimits const& limits, IsaLevel isa,
                                                     TensorPlace experts = {}, StageBlocks const& stage = {}) {
    std::int64_t number = 0;
    detail::MemoryPredictor<Backend, Policy> predictor(model, format_of, place, limits, isa, experts);
    for (auto const& block : model.program.blocks()) {
        if (block.role == ModuleRole::head && !limits.has_head) break;
        for (std::int32_t i = 0; i < block.count; ++i, ++number) {
            if (!stage.has(number)) continue;
            auto prefix = std::string(block.module);
            if (block.is_numbered) prefix += "." + std::to_string(block.first + i);
            auto const done = predictor.add(model.program.body(block), prefix, stage.home(number));
            if (!done) return done.error();
        }
    }
    return predictor.sum();
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
