// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/executor/training/add_tied_gradients.hpp>
#include <shardwise/executor/training/block_pass.hpp>
#include <shardwise/executor/training/check_pass.hpp>
#include <shardwise/executor/training/chunk_pass.hpp>
#include <shardwise/executor/training/gathered_layers.hpp>
#include <shardwise/executor/training/head_pass.hpp>
#include <shardwise/executor/training/training_memory.hpp>
#include <shardwise/executor/training/training_weights.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Loss and gradients of a model on a rank: a walk over its blocks that keeps what their backward passes read, and a walk back, which
/// computes again what was not kept.
///
/// A **leaf** is one sequence: `forward` takes a micro-batch of them, `backward` gives the gradients of one, each parameter's as one
/// product over its tokens. Nothing that a leaf gives depends on the sequences beside it, nor on the threads.
///
/// Tensor-parallel ranks take their passes together; each gets all losses, and the gradients of what it holds. A pipeline's rank takes a
/// micro-batch through one of its chunks at a time, of which several are in flight (ChunkPass).
///
/// Memory  plan_training_memory's, allocated at creation
class TrainingPass {
public:
    using Vector = TensorView<float, 1, Host>;
    using Ids = TensorView<std::int32_t const, 1, Host>;
    using Layer = GatheredLayers::Number;

    /// `program` outlives this, and `ranks`: where the program is one of several tensor-parallel ranks', their communicator, which
    /// nothing else uses while the stream has passes. `layers` gathers weights of which data-parallel ranks have shares.
    ///
    /// Errors  as plan_training_memory; invalid_argument for a communicator of other ranks than the program's; out_of_memory
    [[nodiscard]] static Result<TrainingPass> create(HostContext& context, TrainingProgram const& program,
                                                     TrainingLimits const& limits, RopeDivisors const& divisors = {},
                                                     HostCommunicator* ranks = nullptr,
                                                     std::unique_ptr<GatheredLayers> layers = nullptr) {
        TensorPlace const place{ranks == nullptr ? 1 : ranks->size(), ranks == nullptr ? 0 : ranks->rank()};
        if (place.ranks != program.place().ranks || place.rank != program.place().rank)
            return Error{ErrorCode::invalid_argument}
                .in(subject)
                .at("ranks")
                .because("are not the tensor-parallel ranks that the program is of")
                .got(place.ranks)
                .expected(program.place().ranks);
        auto plan = plan_training_memory(program, limits, divisors);
        if (!plan) return plan.error();
        auto kept = Buffer<float, Host>::allocate(context, plan->kept);
        if (!kept) return kept.error();
        auto waiting = Buffer<float, Host>::allocate(context, plan->waiting);
        if (!waiting) return waiting.error();
        auto working = Buffer<float, Host>::allocate(context, plan->working);
        if (!working) return working.error();
        auto positions = Buffer<std::int32_t, Host>::allocate(context, plan->positions);
        if (!positions) return positions.error();
        for (auto const& table : plan->tables) {
            auto* const to = working->data() + plan->tables_at;
            std::copy(table.rope.frequencies.begin(), table.rope.frequencies.end(), to + table.frequencies_at);
            std::copy(table.slopes.begin(), table.slopes.end(), to + table.slopes_at);
        }
        TrainingPass pass(program, limits, std::move(*plan));
        pass.layers_ = std::move(layers);
        pass.kept_ = std::move(*kept);
        pass.waiting_ = std::move(*waiting);
        pass.working_ = std::move(*working);
        pass.positions_ = std::move(*positions);
        auto* const gathered = pass.working_.data() + pass.plan_.gathered_at;
        auto const& sizes = pass.plan_.gathered;
        pass.tensor_ = {.comm = ranks, .place = place};
        pass.tensor_.staging = gathered;
        pass.tensor_.first = pass.tensor_.staging + sizes.staging;
        pass.tensor_.second = pass.tensor_.first + sizes.first;
        pass.tensor_.share = pass.tensor_.second + sizes.second;
        return Result<TrainingPass>(std::move(pass));
    }

    [[nodiscard]] TrainingLimits const& limits() const { return limits_; }
    [[nodiscard]] bool has_head(std::int64_t chunk) const {
        return has_head(program_->chunks()[static_cast<std::size_t>(chunk)]);
    }
    /// What gathers weights; null where they are whole.
    [[nodiscard]] GatheredLayers* layers() { return layers_.get(); }
    [[nodiscard]] GatheredLayers const* layers() const { return layers_.get(); }
    /// What was allocated, but for what layers are gathered in.
    [[nodiscard]] Bytes bytes() const {
        return kept_.bytes() + waiting_.bytes() + working_.bytes() + positions_.bytes();
    }

    /// Computes all blocks for some sequences and keeps what their losses and gradients need. These are of what `dropout` leaves.
    ///
    /// Shapes  tokens [sequences, tokens], at most what the limits say, rows one after another
    /// Order   on `stream`; this object, the weights and the tokens outlive what is in it
    /// Errors  shape_mismatch, also for weights of another model; invalid_argument for an id that is none of the vocabulary, and for a
    ///         dropout of other sequences
    [[nodiscard]] Result<> forward(TrainingWeights const& weights, TensorView<std::int32_t const, 2, Host> tokens,
                                   HostStream& stream, TrainingDropout dropout = {}, ChunkPass const& at = {}) {
        if (auto const known = check_views(subject, tokens); !known) return known;
        if (auto const checked = detail::check_weights(weights, *program_, layers_ != nullptr); !checked)
            return checked;
        auto const vocabulary = program_->model().config.vocab_size;
        if (auto const checked = detail::check_tokens(tokens, limits_, vocabulary); !checked) return checked;
        if (auto const checked = detail::check_dropout(dropout, tokens.extent(0)); !checked) return checked;
        if (auto const checked = check_chunk(at, tokens.elements()); !checked) return checked;
        auto const& chunk = program_->chunks()[static_cast<std::size_t>(at.chunk)];
        if (!dropout.sequences.empty()) dropout.low_rank_rate = program_->low_rank_dropout();
        auto& taken = taken_[static_cast<std::size_t>(at.place)];
        taken = {tokens.extent(0), tokens.extent(1), {tokens.data(), {tokens.elements()}}, std::move(dropout), at};
        if (layers_ != nullptr) layers_->forget();
        stream.submit([to = positions_.data(), count = tokens.elements(), length = taken.length] {
            for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<std::int32_t>(i % length);
            return Result<>{};
        });
        for (auto i = static_cast<std::size_t>(chunk.begin); i < static_cast<std::size_t>(chunk.end); ++i) {
            for (std::int64_t first = 0; first < taken.sequences; first += plan_.sequences_at_once) {
                auto const some = std::min(plan_.sequences_at_once, taken.sequences - first);
                auto const walk =
                    walk_of(i, after(i, at.chunk), weights, taken, first, some, memory_of(i).forward, stream);
                for (std::size_t number = 0; number < walk.body.forward.operations().size(); ++number) {
                    if (auto const done = detail::run_operation(walk, number); !done) return done;
                }
                if (i != program_->dropped_output() || !walk.drops_block_output()) continue;
                auto const made = walk.value(walk.body.forward.operations().back().output);
                if (auto const done = walk.drop(made, made, 0); !done) return done;
            }
        }
        if (at.out.empty()) return {};
        auto const made =
            TensorView<float const, 1, Host>{kept_of(taken) + output_of(chunk), {tokens.elements() * at.out.extent(1)}};
        return Host::copy<float>(made, {at.out.data(), {made.elements()}}, stream);
    }

    /// The loss of each token of a sequence that `forward` took, and the gradients of the sum of losses times `scale`, which replace what
    /// `gradients` hold, or are added to it (ChunkPass::adds_gradients). A target of -100 has no loss.
    ///
    /// Shapes  targets, losses [tokens]; gradients [layout().gradient_elements()]: see TrainingLayout, and add_tied_gradients
    /// Order   on `stream`; what is given outlives what is in it
    /// Errors  shape_mismatch; invalid_argument for a sequence that was not taken; a target that is no id stops the stream
    [[nodiscard]] Result<> backward(TrainingWeights const& weights, std::int64_t sequence, Ids targets, float scale,
                                    Vector losses, Vector gradients, HostStream& stream, ChunkPass const& at = {}) {
        return walk_back(weights, {sequence, targets, scale, losses, gradients, BackwardPart::whole}, stream, at);
    }
    /// The first part of such a pass: the losses, and the gradients of what the chunk read. What its parameters' are made of is kept in
    /// `at.waiting`, for which the limits say how many there are.
    ///
    /// Shapes, Order, Errors  as backward
    [[nodiscard]] Result<> backward_inputs(TrainingWeights const& weights, std::int64_t sequence, Ids targets,
                                           float scale, Vector losses, HostStream& stream, ChunkPass const& at) {
        return walk_back(weights, {sequence, targets, scale, losses, {}, BackwardPart::inputs}, stream, at);
    }
    /// The second part: the gradients of parameters, with the bits of `backward`. The head's logits are made again.
    ///
    /// Shapes, Order, Errors  as backward
    [[nodiscard]] Result<> backward_parameters(TrainingWeights const& weights, std::int64_t sequence, Ids targets,
                                               float scale, Vector losses, Vector gradients, HostStream& stream,
                                               ChunkPass const& at) {
        return walk_back(weights, {sequence, targets, scale, losses, gradients, BackwardPart::parameters}, stream, at);
    }

    /// The loss of each token alone.
    ///
    /// Shapes, Order, Errors  as backward
    [[nodiscard]] Result<> losses(TrainingWeights const& weights, std::int64_t sequence, Ids targets, Vector losses,
                                  HostStream& stream) {
        auto const& taken = taken_.front();
        if (auto const checked = check_leaf(weights, taken, sequence, targets, losses); !checked) return checked;
        if (!program_->has_head())
            return Error{ErrorCode::invalid_argument}.in(subject).at("losses").because("are those of another stage");
        std::vector<char> none;
        return run_head(weights, taken, {sequence, targets, 1.0F, losses}, nullptr, nullptr, none, stream);
    }

private:
    static constexpr std::string_view subject = "training";

    using Taken = detail::TakenRows;
    using Leaf = detail::LeafBack;

    TrainingPass(TrainingProgram const& program, TrainingLimits const& limits, TrainingMemory plan)
        : program_(&program),
          limits_(limits),
          plan_(std::move(plan)),
          taken_(static_cast<std::size_t>(limits.in_flight)) {}

    /// Errors  invalid_argument for a chunk or a place that there is not, and for rows that are missing or have no use
    [[nodiscard]] Result<> check_chunk(ChunkPass const& at, std::int64_t rows) const {
        Error bad{ErrorCode::invalid_argument};
        bad.in(subject);
        auto const chunks = static_cast<std::int64_t>(program_->chunks().size());
        if (at.chunk < 0 || at.chunk >= chunks) return bad.at("chunk").got(at.chunk).between(0, chunks - 1);
        if (at.place < 0 || at.place >= limits_.in_flight)
            return bad.at("place").got(at.place).between(0, limits_.in_flight - 1);
        auto const first = static_cast<std::size_t>(program_->chunks()[static_cast<std::size_t>(at.chunk)].begin);
        bool const reads_rows = plan_.hidden_at[first] < 0;
        auto const& body = program_->body(program_->blocks()[first]);
        bool const has_rows = at.in.extent(0) >= rows && at.in.extent(1) == body.values[0].width && at.in.is_dense();
        if (!reads_rows || has_rows) return {};
        return bad.at("in").because("has not the rows of the stage before").got(at.in.extent(0)).at_least(rows);
    }
    [[nodiscard]] Result<> check_leaf(TrainingWeights const& weights, Taken const& taken, std::int64_t sequence,
                                      Ids targets, Vector losses) const {
        if (auto const known = check_views(subject, targets, losses); !known) return known;
        if (auto const checked = detail::check_weights(weights, *program_, layers_ != nullptr); !checked)
            return checked;
        return detail::check_leaf(sequence, taken.sequences, taken.length, targets, losses);
    }

    /// Errors  as backward
    [[nodiscard]] Result<> walk_back(TrainingWeights const& weights, Leaf const& leaf, HostStream& stream,
                                     ChunkPass const& at) {
        auto const& taken =
            taken_[static_cast<std::size_t>(std::clamp<std::int64_t>(at.place, 0, limits_.in_flight - 1))];
        if (auto const checked = check_leaf(weights, taken, leaf.sequence, leaf.targets, leaf.losses); !checked)
            return checked;
        if (auto const checked = detail::check_part(leaf.part, at, limits_.waiting); !checked) return checked;
        if (auto const checked = check_chunk(at, taken.sequences * taken.length); !checked) return checked;
        auto const& layout = program_->layout();
        auto const& chunk = program_->chunks()[static_cast<std::size_t>(at.chunk)];
        auto const own = layout.chunks()[static_cast<std::size_t>(at.chunk)];
        bool const is_of_inputs = leaf.part != BackwardPart::parameters;
        // Where the gradients of all chunks would begin.
        float* all = nullptr;
        if (leaf.part != BackwardPart::inputs) {
            auto const begun = begin_gradients(leaf.gradients, own.size(), at.adds_gradients, stream);
            if (!begun) return begun;
            all = leaf.gradients.data() - own.begin;
        }
        std::vector<char> is_written(layout.parameters().size() + layout.ties().size(), at.adds_gradients ? 1 : 0);
        auto* above = working_.data() + plan_.gradients_at;
        auto* below = above + plan_.gradient_size;
        if (has_head(chunk)) {
            auto const done = run_head(weights, taken, leaf, all, is_of_inputs ? above : nullptr, is_written, stream);
            if (!done) return done;
            if (auto const told = at.tell(chunk.end); !told) return told;
        } else if (is_of_inputs) {
            auto const done = detail::take_rows(at.gradients, taken, leaf.sequence, above, stream);
            if (!done) return done;
        }
        bool const is_known = layers_ != nullptr && at.is_followed;
        auto const after = is_known ? Layer(layers_->parts().first_back(static_cast<std::size_t>(at.chunk))) : Layer();
        for (auto i = static_cast<std::size_t>(chunk.end); i-- > static_cast<std::size_t>(chunk.begin);) {
            auto const next = i > static_cast<std::size_t>(chunk.begin) ? Layer(i - 1) : after;
            auto const& memory = is_of_inputs ? memory_of(i).backward : memory_of(i).parameters;
            auto walk = walk_of(i, next, weights, taken, leaf.sequence, 1, memory, stream);
            walk.waiting = waiting_.data() + at.waiting * plan_.waiting_of_one + plan_.waiting_at[i];
            walk.parameter_gradients = all;
            walk.is_written = is_written.data();
            walk.output_gradient = above;
            walk.input_gradient = below;
            bool const has_gradient = is_of_inputs && walk.body.out_gradient != no_value;
            if (has_gradient && i == program_->dropped_output() && walk.drops_block_output()) {
                auto const gradient = walk.gradient(walk.body.out_gradient);
                if (auto const done = walk.drop(gradient, gradient, 0); !done) return done;
            }
            if (auto const done = detail::walk_back(walk, memory); !done) return done;
            if (auto const told = at.tell(static_cast<std::int64_t>(i)); !told) return told;
            std::swap(above, below);
        }
        if (at.out.empty() || !is_of_inputs) return {};
        auto const elements = taken.length * at.out.extent(1);
        return Host::copy<float>({above, {elements}}, {at.out.data() + leaf.sequence * elements, {elements}}, stream);
    }

    /// The gradients of a leaf are sums that begin with 0; those that lie in a file are given back some at a time.
    [[nodiscard]] Result<> begin_gradients(Vector gradients, std::int64_t elements, bool are_added,
                                           HostStream& stream) {
        if (auto const known = check_views(subject, gradients); !known) return known;
        if (gradients.elements() != elements)
            return Error{ErrorCode::shape_mismatch}
                .in(subject)
                .because("the gradients are not those of the layout")
                .got(gradients.elements())
                .expected(elements);
        if (are_added) return {};
        bool const is_trimmed = layers_ != nullptr && layers_->is_trimmed();
        auto const most = is_trimmed ? std::int64_t{1} << 20U : elements;
        for (std::int64_t first = 0; first < elements; first += most) {
            auto const fill = [to = gradients.data() + first](std::int64_t begin, std::int64_t end) {
                std::fill(to + begin, to + end, 0.0F);
            };
            Host::launch(std::min(most, elements - first), fill, stream, std::int64_t{1} << 16U);
            if (is_trimmed) layers_->trim(stream);
        }
        return {};
    }
    [[nodiscard]] BodyMemory const& memory_of(std::size_t block) const {
        return plan_.bodies[program_->blocks()[block].body];
    }
    [[nodiscard]] bool has_head(UnitRange chunk) const {
        return program_->has_head() && chunk.end == static_cast<std::int64_t>(program_->blocks().size());
    }
    [[nodiscard]] float* kept_of(Taken const& taken) { return kept_.data() + taken.at.place * plan_.kept_of_one; }
    /// Where what a chunk made lies among what it keeps.
    [[nodiscard]] std::int64_t output_of(UnitRange chunk) const {
        return plan_.output_at[static_cast<std::size_t>(chunk.end) - 1];
    }
    /// What a forward pass reads after a block, the head included.
    [[nodiscard]] Layer after(std::size_t number, std::int64_t chunk) const {
        return layers_ == nullptr ? Layer() : layers_->parts().after(number, static_cast<std::size_t>(chunk));
    }
    /// `next` is the layer that is walked after it.
    [[nodiscard]] detail::TrainingWalk walk_of(std::size_t number, Layer next, TrainingWeights const& weights,
                                               Taken const& taken, std::int64_t first, std::int64_t sequences,
                                               BodyMemory::Pass const& memory, HostStream& stream) {
        auto const& block = layers_ == nullptr ? program_->blocks()[number] : layers_->parts().block(number);
        auto const* const gathered = layers_ == nullptr ? nullptr : layers_->take(number, next, weights, stream);
        auto const& table = plan_.tables[block.body];
        auto const tokens = sequences * taken.length;
        auto const at = first * taken.length;
        auto* const kept = kept_of(taken);
        auto const* const tables = working_.data() + plan_.tables_at;
        detail::TrainingWalk walk{program_->model(), block, program_->body(block), memory, stream};
        walk.weights = layers_ == nullptr ? weights.data() : gathered;
        walk.held = layers_ == nullptr ? weights.held().products().data() : layers_->products(number);
        walk.product_weight_memory = working_.data() + plan_.product_weight_at;
        if (tensor_.place.ranks > 1) {
            tensor_.turned = layers_ == nullptr ? weights.turned() : gathered;
            walk.tensor = &tensor_;
            if (!program_->shared(block).empty()) walk.shared = &program_->shared(block);
        }
        walk.ids = taken.ids.part(at, tokens);
        walk.positions = Ids(positions_.data(), {at + tokens}).part(at, tokens);
        walk.frequencies = {tables + table.frequencies_at, {static_cast<std::int64_t>(table.rope.frequencies.size())}};
        walk.rope_scale = table.rope.scale;
        walk.slopes = {tables + table.slopes_at, {static_cast<std::int64_t>(table.slopes.size())}};
        if (taken.dropout.is_any()) {
            walk.dropped = &program_->dropped(block);
            walk.dropout = &taken.dropout;
        }
        if (auto const& rounded = plan_.rounded[block.body]; !rounded.empty()) {
            walk.precision = limits_.precision;
            walk.rounded = &rounded;
        }
        walk.sums_as_run = taken.at.sums_as_run;
        walk.first = at;
        walk.tokens = tokens;
        walk.sequence = taken.length;
        walk.kept = kept + plan_.kept_at[number];
        walk.working = working_.data();
        auto const input = plan_.hidden_at[number];
        walk.block_input = input < 0 ? taken.at.in.data() : kept + input;
        walk.block_output = kept + plan_.output_at[number];
        walk.scratch = {working_.data() + plan_.scratch_at, {plan_.scratch}};
        return walk;
    }

    /// The loss; with `gradients` those of the head, with `above` those of its input.
    [[nodiscard]] Result<> run_head(TrainingWeights const& weights, Taken const& taken, Leaf const& leaf,
                                    float* gradients, float* above, std::vector<char>& is_written, HostStream& stream) {
        detail::HeadPass pass{tensor_, layers_ == nullptr ? program_->head() : layers_->parts().head()};
        pass.weights = weights.data();
        pass.turned = weights.turned();
        pass.held = weights.held().products().data();
        pass.decoded = working_.data() + plan_.product_weight_at;
        pass.soft_cap = static_cast<float>(program_->model().config.logit_softcap);
        if (layers_ != nullptr) {
            auto const last = program_->blocks().size();
            auto const next = pass.goes_back(gradients, above) ? Layer(last - 1) : Layer();
            pass.weights = pass.turned = layers_->take(last, next, weights, stream);
            pass.held = layers_->products(last);
        }
        auto const elements = taken.length * pass.head.hidden;
        pass.hidden = {kept_of(taken) + plan_.output_at.back() + leaf.sequence * elements,
                       {taken.length, pass.head.hidden}};
        pass.factors = {working_.data() + plan_.weights_at, {taken.length}};
        pass.scratch = {working_.data() + plan_.scratch_at, {plan_.scratch}};
        return pass.run(leaf, gradients, above, is_written, stream);
    }

    TrainingProgram const* program_;
    TrainingLimits limits_;
    TrainingMemory plan_;
    detail::TensorRank tensor_;
    /// Null where weights are whole.
    std::unique_ptr<GatheredLayers> layers_;
    Buffer<float, Host> kept_;
    Buffer<float, Host> waiting_;
    Buffer<float, Host> working_;
    Buffer<std::int32_t, Host> positions_;
    /// By place.
    std::vector<Taken> taken_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
