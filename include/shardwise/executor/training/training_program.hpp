// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/executor/parameter_name.hpp>
#include <shardwise/executor/stored_parameter.hpp>
#include <shardwise/executor/stored_rows.hpp>
#include <shardwise/executor/training/ops/refusal.hpp>
#include <shardwise/executor/training/run_sums.hpp>
#include <shardwise/executor/training/tensor_cuts.hpp>
#include <shardwise/executor/training/trained_block.hpp>
#include <shardwise/executor/training/training_dropout.hpp>
#include <shardwise/executor/training/training_layout.hpp>
#include <shardwise/memory/activations.hpp>
#include <shardwise/model/backward_program.hpp>
#include <shardwise/model/block_path.hpp>
#include <shardwise/model/check_model.hpp>
#include <shardwise/op/visit_op.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How a model is trained: its blocks with their backward passes, derived from the block program, and its head, whose logits are never
/// whole. Made without a file or memory for weights, so that what cannot be trained is refused before anything is loaded.
class TrainingProgram {
public:
    /// Of one tensor-parallel rank, of one of a pipeline's stages, or of one that shares the model with no other. With `low_rank` an adapter is trained, and no weight
    /// of the model. `model` outlives this.
    ///
    /// Errors  unsupported with the module and the parameter or operation that has no gradient; as check_model, TensorCuts and
    ///         TrainedAdapter
    [[nodiscard]] static Result<TrainingProgram> create(Model const& model, TrainingPlace const& place = {},
                                                        LowRankOptions const& low_rank = {}) {
        if (auto const checked = check_model(model); !checked) return checked.error();
        auto const adapter = TrainedAdapter::create(model, low_rank);
        if (!adapter) return adapter.error();
        auto cuts = TensorCuts::create(model, place, *adapter);
        if (!cuts) return cuts.error();
        auto layout = TrainingLayout::create(model, *cuts, *adapter);
        if (!layout) return layout.error();
        TrainingProgram out(model, std::move(*layout), std::move(*cuts));
        auto const& blocks = model.program.blocks();
        if (auto const checked = out.check_kind(); !checked) return checked.error();
        for (auto const& block : blocks) {
            if (auto const done = out.add(block, &block + 1 == blocks.end()); !done) return done.error();
        }
        // A later stage's blocks are behind it.
        if (!out.blocks_.empty() && !out.has_first()) out.dropped_output_ = out.blocks_.size();
        while (out.dropped_output_ + 1 < out.blocks_.size() && !out.is_layer(out.dropped_output_ + 1))
            ++out.dropped_output_;
        return Result<TrainingProgram>(std::move(out));
    }

    [[nodiscard]] Model const& model() const { return *model_; }
    [[nodiscard]] TrainingLayout const& layout() const { return layout_; }
    [[nodiscard]] std::vector<BackwardBody> const& bodies() const { return bodies_; }
    /// The rank whose program this is, and what it holds.
    [[nodiscard]] TrainingPlace const& place() const { return cuts_.place(); }
    [[nodiscard]] TensorCuts const& cuts() const { return cuts_; }
    /// By value of a block's body and, after them, by gradient; empty where every rank computes the whole block.
    [[nodiscard]] std::vector<SharedValue> const& shared(TrainedBlock const& block) const {
        return shared_[block.body];
    }
    [[nodiscard]] std::vector<SharedValue> const& shared_of_body(std::size_t body) const { return shared_[body]; }
    /// In the order in which they run; of a pipeline's rank those of its chunks, one after another.
    [[nodiscard]] std::vector<TrainedBlock> const& blocks() const { return blocks_; }
    /// By chunk of this rank, its blocks.
    [[nodiscard]] std::vector<UnitRange> const& chunks() const { return chunks_; }
    /// Whether the first chunk reads ids, and whether the last has the head.
    [[nodiscard]] bool has_first() const { return layout_.parts().blocks().front().begin == 0; }
    [[nodiscard]] bool has_head() const { return head_.vocabulary > 0; }
    /// Of the hidden state between stages.
    [[nodiscard]] std::int64_t boundary_width() const {
        auto const& body = bodies_[blocks_[static_cast<std::size_t>(chunks_.front().end) - 1].body];
        if (!has_head() || chunks_.size() > 1)
            return body.values[static_cast<std::size_t>(body.forward.operations().back().output)].width;
        return bodies_[blocks_.front().body].values[0].width;
    }
    /// Whether blocks of a body run on this rank.
    [[nodiscard]] bool runs(std::size_t body) const {
        for (auto const& block : blocks_) {
            if (block.body == body) return true;
        }
        return false;
    }
    [[nodiscard]] BackwardBody const& body(TrainedBlock const& block) const { return bodies_[block.body]; }
    /// The block whose output dropout is on: the last one before the layers.
    [[nodiscard]] std::size_t dropped_output() const { return dropped_output_; }
    /// By operation: what dropout is on.
    [[nodiscard]] List<DroppedInput> const& dropped(TrainedBlock const& block) const { return dropped_[block.body]; }
    [[nodiscard]] float low_rank_dropout() const { return static_cast<float>(layout_.adapter().options().dropout); }
    [[nodiscard]] TrainedHead const& head() const { return head_; }

private:
    TrainingProgram(Model const& model, TrainingLayout layout, TensorCuts cuts)
        : model_(&model), layout_(std::move(layout)), cuts_(std::move(cuts)) {}

    [[nodiscard]] Error refused(std::string_view reason) const {
        return Error{ErrorCode::unsupported}.in(model_->config.model_class.view()).because(reason);
    }
    [[nodiscard]] Result<> check_kind() const {
        auto const& config = model_->config;
        auto const& blocks = model_->program.blocks();
        if (is_bidirectional(*model_)) return refused(detail::both_directions_refusal);
        if (config.labels > 0) return refused(detail::labels_refusal);
        for (auto const& body : model_->program.bodies()) {
            for (auto const& op : body.operations()) {
                if (op.kind == OpKind::attention && op.attention().has_rounded_slopes)
                    return refused("rounds linear biases (ALiBi), which has no gradient yet");
            }
        }
        if (blocks.empty() || blocks[blocks.size() - 1].role != ModuleRole::head)
            return refused("has no head that scores the vocabulary, whose loss trains it");
        return {};
    }

    [[nodiscard]] bool is_layer(std::size_t block) const { return !body(blocks_[block]).log_sums.empty(); }
    /// The body of the head without its product, which the loss is fused with.
    [[nodiscard]] static BlockBody without_head(BlockBody const& body) {
        BlockBody out(body.values()[0]);
        for (std::size_t i = 1; i < body.values().size(); ++i) (void)out.value(body.values()[i]);
        for (std::size_t i = 0; i + 1 < body.operations().size(); ++i) (void)out.append(body.operations()[i]);
        return out;
    }

    [[nodiscard]] Result<> add(Block const& block, bool is_last) {
        auto const& adapter = layout_.adapter();
        auto const whole = adapter.with_halves(model_->program.body(block), block);
        auto const& last = whole.operations().back();
        bool const reads_ids = whole.values()[0].width == 1 && seen_ == 0;
        bool const has_logits = last.kind == OpKind::linear && last.out_features == model_->config.vocab_size;
        if (is_last && (!has_logits || whole.operations().size() < 2))
            return refused("has no product that makes logits of its last token");
        auto const own = is_last ? without_head(whole) : whole;
        if (auto const checked = whole.check(block.module); !checked) return checked;
        auto const trains = [&](std::string_view name) { return adapter.empty() || is_low_rank_half(name); };
        auto backward = backward_of(own, block.module, !reads_ids, trains);
        if (!backward) return backward.error();
        if (auto const checked = check_body(*backward, block.module); !checked) return checked;
        auto const sums = detail::run_sums(whole);
        if (!sums) return sums.error();
        auto const number = bodies_.size();
        shared_.push_back(share(*backward, whole, number));
        dropped_.push_back(dropped_inputs(backward->forward));
        bodies_.push_back(std::move(*backward));
        for (std::int32_t i = 0; i < block.count; ++i) {
            if (!is_own(seen_++)) continue;
            auto const prefix = block_path(block, i);
            TrainedBlock made{number, block.first + i, {}};
            for (auto const& op : bodies_[number].forward.operations()) {
                auto const& one = whole.operations()[made.operations.size()];
                auto trained = trained_operation(op, one, whole, number, prefix);
                if (!trained) return trained.error();
                // Packed weights a run multiplies otherwise.
                if (trained->parameters[0].held < 0) trained->run_sums = (*sums)[made.operations.size()];
                made.operations.push_back(std::move(*trained));
            }
            blocks_.push_back(std::move(made));
            if (!is_last) continue;
            auto const product = trained_operation(last, last, whole, number, prefix);
            if (!product) return product.error();
            head_ = {product->parameters[0],
                     product->parameters[1],
                     last.out_features,
                     last.in_features,
                     split_units(last.out_features, place().ranks, place().rank),
                     product->turned};
        }
        return {};
    }

    /// Whether a block is of a chunk of this rank: chunks come in the order of their blocks.
    [[nodiscard]] bool is_own(std::int64_t block) {
        auto const& all = layout_.parts().blocks();
        auto const here = static_cast<std::int64_t>(blocks_.size());
        chunks_.resize(all.size(), {here, here});
        for (std::size_t i = 0; i < all.size(); ++i) {
            if (block < all[i].begin || block >= all[i].end) continue;
            if (block == all[i].begin) chunks_[i].begin = here;
            chunks_[i].end = here + 1;
            return true;
        }
        return false;
    }

    /// What backward_of derives and the kernels do not compute.
    [[nodiscard]] Result<> check_body(BackwardBody const& body, std::string_view module) const {
        auto const refuse = [&](Operation const& op, std::string_view reason) {
            auto const kind = visit_op(op.kind, [](auto of) { return of.name; });
            return Error{ErrorCode::unsupported}
                .in(module)
                .at(op.parameters[0].empty() ? kind : op.parameters[0])
                .because(reason);
        };
        for (auto const& op : body.forward.operations()) {
            auto const& in = body.values[static_cast<std::size_t>(op.inputs[0])];
            auto const reason = detail::training_refusal(op, in);
            if (!reason.empty()) return refuse(op, reason);
        }
        for (auto const& step : body.steps) {
            if (step.part != GradientPart::inputs) continue;
            auto const& op = body.forward.operations()[static_cast<std::size_t>(step.of)];
            auto const rule = visit_op(op.kind, [&](auto of) {
                return of.gradient(op, Span<Value const>(body.values.begin(), body.values.size()));
            });
            if (!rule.is_made_together) continue;
            for (std::size_t i = 0; i < op.inputs.size(); ++i) {
                if (op.inputs[i] == no_value) continue;
                if (step.writes[i] == no_value || step.is_added[i] != step.is_added[0])
                    return refuse(op, "adds some of its inputs' gradients and makes others, which has no kernel");
            }
        }
        return {};
    }

    /// How tensor-parallel ranks hold the values of a block, whose body becomes that of this rank.
    [[nodiscard]] std::vector<SharedValue> share(BackwardBody& body, BlockBody const& whole, std::size_t number) const {
        auto const& cuts = cuts_.block(number);
        if (cuts.empty()) return {};
        // Of each value of the forward pass the one that it is in the program, where some are written in place.
        List<ValueId> origin;
        for (std::size_t i = 0; i < body.forward.values().size(); ++i) origin.push_back(static_cast<ValueId>(i));
        for (std::size_t i = 0; i < whole.operations().size(); ++i)
            origin[static_cast<std::size_t>(body.forward.operations()[i].output)] = whole.operations()[i].output;
        auto const& own = cuts[static_cast<std::size_t>(place().rank)];
        std::vector<SharedValue> out;
        for (std::size_t i = 0; i < body.values.size(); ++i) {
            auto const id = origin[static_cast<std::size_t>(body.value_of[i])];
            SharedValue shared{.width = body.values[i].width, .columns = {}};
            if (TensorCuts::is_cut(id, whole, cuts)) {
                for (auto const& cut : cuts) shared.columns.push_back(cut.columns[static_cast<std::size_t>(id)]);
                body.values[i].width = own.width(id);
            }
            out.push_back(std::move(shared));
        }
        BlockBody local(body.values[0]);
        for (std::size_t i = 1; i < body.forward.values().size(); ++i) (void)local.value(body.values[i]);
        for (auto op : body.forward.operations()) {
            if (own.heads && (op.kind == OpKind::attention || op.kind == OpKind::rope)) {
                auto shape = op.attention();
                shape.heads = own.heads->query.size();
                shape.kv_heads = own.heads->kv.size();
                op.details = shape;
            }
            if (op.kind == OpKind::linear) {
                op.in_features = body.values[static_cast<std::size_t>(op.inputs[0])].width;
                op.out_features = body.values[static_cast<std::size_t>(op.output)].width;
            }
            (void)local.append(op);
        }
        body.forward = static_cast<BlockBody&&>(local);
        return out;
    }

    /// `op` is this rank's, `one` that of the program.
    [[nodiscard]] Result<TrainedOperation> trained_operation(Operation const& op, Operation const& one,
                                                             BlockBody const& body, std::size_t number,
                                                             std::string const& prefix) const {
        TrainedOperation out;
        out.cut = TensorCuts::cut_of(one, body, cuts_.block(number));
        if (op.kind == OpKind::attention && place().ranks > one.attention().kv_heads) {
            out.heads = one.attention().heads;
            for (auto const& cut : cuts_.block(number)) out.shares.push_back(*cut.heads);
        }
        for (std::size_t slot = 0; slot < op.parameters.size(); ++slot) {
            if (op.parameters[slot].empty()) continue;
            auto const name = detail::parameter_name(prefix, op.parameters[slot], 0);
            auto const found = layout_.find(name);
            if (!found) return Error{ErrorCode::unknown_name}.in(name).because("is no parameter of the model");
            auto const& parameter = layout_.at(*found);
            out.parameters[slot] = {parameter.begin, found->gradient_begin, parameter.elements, found->gradient,
                                    found->is_frozen};
            if (parameter.held) out.parameters[slot].held = static_cast<std::int64_t>(found->parameter);
            if (slot > 0) continue;
            out.turned = parameter.turned_begin;
            out.turned_elements = parameter.turned_elements;
            bool const is_cut = !parameter.cut.is_whole() || parameter.held_turned;
            if (op.kind == OpKind::embedding && is_cut) out.cut = TrainedCut::outputs;
            if (op.kind != OpKind::linear) continue;
            if (parameter.held) {
                out.rows = {{{0, op.out_features}, 0}};
                out.whole_rows = {{{0, one.out_features}, 0}};
                continue;
            }
            out.is_transposed = parameter.tensor->is_transposed;
            out.rows = rows_of(one);
            if (out.cut == TrainedCut::none) continue;
            out.whole_rows = std::move(out.rows);
            // A rank has its rows in the order of the columns that they make.
            out.rows = {{{0, op.out_features}, 0}};
        }
        return out;
    }
    /// The rows of a weight, in pieces that lie together, in the order of the columns that they make.
    [[nodiscard]] std::vector<WeightRows> rows_of(Operation const& op) const {
        std::vector<WeightRows> out;
        std::int64_t column = 0;
        for (auto const& rows : stored_rows(op, *model_, false, {{0, op.out_features}})) {
            bool const continues = !out.empty() && out.back().rows.end == rows.begin;
            if (continues) {
                out.back().rows.end = rows.end;
            } else {
                out.push_back({rows, column});
            }
            column += rows.size();
        }
        return out;
    }

    Model const* model_;
    TrainingLayout layout_;
    TensorCuts cuts_;
    std::vector<BackwardBody> bodies_;
    std::vector<std::vector<SharedValue>> shared_;
    std::vector<List<DroppedInput>> dropped_;
    std::size_t dropped_output_ = 0;
    std::vector<TrainedBlock> blocks_;
    std::vector<UnitRange> chunks_;
    /// Blocks of the model that were looked at.
    std::int64_t seen_ = 0;
    TrainedHead head_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
