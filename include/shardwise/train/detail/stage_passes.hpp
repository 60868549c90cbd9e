// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/host_communicator.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/parallel/pipeline_parallel.hpp>
#include <shardwise/schedule/makespan.hpp>
#include <shardwise/schedule/pipeline_kind.hpp>
#include <shardwise/train/detail/leaf_passes.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a pipeline's rank has done in a step.
struct PipelineRecord {
    /// In the order in which they ran.
    std::vector<PipelineSlot> slots;
    /// The most micro-batches, of a chunk each, whose values were kept at once.
    std::int64_t max_in_flight = 0;
    /// Of these the most that were between the two parts of their backward passes.
    std::int64_t max_waiting = 0;
};

namespace detail {

/// How a rank's leaves go through the stages: what is known before there is a pipeline.
struct StagePlan {
    PipelineSchedule table;
    /// Of one micro-batch forwards alone.
    PipelineSchedule forward;
    std::int64_t stage = 0;
    std::int64_t leaves = 0;
    /// Those that the table is made for: as many as the rank with most has, where all take part in what is done with each.
    std::int64_t joined = 0;
    /// Sequences of a micro-batch, the last of which may have fewer.
    std::int64_t micro_batch = 1;
    /// Tokens of a micro-batch, and the width of the hidden state.
    std::int64_t rows = 0;
    std::int64_t width = 0;
    bool is_reversed = false;

    /// Errors  as pipeline_table
    [[nodiscard]] static Result<StagePlan> create(TrainingProgram const& program, TrainOptions const& options,
                                                  std::int64_t leaves, std::int64_t joined, std::int64_t context) {
        StagePlan out;
        out.stage = program.place().pipeline.stage;
        out.leaves = leaves;
        out.joined = joined;
        out.micro_batch = std::min(options.micro_batch, joined);
        out.rows = out.micro_batch * context;
        out.width = program.boundary_width();
        out.is_reversed = options.pipeline == PipelineKind::gpipe;
        auto table = pipeline_table(options.pipeline, options.pp, ceil_divide(joined, out.micro_batch));
        if (!table) return table.error();
        out.table = *std::move(table);
        out.forward = {.stages = out.table.stages,
                       .micro_batches = 1,
                       .chunks = out.table.chunks,
                       .order = out.table.order,
                       .ranks = {}};
        for (std::int64_t rank = 0; rank < out.table.stages; ++rank) {
            List<PipelineSlot> slots;
            for (std::int64_t chunk = 0; chunk < out.table.chunks; ++chunk)
                slots.push_back(detail::slot(PipelineWork::forward, 0, chunk));
            out.forward.ranks.push_back(std::move(slots));
        }
        return out;
    }

    [[nodiscard]] std::int64_t in_flight() const { return max_in_flight(table, stage); }
    [[nodiscard]] std::int64_t waiting() const { return max_waiting(table, stage); }
    /// The leaves of a micro-batch of the table, of which those from `leaves` on are other ranks' alone. Backward passes that run from the last micro-batch to the first are given the leaves in that
    /// order, so that those are added up as one rank adds them.
    [[nodiscard]] UnitRange leaves_of(std::int64_t number) const {
        auto const count = table.micro_batches;
        auto const first = (is_reversed ? count - 1 - number : number) * micro_batch;
        return {first, std::min(first + micro_batch, joined)};
    }
    /// Those of them that this rank has.
    [[nodiscard]] UnitRange own_leaves_of(std::int64_t number) const {
        auto const all = leaves_of(number);
        return {std::min(all.begin, leaves), std::min(all.end, leaves)};
    }

    using Pipeline = PipelineParallel<Host, HostCommunicator>;

    /// What both pipelines allocate.
    ///
    /// Errors  as PipelineParallel::bytes
    [[nodiscard]] Result<Bytes> bytes() const {
        Bytes sum{};
        for (auto const* const each : {&table, &forward}) {
            auto const one = Pipeline::bytes(*each, stage, {rows, width});
            if (!one) return one.error();
            sum = sum + *one;
        }
        return sum;
    }
    /// How often a step gathers each layer of this rank, and the head after them, of ranks that share weights: once for a micro-batch that
    /// goes forward, for each leaf that goes back, and once for all of them where there is but one layer.
    [[nodiscard]] std::vector<std::int64_t> gathers(LayerParts const& layers) const {
        std::vector<std::int64_t> out(layers.size(), 0);
        for (auto const& slot : table.ranks[static_cast<std::size_t>(stage)]) {
            auto const chunk = static_cast<std::size_t>(slot.chunk);
            auto const blocks = layers.chunk(chunk);
            bool const goes_back = slot.work != PipelineWork::forward;
            bool const has_head = goes_back && layers.has_head(chunk);
            bool const is_single = blocks.size() == 1 && !has_head;
            auto const times = goes_back && !is_single ? leaves_of(slot.micro_batch).size() : 1;
            for (auto i = blocks.begin; i < blocks.end; ++i) out[static_cast<std::size_t>(i)] += times;
            if (has_head) out.back() += times;
        }
        return out;
    }
    /// What this rank takes from its neighbours in a step.
    [[nodiscard]] CollectiveTraffic traffic() const {
        CollectiveTraffic out;
        auto const message = rows * width * static_cast<std::int64_t>(sizeof(float));
        for (auto const& slot : table.ranks[static_cast<std::size_t>(stage)]) {
            // A send is a call that takes nothing.
            auto const made = message_made(table, stage, slot);
            if (made && rank_of_virtual_stage(table, made->virtual_stage) != stage) ++out.calls;
            auto const needed = message_needed(table, stage, slot);
            if (!needed) continue;
            auto const from = needed->virtual_stage + (slot.work == PipelineWork::forward ? -1 : 1);
            if (rank_of_virtual_stage(table, from) != stage) out += {1, 1, message};
        }
        return out;
    }
};

/// The passes of a rank that is a stage of a pipeline, in the order of a table.
class StagePasses {
public:
    using Pipeline = StagePlan::Pipeline;

    /// `stages` outlives this.
    ///
    /// Errors  as PipelineParallel::create
    [[nodiscard]] static Result<StagePasses> create(HostContext& context, HostCommunicator& stages, StagePlan plan) {
        // The last one says how many messages wait for their receivers.
        auto forward = Pipeline::create(context, stages, plan.forward, {plan.rows, plan.width});
        if (!forward) return forward.error();
        auto table = Pipeline::create(context, stages, plan.table, {plan.rows, plan.width});
        if (!table) return table.error();
        return StagePasses(std::move(plan), std::move(*forward), std::move(*table));
    }

    /// Waits for all stages once, and compares their tables.
    ///
    /// Errors  as PipelineParallel::compare
    [[nodiscard]] Result<> compare() {
        auto const alike = forward_.compare();
        return alike ? table_.compare() : alike;
    }

    /// Brings the leaves of this rank's replica into the sum, with their tokens' losses.
    ///
    /// Errors  as PipelineParallel::run
    template <class Comm>
    [[nodiscard]] Result<> add(LeafPasses<Comm> const& passes, std::int64_t step, float scale, HostStream& stream,
                               Deadline deadline) {
        record_ = {};
        Training<Comm> work{passes, plan_, record_, step, scale, Places(plan_.in_flight()), Places(plan_.waiting())};
        return table_.run(work, stream, deadline);
    }
    /// The losses of the first sequences alone, in the last stage.
    template <class Comm>
    [[nodiscard]] Result<> losses(LeafPasses<Comm> const& passes, std::int64_t count, HostStream& stream,
                                  Deadline deadline) {
        Forward<Comm> work{passes, count};
        return forward_.run(work, stream, deadline);
    }

    [[nodiscard]] StagePlan const& plan() const { return plan_; }
    /// Of the last step.
    [[nodiscard]] PipelineRecord const& record() const { return record_; }

private:
    using In = TensorView<float const, 2, Host>;
    using Out = TensorView<float, 2, Host>;

    /// What is not written to.
    [[nodiscard]] static Out as_input(In in) { return {const_cast<float*>(in.data()), {in.extent(0), in.extent(1)}}; }

    /// Which micro-batch's values lie where.
    class Places {
    public:
        explicit Places(std::int64_t count)
            : taken_(static_cast<std::size_t>(count), PipelineSlot{PipelineWork::forward, -1, -1}) {}

        /// Errors  capacity_exceeded where all are taken
        [[nodiscard]] Result<std::int64_t> take(PipelineSlot const& slot) {
            for (std::size_t i = 0; i < taken_.size(); ++i) {
                if (taken_[i].micro_batch >= 0) continue;
                taken_[i] = slot;
                ++count_;
                return static_cast<std::int64_t>(i);
            }
            return Error{ErrorCode::capacity_exceeded}
                .in("pipeline")
                .because("has more micro-batches in flight than its table says")
                .got(static_cast<std::int64_t>(taken_.size()) + 1)
                .at_most(static_cast<std::int64_t>(taken_.size()));
        }
        /// Errors  invalid_argument for a micro-batch that has not gone forward
        [[nodiscard]] Result<std::int64_t> find(PipelineSlot const& slot) const {
            for (std::size_t i = 0; i < taken_.size(); ++i) {
                if (taken_[i].micro_batch == slot.micro_batch && taken_[i].chunk == slot.chunk)
                    return static_cast<std::int64_t>(i);
            }
            return Error{ErrorCode::invalid_argument}
                .in("pipeline")
                .because("takes a micro-batch back that has not gone forward")
                .got(slot.micro_batch);
        }
        void release(std::int64_t place) {
            taken_[static_cast<std::size_t>(place)].micro_batch = -1;
            --count_;
        }
        [[nodiscard]] std::int64_t count() const { return count_; }

    private:
        std::vector<PipelineSlot> taken_;
        std::int64_t count_ = 0;
    };

    template <class Comm>
    struct Training {
        LeafPasses<Comm> const& passes;
        StagePlan const& plan;
        PipelineRecord& record;
        std::int64_t step;
        float scale;
        Places places;
        /// Of gradients between the parts of a backward pass.
        Places waiting;

        [[nodiscard]] Result<> forward(PipelineSlot const& slot, In in, Out out, HostStream& stream) {
            passes.phases.begin(TrainingPhase::forward, stream);
            auto const place = places.take(slot);
            if (!place) return place.error();
            record.slots.push_back(slot);
            record.max_in_flight = std::max(record.max_in_flight, places.count());
            auto const leaves = plan.own_leaves_of(slot.micro_batch);
            if (leaves.size() == 0) {
                if (auto* const layers = passes.pass.layers())
                    layers->join_forward(passes.weights, stream, static_cast<std::size_t>(slot.chunk));
                return {};
            }
            auto dropout = passes.options.dropout_at(step, passes.gradients.leaf_numbers(leaves.begin, leaves.size()));
            return passes.pass.forward(passes.weights, passes.sequences.tokens(leaves.begin, leaves.size()), stream,
                                       std::move(dropout),
                                       {.chunk = slot.chunk, .place = *place, .in = as_input(in), .out = out});
        }
        [[nodiscard]] Result<> backward(PipelineSlot const& slot, In in, In gradients, Out out, HostStream& stream) {
            passes.phases.begin(TrainingPhase::backward, stream);
            auto const place = places.find(slot);
            if (!place) return place.error();
            ChunkPass at{.chunk = slot.chunk, .place = *place, .in = as_input(in), .gradients = gradients, .out = out};
            if (plan.table.is_split) return backward_inputs(slot, at, stream);
            record.slots.push_back(slot);
            auto const done = add_leaves(slot, at, stream, [&](std::int64_t i, TrainingPass::Vector leaf) {
                return passes.pass.backward(passes.weights, i, passes.sequences.targets(first_of(slot) + i), scale,
                                            passes.sequences.losses(first_of(slot) + i), leaf, stream, at);
            });
            places.release(*place);
            return done;
        }
        /// The first part: no gradient of a parameter.
        [[nodiscard]] Result<> backward_inputs(PipelineSlot const& slot, ChunkPass at, HostStream& stream) {
            auto const between = waiting.take(slot);
            if (!between) return between.error();
            at.waiting = *between;
            record.slots.push_back(slot);
            record.max_waiting = std::max(record.max_waiting, waiting.count());
            forget_layers();
            auto const own = plan.own_leaves_of(slot.micro_batch).size();
            auto const all = plan.leaves_of(slot.micro_batch).size();
            for (std::int64_t i = 0; i < all; ++i) {
                at.is_followed = i + 1 < all;
                if (i >= own) {
                    join_layers(slot, at.is_followed, stream);
                    continue;
                }
                auto const done =
                    passes.pass.backward_inputs(passes.weights, i, passes.sequences.targets(first_of(slot) + i), scale,
                                                passes.sequences.losses(first_of(slot) + i), stream, at);
                if (!done) return done;
            }
            return {};
        }
        [[nodiscard]] Result<> weights(PipelineSlot const& slot, In in, In gradients, HostStream& stream) {
            auto const place = places.find(slot);
            if (!place) return place.error();
            auto const between = waiting.find(slot);
            if (!between) return between.error();
            record.slots.push_back(slot);
            ChunkPass at{
                .chunk = slot.chunk, .place = *place, .waiting = *between, .in = as_input(in), .gradients = gradients};
            auto const done = add_leaves(slot, at, stream, [&](std::int64_t i, TrainingPass::Vector leaf) {
                return passes.pass.backward_parameters(passes.weights, i, passes.sequences.targets(first_of(slot) + i),
                                                       scale, passes.sequences.losses(first_of(slot) + i), leaf, stream,
                                                       at);
            });
            waiting.release(*between);
            places.release(*place);
            return done;
        }

    private:
        [[nodiscard]] std::int64_t first_of(PipelineSlot const& slot) const {
            return plan.leaves_of(slot.micro_batch).begin;
        }
        /// What was gathered for another slot may be of another chunk: each begins anew, so that the table alone says what is gathered.
        void forget_layers() {
            if (auto* const layers = passes.pass.layers()) layers->forget();
        }
        void join_layers(PipelineSlot const& slot, bool is_followed, HostStream& stream) {
            if (auto* const layers = passes.pass.layers())
                layers->join_backward(passes.weights, stream, is_followed, static_cast<std::size_t>(slot.chunk));
        }
        /// Takes the gradients of a micro-batch's leaves into the sum, which `back(number, gradients)` makes by `at`.
        template <class Back>
        [[nodiscard]] Result<> add_leaves(PipelineSlot const& slot, ChunkPass& at, HostStream& stream,
                                          Back const& back) {
            auto& gradients = passes.gradients;
            auto const chunk = static_cast<std::size_t>(slot.chunk);
            auto const all = plan.leaves_of(slot.micro_batch);
            forget_layers();
            for (auto i = all.begin; i < all.end; ++i) {
                passes.begin_backward(stream);
                at.is_followed = i + 1 < all.end;
                if (i >= plan.leaves) {
                    join_layers(slot, at.is_followed, stream);
                    passes.phases.begin(TrainingPhase::bucket, stream);
                    if (auto const done = gradients.join(passes.groups.data(), stream, chunk); !done) return done;
                    continue;
                }
                auto const leaf = gradients.leaf(chunk);
                if (!leaf) return leaf.error();
                at.adds_gradients = gradients.adds_leaf(chunk);
                at.done = gradients.reducer(passes.groups.data(), stream, chunk);
                if (auto const done = back(i - all.begin, *leaf); !done) return done;
                passes.phases.begin(TrainingPhase::bucket, stream);
                if (auto const added = gradients.add(passes.groups.data(), stream, chunk); !added) return added;
            }
            return {};
        }
    };

    template <class Comm>
    struct Forward {
        LeafPasses<Comm> const& passes;
        std::int64_t count;

        [[nodiscard]] Result<> forward(PipelineSlot const& slot, In in, Out out, HostStream& stream) {
            auto const& pass = passes;
            if (count == 0) {
                auto& layers = *pass.pass.layers();
                layers.join_forward(pass.weights, stream, static_cast<std::size_t>(slot.chunk));
                if (pass.pass.has_head(slot.chunk)) layers.join_losses(pass.weights, stream);
                return {};
            }
            auto const tokens = pass.sequences.tokens(0, count);
            ChunkPass const at{
                .chunk = slot.chunk, .place = 0, .in = as_input(in), .out = out, .sums_as_run = !pass.options.is_fast};
            auto const done = pass.pass.forward(pass.weights, tokens, stream, {}, at);
            if (!done || !pass.pass.has_head(slot.chunk)) return done;
            for (std::int64_t i = 0; i < count; ++i) {
                auto const lost =
                    pass.pass.losses(pass.weights, i, pass.sequences.targets(i), pass.sequences.losses(i), stream);
                if (!lost) return lost;
            }
            return {};
        }
    };

    StagePasses(StagePlan plan, Pipeline forward, Pipeline table)
        : plan_(std::move(plan)), forward_(std::move(forward)), table_(std::move(table)) {}

    StagePlan plan_;
    Pipeline forward_;
    Pipeline table_;
    PipelineRecord record_;
};

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
