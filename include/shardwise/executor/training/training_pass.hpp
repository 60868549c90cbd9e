// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/executor/training/shared_head.hpp>
#include <shardwise/executor/training/training_memory.hpp>
#include <shardwise/executor/training/training_weights.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
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
/// Tensor-parallel ranks take their passes together; each gets all losses, and the gradients of what it holds.
///
/// Memory  plan_training_memory's, allocated at creation
class TrainingPass {
public:
    using Vector = TensorView<float, 1, Host>;
    using Ids = TensorView<std::int32_t const, 1, Host>;

    /// `program` outlives this, and `ranks`: where the program is one of several tensor-parallel ranks', their communicator, which
    /// nothing else uses while the stream has passes.
    ///
    /// Errors  as plan_training_memory; invalid_argument for a communicator of other ranks than the program's; out_of_memory
    [[nodiscard]] static Result<TrainingPass> create(HostContext& context, TrainingProgram const& program,
                                                     TrainingLimits const& limits, RopeDivisors const& divisors = {},
                                                     HostCommunicator* ranks = nullptr) {
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
        pass.kept_ = std::move(*kept);
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
    /// What was allocated.
    [[nodiscard]] Bytes bytes() const { return kept_.bytes() + working_.bytes() + positions_.bytes(); }

    /// Computes all blocks for some sequences and keeps what their losses and gradients need. These are of what `dropout` leaves.
    ///
    /// Shapes  tokens [sequences, tokens], at most what the limits say, rows one after another
    /// Order   on `stream`; this object, the weights and the tokens outlive what is in it
    /// Errors  shape_mismatch, also for weights of another model; invalid_argument for an id that is none of the vocabulary, and for a
    ///         dropout of other sequences
    [[nodiscard]] Result<> forward(TrainingWeights const& weights, TensorView<std::int32_t const, 2, Host> tokens,
                                   HostStream& stream, TrainingDropout dropout = {}) {
        if (auto const known = check_views(subject, tokens); !known) return known;
        if (auto const checked = check_weights(weights); !checked) return checked;
        if (auto const checked = check_tokens(tokens); !checked) return checked;
        if (auto const checked = check_dropout(dropout, tokens.extent(0)); !checked) return checked;
        dropout_ = std::move(dropout);
        sequence_ = tokens.extent(1);
        sequences_ = tokens.extent(0);
        ids_ = {tokens.data(), {tokens.elements()}};
        stream.submit([to = positions_.data(), count = tokens.elements(), length = sequence_] {
            for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<std::int32_t>(i % length);
            return Result<>{};
        });
        for (std::size_t i = 0; i < program_->blocks().size(); ++i) {
            for (std::int64_t first = 0; first < sequences_; first += plan_.sequences_at_once) {
                auto const some = std::min(plan_.sequences_at_once, sequences_ - first);
                auto const walk = walk_of(i, weights, first, some, memory_of(i).forward, stream);
                for (std::size_t number = 0; number < walk.body.forward.operations().size(); ++number) {
                    if (auto const done = run(walk, number); !done) return done;
                }
                if (i != program_->dropped_output() || walk.dropout == nullptr) continue;
                auto const made = walk.value(walk.body.forward.operations().back().output);
                if (auto const done = walk.drop(made, made, 0); !done) return done;
            }
        }
        return {};
    }

    /// The loss of each token of a sequence that `forward` took, and the gradients of the sum of losses times `scale`, which replace what
    /// `gradients` hold. A target of -100 has no loss.
    ///
    /// Shapes  targets, losses [tokens]; gradients [layout().gradient_elements()]: see TrainingLayout, and add_tied_gradients
    /// Order   on `stream`; what is given outlives what is in it
    /// Errors  shape_mismatch; invalid_argument for a sequence that was not taken; a target that is no id stops the stream
    [[nodiscard]] Result<> backward(TrainingWeights const& weights, std::int64_t sequence, Ids targets, float scale,
                                    Vector losses, Vector gradients, HostStream& stream) {
        if (auto const checked = check_leaf(weights, sequence, targets, losses); !checked) return checked;
        if (auto const known = check_views(subject, gradients); !known) return known;
        auto const& layout = program_->layout();
        if (gradients.elements() != layout.gradient_elements())
            return Error{ErrorCode::shape_mismatch}
                .in(subject)
                .because("the gradients are not those of the layout")
                .got(gradients.elements())
                .expected(layout.gradient_elements());
        auto const clear = [to = gradients.data()](std::int64_t begin, std::int64_t end) {
            std::fill(to + begin, to + end, 0.0F);
        };
        Host::launch(gradients.elements(), clear, stream, std::int64_t{1} << 16U);
        std::vector<char> is_written(layout.parameters().size() + layout.ties().size(), char{0});
        auto* above = working_.data() + plan_.gradients_at;
        auto* below = above + plan_.gradient_size;
        if (auto const done = run_head(weights, sequence, targets, scale, losses, gradients, above, is_written, stream);
            !done)
            return done;
        for (auto i = program_->blocks().size(); i-- > 0;) {
            auto walk = walk_of(i, weights, sequence, 1, memory_of(i).backward, stream);
            walk.parameter_gradients = gradients.data();
            walk.is_written = is_written.data();
            walk.output_gradient = above;
            walk.input_gradient = below;
            if (i == program_->dropped_output() && walk.dropout != nullptr) {
                auto const gradient = walk.gradient(walk.body.out_gradient);
                if (auto const done = walk.drop(gradient, gradient, 0); !done) return done;
            }
            if (auto const done = walk_back(walk, memory_of(i)); !done) return done;
            std::swap(above, below);
        }
        return {};
    }

    /// The loss of each token alone.
    ///
    /// Shapes, Order, Errors  as backward
    [[nodiscard]] Result<> losses(TrainingWeights const& weights, std::int64_t sequence, Ids targets, Vector losses,
                                  HostStream& stream) {
        if (auto const checked = check_leaf(weights, sequence, targets, losses); !checked) return checked;
        std::vector<char> none;
        return run_head(weights, sequence, targets, 1.0F, losses, {}, nullptr, none, stream);
    }

private:
    static constexpr std::string_view subject = "training";

    TrainingPass(TrainingProgram const& program, TrainingLimits const& limits, TrainingMemory plan)
        : program_(&program), limits_(limits), plan_(std::move(plan)) {}

    [[nodiscard]] Result<> check_weights(TrainingWeights const& weights) const {
        auto const& place = weights.layout().place();
        bool const is_rank = place.ranks == tensor_.place.ranks && place.rank == tensor_.place.rank;
        if (&weights.model() == &program_->model() && is_rank) return {};
        if (!is_rank)
            return Error{ErrorCode::invalid_argument}.in(subject).at("weights").because(
                "are those of another tensor-parallel rank");
        return Error{ErrorCode::invalid_argument}.in(subject).at("weights").because("are those of another model");
    }
    [[nodiscard]] Result<> check_tokens(TensorView<std::int32_t const, 2, Host> tokens) const {
        Error wrong{ErrorCode::shape_mismatch};
        wrong.in(subject);
        if (tokens.extent(0) < 1 || tokens.extent(0) > limits_.sequences)
            return wrong.at("sequences").got(tokens.extent(0)).between(1, limits_.sequences);
        if (tokens.extent(1) < 1 || tokens.extent(1) > limits_.context)
            return wrong.at("tokens").got(tokens.extent(1)).between(1, limits_.context);
        if (!tokens.is_dense()) return wrong.at("tokens").because("do not lie one after another");
        auto const vocabulary = program_->model().config.vocab_size;
        for (std::int64_t i = 0; i < tokens.elements(); ++i) {
            if (tokens.data()[i] >= 0 && tokens.data()[i] < vocabulary) continue;
            return Error{ErrorCode::invalid_argument}
                .in(subject)
                .at("tokens")
                .because("have an id that is none of the vocabulary")
                .got(tokens.data()[i])
                .between(0, vocabulary - 1)
                .fix("check the tokenizer that made the ids");
        }
        return {};
    }
    [[nodiscard]] static Result<> check_dropout(TrainingDropout const& dropout, std::int64_t sequences) {
        bool const is_rate = dropout.rate >= 0.0F && dropout.rate < 1.0F;
        auto const numbers = static_cast<std::int64_t>(dropout.sequences.size());
        if (is_rate && (dropout.rate == 0.0F || numbers == sequences)) return {};
        Error bad{ErrorCode::invalid_argument};
        bad.in(subject).at("dropout");
        if (!is_rate) return bad.because("must be at least 0 and below 1");
        return bad.because("needs the number of each sequence in the global batch").got(numbers).expected(sequences);
    }
    [[nodiscard]] Result<> check_leaf(TrainingWeights const& weights, std::int64_t sequence, Ids targets,
                                      Vector losses) const {
        if (auto const known = check_views(subject, targets, losses); !known) return known;
        if (auto const checked = check_weights(weights); !checked) return checked;
        if (sequence < 0 || sequence >= sequences_)
            return Error{ErrorCode::invalid_argument}
                .in(subject)
                .at("sequence")
                .because("is none that the forward pass took")
                .got(sequence)
                .between(0, sequences_ - 1);
        auto const is_whole = [&](auto const& view) { return view.elements() == sequence_; };
        if (is_whole(targets) && is_whole(losses)) return {};
        return Error{ErrorCode::shape_mismatch}
            .in(subject)
            .because("each token needs a target and a loss")
            .got(is_whole(targets) ? losses.elements() : targets.elements())
            .expected(sequence_);
    }

    [[nodiscard]] BodyMemory const& memory_of(std::size_t block) const {
        return plan_.bodies[program_->blocks()[block].body];
    }
    [[nodiscard]] detail::TrainingWalk walk_of(std::size_t number, TrainingWeights const& weights, std::int64_t first,
                                               std::int64_t sequences, BodyMemory::Pass const& memory,
                                               HostStream& stream) {
        auto const& block = program_->blocks()[number];
        auto const& table = plan_.tables[block.body];
        auto const tokens = sequences * sequence_;
        auto const at = first * sequence_;
        auto const* const tables = working_.data() + plan_.tables_at;
        detail::TrainingWalk walk{program_->model(), block, program_->body(block), memory, stream};
        walk.weights = weights.data();
        walk.held = weights.held().products().data();
        walk.product_weight_memory = working_.data() + plan_.product_weight_at;
        if (tensor_.place.ranks > 1) {
            tensor_.turned = weights.turned();
            walk.tensor = &tensor_;
            if (!program_->shared(block).empty()) walk.shared = &program_->shared(block);
        }
        walk.ids = ids_.part(at, tokens);
        walk.positions = Ids(positions_.data(), {at + tokens}).part(at, tokens);
        walk.frequencies = {tables + table.frequencies_at, {static_cast<std::int64_t>(table.rope.frequencies.size())}};
        walk.rope_scale = table.rope.scale;
        walk.slopes = {tables + table.slopes_at, {static_cast<std::int64_t>(table.slopes.size())}};
        if (dropout_.rate > 0.0F) {
            walk.dropped = &program_->dropped(block);
            walk.dropout = &dropout_;
        }
        if (auto const& rounded = plan_.rounded[block.body]; !rounded.empty()) {
            walk.precision = limits_.precision;
            walk.rounded = &rounded;
        }
        walk.first = at;
        walk.tokens = tokens;
        walk.sequence = sequence_;
        walk.kept = kept_.data() + plan_.kept_at[number];
        walk.working = working_.data();
        walk.block_input = kept_.data() + plan_.hidden_at[number];
        walk.block_output = kept_.data() + plan_.hidden_at[number + 1];
        walk.scratch = {working_.data() + plan_.scratch_at, {plan_.scratch}};
        return walk;
    }

    /// An operation of the forward pass.
    [[nodiscard]] static Result<> run(detail::TrainingWalk const& walk, std::size_t number) {
        auto const& op = walk.body.forward.operations()[number];
        auto const done = detail::visit_trained(op.kind, [&](auto of) { return of.forward(walk, op, number); });
        if (done) walk.round_value(op.output);
        return done;
    }
    /// The steps of one block's backward pass, each behind what it reads and is not kept.
    [[nodiscard]] static Result<> walk_back(detail::TrainingWalk const& walk, BodyMemory const& memory) {
        auto const& again = memory.again;
        std::size_t next = 0;
        std::size_t unpacked = 0;
        for (std::size_t i = 0; i < walk.body.steps.size(); ++i) {
            for (; unpacked < memory.unpacked.size() && memory.unpacked[unpacked].step == i; ++unpacked)
                walk.unpack_value(memory.unpacked[unpacked].value);
            for (; next < again.size() && again[next].step == i; ++next) {
                if (auto const done = run(walk, again[next].operation); !done) return done;
            }
            if (auto const done = take_step(walk, walk.body.steps[i]); !done) return done;
        }
        return {};
    }
    /// Tensor-parallel ranks have whole sums of some columns each, which a reduction brings together; gradients of keys and
    /// values are whole already.
    [[nodiscard]] static Result<> take_step(detail::TrainingWalk const& walk, GradientStep const& step) {
        switch (step.part) {
            case GradientPart::inputs:
            case GradientPart::parameters: {
                auto const number = static_cast<std::size_t>(step.of);
                auto const& op = walk.body.forward.operations()[number];
                auto const done = detail::visit_trained(op.kind, [&](auto of) {
                    return step.part == GradientPart::inputs ? of.inputs(walk, op, number, step)
                                                             : of.parameters(walk, op, number, step);
                });
                if (done) round_made(walk, step);
                return done;
            }
            case GradientPart::reduction:
                if (walk.shared != nullptr && step.spread == Spread::partial)
                    detail::gather_shares(*walk.tensor, walk.gradient(step.reads), walk.stream);
                break;
            case GradientPart::sum: {
                auto const done =
                    add_backward(walk.gradient(step.reads), walk.gradient(step.writes[0]), true, walk.stream);
                if (done) round_made(walk, step);
                return done;
            }
        }
        return {};
    }
    static void round_made(detail::TrainingWalk const& walk, GradientStep const& step) {
        for (auto const id : step.writes) {
            if (id != no_value) walk.round_gradient(id);
        }
    }

    /// The loss; with `gradients`, those of the head, and of its input in `above`.
    [[nodiscard]] Result<> run_head(TrainingWeights const& weights, std::int64_t sequence, Ids targets, float scale,
                                    Vector losses, Vector gradients, float* above, std::vector<char>& is_written,
                                    HostStream& stream) {
        auto const& head = program_->head();
        auto const& config = program_->model().config;
        using Matrix = TensorView<float, 2, Host>;
        Matrix const hidden(kept_.data() + plan_.hidden_at.back() + sequence * sequence_ * head.hidden,
                            {sequence_, head.hidden});
        // Of one rank all rows of the vocabulary.
        auto const rows = head.rows.size();
        HeadLoss in{.in = hidden,
                    .head = TensorView<float const, 2, Host>(weights.data() + head.weight.weight, {rows, head.hidden}),
                    .targets = targets};
        if (head.bias.elements > 0) in.bias = {weights.data() + head.bias.weight, {head.bias.elements}};
        HeadLossGradients to{.loss = losses};
        if (!gradients.empty()) {
            Vector const factors{working_.data() + plan_.weights_at, {sequence_}};
            stream.submit([factors, scale] {
                std::fill_n(factors.data(), factors.elements(), scale);
                return Result<>{};
            });
            in.weights = factors;
            to.in = Matrix(above, {sequence_, head.hidden});
            if (!head.weight.is_frozen) {
                to.head = Matrix(gradients.data() + head.weight.gradient, {rows, head.hidden});
                if (head.bias.elements > 0) to.bias = {gradients.data() + head.bias.gradient, {head.bias.elements}};
                is_written[head.weight.number] = 1;
                if (head.bias.elements > 0) is_written[head.bias.number] = 1;
            }
        }
        HeadLossOptions const options{.soft_cap = static_cast<float>(config.logit_softcap)};
        Vector const scratch{working_.data() + plan_.scratch_at, {plan_.scratch}};
        if (tensor_.place.ranks == 1) return head_cross_entropy(in, to, options, scratch, stream);
        auto const columns = split_units(head.hidden, tensor_.place.ranks, tensor_.place.rank).size();
        TensorView<float const, 2, Host> const turned(weights.turned() + head.turned, {head.vocabulary, columns});
        return detail::shared_head_cross_entropy(tensor_, in, turned, to, options, scratch, stream);
    }

    TrainingProgram const* program_;
    TrainingLimits limits_;
    TrainingMemory plan_;
    detail::TensorRank tensor_;
    Buffer<float, Host> kept_;
    Buffer<float, Host> working_;
    Buffer<std::int32_t, Host> positions_;
    /// Of the last forward pass.
    std::int64_t sequence_ = 0;
    std::int64_t sequences_ = 0;
    Ids ids_;
    TrainingDropout dropout_;
};

/// Adds the gradients of tied names, summed over all leaves, to those of the parameter: once, after all other sums.
///
/// Shapes  gradients [layout.gradient_elements()]
/// Order   on `stream`
[[nodiscard]] inline Result<> add_tied_gradients(TrainingLayout const& layout, TensorView<float, 1, Host> gradients,
                                                 HostStream& stream) {
    for (auto const& tie : layout.ties()) {
        auto const& parameter = layout.parameters()[tie.parameter];
        TensorView<float const, 2, Host> const from(gradients.data() + tie.begin, {1, parameter.elements});
        TensorView<float, 2, Host> const to(gradients.data() + parameter.begin, {1, parameter.elements});
        if (auto const done = add_backward(from, to, true, stream); !done) return done;
    }
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
