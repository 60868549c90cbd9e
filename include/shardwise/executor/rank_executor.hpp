// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/apart_memory.hpp>
#include <shardwise/backend/brief_memory.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/comm/device/device_communicator.hpp>
#include <shardwise/core/deadline.hpp>
#include <shardwise/core/trace_ring.hpp>
#include <shardwise/executor/activation_element.hpp>
#include <shardwise/executor/block_timer.hpp>
#include <shardwise/executor/check_rank.hpp>
#include <shardwise/executor/check_step.hpp>
#include <shardwise/executor/executes_models.hpp>
#include <shardwise/executor/executor_limits.hpp>
#include <shardwise/executor/held_operation.hpp>
#include <shardwise/executor/hidden_rows.hpp>
#include <shardwise/executor/join_residual_norms.hpp>
#include <shardwise/executor/kv_cache.hpp>
#include <shardwise/executor/last_step.hpp>
#include <shardwise/executor/output_of.hpp>
#include <shardwise/executor/product_memory.hpp>
#include <shardwise/executor/rank_home.hpp>
#include <shardwise/executor/rank_step.hpp>
#include <shardwise/executor/resident_blocks.hpp>
#include <shardwise/executor/step_capacity.hpp>
#include <shardwise/executor/step_graphs.hpp>
#include <shardwise/executor/step_rotations.hpp>
#include <shardwise/executor/walk_block.hpp>
#include <shardwise/memory/activations.hpp>
#include <shardwise/model/block_path.hpp>
#include <shardwise/parallel/place.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// One tensor-parallel rank of a model: its share of every weight, its heads' cache and one arena, which the planner of memory/
/// lays out from the model's block program. It walks that program; no family is known here.
///
/// Expert parallelism: groups of tensor-parallel ranks each hold all of a model but its experts, which are sharded over the groups,
/// and have sequences of their own; rows travel to their experts and back. Each rank
///   1 gives `create` its place among the groups, {groups, its own};
///   2 makes one exchange, `executor.make_exchange(home, peers)`, on a communicator of the ranks that have its
///     tensor-parallel number in all groups, and keeps it as long as the executor;
///   3 gives it to every `forward`. Groups step together until the last has ended: one without anything to compute calls `join_step`.
///
/// Policy  Fast or Deterministic, which gives the same bits for any number of ranks
template <ComputeBackend Backend, ReductionPolicy Policy>
class RankExecutor {
    static_assert(ExecutesModels<Backend>, "the executor needs a back end that multiplies and copies");

public:
    using Stream = typename Backend::Stream;

    /// Loads what `place` owns of the stage's blocks, and of the experts what `experts` does. `model` and what `rank` refers
    /// to outlive this, which waits for its last step when it goes; `parameters` is not needed afterwards.
    ///
    /// Errors  unsupported for operations that are not executed, and kernels that a build for devices lacks; those of check_load_options
    ///         and of loading; out_of_memory; size_overflow; invalid_argument for limits below 1 or beyond the model's positions
    [[nodiscard]] static Result<RankExecutor> create(RankHome<Backend> const& rank, Model const& model,
                                                     StoredParameters const& parameters, TensorPlace place,
                                                     ExecutorLimits const& limits, TensorPlace experts = {},
                                                     LoadOptions const& options = {}, StageBlocks const& stage = {}) {
        auto const checked =
            detail::check_rank<Backend, Policy>(rank, model, parameters, place, limits, experts, options, stage);
        if (!checked) return checked.error();
        RankExecutor executor(model, place, limits, experts);
        if constexpr (requires { rank.context.limit(); }) executor.last_.limit = rank.context.limit();
        ParameterLoader<Backend> loader(rank, parameters, options);
        detail::RankUpload<Backend> upload(rank);
        auto const count = model.program.count();
        std::int64_t number = 0;
        auto const before = rank.context.memory().current();
        for (auto const& block : model.program.blocks()) {
            if (block.role == ModuleRole::head && !limits.has_head) break;
            for (std::int32_t i = 0; i < block.count; ++i, ++number) {
                if (!stage.has(number)) continue;
                auto const prefix = block_path(block, i);
                auto held = executor.load_block(loader, block, prefix, i, stage.home(number));
                // A file that was cut has zeros, which may look like another fault.
                if (auto const whole = held ? Result<>{} : detail::check_loaded(parameters, options); !whole)
                    return whole.error();
                if (!held) return held.error();
                auto const kept = executor.offloaded_.add(rank, executor.blocks_.size(), *held, stage.home(number));
                if (!kept) return kept.error();
                executor.blocks_.push_back(std::move(*held));
                options.observer("loading weights", static_cast<std::int64_t>(executor.blocks_.size()), count);
            }
        }
        if (auto const whole = detail::check_loaded(parameters, options); !whole) return whole.error();
        if (auto const done = upload.finish(); !done) return done.error();
        executor.bytes_read_ = loader.bytes_read();
        executor.ends_model_ = stage.end >= number;
        if (auto const done = executor.offloaded_.finish(rank, executor.blocks_); !done) return done.error();
        if (executor.offloaded_.has_any()) executor.graphs_.refuse("weights are fetched while a step computes");
        executor.weight_bytes_ = rank.context.memory().current() - before;
        if (experts.ranks > 1) executor.graphs_.refuse("rows go to other groups' experts");
        if (auto const made = executor.make_room(rank.context); !made) return made.error();
        return Result<RankExecutor>(std::move(executor));
    }

    /// Computes new tokens of some sequences: their keys and values enter the cache, where a sequence takes the pages that it lacks
    /// (`cache()` gives them back), and what output() says, of a decoder the logits after each sequence's last token, is put
    /// together on every rank of the last stage; another stage takes the hidden state from a rank, hands it on, and
    /// writes no `out`. Models that see in both directions cache nothing: each part is its whole sequence.
    ///
    /// Shapes  ids [sum of parts' tokens], one sequence after another; out [parts or tokens, output().width] of output().dtype, dense;
    ///         of logits rows may follow, up to step_bucket(parts), in which a graph leaves what means nothing
    /// Order   on `stream`, the collectives too; `comm` outlives what is in it
    /// Errors  invalid_argument for ids outside of the vocabulary, parts that leave a cache, or more tokens than there is memory
    ///         for; out_of_memory where the cache has no free pages
    template <ActivationElement Out = float, Communicator C>
    [[nodiscard]] Result<> forward(std::span<std::int32_t const> ids, std::span<SequencePart const> parts,
                                   TensorView<Out, 2, Backend> out, C& comm, Stream& stream,
                                   StageLinks<C> const& links = {}) {
        return forward(ids, parts, out, comm, static_cast<ExpertParallel<Backend, C>*>(nullptr), stream, links);
    }

    /// The same where experts are sharded over groups: `exchange` is what make_exchange made, null where the rank has all experts.
    template <ActivationElement Out = float, Communicator C>
    [[nodiscard]] Result<> forward(std::span<std::int32_t const> ids, std::span<SequencePart const> parts,
                                   TensorView<Out, 2, Backend> out, C& comm, ExpertParallel<Backend, C>* exchange,
                                   Stream& stream, StageLinks<C> const& links = {}) {
        if (auto const checked = check_output_type(output_, dtype_of<Out>); !checked) return checked;
        return step_into(ids, parts, view_as<std::byte>(out), comm, exchange, stream, links);
    }

    /// Of a model with an encoder: computes sources, parts without a past, and keeps what forward reads of them, by slot.
    ///
    /// Order   on `stream`, the collectives too
    /// Errors  as forward; unsupported for a model that has no encoder before a decoder
    template <Communicator C>
    [[nodiscard]] Result<> encode(std::span<std::int32_t const> ids, std::span<SequencePart const> parts, C& comm,
                                  Stream& stream, StageLinks<C> const& links = {}) {
        if (sources_.empty()) return detail::not_executed("encoding for a model without a decoder that reads it");
        constexpr ExpertParallel<Backend, C>* no_exchange = nullptr;
        return step_into(ids, parts, {arena_.data(), {0, output_.width}}, comm, no_exchange, stream, links, true);
    }

    /// Takes part in a step of the other groups that share the experts, without tokens of its own.
    ///
    /// Order   on `stream`, the collectives too
    /// Errors  those of the collectives and of the other groups' rows
    template <Communicator C>
    [[nodiscard]] Result<> join_step(C& comm, ExpertParallel<Backend, C>& exchange, Stream& stream,
                                     StageLinks<C> const& links = {}) {
        return step_into({}, {}, {arena_.data(), {0, output_.width}}, comm, &exchange, stream, links);
    }

    /// How rows travel between the groups that share the experts: one for all layers. `peers` outlives it.
    ///
    /// Errors  invalid_argument where `peers` are not the groups that `create` was told of; as ExpertParallel::create
    template <Communicator C>
    [[nodiscard]] Result<ExpertParallel<Backend, C>> make_exchange(RankHome<Backend> const& home, C& peers) const {
        if (auto const checked = check_peers({peers.size(), peers.rank()}, experts_); !checked) return checked.error();
        return detail::make_exchange(home, peers, exchanged_rows(model_->config, limits_));
    }

    [[nodiscard]] bool ends_model() const { return ends_model_; }  // its stage makes the output
    /// Times every block from now on; `times` outlives this. `first` is the first block of this rank's stage.
    void measure(BlockTimes& times, std::int64_t first = 0) { timer_.measure(times, static_cast<std::size_t>(first)); }
    void trace(Tracer const& tracer) { tracer_ = tracer; }  // tells of operations, on a stream that runs them at once
    [[nodiscard]] Model const& model() const { return *model_; }
    [[nodiscard]] KvCache<Backend>& cache() { return cache_; }
    [[nodiscard]] ExecutorOutput const& output() const { return output_; }
    /// Rows of logits that a step of one token of so many sequences is best given: as one graph serves several numbers of them.
    [[nodiscard]] std::int64_t step_bucket(std::int64_t sequences) const {
        if (sequences == 0 || output_.rows != Rows::sequences) return sequences;
        auto const bucket = graphs_.bucket(sequences, std::min(limits_.sequences, limits_.step_tokens));
        return why_eager(bucket) == nullptr ? bucket : sequences;
    }
    [[nodiscard]] GraphCounts const& graphs() const { return graphs_.counts(); }
    [[nodiscard]] Bytes bytes_read() const { return bytes_read_; }  // of the files' tensors, to load the rank's share
    // What the rank holds: weights, caches, the arena with its scratch.
    [[nodiscard]] Bytes weight_bytes() const { return weight_bytes_; }
    [[nodiscard]] Bytes cache_bytes() const { return cache_.bytes(); }
    [[nodiscard]] Bytes activation_bytes() const {
        return arena_.bytes() + scratch_.bytes() + step_.bytes() + rotations_.bytes();
    }
    /// Alike on ranks in whose arenas, which collectives move, every value has one offset.
    [[nodiscard]] std::uint64_t arena_layout() const { return layout_of(bodies_, blocks_); }
    [[nodiscard]] Bytes product_bytes() const { return product_memory_.bytes(); }  // of inputs in a form of their own

private:
    using Block = HeldBlock<Backend, Policy>;
    using Experts = detail::ExecutedOp<ExpertsOp, Backend, Policy>;

    RankExecutor(Model const& model, TensorPlace place, ExecutorLimits const& limits, TensorPlace experts)
        : model_(&model),
          place_(place),
          experts_(experts),
          limits_(limits),
          output_(output_of(model, limits)),
          is_bidirectional_(shardwise::is_bidirectional(model)),
          sources_(model.program.has_encoder() ? static_cast<std::size_t>(limits.sequences) : 0) {
        auto const* const against = limits.has_graphs ? StepGraphs<Backend>::obstacle(model) : "they are switched off";
        if (against != nullptr) graphs_.refuse(against);
    }

    /// forward into what has `out`'s extents, in elements of what output() says.
    template <Communicator C>
    [[nodiscard]] Result<> step_into(std::span<std::int32_t const> ids, std::span<SequencePart const> parts,
                                     TensorView<std::byte, 2, Backend> out, C& comm,
                                     ExpertParallel<Backend, C>* exchange, Stream& stream,
                                     StageLinks<C> const& all_links, bool is_encoding = false) {
        auto const links = step_links(all_links, blocks_, is_encoding);
        if (auto const checked = detail::check_group("executor", place_, comm); !checked) return checked;
        if (auto const checked = check(ids, parts, out, exchange != nullptr, is_encoding); !checked) return checked;
        auto const tokens = static_cast<std::int64_t>(ids.size());
        for (auto const& part : parts) {
            if (auto const done = cache_.reserve(part.slot, part.past + part.tokens); !done) return done;
        }
        bool const is_decoding = !is_encoding && tokens > 0 && tokens == std::ssize(parts);
        auto const* const obstacle = is_decoding ? why_eager(out.extent(0), comm, links) : nullptr;
        if (obstacle != nullptr) graphs_.note(obstacle);
        bool const repeats = is_decoding && obstacle == nullptr;
        auto const rows = repeats && out.extent(0) > tokens ? out.extent(0) : std::int64_t{0};
        auto const read = is_encoding ? std::span<std::int64_t const>{} : sources_;
        if (auto const written = step_.write(ids, parts, cache_, stream, rows, read); !written) return written;
        StepView<Backend> step{step_.table(), parts, scratch_.view(), &cache_, &rotations_};
        step.tracer = tracer_;
        step.activations = limits_.activations;
        step.is_encoding = is_encoding;
        if (is_encoding) note_sources(parts, sources_);
        step.routed_room = routed_room(model_->config, limits_, experts_);
        typename ProductMemory<Backend>::Loan const loan(product_memory_, stream);
        auto const made = output_.rows == Rows::sequences ? step_.table().sequences() : out.extent(0);
        WalkState<Backend> state{view_as<float>(out.rows(0, std::min(made, out.extent(0)))), nullptr, counted_};
        if (links.from >= 0) {
            auto const& input = blocks_.front().input;
            state.hidden = input.data;
            detail::receive_hidden<Backend>(links, limits_.activations, input.data, tokens * input.width, stream);
        }
        std::size_t at = 0;
        auto const walk = [&](std::size_t end) -> Result<> {
            if (offloaded_.has_any()) tracer_([](TraceRing& ring) { ring.end_gap("fetch weights"); });
            for (; at < end; ++at) {
                auto walked = walk_block(blocks_[at], step, state, comm, exchange, stream);
                if (walked) walked = timer_.end_block(at, stream);
                if (!walked) return walked;
            }
            return {};
        };
        auto const walk_all = [&]() -> Result<> {
            if (auto const done = rotations_.prepare(step_.table(), stream); !done) return done;
            if (auto const begun = timer_.begin(tokens, std::ssize(parts), stream); !begun) return begun;
            at = 0;
            auto const walked = offloaded_.run(blocks_, walk, stream, Deadline::after(std::chrono::hours(24)));
            return walked ? timer_.end(stream) : walked;
        };
        auto const done =
            repeats ? graphs_.run(step_.table().tokens(), out.data(), comm, stream, walk_all) : walk_all();
        Result<> copied;
        if (done && (links.to >= 0 || (!output_.is_logits && !is_encoding))) {
            TensorView<std::byte const, 2, Backend> const hidden{
                state.hidden, {tokens, blocks_.back().operations.back().output.width}};
            copied = detail::hand_on<Backend>(links, limits_.activations, hidden, out, stream);
        }
        if (is_encoding && !done) note_sources(parts, sources_, false);
        last_.event.record(stream);
        return done ? copied : done;
    }

    /// Why a step of one token of each sequence, with so many rows, is no graph; null where it may be one.
    [[nodiscard]] char const* why_eager(std::int64_t rows) const {
        if (timer_.is_on()) return "blocks are timed";
        if (!output_.is_logits) return "the model makes no logits";
        if (rows * model_->config.experts_per_token > Experts::few_rows)
            return "experts are given more rows than a graph takes";
        return nullptr;
    }
    template <class C>
    [[nodiscard]] char const* why_eager(std::int64_t rows, C const& comm, StageLinks<C> const& links) const {
        if (links.from >= 0 || !ends_model_) return "stages hand on through the host's memory";
        auto const* const obstacle = obstacle_to_repeat(comm);
        return obstacle != nullptr ? obstacle : why_eager(rows);
    }

    [[nodiscard]] Result<Block> load_block(ParameterLoader<Backend>& parameters, shardwise::Block const& block,
                                           std::string const& prefix, std::int32_t number, LayerHome home) {
        auto& context = parameters.context();
        // What is moved out lies there for a while only.
        using Brief = detail::BriefMemory<typename Backend::Context>;
        Brief const brief(context, home == LayerHome::resident ? Brief::Of::nothing : Brief::Of::weights);
        auto const& body = model_->program.body(block);
        detail::OperationLoader<Backend> const loader(parameters, *model_, prefix, place_, experts_,
                                                      block.first + number);
        auto cut =
            detail::BlockCutter<Policy>(body, place_, [&](Operation const& op) { return loader.grain_of(op); }).cut();
        if (!cut) return cut.error();
        Block held;
        bool has_rotation = false;
        held.program = &body;
        held.number = block.first + number;
        held.is_layer = block.is_numbered;
        held.is_encoder = block.is_encoder;
        for (auto const& op : body.operations()) {
            auto operation = detail::visit_executed<Backend, Policy>(
                op.kind, [&](auto of) { return of.load(loader, op, body, *cut); });
            if (!operation) return operation.error();
            held.operations.push_back({&op, std::move(*operation)});
            if (op.kind != OpKind::rope || std::exchange(has_rotation, true)) continue;
            auto const rotation = rotations_.add(context, model_->config, op.attention(), limits_.context,
                                                 parameters.parameters().rope_divisors());
            if (!rotation) return rotation.error();
            held.rotation = *rotation;
        }
        if (auto const done = product_memory_.template add<Policy>(loader, body, *cut, limits_); !done)
            return done.error();
        held.body = number_of_body(bodies_, block.body, local_body(body, *cut));
        held.cut = std::move(*cut);
        return Result<Block>(std::move(held));
    }

    /// The cache, the arena, and scratch for what kernels and sums need.
    [[nodiscard]] Result<> make_room(typename Backend::Context& context) {
        std::vector<KvLayer> layers;
        std::int64_t scratch = 0;
        Bytes arena{0};
        for (auto& body : bodies_) {
            body.plan = plan_largest_step(body.local, limits_, experts_);
            arena = std::max(arena, body.plan.layout.peak);
        }
        for (auto& block : blocks_) {
            detail::CountedBlock const counted{*model_, *block.program, block.cut, place_, experts_, limits_};
            scratch = std::max(scratch, detail::scratch_floats<Backend, Policy>(counted));
            for (auto& bound : block.operations) {
                if (bound.op->kind == OpKind::experts && !Experts::repeats(bound.held))
                    graphs_.refuse("the host counts the rows of each expert");
                auto const layer = cached_layer(*bound.op, block.cut);
                if (!layer) continue;
                bound.cache_layer = layers.size();
                layers.push_back(*layer);
            }
        }
        auto const kv = kv_capacity(limits_);
        if (auto const made = take(cache_, KvCache<Backend>::create(context, layers, kv)); !made) return made;
        if (auto const made = detail::allocate_apart(arena_, context, arena.count()); !made) return made;
        if (auto const made = take(scratch_, decltype(scratch_)::allocate(context, scratch)); !made) return made;
        if (auto const done = rotations_.allocate(context, limits_.step_tokens); !done) return done;
        if (auto const done = product_memory_.allocate(context); !done) return done;
        for (auto& block : blocks_) detail::bind_block(block, bodies_[block.body], arena_.data());
        if (auto const fits = detail::check_bound<Backend, Policy>(blocks_, cache_, rotations_); !fits) return fits;
        counted_.first.reserve(static_cast<std::size_t>(model_->config.experts) + 1);
        auto const rule = step_rule_of(*model_, limits_);
        return take(step_, RankStep<Backend>::create(context, limits_, cache_.groups(), rule));
    }
    template <class Made>
    [[nodiscard]] static Result<> take(Made& to, Result<Made> made) {
        return made ? (to = std::move(*made), Result<>{}) : made.error();
    }

    [[nodiscard]] Result<> check(std::span<std::int32_t const> ids, std::span<SequencePart const> parts,
                                 TensorView<std::byte, 2, Backend> out, bool has_exchange, bool is_encoding) const {
        if (auto const checked = check_exchange(has_exchange, experts_.ranks); !checked) return checked;
        bool const is_whole = sources_.empty() ? is_bidirectional_ : is_encoding;
        auto const checked = check_step(ids, parts, limits_, is_whole, has_exchange, model_->config.vocab_size);
        if (!checked || is_encoding) return checked;
        if (auto const known = check_sources(parts, sources_, cache_); !known) return known;
        auto const texts = static_cast<std::int64_t>(parts.size());
        auto const rows = output_.rows == Rows::sequences ? texts : static_cast<std::int64_t>(ids.size());
        auto const expected = std::clamp(out.extent(0), rows, std::max(rows, step_bucket(texts)));
        return ends_model_ ? check_output_rows(output_, expected, out) : Result<>{};
    }

    Model const* model_;
    TensorPlace place_;
    TensorPlace experts_;
    ExecutorLimits limits_;
    ExecutorOutput output_;
    bool is_bidirectional_;
    std::vector<PlannedBody> bodies_;
    std::vector<Block> blocks_;
    BlockTimer<Backend> timer_;
    Tracer tracer_;
    Bytes weight_bytes_{0};
    Bytes bytes_read_{0};
    KvCache<Backend> cache_;
    bool ends_model_ = true;
    typename detail::BlocksOf<Backend, Policy>::Type offloaded_;
    Buffer<std::byte, Backend> arena_;
    Buffer<float, Backend> scratch_;
    StepRotations<Backend> rotations_;
    ProductMemory<Backend> product_memory_;
    CountedRows counted_;
    std::vector<std::int64_t> sources_;  // by slot, tokens of the source that was encoded
    RankStep<Backend> step_;
    StepGraphs<Backend> graphs_;
    LastStep<Backend> last_;  // goes first: what a stream still reads outlives it
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
