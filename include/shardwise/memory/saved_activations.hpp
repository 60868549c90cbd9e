// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/memory/activations.hpp>
#include <shardwise/model/low_rank_names.hpp>
#include <shardwise/op/work.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The forward pass of a training step: every token of the batch at once, each of them scored.
[[nodiscard]] constexpr Step training_step(EstimateRequest const& request, ModelConfig const& config) {
    auto step = step_of(Phase::prefill, request, config);
    step.is_training = true;
    return step;
}

namespace detail {

/// The attention's probabilities at this many bytes each; saturates where no memory could hold them.
[[nodiscard]] constexpr Bytes probability_bytes(Operation const& op, OpContext const& context, std::int64_t each) {
    auto const& step = context.step;
    auto const rows = checked_multiply(step.tokens(), step.context);
    auto const heads = rows ? checked_multiply(*rows, context.share(op.attention().heads, op.output)) : rows;
    auto const total = heads ? checked_multiply(*heads, each) : heads;
    constexpr auto limit = std::int64_t{1} << 50U;
    return Bytes{total && *total < limit ? *total : limit};
}

/// True for activations whose gradient reads their result, not their input.
[[nodiscard]] constexpr bool reads_result(ActivationKind kind) {
    return kind == ActivationKind::relu || kind == ActivationKind::tanh || kind == ActivationKind::sigmoid ||
           kind == ActivationKind::relu_squared;
}

/// Tensors between input and result, each as large as the result, that the operators of an activation keep: none where
/// it is one operator of PyTorch.
///
/// Source  transformers 4.57 activations.py (gelu_new, gelu_fast, quick_gelu), models/gpt_oss/modeling_gpt_oss.py
[[nodiscard]] constexpr std::int64_t intermediate_tensors(ActivationKind kind) {
    switch (kind) {
        case ActivationKind::silu:
        case ActivationKind::gelu:
        case ActivationKind::gelu_tanh:
        case ActivationKind::relu:
        case ActivationKind::tanh:
        case ActivationKind::sigmoid:
            return 0;
        case ActivationKind::relu_squared:
            return 1;  // max(x, 0)
        case ActivationKind::quick_gelu:
            return 1;  // sigmoid(1.702 x)
        case ActivationKind::gelu_new:
            return 3;  // tanh(...), 1 + tanh(...), x / 2
        case ActivationKind::swiglu_clamped:
            return 4;  // clamped gate, sigmoid, their product, up + 1
        case ActivationKind::xielu:
            return 4;  // alpha_p x, min(x, eps), its expm1, that less x
        case ActivationKind::gelu_fast:
            return 6;  // gelu_new's, 0.798 x, 0.0447 x, 1 + 0.0447 x^2
    }
    return 0;
}

/// Collects what the gradients of one block's operations read.
class SavedValues {
public:
    constexpr SavedValues(BlockBody const& body, OpContext const& context, TrainingPlan const& plan)
        : body_(body),
          context_(context),
          plan_(plan),
          is_needed_(body.values().size(), 0),
          is_remade_(body.values().size(), 0),
          is_gathered_(body.values().size(), 0) {}

    constexpr Bytes sum() {
        for (auto const& op : body_.operations()) visit_op(op.kind, [&](auto of) { add(of, op); });
        keep_loss();
        for (std::size_t id = 0; id < is_needed_.size(); ++id) {
            bool const is_kept = is_needed_[id] != 0 && is_remade_[id] == 0;
            if (is_kept && !body_.values()[id].is_external) total_ += context_.bytes(static_cast<ValueId>(id));
        }
        return total_;
    }

private:
    static constexpr std::size_t at(ValueId id) { return static_cast<std::size_t>(id); }
    constexpr void keep(ValueId id) {
        if (id != no_value) is_needed_[at(id)] = 1;
    }
    constexpr void keep_inputs(Operation const& op) {
        for (auto const id : op.inputs) keep(id);
    }
    [[nodiscard]] constexpr bool is_transformers() const { return plan_.convention == MemoryConvention::transformers; }
    [[nodiscard]] constexpr std::int64_t element_bytes() const { return bits(context_.step.dtype) / 8; }

    constexpr void add(EmbeddingOp, Operation const&) {}
    constexpr void add(RopeOp, Operation const&) {}
    constexpr void add(AddOp, Operation const&) {}
    constexpr void add(LastTokenOp, Operation const&) {}
    constexpr void add(ScaleOp, Operation const&) {}
    constexpr void add(PartOp, Operation const&) {}
    constexpr void add(GatedDeltaOp, Operation const& op) {
        keep_inputs(op);
        keep(op.output);
        // What the convolution makes, and the matrices before each chunk of 64 tokens.
        auto const& shape = op.delta();
        auto const heads = context_.share(shape.key_heads, op.output);
        auto const chunks = context_.step.batch * ceil_divide(context_.step.new_tokens, std::int64_t{64});
        total_ += Bytes{context_.step.tokens() * heads * shape.channels() * element_bytes() +
                        4 * chunks * heads * shape.values_per_key() * shape.key_dim * shape.value_dim};
    }
    /// A frozen weight has no gradient that would read the input.
    [[nodiscard]] constexpr bool is_frozen(Operation const& op) const {
        return plan_.has_adapter && has_base_weight(op);
    }
    constexpr void add(LinearOp, Operation const& op) {
        if (!is_frozen(op)) keep_inputs(op);
    }
    constexpr void add(RouteOp, Operation const& op) {
        // The softmax over all experts.
        total_ += Bytes{4 * context_.step.tokens() * op.routing().experts};
    }
    constexpr void add(CombineOp, Operation const& op) {
        keep_inputs(op);
        // Rows times their weights: PyTorch's index_add keeps what it adds.
        total_ += context_.bytes(op.inputs[0]);
    }
    constexpr void add(NormOp, Operation const& op) {
        auto const& value = context_.value(op.output);
        // The scale of each row; a layer norm has its mean as well.
        total_ += Bytes{(is_layer_norm(op.norm().kind) ? 8 : 4) * context_.rows(value)};
        auto const elements = context_.elements(op.output);
        bool const is_wide = element_bytes() >= 4;
        if (is_transformers() && !is_layer_norm(op.norm().kind)) {
            // The input in fp32, and the normed rows before the weight, which gemma applies in fp32.
            total_ += Bytes{elements * (op.norm().kind == NormKind::rms_offset ? 4 : element_bytes())};
            if (!is_wide) {
                total_ += Bytes{4 * elements};
                return;
            }
        }
        // A norm in place overwrites what its gradient needs: the input is kept as well.
        if (op.output == op.inputs[0])
            total_ += context_.bytes(op.output);
        else
            keep(op.inputs[0]);
    }

    constexpr void add(AttentionOp, Operation const& op) {
        auto const& shape = op.attention();
        bool const is_eager = plan_.attention == AttentionKind::eager;
        bool const is_repeated = is_eager && is_transformers() && op.inputs[1] != op.inputs[0];
        keep(op.inputs[0]);
        if (is_repeated) {
            // transformers' repeat_kv: a key and a value for each query head.
            total_ += Bytes{context_.step.batch * context_.step.context * context_.share(shape.heads, op.output) *
                            (shape.key_dim + shape.value_dim) * element_bytes()};
        } else {
            keep(op.inputs[1]);
            keep(op.inputs[2]);
        }
        if (plan_.recompute == Recompute::selective) {
            is_remade_[at(op.output)] = 1;
            return;
        }
        if (!is_eager) {
            keep(op.output);
            // The log-sum-exp of each query and head.
            total_ += Bytes{4 * context_.step.tokens() * context_.share(shape.heads, op.output)};
            return;
        }
        bool const has_copy = is_transformers() && element_bytes() < 4;
        total_ += probability_bytes(op, context_, element_bytes() + (has_copy ? 4 : 0));
    }

    constexpr void add(ActivationOp, Operation const& op) {
        bool const is_gated = op.inputs[1] != no_value;
        auto const result = context_.bytes(op.output);
        bool const is_scale = context_.value(op.inputs[0]).width == 1;
        total_ += intermediate_tensors(op.activation()) * result;
        if (!is_gated) return keep(reads_result(op.activation()) ? op.output : op.inputs[0]);
        // A product reads both factors: the other input, and what the activation makes of the first.
        keep(op.inputs[1]);
        if (!reads_result(op.activation())) keep(op.inputs[0]);
        if (op.activation() != ActivationKind::swiglu_clamped)
            total_ += is_scale ? context_.bytes(op.inputs[0]) : result;
    }

    constexpr void add(ExpertsOp, Operation const& op) {
        if (is_frozen(op)) return;
        auto const in = op.inputs[0];
        if (context_.value(in).rows == Rows::routed) return keep(in);
        // The rows of the tokens that chose each expert, once for all products that read them.
        if (is_gathered_[at(in)] != 0) return;
        is_gathered_[at(in)] = 1;
        total_ += Bytes{context_.routed_rows() * context_.columns(in) * element_bytes()};
    }

    /// Where a block ends in scores of the vocabulary, the loss keeps its log-softmax: fp32, as large as they.
    constexpr void keep_loss() {
        if (body_.operations().empty()) return;
        auto const& last = body_.operations().back();
        if (last.kind == OpKind::linear && context_.value(last.output).is_fp32) keep(last.output);
    }

    BlockBody const& body_;
    OpContext const& context_;
    TrainingPlan const& plan_;
    Bytes total_{0};
    // Not bool: clang 14 cannot evaluate that vector.
    List<std::int64_t> is_needed_;
    List<std::int64_t> is_remade_;
    List<std::int64_t> is_gathered_;
};

}  // namespace detail

/// What one block keeps of its forward pass for the backward pass: what PyTorch's operators keep of their inputs and
/// results, each tensor once. Norms keep their input in the model's type and their rows' scales; under the convention
/// `transformers` they keep the fp32 copies that its norms make. Attention in blocks keeps its log-sum-exp, eager
/// attention its probabilities. Selective recomputation keeps q, k and v and computes attention again; full keeps the
/// block's input only. Beside an adapter frozen products keep nothing. No dropout.
///
/// Source  torch.autograd.graph.saved_tensors_hooks (scripts/golden/saved_activations.py); the division into none,
///         selective and full: Korthikanti et al., 2022, section 5
[[nodiscard]] constexpr Bytes saved_activations(BlockBody const& body, OpContext const& context,
                                                TrainingPlan const& plan) {
    auto const& values = body.values();
    if (plan.recompute == Recompute::full) return values[0].width == 1 ? Bytes{0} : context.bytes(ValueId{0});
    return detail::SavedValues(body, context, plan).sum();
}

/// What the backward pass of one block holds beyond what was kept, because it was computed again.
[[nodiscard]] constexpr Bytes remade_activations(BlockBody const& body, OpContext const& context,
                                                 TrainingPlan const& plan) {
    if (plan.recompute == Recompute::none) return Bytes{0};
    auto whole = plan;
    whole.recompute = Recompute::none;
    auto const all = saved_activations(body, context, whole);
    auto const kept = saved_activations(body, context, plan);
    return kept < all ? all - kept : Bytes{0};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
