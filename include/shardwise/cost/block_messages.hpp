#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/cost/collective.hpp>
#include <shardwise/memory/activations.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline v0_2_0 {

/// The time of a block's messages between the ranks that share it.
///
/// Units  seconds of one micro-batch
struct BlockMessages {
    /// Over tensor-parallel ranks, in the forward pass and in the backward pass.
    double forward = 0.0;
    double backward = 0.0;
    /// Over expert-parallel ranks: of rows to their experts and back, in either pass.
    double routed = 0.0;
};

namespace detail {

/// Follows partial sums through a body: where one meets what every rank holds whole, it is reduced.
class MessageWalker {
public:
    constexpr MessageWalker(BlockBody const& body, OpContext const& context, RankGroup const& tp, RankGroup const& ep,
                            double product_bits, Efficiency const& efficiency)
        : body_(body),
          context_(context),
          tp_(tp),
          ep_(ep),
          product_bits_(product_bits),
          efficiency_(efficiency),
          is_partial_(body.values().size(), 0),
          is_entered_(body.values().size(), 0) {}

    constexpr BlockMessages walk(bool is_table_dealt) {
        for (auto const& op : body_.operations()) {
            visit(op);
            if (op.kind == OpKind::embedding && is_table_dealt) is_partial_[index(op.output)] = 1;
        }
        if (!body_.operations().empty()) reduce(body_.operations().back().output);
        return messages_;
    }

private:
    static constexpr std::size_t index(ValueId id) { return static_cast<std::size_t>(id); }
    constexpr bool is_partial(ValueId id) const { return id != no_value && is_partial_[index(id)] != 0; }

    /// A value with every token's row, however sequence parallelism deals them.
    constexpr double whole_bytes(ValueId id) const {
        auto whole = context_;
        whole.rank.is_sequence_parallel = false;
        return static_cast<double>(whole.bytes(id).count());
    }
    constexpr double reduction(double bytes) const {
        // Sequence parallelism scatters the sums and gathers the rows before the next product: the same bytes.
        if (context_.rank.is_sequence_parallel) return 2.0 * all_gather_seconds(bytes, tp_, efficiency_);
        return all_reduce_seconds(bytes, tp_, efficiency_);
    }
    constexpr void reduce(ValueId id) {
        if (!is_partial(id)) return;
        is_partial_[index(id)] = 0;
        messages_.forward += reduction(whole_bytes(id));
    }

    /// True where a sum of this operation's results is the result of the sums.
    constexpr bool is_linear_in_partials(Operation const& op) const {
        switch (op.kind) {
            case OpKind::add:
                return is_partial(op.inputs[0]) && is_partial(op.inputs[1]);
            case OpKind::combine:
                return true;
            // A gate scales the whole row.
            case OpKind::activation:
                return op.inputs[1] != no_value && op.inputs[1] != op.inputs[0] && !is_partial(op.inputs[0]);
            default:
                return false;
        }
    }

    constexpr void visit(Operation const& op) {
        auto const& out = context_.value(op.output);
        bool const makes_sum = op.kind == OpKind::linear || op.kind == OpKind::experts;
        if (makes_sum) {
            enter(op);
            is_partial_[index(op.output)] = out.spread == Spread::partial && tp_.ranks > 1 ? 1 : 0;
        } else if (is_linear_in_partials(op)) {
            is_partial_[index(op.output)] = is_partial(op.inputs[0]) || is_partial(op.inputs[1]) ? 1 : 0;
        } else {
            for (auto const id : op.inputs) reduce(id);
        }
        if (op.kind == OpKind::combine) exchange(op);
        if (makes_sum && out.is_fp32 && out.spread == Spread::sharded && tp_.ranks > 1) score(op);
    }

    /// A whole value that sharded columns read: its gradients are partial and reduced once.
    constexpr void enter(Operation const& op) {
        auto const id = op.inputs[0];
        reduce(id);
        bool const is_sharded = context_.value(op.output).spread == Spread::sharded;
        if (tp_.ranks <= 1 || !is_sharded || context_.value(id).spread != Spread::replicated) return;
        if (is_entered_[index(id)] != 0) return;
        is_entered_[index(id)] = 1;
        messages_.backward += reduction(whole_bytes(id));
    }

    /// Rows go to their experts, in the products' type, and their results come back in the activations'; each
    /// tensor-parallel rank sends its part of a row and the ranks there gather it.
    constexpr void exchange(Operation const& op) {
        if (ep_.ranks <= 1) return;
        auto const& rows = context_.value(op.inputs[0]);
        auto const row_bits = static_cast<double>(rows.width * bits(context_.step.dtype));
        auto const bytes = static_cast<double>(context_.step.tokens()) * row_bits / 8.0;
        auto const copies = context_.experts_per_token;
        auto const send = [&](double share) {
            auto const part = share * bytes / static_cast<double>(tp_.ranks);
            return dispatch_seconds(part, copies, ep_, efficiency_) +
                   all_gather_seconds(share * bytes * static_cast<double>(copies), tp_, efficiency_);
        };
        auto const narrow = product_bits_ / static_cast<double>(bits(context_.step.dtype));
        messages_.routed += send(narrow < 1.0 ? narrow : 1.0) + send(1.0);
    }

    /// Logits are gathered for the sampler; a loss over dealt vocabulary takes three sums of a number per token.
    ///
    /// Source  Shoeybi et al., Megatron-LM (arXiv 1909.08053), section 3
    constexpr void score(Operation const& op) {
        auto const rows = static_cast<double>(context_.rows(context_.value(op.output)));
        if (context_.step.is_training)
            messages_.forward += 3.0 * all_reduce_seconds(4.0 * rows, tp_, efficiency_);
        else
            messages_.forward +=
                all_gather_seconds(4.0 * rows * static_cast<double>(op.out_features), tp_, efficiency_);
    }

    BlockBody const& body_;
    OpContext const& context_;
    RankGroup const& tp_;
    RankGroup const& ep_;
    double product_bits_;
    Efficiency const& efficiency_;
    BlockMessages messages_{};
    List<std::int32_t> is_partial_;
    List<std::int32_t> is_entered_;
};

}  // namespace detail

/// The ranks that share a block, and what of it changes its messages.
struct BlockSharing {
    RankGroup tp{};
    RankGroup ep{};
    /// True where an embedding's rows are dealt to the tensor-parallel ranks.
    bool is_table_dealt = false;
    /// The width of a product's operand: what rows take on their way to experts.
    double product_bits = 16.0;
};

/// The messages of one block.
[[nodiscard]] constexpr BlockMessages block_messages(BlockBody const& body, OpContext const& context,
                                                     BlockSharing const& sharing,
                                                     Efficiency const& efficiency = default_efficiency) {
    if (sharing.tp.ranks <= 1 && sharing.ep.ranks <= 1) return {};
    detail::MessageWalker walker(body, context, sharing.tp, sharing.ep, sharing.product_bits, efficiency);
    return walker.walk(sharing.is_table_dealt && sharing.tp.ranks > 1);
}

}  // namespace shardwise::inline v0_2_0
