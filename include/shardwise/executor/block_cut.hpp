// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/input_pieces.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/executor/activation_element.hpp>
#include <shardwise/model/block_program.hpp>
#include <shardwise/model/value_grains.hpp>
#include <shardwise/op/head_share.hpp>
#include <shardwise/parallel/place.hpp>
#include <shardwise/parallel/policy.hpp>
#include <shardwise/parallel/sharded_norm.hpp>
#include <shardwise/parallel/weight_slice.hpp>

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
    TensorPlace place;
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

/// Finds the columns of every value of a body. A rank holds of a value what it holds of the outputs of the weight that makes it: both have
/// one UnitSplit, and the grain that value_grains finds, so that this is the ParameterShard of estimates and plans.
template <ReductionPolicy Policy>
class BlockCutter {
public:
    /// `grain_of(op)` is what the inputs of a product's weight are sharded by.
    BlockCutter(BlockBody const& body, TensorPlace place, std::function<Result<WeightGrain>(Operation const&)> grain_of)
        : body_(body), grain_of_(std::move(grain_of)) {
        cut_.place = place;
        cut_.pieces.resize(body.values().size());
        cut_.norms.resize(body.operations().size());
    }

    [[nodiscard]] Result<BlockCut> cut() {
        if (auto const checked = body_.check("block"); !checked) return checked.error();
        if (auto const done = cut_sums(); !done) return done.error();
        auto const grains = value_grains(
            body_, [&](Operation const& op) { return *cut_.pieces[static_cast<std::size_t>(op.inputs[0])]; });
        cut_.grains.assign(grains.begin(), grains.end());
        for (std::size_t id = 0; id < body_.values().size(); ++id)
            cut_.columns.push_back(columns(static_cast<ValueId>(id), false));
        for (auto const& op : body_.operations()) {
            if (op.kind == OpKind::gated_delta) cut_.delta_heads = own_units(op.output);
            if (op.kind != OpKind::attention) continue;
            if (auto const done = share_heads(op); !done) return done.error();
            // Nobody makes the keys and values that a latent stands for.
            if (op.attention().latent > 0) cut_.columns[static_cast<std::size_t>(op.inputs[2])] = {UnitRange{0, 0}};
        }
        for (std::size_t i = 0; i < body_.operations().size(); ++i) {
            auto const& op = body_.operations()[i];
            bool const is_shared = cut_.place.ranks > 1 || Policy::has_fixed_tree;
            if (!is_shared || !spans_ranks(op, value(op.output))) continue;
            auto share = share_norm(op.output);
            if (!share) return share.error();
            cut_.norms[i] = std::move(*share);
        }
        return std::move(cut_);
    }

private:
    [[nodiscard]] Value const& value(ValueId id) const { return body_.values()[static_cast<std::size_t>(id)]; }
    [[nodiscard]] UnitGrain grain(ValueId id) const { return cut_.grains[static_cast<std::size_t>(id)]; }
    /// The units that ranks share of a value: its columns where nothing else is said.
    [[nodiscard]] UnitSplit split(ValueId id) const {
        auto const& of = value(id);
        bool const is_said = of.split.count > 0 && of.width % of.split.all_units() == 0;
        return is_said ? of.split : UnitSplit::units(of.width);
    }

    /// How the inputs of products are cut that sum over what ranks share. Where several read a value, the first one says it.
    [[nodiscard]] Result<> cut_sums() {
        auto const& operations = body_.operations();
        for (auto i = operations.size(); i-- > 0;) {
            auto const& op = operations[i];
            if (!is_shared_sum(body_, op)) continue;
            auto const weight = grain_of_(op);
            if (!weight) return weight.error();
            auto const& in = value(op.inputs[0]);
            cut_.pieces[static_cast<std::size_t>(op.inputs[0])] =
                sum_pieces(in, weight->input, [&] { return cut_width<Policy>(in.width, *weight); });
        }
        return {};
    }
    /// The rank's columns; with `owned` those of them that no rank before it has.
    [[nodiscard]] std::vector<UnitRange> columns(ValueId id, bool owned) const {
        auto const& of = value(id);
        if (of.spread != Spread::sharded) return {{0, of.width}};
        std::vector<UnitRange> out;
        split(id).for_each_range(
            of.width, cut_.place.ranks, cut_.place.rank, owned, [&](UnitRange range) { out.push_back(range); },
            grain(id));
        return out;
    }
    /// The units that a rank has of a value whose units lie one after another.
    [[nodiscard]] UnitRange own_units(ValueId id) const {
        auto const unit = value(id).width / split(id).all_units();
        auto const own = columns(id, false).front();
        return {own.begin / unit, own.end / unit};
    }

    [[nodiscard]] Result<> share_heads(Operation const& op) {
        auto const& shape = op.attention();
        if (shape.is_cross && shape.kv_heads != shape.heads)
            return not_executed("cross-attention whose queries share keys");
        auto const cut = grain(op.output).pieces(shape.heads, shape.value_dim);
        auto const share = head_share(shape.heads, shape.kv_heads, cut, cut_.place.ranks, cut_.place.rank);
        if (!share) return share.error();
        if (cut_.heads && !(*cut_.heads == *share)) return not_executed("a block whose attentions are cut unlike");
        cut_.heads = *share;
        return {};
    }

    /// What this rank adds up of a norm's rows: under a fixed tree its leaves, or its units where no sum follows.
    [[nodiscard]] Result<NormShare> share_norm(ValueId id) const {
        auto const own = columns(id, false);
        if (own.size() != 1) return not_executed("a norm over several sharded parts");
        auto const width = value(id).width;
        NormShare share;
        share.width = width;
        share.cut = {{width, width, 1}, own.front().begin, columns(id, true).front()};
        if constexpr (Policy::has_fixed_tree) {
            auto const units = split(id).all_units();
            auto const& leaves = cut_.pieces[static_cast<std::size_t>(id)];
            share.cut.pieces = leaves ? *leaves : InputPieces{width, width / units, units};
        }
        share.sums = share.cut.pieces.count;
        for (std::int64_t piece = 0; piece < share.sums; ++piece) {
            auto const part = share.cut.columns_of(piece);
            if (part.size() > 0) share.parts.push_back({part, piece});
        }
        return share;
    }

    BlockBody const& body_;
    std::function<Result<WeightGrain>(Operation const&)> grain_of_;
    BlockCut cut_;
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
