// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/core/assert.hpp>
#include <shardwise/core/input_pieces.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/kernels/expert_table.hpp>
#include <shardwise/kernels/fill.hpp>
#include <shardwise/op/operation.hpp>
#include <shardwise/parallel/collectives.hpp>
#include <shardwise/parallel/column_linear.hpp>
#include <shardwise/parallel/detail/bound_product.hpp>
#include <shardwise/parallel/detail/check_rank_columns.hpp>
#include <shardwise/parallel/detail/held_bias.hpp>
#include <shardwise/parallel/detail/product_tree.hpp>
#include <shardwise/parallel/detail/round_sum.hpp>
#include <shardwise/parallel/place.hpp>
#include <shardwise/parallel/policy.hpp>
#include <shardwise/parallel/weight_slice.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The experts that an expert-parallel rank has of an operation's; none of an operation without experts.
[[nodiscard]] constexpr UnitRange own_experts(Operation const& op, TensorPlace experts) {
    return split_units(op.details.any_routing().experts, experts.ranks, experts.rank);
}

/// Rows that lie together by expert: those of a rank's expert `expert + i` are [first[i], first[i + 1]).
struct ExpertRuns {
    std::int64_t expert = 0;
    std::span<std::int32_t const> first;

    /// Calls visit(expert, rows) for the experts that have rows within a range, until one fails.
    template <class Visit>
    [[nodiscard]] Result<> for_each(UnitRange within, Visit const& visit) const {
        for (std::size_t i = 0; i + 1 < first.size(); ++i) {
            UnitRange const rows{std::max<std::int64_t>(first[i], within.begin),
                                 std::min<std::int64_t>(first[i + 1], within.end)};
            if (rows.end <= rows.begin) continue;
            Result<> const done = visit(static_cast<std::size_t>(expert) + i, rows);
            if (!done) return done;
        }
        return {};
    }
};

/// One linear layer of every expert that a rank has, its outputs sharded over the tensor-parallel ranks.
template <ComputeBackend Backend>
struct ExpertColumns {
    std::vector<ColumnLinear<Backend>> experts;
    ExpertTable<Backend> table;

    /// Makes the table of the experts that are there; they move no more.
    [[nodiscard]] Result<> finish(typename Backend::Context& context) {
        std::vector<ExpertFactor<Backend>> factors;
        for (auto const& expert : experts) {
            if (expert.factor().weight != nullptr) factors.push_back(expert.factor());
        }
        table = {};
        auto made = ExpertTable<Backend>::create(context, factors);
        if (!made) return made.error();
        table = std::move(*made);
        return {};
    }
    /// Calls visit(weight) for the weights of all of them.
    template <class Visit>
    void for_each_weight(Visit const& visit) {
        for (auto& expert : experts) expert.for_each_weight(visit);
    }
};

/// One linear layer of every expert that a rank has, its inputs sharded over the tensor-parallel ranks. Deterministic sums a row over
/// the ranks here, by the fixed tree over the pieces; Fast leaves each rank its summand, so that a token's experts are summed
/// first and fewer rows travel.
///
/// Memory  the rank's columns of each expert, in one weight, and the biases
template <ComputeBackend Backend, ReductionPolicy Policy>
class ExpertRows {
public:
    using Stream = typename Backend::Stream;

    ExpertRows(InputPieces const& pieces, TensorPlace place, std::int64_t outputs)
        : pieces_(pieces), place_(place), outputs_(outputs), own_(pieces.inputs_of_rank(place.ranks, place.rank)) {
        if constexpr (Policy::has_fixed_tree) tree_ = detail::ProductTree<Backend>(pieces, outputs, place);
    }

    /// Adds the next expert. `source` holds the columns from `first_input` of its weight, the rank's own at least; neither it nor
    /// `bias` (of all outputs, or empty) is needed afterwards.
    ///
    /// Errors  as slice_weight, hold_weight and hold_bias
    [[nodiscard]] Result<> hold(typename Backend::Context& context, WeightSource const& source,
                                std::int64_t first_input, TensorView<float const, 1, Backend> bias) {
        UnitRange const rows[] = {{0, outputs_}};
        Expert expert;
        if (own_.size() > 0) {
            auto const lead = Policy::has_fixed_tree ? detail::lead_inputs(source.format, pieces_, place_) : 0;
            auto const slice = slice_weight(source, rows, {own_.begin - first_input, own_.end - first_input}, lead);
            if (!slice) return slice.error();
            auto weight = Backend::hold_weight(context, slice->source());
            if (!weight) return weight.error();
            expert.weight = std::move(*weight);
            if constexpr (Policy::has_fixed_tree) {
                if (auto const fits = tree_.check(*expert.weight); !fits) return fits;
            }
        }
        auto held_bias = detail::hold_bias<Backend>(context, bias, rows, outputs_);
        if (!held_bias) return held_bias.error();
        expert.bias = std::move(*held_bias);
        experts_.push_back(std::move(expert));
        return {};
    }

    /// To be called once all experts are held; they move no more.
    [[nodiscard]] Result<> finish(typename Backend::Context& context) {
        std::vector<ExpertFactor<Backend>> factors;
        for (auto const& expert : experts_) {
            // The first rank's summand has the bias.
            TensorView<float const, 1, Backend> bias;
            if (place_.rank == 0) bias = expert.bias.view();
            if (expert.weight && !Policy::has_fixed_tree) factors.push_back({&*expert.weight, bias});
        }
        table_ = {};
        auto made = ExpertTable<Backend>::create(context, factors);
        if (!made) return made.error();
        table_ = std::move(*made);
        return {};
    }
    [[nodiscard]] ExpertTable<Backend> const& table() const { return table_; }

    /// Calls visit(weight) for the weights of all experts, in an order of their own.
    template <class Visit>
    void for_each_weight(Visit const& visit) {
        for (auto& expert : experts_) {
            if (expert.weight) visit(*expert.weight);
        }
    }

    /// Floats that `forward_bound` needs beside its tensors of this type, for `rows` rows or fewer.
    [[nodiscard]] std::int64_t workspace(std::int64_t rows, Dtype activations = Dtype::f32) const {
        if constexpr (Policy::has_fixed_tree)
            return tree_.max_workspace(rows) + detail::rounded_sum_floats(rows, outputs_, activations);
        return 0;
    }

    /// Whether `forward_bound` takes so many columns: asked once.
    ///
    /// Errors  shape_mismatch
    [[nodiscard]] Result<> check_columns(std::int64_t in, std::int64_t out) const {
        return detail::check_rank_columns("expert_rows", in, own_.size(), out, outputs_);
    }
    /// out = each row times its expert's weight, + bias: whole rows under Deterministic, the rank's summand under Fast (the first
    /// rank's has the bias). Between places whose columns check_columns has taken: nothing is checked again.
    ///
    /// Shapes  in [rows, own inputs], out [rows, outputs] dense, the same rows on all ranks; workspace [workspace(rows)]
    /// Memory  allocates nothing; nothing overlaps
    /// Order   on `stream`, the collective too
    /// Errors  a collective's error stops the stream
    template <class T, Communicator C>
    [[nodiscard]] Result<> forward_bound(ExpertRuns const& runs, TensorView<T const, 2, Backend> in,
                                         TensorView<T, 2, Backend> out, TensorView<float, 1, Backend> workspace,
                                         C& comm, Stream& stream) const {
        SHARDWISE_ASSERT(in.extent(1) == own_.size() && out.extent(1) == outputs_ && in.extent(0) == out.extent(0));
        UnitRange const all{0, in.extent(0)};
        if constexpr (Policy::has_fixed_tree) {
            auto const products = [&](UnitRange tokens, auto const& multiply) -> Result<> {
                return runs.for_each(tokens, [&](std::size_t expert, UnitRange rows) -> Result<> {
                    return multiply(*experts_[expert].weight, in.rows(rows.begin, rows.size()),
                                    UnitRange{rows.begin - tokens.begin, rows.end - tokens.begin});
                });
            };
            auto const done = detail::sum_rounded<Backend>(out, workspace, stream, [&](auto sum, auto rest) {
                return tree_.sum_bound(products, sum, rest, comm, stream);
            });
            if (!done) return done;
        } else {
            if (own_.size() == 0) {
                if (auto const done = fill<T>(out, 0.0F, stream); !done) return done;
            } else {
                auto const done = runs.for_each(all, [&](std::size_t expert, UnitRange rows) {
                    return detail::multiply_bound<Backend>(in.rows(rows.begin, rows.size()), *experts_[expert].weight,
                                                           out.rows(rows.begin, rows.size()), stream);
                });
                if (!done) return done;
            }
        }
        if (!Policy::has_fixed_tree && place_.rank > 0) return {};
        return runs.for_each(all, [&](std::size_t expert, UnitRange rows) {
            auto const& bias = experts_[expert].bias;
            if (bias.size() == 0) return Result<>{};
            return detail::add_bias<T, Backend>(bias, out.rows(rows.begin, rows.size()), stream);
        });
    }

    /// This rank's inputs, as columns of the whole weight.
    [[nodiscard]] UnitRange own_inputs() const { return own_; }

private:
    struct Expert {
        /// None of a rank without inputs.
        std::optional<typename Backend::Weight> weight;
        Buffer<float, Backend> bias;
    };

    InputPieces pieces_;
    TensorPlace place_;
    std::int64_t outputs_;
    UnitRange own_;
    detail::ProductTree<Backend> tree_;
    std::vector<Expert> experts_;
    ExpertTable<Backend> table_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
