// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/memory/arena.hpp>
#include <shardwise/memory/request.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/op/work.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

enum class Phase : std::uint8_t { prefill, decode };

/// The pass of one phase: prefill computes the whole context at once, decode one token of each sequence at its end.
[[nodiscard]] constexpr Step step_of(Phase phase, EstimateRequest const& request, ModelConfig const& config) {
    auto const context = context_of(request, config);
    return {.batch = request.batch,
            .new_tokens = phase == Phase::prefill ? context : 1,
            .context = context,
            .dtype = activation_dtype_of(request, config),
            .kv_dtype = kv_dtype_of(request, config),
            .is_latent_cached = request.mla == MlaPolicy::compressed};
}

/// The same pass over at most `tokens` tokens of all sequences together, shared out evenly; over fewer sequences where
/// there are more of them than tokens.
[[nodiscard]] constexpr Step limited_step(Step step, std::int64_t tokens) {
    if (step.tokens() <= tokens) return step;
    if (tokens < step.batch) step.batch = tokens;
    step.new_tokens = ceil_divide(tokens, step.batch);
    step.token_limit = tokens;
    return step;
}

/// The largest pass of a phase: at most `prefill_chunk` tokens of all sequences together. `request` is prefill_request's.
[[nodiscard]] constexpr Step largest_step_of(Phase phase, EstimateRequest const& request, ModelConfig const& config) {
    auto const whole = step_of(phase, request, config);
    return request.prefill_chunk > 0 ? limited_step(whole, request.prefill_chunk) : whole;
}

/// True where tokens see what comes after them: each sequence is computed in one step, and nothing is cached.
[[nodiscard]] constexpr bool is_bidirectional(Model const& model) {
    for (auto const& body : model.program.bodies()) {
        for (auto const& op : body.operations()) {
            if (op.kind == OpKind::attention && !keeps_rows(op.attention())) return true;
        }
    }
    return false;
}

/// The request with the prefill chunk that applies: none in training, nor where tokens attend both ways.
[[nodiscard]] constexpr EstimateRequest prefill_request(Model const& model, EstimateRequest request) {
    if (request.training || is_bidirectional(model)) request.prefill_chunk = 0;
    return request;
}

/// The place of a rank as operations see it.
[[nodiscard]] constexpr OpRank op_rank(Parallelism const& parallel, RankPlace const& place) {
    return {.tp = parallel.tp,
            .tp_rank = place.tp,
            .ep = parallel.ep,
            .ep_rank = place.ep,
            .is_sequence_parallel = parallel.sequence_parallel && parallel.tp > 1};
}

/// What the sizes of a block's operations depend on.
/// `grains`, by value, outlive the answer.
[[nodiscard]] constexpr OpContext op_context(BlockBody const& body, Step const& step, OpRank const& rank = {},
                                             Span<UnitGrain const> grains = {}) {
    OpContext context{.values = body.values(), .step = step, .rank = rank, .grains = grains};
    for (auto const& op : body.operations()) {
        if (op.kind == OpKind::experts || op.kind == OpKind::combine) {
            context.experts_per_token = op.routing().experts_per_token;
            context.experts = op.routing().experts;
        }
        if (op.kind == OpKind::last_token && op.taken_row() != TakenRow::last) context.is_pooled = true;
    }
    return context;
}

/// Where each value of a block lies while the block runs.
struct ActivationPlan {
    /// One item per memory: values, then workspaces. Steps are operations from 1; the input is born at 0.
    List<ArenaItem> items;
    /// The item of each value; values that one operation turns into another in place share an item.
    List<std::int64_t> item_of;
    /// The item of each operation's workspace; -1 where it needs none.
    List<std::int64_t> workspace_of;
    ArenaLayout layout;
};

/// The keys and values that nothing makes of a latent: where the latent is cached, queries attend in it. no_value in
/// training, and where there is no latent or the cache holds what is made of it.
///
/// Source  DeepSeek-V2 (arXiv 2405.04434), section 2.1.2
[[nodiscard]] constexpr ValueId absorbed_value(BlockBody const& body, Step const& step) {
    if (!step.is_latent_cached || step.is_training) return no_value;
    for (auto const& op : body.operations()) {
        if (op.kind == OpKind::attention && op.attention().latent > 0) return op.inputs[2];
    }
    return no_value;
}

/// A block's values and its operations' workspaces, not laid out yet. The input lives to its last use, the last output
/// to the end, external values throughout; an element-wise operation writes over an input that nothing reads later.
[[nodiscard]] constexpr ActivationPlan list_activations(BlockBody const& body, OpContext const& context) {
    auto const& values = body.values();
    auto const& operations = body.operations();
    auto const end = static_cast<std::int64_t>(operations.size()) + 1;
    List<std::int64_t> last_use(values.size(), 0);
    for (std::size_t i = 0; i < operations.size(); ++i) {
        for (auto const id : operations[i].inputs) {
            if (id != no_value) last_use[static_cast<std::size_t>(id)] = static_cast<std::int64_t>(i) + 1;
        }
    }
    if (!operations.empty()) last_use[static_cast<std::size_t>(operations.back().output)] = end;

    auto const absorbed = absorbed_value(body, context.step);

    ActivationPlan plan;
    plan.item_of.assign(values.size(), -1);
    plan.workspace_of.assign(operations.size(), -1);
    plan.items.reserve(values.size() + operations.size());
    auto const add = [&plan](std::int64_t birth, std::int64_t death, Bytes size) {
        plan.items.push_back({birth, death, size});
        return static_cast<std::int64_t>(plan.items.size()) - 1;
    };
    for (std::size_t id = 0; id < values.size(); ++id) {
        if (id == 0) {
            // Token ids are 32-bit whatever the activations are.
            bool const is_ids = !operations.empty() && operations[0].kind == OpKind::embedding && values[0].width == 1;
            plan.item_of[0] =
                add(0, last_use[0], is_ids ? Bytes{4 * context.rows(values[0])} : context.bytes(ValueId{0}));
        } else if (values[id].is_external) {
            plan.item_of[id] = add(0, end, context.bytes(static_cast<ValueId>(id)));
        }
    }
    for (std::size_t i = 0; i < operations.size(); ++i) {
        auto const& op = operations[i];
        auto const now = static_cast<std::int64_t>(i) + 1;
        auto const out = static_cast<std::size_t>(op.output);
        if (plan.item_of[out] < 0) {
            auto const size = op.output == absorbed ? Bytes{} : context.bytes(op.output);
            for (std::size_t slot = 0; slot < 2 && is_element_wise(op.kind) && plan.item_of[out] < 0; ++slot) {
                auto const in = op.inputs[slot];
                if (in == no_value || values[static_cast<std::size_t>(in)].is_external) continue;
                auto& item = plan.items[static_cast<std::size_t>(plan.item_of[static_cast<std::size_t>(in)])];
                if (item.death != now || !(item.size == size)) continue;
                item.death = last_use[out];
                plan.item_of[out] = plan.item_of[static_cast<std::size_t>(in)];
            }
            if (plan.item_of[out] < 0) plan.item_of[out] = add(now, last_use[out] < now ? now : last_use[out], size);
        }
        auto const workspace = op_work(op, context).workspace;
        if (workspace.count() > 0) plan.workspace_of[i] = add(now, now, workspace);
    }
    return plan;
}

/// The same, laid out.
[[nodiscard]] constexpr ActivationPlan plan_activations(BlockBody const& body, OpContext const& context) {
    auto plan = list_activations(body, context);
    plan.layout = plan_arena(plan.items);
    return plan;
}

/// What a block's activations take at least, however they are laid out: the most that is alive in one step.
[[nodiscard]] constexpr Bytes min_activations(BlockBody const& body, OpContext const& context) {
    auto const plan = list_activations(body, context);
    List<Bytes> change(body.operations().size() + 3);
    for (auto const& item : plan.items) {
        change[static_cast<std::size_t>(item.birth)] += item.size;
        change[static_cast<std::size_t>(item.death) + 1] -= item.size;
    }
    Bytes alive{};
    Bytes most{};
    for (auto const& more : change) {
        alive += more;
        if (most < alive) most = alive;
    }
    return most;
}

/// The activations of one block in both phases.
struct ActivationPeaks {
    Bytes prefill{};
    Bytes decode{};

    [[nodiscard]] constexpr Bytes peak() const { return prefill < decode ? decode : prefill; }
    /// The phase that needs more.
    [[nodiscard]] constexpr Phase larger() const { return prefill < decode ? Phase::decode : Phase::prefill; }
};

[[nodiscard]] constexpr Bytes activation_peak_of(Phase phase, BlockBody const& body, EstimateRequest const& request,
                                                 ModelConfig const& config, RankPlace const& place = {},
                                                 Span<UnitGrain const> grains = {}) {
    auto const context =
        op_context(body, largest_step_of(phase, request, config), op_rank(request.parallel, place), grains);
    return plan_activations(body, context).layout.peak;
}

[[nodiscard]] constexpr ActivationPeaks activation_peaks(BlockBody const& body, EstimateRequest const& request,
                                                         ModelConfig const& config, RankPlace const& place = {},
                                                         Span<UnitGrain const> grains = {}) {
    return {activation_peak_of(Phase::prefill, body, request, config, place, grains),
            activation_peak_of(Phase::decode, body, request, config, place, grains)};
}

/// The most memory that a block's activations take: the peak of the arena laid out from its values, the larger of
/// prefill (batch * context tokens, a chunk of them at a time) and decode (batch tokens). `request` is prefill_request's.
[[nodiscard]] constexpr Bytes activation_peak(BlockBody const& body, EstimateRequest const& request,
                                              ModelConfig const& config, RankPlace const& place = {},
                                              Span<UnitGrain const> grains = {}) {
    return activation_peaks(body, request, config, place, grains).peak();
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
