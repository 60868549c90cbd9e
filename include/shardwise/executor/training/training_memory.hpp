// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/executor/layer_rope.hpp>
#include <shardwise/executor/model_reach.hpp>
#include <shardwise/executor/training/body_memory.hpp>
#include <shardwise/executor/training/gathered_columns.hpp>
#include <shardwise/executor/training/ops/trained_ops.hpp>
#include <shardwise/executor/training/shared_head.hpp>
#include <shardwise/executor/training/training_program.hpp>
#include <shardwise/kernels/backward/cross_entropy.hpp>
#include <shardwise/op/alibi_slopes.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How much one pass takes at a time.
struct TrainingLimits {
    /// Sequences of a micro-batch.
    std::int64_t sequences = 1;
    /// Tokens of a sequence.
    std::int64_t context = 0;
    /// Micro-batches, of a chunk of the model each, whose values are kept at once: more than one in a pipeline.
    std::int64_t in_flight = 1;
    /// Of these, where backward passes are in two parts, those that are between them at once; 0: they are in one.
    std::int64_t waiting = 0;
    /// What the backward pass computes again rather than to have it kept. The bits do not depend on it.
    Recompute recompute = Recompute::none;
    /// f32; or bf16 or f16, in which layers compute but for their hidden state: see rounded_values.
    Dtype precision = Dtype::f32;
};

/// Where everything that a forward and a backward pass need beside weights and gradients lies, planned once: the pass allocates
/// with this very plan, so that `bytes` is what it allocates.
///
/// Units   floats
struct TrainingMemory {
    /// What the operations of one body read beside its values: how its heads turn, how scores fall with distance (ALiBi).
    struct Table {
        LayerRope rope;
        List<float> slopes;
        /// Of the frequencies and the slopes among all tables.
        std::int64_t frequencies_at = 0;
        std::int64_t slopes_at = 0;
    };

    std::vector<BodyMemory> bodies;
    /// By body, what is rounded to 16 bits; empty where nothing is.
    std::vector<List<char>> rounded;
    /// That go forwards together through a block: one where values are computed again or kept in 16 bits, so that the others are of one.
    std::int64_t sequences_at_once = 1;
    std::vector<Table> tables;
    /// By block: what it keeps, its input and its output, in the kept memory of one micro-batch; an input of -1 comes from the stage before.
    std::vector<std::int64_t> kept_at;
    std::vector<std::int64_t> hidden_at;
    std::vector<std::int64_t> output_at;
    /// Of one micro-batch, and of all that are in flight.
    std::int64_t kept_of_one = 0;
    std::int64_t kept = 0;
    /// The same of gradients that wait between the parts of a backward pass.
    std::vector<std::int64_t> waiting_at;
    std::int64_t waiting_of_one = 0;
    std::int64_t waiting = 0;
    /// In the working memory: a block's working values, the gradients of two hidden states, a weight for each token, scratch, tables.
    std::int64_t gradients_at = 0;
    std::int64_t gradient_size = 0;
    std::int64_t weights_at = 0;
    std::int64_t scratch_at = 0;
    std::int64_t scratch = 0;
    /// Of the weight that a product reads, where that is made anew for each.
    std::int64_t product_weight_at = 0;
    std::int64_t tables_at = 0;
    /// Of tensor-parallel ranks.
    detail::GatherSizes gathered;
    std::int64_t gathered_at = 0;
    std::int64_t working = 0;
    /// Numbers of positions.
    std::int64_t positions = 0;

    /// What a pass allocates.
    [[nodiscard]] Bytes bytes() const {
        return Bytes{(kept + waiting + working) * static_cast<std::int64_t>(sizeof(float)) +
                     positions * static_cast<std::int64_t>(sizeof(std::int32_t))};
    }
};

namespace detail {

/// All query heads of a body where several ranks read one key-value head; else 0.
[[nodiscard]] inline std::int64_t parted_heads(TrainingProgram const& program, std::size_t body) {
    std::int64_t most = 0;
    for (auto const& block : program.blocks()) {
        for (auto const& op : block.operations) {
            if (block.body == body && !op.shares.empty()) most = std::max(most, op.heads);
        }
    }
    return most;
}

/// Elements of the largest weight that is rounded for its products (those of bf16 do it themselves), or of the rows that are decoded
/// together.
[[nodiscard]] inline std::int64_t product_weight_elements(TrainingProgram const& program, Dtype precision,
                                                          std::vector<List<char>> const& rounded) {
    std::int64_t most = 0;
    auto const take_held = [&](TrainedParameter const& weight) {
        if (weight.held < 0) return false;
        auto const& held = program.layout().frozen()[static_cast<std::size_t>(weight.held)];
        for (auto const& part : {held.held, held.held_turned})
            if (part) most = std::max(most, part->decoded_elements());
        return true;
    };
    if (program.has_head()) (void)take_held(program.head().weight);
    for (auto const& block : program.blocks()) {
        auto const& operations = program.body(block).forward.operations();
        for (std::size_t i = 0; i < operations.size(); ++i) {
            auto const& weight = block.operations[i].parameters[0];
            if (operations[i].kind != OpKind::linear || take_held(weight)) continue;
            if (precision == Dtype::bf16 || !reads_half(rounded[block.body], operations[i])) continue;
            most = std::max({most, weight.elements, block.operations[i].turned_elements});
        }
    }
    return most;
}

/// What a block's operations gather of a sequence of `leaf` tokens.
[[nodiscard]] inline GatherSizes gather_sizes(BackwardBody const& body, std::vector<SharedValue> const& shared,
                                              TensorPlace const& place, std::int64_t leaf, std::int64_t parted_heads) {
    GatherSizes out;
    if (place.ranks == 1) return out;
    for (auto const& op : body.forward.operations()) {
        if (op.kind != OpKind::embedding || op.table().index != TableIndex::token) continue;
        auto const own = split_units(op.out_features, place.ranks, place.rank).size();
        out.take({leaf * op.out_features, 0, 0, leaf * own});
    }
    if (shared.empty()) return out;
    auto const of = [&](ValueId id) -> SharedValue const& { return shared[static_cast<std::size_t>(id)]; };
    // With what several ranks have.
    auto const all = [&](ValueId id) { return leaf * std::max(of(id).width, gathered_width(of(id))); };
    for (auto const& op : body.forward.operations()) {
        auto const in = all(op.inputs[0]);
        auto const made = all(op.output);
        auto const share = [&](ValueId id) { return leaf * split_units(of(id).width, place.ranks, place.rank).size(); };
        bool const reads_shared = !of(op.inputs[0]).is_whole();
        if (op.kind == OpKind::attention) {
            auto const head = leaf * (op.attention().key_dim + op.attention().value_dim);
            if (parted_heads > 0) out.take({parted_heads * head, op.attention().heads * head, 0, 0});
        }
        if (op.kind == OpKind::norm && reads_shared) out.take({in, in, in, 0});
        if (op.kind != OpKind::linear) continue;
        if (reads_shared) out.take({std::max(in, made), in, 0, share(op.output)});
        if (!of(op.output).is_whole()) out.take({std::max(in, made), made, 0, share(op.inputs[0])});
    }
    return out;
}

}  // namespace detail

/// Plans the memory of a pass.
///
/// Errors  invalid_argument for limits below 1 or beyond the model's positions; size_overflow; as layer_rope
[[nodiscard]] inline Result<TrainingMemory> plan_training_memory(TrainingProgram const& program,
                                                                 TrainingLimits const& limits,
                                                                 RopeDivisors const& divisors = {}) {
    auto const& model = program.model();
    ExecutorLimits const checked{
        .sequences = limits.sequences, .context = limits.context, .step_tokens = limits.context};
    if (auto const known = check_limits(checked, model); !known) return known.error();
    constexpr std::int64_t max_rows = std::int64_t{1} << 31U;
    if (auto const known = check_precision(limits.precision); !known) return known.error();
    auto const rows = limits.sequences * limits.context;
    auto const leaf = limits.context;
    if (limits.in_flight < 1)
        return Error{ErrorCode::invalid_argument}.in("training").at("in_flight").got(limits.in_flight).at_least(1);
    if (limits.waiting < 0)
        return Error{ErrorCode::invalid_argument}.in("training").at("waiting").got(limits.waiting).at_least(0);
    if (rows > max_rows) return Error{ErrorCode::size_overflow}.in("training").at("tokens").got(rows);
    auto const padded = [](std::int64_t floats) { return round_up(floats, 16); };

    TrainingMemory out;
    bool const is_halved = is_half(limits.precision);
    out.sequences_at_once = limits.recompute == Recompute::none && !is_halved ? limits.sequences : 1;
    BodyRows const body_rows{.all = rows, .forward = out.sequences_at_once * leaf, .backward = leaf};
    std::int64_t tables = 0;
    std::int64_t working = 0;
    std::size_t number = 0;
    for (auto const& body : program.bodies()) {
        auto const& shared = program.shared_of_body(number);
        auto const& cuts = program.cuts().block(number++);
        if (!program.runs(number - 1)) {
            out.rounded.emplace_back();
            out.bodies.emplace_back();
            out.tables.emplace_back();
            continue;
        }
        auto const parted = detail::parted_heads(program, number - 1);
        out.gathered.take(detail::gather_sizes(body, shared, program.place(), leaf, parted));
        out.rounded.push_back(is_halved ? rounded_values(body) : List<char>{});
        out.bodies.push_back(
            plan_body_memory(body, body_rows, limits.recompute, out.rounded.back(), limits.waiting > 0));
        working = std::max(working, out.bodies.back().working);
        TrainingMemory::Table table;
        for (auto const& op : body.forward.operations()) {
            auto const needed = detail::visit_trained(op.kind, [&](auto of) { return of.scratch(op, body, leaf); });
            out.scratch = std::max(out.scratch, needed);
            // Of all ranks' heads.
            if (op.kind == OpKind::norm && !shared.empty()) {
                auto const heads = shared[static_cast<std::size_t>(op.inputs[0])].width / op.in_features;
                out.scratch = std::max(out.scratch, 2 * norm_backward_workspace(leaf * heads));
            }
            if (op.kind == OpKind::rope && table.rope.frequencies.empty()) {
                auto rope = layer_rope(model.config, op.attention(), limits.context, divisors);
                if (!rope) return rope.error();
                table.rope = std::move(*rope);
            }
            if (op.kind == OpKind::attention && op.attention().has_slopes) {
                auto const heads = cuts.empty() ? HeadShare{{0, op.attention().heads}, {}, 1}
                                                : *cuts[static_cast<std::size_t>(program.place().rank)].heads;
                auto const all = alibi_slopes(cuts.empty() ? op.attention().heads : cuts.back().heads->query.end);
                for (auto head = heads.query.begin; head < heads.query.end; ++head)
                    table.slopes.push_back(all[static_cast<std::size_t>(head)]);
            }
        }
        table.frequencies_at = tables;
        tables += padded(static_cast<std::int64_t>(table.rope.frequencies.size()));
        table.slopes_at = tables;
        tables += padded(static_cast<std::int64_t>(table.slopes.size()));
        out.tables.push_back(std::move(table));
    }
    for (auto const& block : program.blocks()) {
        auto const& operations = program.body(block).forward.operations();
        for (std::size_t i = 0; i < operations.size(); ++i) {
            auto const needed =
                detail::pieces_workspace(block.operations[i].run_sums, body_rows.forward, operations[i].out_features);
            out.scratch = std::max(out.scratch, needed);
        }
    }
    for (auto const& chunk : program.chunks()) {
        std::int64_t kept = 0;
        std::int64_t waiting = 0;
        for (auto i = chunk.begin; i < chunk.end; ++i) {
            auto const& block = program.blocks()[static_cast<std::size_t>(i)];
            auto const& body = program.body(block);
            auto const& in = body.values[0];
            bool const is_first = i == chunk.begin;
            bool const reads_ids = i == 0 && program.has_first();
            out.hidden_at.push_back(is_first ? (reads_ids ? 0 : -1) : out.output_at.back());
            out.kept_at.push_back(kept);
            kept += out.bodies[block.body].kept;
            out.waiting_at.push_back(waiting);
            waiting += out.bodies[block.body].waiting;
            auto const& made = body.values[static_cast<std::size_t>(body.forward.operations().back().output)];
            out.output_at.push_back(kept);
            kept += padded(rows * made.width);
            out.gradient_size = std::max({out.gradient_size, padded(leaf * made.width), padded(leaf * in.width)});
        }
        out.kept_of_one = std::max(out.kept_of_one, kept);
        out.waiting_of_one = std::max(out.waiting_of_one, waiting);
    }
    auto const all_kept = checked_multiply(out.kept_of_one, limits.in_flight);
    auto const all_waiting = checked_multiply(out.waiting_of_one, limits.waiting);
    if (!all_kept || !all_waiting)
        return Error{ErrorCode::size_overflow}.in("training").at("in_flight").got(limits.in_flight);
    out.kept = *all_kept;
    out.waiting = *all_waiting;
    if (program.has_head()) {
        auto const& head = program.head();
        out.scratch = std::max(out.scratch, head_cross_entropy_workspace(leaf, head.vocabulary));
        if (program.place().ranks > 1)
            out.gathered.take(detail::shared_head_sizes(leaf, head.vocabulary, head.hidden, program.place()));
    }
    out.gradients_at = working;
    out.weights_at = out.gradients_at + 2 * out.gradient_size;
    out.scratch_at = out.weights_at + padded(leaf);
    out.product_weight_at = out.scratch_at + padded(out.scratch);
    out.tables_at =
        out.product_weight_at + padded(detail::product_weight_elements(program, limits.precision, out.rounded));
    out.gathered_at = out.tables_at + tables;
    out.working = out.gathered_at + out.gathered.all();
    out.positions = rows;
    return out;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
