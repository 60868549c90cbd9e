// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/backend/host/product/panel.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/core/input_pieces.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/op/product_sums.hpp>
#include <shardwise/parallel/detail/bound_product.hpp>
#include <shardwise/parallel/detail/tree_plan.hpp>
#include <shardwise/parallel/fixed_tree_sum.hpp>
#include <shardwise/parallel/place.hpp>
#include <shardwise/quant/weight_format.hpp>

#include <concepts>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Zeros that a rank's weight begins with: int8 has one scale for a whole row, so that pieces of it may begin anywhere, and a
/// piece has the same bits in every weight only where it lies alike in the blocks that are multiplied together. None where
/// pieces are whole blocks, and for other formats, whose pieces are.
[[nodiscard]] constexpr std::int64_t lead_inputs(WeightFormat format, InputPieces const& pieces, TensorPlace place) {
    auto const own = pieces.inputs_of_rank(place.ranks, place.rank);
    bool const is_parted = traits(format).scales == ScalePlace::row && pieces.grain % quant_block != 0;
    return is_parted && own.size() > 0 ? own.begin % quant_block : 0;
}

/// What a rank computes of a fixed tree over products by pieces of a weight's inputs. It holds its own after `lead` zeros.
[[nodiscard]] inline ProductSums product_sums(TreePlan const& plan, InputPieces const& pieces, TensorPlace place,
                                              std::int64_t lead) {
    auto const own = pieces.inputs_of_rank(place.ranks, place.rank);
    auto const first = own.begin - lead;
    auto const slot = [&](std::int64_t i) {
        return i < plan.nodes() ? i - plan.first_own() : i - plan.nodes() + plan.own();
    };
    ProductSums sums;
    sums.inputs = {lead, lead + own.size()};
    sums.sums = plan.own();
    sums.scratch = plan.scratch();
    for (auto const& step : plan.before()) {
        if (step.leaf == TreeStep::no_leaf) {
            sums.steps.push_back({{}, slot(step.to), slot(step.from)});
        } else {
            auto const inputs = pieces.inputs_of({step.leaf, step.leaf + 1});
            sums.steps.push_back({{inputs.begin - first, inputs.end - first}, slot(step.to), ProductStep::no_slot});
        }
    }
    return sums;
}

/// Whether a back end adds up so many products in one call, whoever of the ranks has them.
template <class Backend>
[[nodiscard]] constexpr bool sums_at_once([[maybe_unused]] std::int64_t products) {
    if constexpr (requires { Backend::max_sum_products; }) {
        return products <= Backend::max_sum_products;
    } else {
        return SumsProducts<Backend>;
    }
}

/// A fixed tree over products by pieces of a weight's inputs, which a rank holds in one piece.
template <ComputeBackend Backend>
class ProductTree {
public:
    using Stream = typename Backend::Stream;
    using Weight = typename Backend::Weight;
    using Matrix = TensorView<float, 2, Backend>;
    using Vector = TensorView<float, 1, Backend>;
    using Nodes = TensorView<float, 3, Backend>;

    ProductTree() = default;
    ProductTree(InputPieces const& pieces, std::int64_t outputs, TensorPlace place)
        : tree_(pieces.count, outputs, place,
                sums_at_once<Backend>(pieces.count) ? TreeParts::nodes : TreeParts::leaves),
          pieces_(pieces),
          own_(pieces.inputs_of_rank(place.ranks, place.rank)),
          sums_(product_sums(tree_.plan(), pieces, place, 0)),
          is_at_once_(sums_at_once<Backend>(pieces.count)) {
        auto const lead = lead_inputs(WeightFormat::int8, pieces, place);
        if (lead > 0) led_ = product_sums(tree_.plan(), pieces, place, lead);
    }

    /// As FixedTreeSum's.
    [[nodiscard]] std::int64_t workspace(std::int64_t tokens) const { return tree_.workspace(tokens); }
    [[nodiscard]] std::int64_t max_workspace(std::int64_t tokens) const { return tree_.max_workspace(tokens); }
    [[nodiscard]] std::int64_t workspace_scattered(std::int64_t tokens) const {
        return tree_.workspace_scattered(tokens);
    }

    /// As FixedTreeSum's. `each(tokens, multiply) -> Result<>` calls multiply(weight, rows, place) for the weights by which rows
    /// of these tokens are multiplied: rows [place.size(), own inputs] of activations, place counted from the first of the tokens.
    template <class Each, Communicator C>
    [[nodiscard]] Result<> sum(Each const& each, Matrix out, Vector workspace, C& comm, Stream& stream) const {
        return by_parts<false>(each, stream,
                               [&](auto const& compute) { return tree_.sum(compute, out, workspace, comm, stream); });
    }
    /// `sum` of weights that `check` has taken, of rows, results and workspace whose sizes are known to fit, by the ranks of its
    /// place.
    template <class Each, Communicator C>
    [[nodiscard]] Result<> sum_bound(Each const& each, Matrix out, Vector workspace, C& comm, Stream& stream) const {
        return by_parts<true>(each, stream, [&](auto const& compute) {
            return tree_.sum_checked(compute, out, workspace, comm, stream);
        });
    }
    /// Whether a weight has the inputs of the sums.
    ///
    /// Errors  shape_mismatch
    [[nodiscard]] Result<> check([[maybe_unused]] Weight const& weight) const {
        if constexpr (std::same_as<Backend, Host>) return check_sums(weight, sums_by(weight));
        return {};
    }
    template <class Each, Communicator C>
    [[nodiscard]] Result<> sum_scattered(Each const& each, std::int64_t tokens, Matrix out, Vector workspace, C& comm,
                                         Stream& stream) const {
        return by_parts<false>(each, stream, [&](auto const& compute) {
            return tree_.sum_scattered(compute, tokens, out, workspace, comm, stream);
        });
    }

private:
    /// Sums what the back end computes at a time.
    template <bool is_bound, class Each, class Sum>
    [[nodiscard]] Result<> by_parts(Each const& each, Stream& stream, Sum const& sum) const {
        if constexpr (SumsProducts<Backend>) {
            if (is_at_once_) return sum(nodes_by<is_bound>(each, stream));
        }
        if constexpr (!SumsProducts<Backend> || requires { Backend::max_sum_products; }) {
            return sum(leaves_by(each, stream));
        } else {
            return {};
        }
    }
    template <bool is_bound, class Each>
    [[nodiscard]] auto nodes_by(Each const& each, Stream& stream) const {
        return [this, &each, &stream](UnitRange tokens, Nodes out) -> Result<> {
            return each(tokens, [&](Weight const& weight, auto in, UnitRange place) -> Result<> {
                Nodes const rows(out.data() + place.begin * out.stride(1), {out.extent(0), place.size(), out.extent(2)},
                                 out.strides());
                auto const& sums = sums_by(weight);
                return is_bound ? multiply_sums_bound<Backend>(in, weight, sums, rows, stream)
                                : Backend::multiply_sums(in, weight, sums, rows, stream);
            });
        };
    }
    template <class Each>
    [[nodiscard]] auto leaves_by(Each const& each, Stream& stream) const {
        return [this, &each, &stream](std::int64_t leaf, UnitRange tokens, Matrix out) -> Result<> {
            auto const inputs = pieces_.inputs_of({leaf, leaf + 1});
            return each(tokens, [&](Weight const& weight, auto in, UnitRange place) -> Result<> {
                auto const first = own_.begin - (weight.inputs() - own_.size());
                return Backend::multiply(in.columns(inputs.begin - own_.begin, inputs.size()), weight,
                                         {inputs.begin - first, inputs.end - first},
                                         out.rows(place.begin, place.size()), stream);
            });
        };
    }
    [[nodiscard]] ProductSums const& sums_by(Weight const& weight) const {
        return weight.inputs() != own_.size() ? led_ : sums_;
    }

    FixedTreeSum<Backend> tree_;
    InputPieces pieces_;
    UnitRange own_;
    ProductSums sums_;
    /// Of int8 whose pieces part blocks.
    ProductSums led_;
    bool is_at_once_ = true;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
