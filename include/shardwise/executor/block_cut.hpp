// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/input_pieces.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/executor/activation_element.hpp>
#include <shardwise/model/block_program.hpp>
#include <shardwise/model/value_grains.hpp>
#include <shardwise/op/head_share.hpp>
#include <shardwise/op/visit_op.hpp>
#include <shardwise/parallel/place.hpp>
#include <shardwise/parallel/policy.hpp>
#include <shardwise/parallel/sharded_norm.hpp>
#include <shardwise/parallel/weight_slice.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How one tensor-parallel rank holds the values of a block: which columns of each are its own, in the order in which they lie
/// in the rank's memory.
struct BlockCut {
    /// By value: the columns of the whole value; one range of all of them where every rank holds it whole.
    std::vector<std::vector<UnitRange>> columns;
    /// By value: the cut of a value that a row-parallel product sums over.
    std::vector<std::optional<InputPieces>> pieces;
    /// By value: which of its units stay together for the sum that they go into.
    std::vector<UnitGrain> grains;
    /// Of the block's attentions, where it has any.
    std::optional<HeadShare> heads;
    /// Of the block's gated delta rule, where it has one: the rank's key heads.
    UnitRange delta_heads;
    /// By operation: of a norm whose rows are sharded, what the rank adds up of them.
    std::vector<std::optional<NormShare>> norms;

    /// The heads of which such an operation keeps something on this rank (KeptHeads), where ranks share them.
    [[nodiscard]] std::int64_t kept_heads(OpKind kind) const {
        return kind == OpKind::gated_delta ? delta_heads.size() : heads->kv.size();
    }
    [[nodiscard]] std::int64_t width(ValueId id) const {
        std::int64_t sum = 0;
        for (auto const& range : columns[static_cast<std::size_t>(id)]) sum += range.size();
        return sum;
    }
};

namespace detail {

[[nodiscard]] inline Error not_executed(std::string_view what) {
    return Error{ErrorCode::unsupported}.in(what).because("cannot be executed yet");
}

/// Finds the columns of every value of a body: sums decide how what they sum over is cut, and heads follow the attention.
template <ReductionPolicy Policy>
class BlockCutter {
public:
    /// `grain_of(op)` is what the inputs of a product's weight are sharded by.
    BlockCutter(BlockBody const& body, TensorPlace place, std::function<Result<WeightGrain>(Operation const&)> grain_of)
        : body_(body), place_(place), grain_of_(std::move(grain_of)) {
        cut_.columns.resize(body.values().size());
        cut_.pieces.resize(body.values().size());
        counted_from_.resize(body.values().size(), 0);
    }

    [[nodiscard]] Result<BlockCut> cut() {
        if (auto const checked = body_.check("block"); !checked) return checked.error();
        auto const& operations = body_.operations();
        for (auto i = operations.size(); i-- > 0;) {
            auto const& op = operations[i];
            auto const done = visit_op(op.kind, [&](auto of) { return look_at(of, op); });
            if (!done) return done.error();
        }
        for (std::size_t id = 0; id < body_.values().size(); ++id) {
            if (cut_.columns[id].empty()) cut_units(static_cast<ValueId>(id));
        }
        auto const grains = value_grains(body_, [&](Operation const& op) { return *pieces(op.inputs[0]); });
        cut_.grains.assign(grains.begin(), grains.end());
        cut_.norms.resize(operations.size());
        for (std::size_t i = 0; i < operations.size(); ++i) {
            auto const& op = operations[i];
            bool const is_shared = place_.ranks > 1 || Policy::has_fixed_tree;
            if (!is_shared || !spans_ranks(op, value(op.output))) continue;
            auto share = share_norm(op.output);
            if (!share) return share.error();
            cut_.norms[i] = std::move(*share);
        }
        return std::move(cut_);
    }

private:
    [[nodiscard]] Value const& value(ValueId id) const { return body_.values()[static_cast<std::size_t>(id)]; }
    [[nodiscard]] auto& columns(ValueId id) { return cut_.columns[static_cast<std::size_t>(id)]; }
    [[nodiscard]] auto& pieces(ValueId id) { return cut_.pieces[static_cast<std::size_t>(id)]; }

    [[nodiscard]] Result<> look_at(LinearOp, Operation const& op) { return cut_sum(op); }
    [[nodiscard]] Result<> look_at(ExpertsOp, Operation const& op) { return cut_sum(op); }
    [[nodiscard]] Result<> look_at(AttentionOp, Operation const& op) { return cut_heads(op); }
    [[nodiscard]] Result<> look_at(ActivationOp, Operation const& op) { return cut_activation(op); }
    [[nodiscard]] Result<> look_at(NormOp, Operation const& op) {
        if (value(op.inputs[0]).spread == Spread::sharded) copy_cut(op.output, op.inputs[0]);
        return {};
    }
    // Their values are cut as others that read them say, or by their units.
    [[nodiscard]] Result<> look_at(EmbeddingOp, Operation const&) { return {}; }
    [[nodiscard]] Result<> look_at(RopeOp, Operation const&) { return {}; }
    /// What is added to a value that an attention or a gate shares (a low-rank adapter) is shared as that is.
    [[nodiscard]] Result<> look_at(AddOp, Operation const& op) {
        for (auto const in : op.inputs) {
            if (in != no_value && in != op.output && value(op.output).spread == Spread::sharded)
                copy_cut(op.output, in);
        }
        return {};
    }
    [[nodiscard]] Result<> look_at(LastTokenOp, Operation const&) { return {}; }
    [[nodiscard]] Result<> look_at(RouteOp, Operation const&) { return {}; }
    [[nodiscard]] Result<> look_at(CombineOp, Operation const&) { return {}; }
    /// What dropout leaves of a low-rank adapter's input lies as that does.
    [[nodiscard]] Result<> look_at(ScaleOp, Operation const& op) {
        if (op.output != op.inputs[0] && value(op.output).spread == Spread::sharded) copy_cut(op.inputs[0], op.output);
        return {};
    }
    /// Whole units, as what reads them says.
    [[nodiscard]] Result<> look_at(PartOp, Operation const& op) {
        if (columns(op.output).empty() || !columns(op.inputs[0]).empty()) return {};
        for (auto const& own : columns(op.output)) {
            if (own.begin % op.out_features != 0 || own.end % op.out_features != 0)
                return not_executed("a part of units that ranks cut");
            columns(op.inputs[0])
                .push_back({own.begin / op.out_features * op.in_features, own.end / op.out_features * op.in_features});
        }
        return {};
    }
    [[nodiscard]] Result<> look_at(GatedDeltaOp, Operation const& op) {
        auto const& shape = op.delta();
        auto const width = shape.value_columns();
        if (columns(op.output).empty()) cut_units(op.output);
        auto const& own = columns(op.output);
        if (own.size() != 1 || own[0].begin % width != 0 || own[0].end % width != 0)
            return not_executed("a gated delta rule whose heads ranks cut");
        UnitRange const heads{own[0].begin / width, own[0].end / width};
        cut_.delta_heads = heads;
        auto const of = [&](std::int64_t columns_of_head) {
            return UnitRange{heads.begin * columns_of_head, heads.end * columns_of_head};
        };
        columns(op.inputs[0]) = {of(shape.channels() + width)};
        columns(op.inputs[1]) = {of(2 * shape.values_per_key())};
        return {};
    }

    /// The input of a row-parallel product.
    [[nodiscard]] Result<> cut_sum(Operation const& op) {
        if (!is_shared_sum(body_, op)) return {};
        auto const weight = grain_of_(op);
        if (!weight) return weight.error();
        auto const in = op.inputs[0];
        auto const cut =
            sum_pieces(value(in), weight->input, [&] { return cut_width<Policy>(value(in).width, *weight); });
        pieces(in) = cut;
        columns(in) = {cut.inputs_of_rank(place_.ranks, place_.rank)};
        return {};
    }
    /// What `to` is cut like, unless something else says.
    void copy_cut(ValueId from, ValueId to) {
        if (columns(from).empty() || !columns(to).empty()) return;
        columns(to) = columns(from);
        pieces(to) = pieces(from);
        counted_from_[static_cast<std::size_t>(to)] = counted_from_[static_cast<std::size_t>(from)];
    }
    /// A value that nothing says more of: its units are sharded.
    void cut_units(ValueId id) {
        auto const& of = value(id);
        if (of.spread != Spread::sharded || place_.ranks == 1) {
            columns(id) = {UnitRange{0, of.width}};
            return;
        }
        auto const& split = of.split;
        if (split.count < 1 || of.width % split.all_units() != 0) {
            columns(id) = {split_units(of.width, place_.ranks, place_.rank)};
            return;
        }
        auto const take = [&](UnitRange range) { columns(id).push_back(range); };
        split.for_each_range(of.width, place_.ranks, place_.rank, false, take);
        auto& counted = counted_from_[static_cast<std::size_t>(id)];
        counted = columns(id).back().end;
        auto const count = [&](UnitRange range) { counted = std::min(counted, range.begin); };
        split.for_each_range(of.width, place_.ranks, place_.rank, true, count);
    }

    /// What this rank adds up of a norm's rows: under a fixed tree its leaves, or its units where no sum follows.
    [[nodiscard]] Result<NormShare> share_norm(ValueId id) {
        auto const& own = columns(id);
        if (own.size() != 1) return not_executed("a norm over several sharded parts");
        auto const width = value(id).width;
        auto const first = own.front().begin;
        auto const counted = std::max(first, counted_from_[static_cast<std::size_t>(id)]);
        NormShare share;
        share.width = width;
        share.cut = {{width, width, 1}, first, {std::min(counted, own.front().end), own.front().end}};
        if constexpr (Policy::has_fixed_tree) {
            auto const units = value(id).split.all_units();
            share.cut.pieces = pieces(id) ? *pieces(id) : InputPieces{width, width / units, units};
        }
        share.sums = share.cut.pieces.count;
        for (std::int64_t piece = 0; piece < share.sums; ++piece) {
            auto const part = share.cut.columns_of(piece);
            if (part.size() > 0) share.parts.push_back({part, piece});
        }
        return share;
    }

    [[nodiscard]] Result<> cut_heads(Operation const& op) {
        auto const& shape = op.attention();
        if (shape.is_cross && shape.kv_heads != shape.heads)
            return not_executed("cross-attention whose queries share keys");
        auto const cut = pieces(op.output) ? *pieces(op.output) : head_pieces(shape.heads, shape.value_dim);
        auto const share = head_share(shape.heads, shape.kv_heads, cut, place_.ranks, place_.rank);
        if (!share) return share.error();
        if (cut_.heads && !(*cut_.heads == *share)) return not_executed("a block whose attentions are cut unlike");
        cut_.heads = *share;
        auto const of = [](UnitRange heads, std::int64_t width, std::int64_t first = 0) {
            return UnitRange{first + heads.begin * width, first + heads.end * width};
        };
        if (shape.latent > 0) {
            // Every rank keeps the whole latent, and nobody makes the keys and values that it stands for.
            columns(op.inputs[0]) = {of(share->query, shape.key_dim)};
            columns(op.inputs[2]) = {UnitRange{0, 0}};
            return {};
        }
        if (op.inputs[0] != op.inputs[1]) {
            columns(op.inputs[0]) = {of(share->query, shape.key_dim)};
            columns(op.inputs[1]) = {of(share->kv, shape.key_dim)};
            columns(op.inputs[2]) = {of(share->kv, shape.value_dim)};
            // Ranks whose query heads read one key-value head hold it each.
            std::int64_t counted = 0;
            for (std::int64_t rank = 0; rank < place_.rank; ++rank) {
                auto const before = head_share(shape.heads, shape.kv_heads, cut, place_.ranks, rank);
                if (!before) return before.error();
                counted = std::max(counted, before->kv.end);
            }
            counted_from_[static_cast<std::size_t>(op.inputs[1])] = counted * shape.key_dim;
            counted_from_[static_cast<std::size_t>(op.inputs[2])] = counted * shape.value_dim;
            return {};
        }
        auto const keys = shape.heads * shape.key_dim;
        auto const values = keys + shape.kv_heads * shape.key_dim;
        columns(op.inputs[0]) = {of(share->query, shape.key_dim), of(share->kv, shape.key_dim, keys),
                                 of(share->kv, shape.value_dim, values)};
        return {};
    }

    [[nodiscard]] Result<> cut_activation(Operation const& op) {
        auto const& own = columns(op.output);
        if (own.empty()) return {};
        for (std::size_t slot = 0; slot < 2; ++slot) {
            auto const in = op.inputs[slot];
            if (in == no_value || !columns(in).empty()) continue;
            auto const width = value(op.output).width;
            if (value(in).width == width) {
                copy_cut(op.output, in);
                continue;
            }
            columns(in) = own;
            // Gate and up in one value, one after another.
            if (value(in).width == 2 * width) {
                for (auto const& range : own) columns(in).push_back({width + range.begin, width + range.end});
            }
        }
        return {};
    }

    BlockBody const& body_;
    TensorPlace place_;
    std::function<Result<WeightGrain>(Operation const&)> grain_of_;
    BlockCut cut_;
    /// By value: where the columns begin that no rank before this one has.
    std::vector<std::int64_t> counted_from_;
};

}  // namespace detail

/// A body as one rank computes it: every value as wide as the rank's columns, heads as many as its own. What the arena planner
/// lays out.
[[nodiscard]] inline BlockBody local_body(BlockBody const& body, BlockCut const& cut) {
    auto const local = [&](ValueId id) {
        auto value = body.values()[static_cast<std::size_t>(id)];
        value.width = cut.width(id);
        value.spread = Spread::replicated;
        value.split = {};
        value.is_fp32 = is_in_float(body, id);
        return value;
    };
    BlockBody out(local(0));
    for (std::size_t id = 1; id < body.values().size(); ++id) (void)out.value(local(static_cast<ValueId>(id)));
    for (auto op : body.operations()) {
        if (cut.heads && (op.kind == OpKind::attention || op.kind == OpKind::rope)) {
            auto shape = op.attention();
            shape.heads = cut.heads->query.size();
            shape.kv_heads = cut.heads->kv.size();
            op.details = shape;
        }
        (void)out.append(op);
    }
    return out;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
