// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/cost/collective.hpp>
#include <shardwise/memory/activations.hpp>
#include <shardwise/op/work.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

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

/// One exchange of a block, before it is known between which devices.
struct BlockMessage {
    enum class Kind : std::uint8_t {
        reduction,           // of partial sums, in the forward pass
        squares,             // of a norm's rows, in either pass: square_bytes
        backward_reduction,  // the same in the backward pass
        exchange,            // of rows with the ranks that hold their experts, there and back
        losses,              // three sums of a number per token
        logits,              // a gather for the sampler
    };
    Kind kind = Kind::reduction;
    double bytes = 0.0;
    /// Of an exchange, the experts of each row, and all of them.
    std::int64_t copies = 0;
    std::int64_t experts = 0;
};

/// The exchanges of a block in their order, whatever links they go over.
struct MessageList {
    List<BlockMessage> messages;
    /// Sums are scattered and rows gathered before the next product: the same bytes as an all-reduce.
    bool is_sequence_parallel = false;
    /// The width of an activation.
    double element_bits = 16.0;
};

namespace detail {

/// Follows partial sums through a body: where one meets what every rank holds whole, it is reduced.
class MessageWalker {
public:
    constexpr MessageWalker(BlockBody const& body, OpContext const& context, std::int64_t tp)
        : body_(body),
          context_(context),
          tp_(tp),
          is_partial_(body.values().size(), 0),
          is_entered_(body.values().size(), 0) {}

    constexpr List<BlockMessage> walk(bool is_table_dealt) {
        for (auto const& op : body_.operations()) {
            visit(op);
            if (op.kind == OpKind::embedding && is_table_dealt) is_partial_[index(op.output)] = 1;
        }
        if (!body_.operations().empty()) reduce(body_.operations().back().output);
        return static_cast<List<BlockMessage>&&>(messages_);
    }

private:
    static constexpr std::size_t index(ValueId id) { return static_cast<std::size_t>(id); }
    constexpr bool is_partial(ValueId id) const { return id != no_value && is_partial_[index(id)] != 0; }

    /// A value with every token's row, however sequence parallelism shards them.
    constexpr double whole_bytes(ValueId id) const {
        auto whole = context_;
        whole.rank.is_sequence_parallel = false;
        return static_cast<double>(whole.bytes(id).count());
    }
    constexpr void send(BlockMessage::Kind kind, double bytes) { messages_.push_back({kind, bytes}); }
    constexpr void reduce(ValueId id) {
        if (!is_partial(id)) return;
        is_partial_[index(id)] = 0;
        send(BlockMessage::Kind::reduction, whole_bytes(id));
    }

    /// True where a sum of this operation's results is the result of the sums.
    constexpr bool keeps_partial(Operation const& op) const {
        return visit_op(op.kind, [&](auto of) {
            return of.keeps_partial(op, is_partial(op.inputs[0]), is_partial(op.inputs[1]));
        });
    }

    constexpr void visit(Operation const& op) {
        auto const& out = context_.value(op.output);
        bool const makes_sum = unit_of(op.kind) == OpUnit::products;
        if (makes_sum) {
            enter(op);
            is_partial_[index(op.output)] = out.spread == Spread::partial && tp_ > 1 ? 1 : 0;
        } else if (keeps_partial(op)) {
            is_partial_[index(op.output)] = is_partial(op.inputs[0]) || is_partial(op.inputs[1]) ? 1 : 0;
        } else {
            for (auto const id : op.inputs) reduce(id);
        }
        if (tp_ > 1 && spans_ranks(op, out))
            send(BlockMessage::Kind::squares, static_cast<double>(square_bytes(context_.rows(out)).count()));
        if (op.kind == OpKind::combine) exchange(op);
        if (makes_sum && out.is_fp32 && out.spread == Spread::sharded && tp_ > 1) score(op);
    }

    /// A whole value that sharded columns read: its gradients are partial and reduced once.
    constexpr void enter(Operation const& op) {
        auto const id = op.inputs[0];
        reduce(id);
        bool const is_sharded = context_.value(op.output).spread == Spread::sharded;
        if (tp_ <= 1 || !is_sharded || context_.value(id).spread != Spread::replicated) return;
        if (is_entered_[index(id)] != 0) return;
        is_entered_[index(id)] = 1;
        send(BlockMessage::Kind::backward_reduction, whole_bytes(id));
    }

    constexpr void exchange(Operation const& op) {
        auto const& rows = context_.value(op.inputs[0]);
        auto const row_bits = static_cast<double>(rows.width * bits(context_.step.dtype));
        messages_.push_back({BlockMessage::Kind::exchange, static_cast<double>(context_.step.tokens()) * row_bits / 8.0,
                             context_.experts_per_token, context_.experts});
    }
    /// Logits are gathered for the sampler; a loss over sharded vocabulary takes three sums of a number per token.
    ///
    /// Source  Shoeybi et al., Megatron-LM (arXiv 1909.08053), section 3
    constexpr void score(Operation const& op) {
        auto const rows = static_cast<double>(context_.rows(context_.value(op.output)));
        if (context_.step.is_training)
            send(BlockMessage::Kind::losses, 4.0 * rows);
        else
            send(BlockMessage::Kind::logits, 4.0 * rows * static_cast<double>(op.out_features));
    }

    BlockBody const& body_;
    OpContext const& context_;
    std::int64_t tp_;
    List<BlockMessage> messages_;
    List<std::int32_t> is_partial_;
    List<std::int32_t> is_entered_;
};

/// How many rows each expert gets, a number of 8 bytes; then rows go to their experts, in the products' type, and their results
/// come back in the activations'; each tensor-parallel rank sends its part of a row and the ranks there gather it.
[[nodiscard]] constexpr double exchange_seconds(BlockMessage const& rows, RankGroup const& tp, RankGroup const& ep,
                                                double narrow, Efficiency const& efficiency) {
    if (ep.ranks <= 1) return 0.0;
    auto const send = [&](double share) {
        auto const part = share * rows.bytes / static_cast<double>(tp.ranks);
        return dispatch_seconds(part, rows.copies, ep, efficiency) +
               all_gather_seconds(share * rows.bytes * static_cast<double>(rows.copies), tp, efficiency);
    };
    auto const counts = dispatch_seconds(8.0 * static_cast<double>(rows.experts), 1, ep, efficiency);
    return counts + send(narrow < 1.0 ? narrow : 1.0) + send(1.0);
}

}  // namespace detail

/// The ranks that share a block, and what of it changes its messages.
struct BlockSharing {
    RankGroup tp{};
    RankGroup ep{};
    /// True where an embedding's rows are sharded over the tensor-parallel ranks.
    bool is_table_dealt = false;
    /// The width of a product's operand: what rows take on their way to experts.
    double product_bits = 16.0;
};

/// The exchanges of one block between `tp` tensor-parallel ranks and any expert-parallel ones.
[[nodiscard]] constexpr MessageList list_messages(BlockBody const& body, OpContext const& context, std::int64_t tp,
                                                  bool is_table_dealt) {
    return {detail::MessageWalker(body, context, tp).walk(is_table_dealt && tp > 1), context.rank.is_sequence_parallel,
            static_cast<double>(bits(context.step.dtype))};
}

/// What exchanges take between these ranks.
[[nodiscard]] constexpr BlockMessages block_messages(MessageList const& list, RankGroup const& tp, RankGroup const& ep,
                                                     double product_bits,
                                                     Efficiency const& efficiency = default_efficiency) {
    auto const reduction = [&](double bytes) {
        if (list.is_sequence_parallel) return 2.0 * all_gather_seconds(bytes, tp, efficiency);
        return all_reduce_seconds(bytes, tp, efficiency);
    };
    BlockMessages seconds;
    for (auto const& message : list.messages) {
        switch (message.kind) {
            case BlockMessage::Kind::reduction:
                seconds.forward += reduction(message.bytes);
                break;
            case BlockMessage::Kind::squares:
                seconds.forward += all_reduce_seconds(message.bytes, tp, efficiency);
                seconds.backward += all_reduce_seconds(message.bytes, tp, efficiency);
                break;
            case BlockMessage::Kind::backward_reduction:
                seconds.backward += reduction(message.bytes);
                break;
            case BlockMessage::Kind::exchange:
                seconds.routed +=
                    detail::exchange_seconds(message, tp, ep, product_bits / list.element_bits, efficiency);
                break;
            case BlockMessage::Kind::losses:
                seconds.forward += 3.0 * all_reduce_seconds(message.bytes, tp, efficiency);
                break;
            case BlockMessage::Kind::logits:
                seconds.forward += all_gather_seconds(message.bytes, tp, efficiency);
                break;
        }
    }
    return seconds;
}

/// The messages of one block.
[[nodiscard]] constexpr BlockMessages block_messages(BlockBody const& body, OpContext const& context,
                                                     BlockSharing const& sharing,
                                                     Efficiency const& efficiency = default_efficiency) {
    return block_messages(list_messages(body, context, sharing.tp.ranks, sharing.is_table_dealt), sharing.tp,
                          sharing.ep, sharing.product_bits, efficiency);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
