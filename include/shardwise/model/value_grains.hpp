// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/input_pieces.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/core/unit_split.hpp>
#include <shardwise/model/block_program.hpp>
#include <shardwise/model/low_rank_operations.hpp>
#include <shardwise/op/visit_op.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How ranks cut what a sum reads, where `grain` of the weight's inputs stay together: by heads where a unit is several inputs, else
/// by `cut_width()`.
template <class CutWidth>
[[nodiscard]] constexpr InputPieces sum_pieces(Value const& in, std::int64_t grain, CutWidth const& cut_width) {
    auto const units = in.split.is_shared() ? in.split.all_units() : in.width;
    auto const unit = units > 0 ? in.width / units : 1;
    return unit > 1 ? head_pieces(units, unit, grain) : cut_width();
}

/// True for a product whose inputs ranks share, so that each makes a summand. The second half of an adapter reads what every rank has.
[[nodiscard]] constexpr bool is_shared_sum(BlockBody const& body, Operation const& op) {
    if (op.kind != OpKind::linear && op.kind != OpKind::experts) return false;
    return body.values()[static_cast<std::size_t>(op.output)].spread == Spread::partial &&
           !is_low_rank_b(op.parameters[0]);
}

namespace detail {

/// Walks a body from its end: sums say what stays together, and what makes their inputs follows.
class GrainFinder {
public:
    constexpr explicit GrainFinder(BlockBody const& body)
        : body_(body), grains_(body.values().size()), is_known_(body.values().size(), 0) {}

    template <class PiecesOf>
    constexpr List<UnitGrain> find(PiecesOf const& pieces_of) && {
        auto const& operations = body_.operations();
        for (auto i = operations.size(); i-- > 0;) {
            auto const& op = operations[i];
            if (is_shared_sum(body_, op))
                take(op.inputs[0], pieces_of(op));
            else
                visit_op(op.kind, [&](auto of) { look_at(of, op); });
        }
        return static_cast<List<UnitGrain>&&>(grains_);
    }

private:
    constexpr Value const& value(ValueId id) const { return body_.values()[static_cast<std::size_t>(id)]; }
    constexpr UnitGrain grain(ValueId id) const { return grains_[static_cast<std::size_t>(id)]; }
    constexpr void give(ValueId to, UnitGrain grain) {
        grains_[static_cast<std::size_t>(to)] = grain;
        is_known_[static_cast<std::size_t>(to)] = 1;
    }
    constexpr void take(ValueId in, InputPieces const& pieces) {
        auto const& split = value(in).split;
        auto const units = split.is_shared() ? split.all_units() : value(in).width;
        auto const unit = units > 0 ? value(in).width / units : 1;
        give(in, {unit > 0 ? pieces.grain / unit : 1, pieces.count});
    }
    /// What `to` is made of, unless something else says.
    constexpr void copy(ValueId from, ValueId to) {
        if (to == no_value || is_known_[static_cast<std::size_t>(to)] != 0) return;
        if (is_known_[static_cast<std::size_t>(from)] != 0) give(to, grain(from));
    }

    constexpr void look_at(LinearOp, Operation const&) {}
    constexpr void look_at(ExpertsOp, Operation const&) {}
    constexpr void look_at(EmbeddingOp, Operation const&) {}
    constexpr void look_at(RopeOp, Operation const&) {}
    constexpr void look_at(LastTokenOp, Operation const&) {}
    constexpr void look_at(RouteOp, Operation const&) {}
    constexpr void look_at(CombineOp, Operation const&) {}
    constexpr void look_at(ScaleOp, Operation const&) {}
    constexpr void look_at(NormOp, Operation const& op) {
        if (value(op.inputs[0]).spread == Spread::sharded) copy(op.output, op.inputs[0]);
    }
    constexpr void look_at(AddOp, Operation const& op) {
        if (value(op.output).spread != Spread::sharded) return;
        for (auto const in : op.inputs) copy(op.output, in);
    }
    constexpr void look_at(PartOp, Operation const& op) { copy(op.output, op.inputs[0]); }
    constexpr void look_at(ActivationOp, Operation const& op) {
        for (std::size_t slot = 0; slot < 2; ++slot) copy(op.output, op.inputs[slot]);
    }
    constexpr void look_at(GatedDeltaOp, Operation const& op) {
        give(op.output, grain(op.output));
        give(op.inputs[0], grain(op.output));
        give(op.inputs[1], grain(op.output));
    }
    constexpr void look_at(AttentionOp, Operation const& op) {
        for (std::size_t slot = 0; slot < 3; ++slot) {
            if (op.inputs[slot] != no_value) give(op.inputs[slot], grain(op.output));
        }
    }

    BlockBody const& body_;
    List<UnitGrain> grains_;
    List<std::int64_t> is_known_;  // not bool: clang 14 cannot evaluate that vector
};

}  // namespace detail

/// By value of a body: which of its units stay together where sums cut what they read as `pieces_of(op)` says. Loading cuts weights by
/// it, and estimates count what is loaded by it.
template <class PiecesOf>
[[nodiscard]] constexpr List<UnitGrain> value_grains(BlockBody const& body, PiecesOf const& pieces_of) {
    return detail::GrainFinder(body).find(pieces_of);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
