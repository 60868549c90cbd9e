// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/core/assert.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/input_pieces.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/kernels/add_row.hpp>
#include <shardwise/kernels/fill.hpp>
#include <shardwise/kernels/residual_norm.hpp>
#include <shardwise/parallel/collectives.hpp>
#include <shardwise/parallel/detail/bound_product.hpp>
#include <shardwise/parallel/detail/check_rank_columns.hpp>
#include <shardwise/parallel/detail/held_bias.hpp>
#include <shardwise/parallel/detail/product_tree.hpp>
#include <shardwise/parallel/detail/product_with_bias.hpp>
#include <shardwise/parallel/detail/round_sum.hpp>
#include <shardwise/parallel/place.hpp>
#include <shardwise/parallel/policy.hpp>
#include <shardwise/parallel/weight_slice.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The norm after a layer: see kernels/rms_norm.hpp.
template <class Backend>
struct RmsNorm {
    TensorView<float const, 1, Backend> weight;
    float epsilon = 1e-6F;
    /// gemma's norms add 1 to the weight.
    float offset = 0.0F;
};

/// A linear layer whose inputs are sharded over the ranks: each multiplies its own inputs and the products are summed over the
/// ranks by the policy; the bias is added once, to the sum. All ranks get the same bits.
///
/// The rank holds one weight, of its own inputs. Under `Deterministic` the products by its pieces are leaves of a fixed tree.
///
/// Memory  the rank's columns in the back end's own order, and the bias; scratch is the caller's `workspace`. The layer outlives
///         what a call puts into its stream
template <ComputeBackend Backend, ReductionPolicy Policy>
class RowLinear {
public:
    using Stream = typename Backend::Stream;

    /// Holds a rank's columns of a weight, which is not needed afterwards. `source` holds the columns `held_columns` of the
    /// whole weight (a loader reads no others) or, by default, all of them.
    ///
    /// Errors  as slice_weight and hold_weight; invalid_argument where pieces are not those of the weight, its blocks or the
    ///         ranks; capacity_exceeded for more than max_group_ranks
    [[nodiscard]] static Result<RowLinear> create(typename Backend::Context& context, WeightSource const& source,
                                                  InputPieces const& pieces, TensorPlace place,
                                                  TensorView<float const, 1, Backend> bias = {},
                                                  std::optional<UnitRange> held_columns = std::nullopt) {
        auto const held = held_columns.value_or(UnitRange{0, pieces.inputs});
        RowLinear layer;
        layer.place_ = place;
        layer.outputs_ = source.outputs;
        if (auto const checked = check(source, pieces, place, held); !checked) return checked.error();
        layer.own_ = pieces.inputs_of_rank(place.ranks, place.rank);
        UnitRange const rows[] = {{0, source.outputs}};
        auto const lead = Policy::has_fixed_tree ? detail::lead_inputs(source.format, pieces, place) : 0;
        if constexpr (Policy::has_fixed_tree) layer.tree_ = detail::ProductTree<Backend>(pieces, source.outputs, place);
        if (layer.own_.size() > 0) {
            auto const slice =
                slice_weight(source, rows, {layer.own_.begin - held.begin, layer.own_.end - held.begin}, lead);
            if (!slice) return slice.error();
            auto weight = Backend::hold_weight(context, slice->source());
            if (!weight) return weight.error();
            layer.weight_ = std::move(*weight);
            if constexpr (Policy::has_fixed_tree) {
                if (auto const fits = layer.tree_.check(*layer.weight_); !fits) return fits.error();
            }
        }
        auto held_bias = detail::hold_bias<Backend>(context, bias, rows, source.outputs);
        if (!held_bias) return held_bias.error();
        layer.bias_ = std::move(*held_bias);
        return Result<RowLinear>(std::move(layer));
    }

    /// Floats that `forward` needs beside its tensors.
    [[nodiscard]] std::int64_t workspace(std::int64_t tokens) const {
        if constexpr (Policy::has_fixed_tree) return tree_.workspace(tokens);
        return 0;
    }

    /// Floats that are enough for any number of tokens up to this.
    [[nodiscard]] std::int64_t max_workspace(std::int64_t tokens) const {
        if constexpr (Policy::has_fixed_tree) return tree_.max_workspace(tokens);
        return 0;
    }

    /// out = sum over ranks of in * columns^T, + bias: the same on every rank.
    ///
    /// Shapes  in [tokens, inputs()], out [tokens, outputs()] dense, the same tokens on all ranks; workspace
    ///         [workspace(tokens)] or more
    /// Memory  allocates nothing; nothing overlaps
    /// Order   on `stream`, the collective too
    /// Errors  shape_mismatch; a collective's error stops the stream
    template <Communicator C>
    [[nodiscard]] Result<> forward(TensorView<float const, 2, Backend> in, TensorView<float, 2, Backend> out,
                                   TensorView<float, 1, Backend> workspace, C& comm, Stream& stream) const {
        auto const tokens = in.extent(0);
        if (auto const checked = check_call(in, out, tokens, workspace, this->workspace(tokens), comm); !checked)
            return checked;
        return forward_bound<float>(in, out, workspace, comm, stream);
    }

    /// Whether `forward` takes so many columns: asked once by who calls forward_bound.
    ///
    /// Errors  shape_mismatch
    [[nodiscard]] Result<> check_columns(std::int64_t in, std::int64_t out) const {
        return detail::check_rank_columns("row_linear", in, inputs(), out, outputs_);
    }
    /// `forward` between places of one type whose columns check_columns has taken, whose rows are the same, with workspace enough, by the
    /// layer's group: nothing is checked again.
    template <ActivationElement T, Communicator C>
    [[nodiscard]] Result<> forward_bound(TensorView<T const, 2, Backend> in, TensorView<T, 2, Backend> out,
                                         TensorView<float, 1, Backend> workspace, C& comm, Stream& stream) const {
        SHARDWISE_ASSERT(in.extent(1) == inputs() && out.extent(1) == outputs_ && in.extent(0) == out.extent(0));
        if constexpr (Policy::has_fixed_tree) {
            auto const done = detail::sum_rounded<Backend>(out, workspace, stream, [&](auto sum, auto rest) {
                return tree_.sum_bound(products_of(in), sum, rest, comm, stream);
            });
            if (!done) return done;
        } else {
            // Of one rank the product is the sum.
            if (place_.ranks == 1 && weight_)
                return detail::multiply_add_bound<Backend>(in, *weight_, bias_, out, stream);
            if (auto const done = multiply_all(in, out, stream); !done) return done;
            submit_all_reduce(comm, TensorView<T, 1, Backend>{out.data(), {out.elements()}}, ReduceOp::sum, stream);
        }
        if (bias_.size() == 0) return {};
        return detail::add_bias<T, Backend>(bias_, out, stream);
    }

    /// Floats that `forward_add_norm` needs beside its tensors.
    [[nodiscard]] std::int64_t workspace_add_norm(std::int64_t tokens) const {
        return tokens * outputs_ + workspace(tokens);
    }

    /// What follows the sum in most blocks, in one pass over memory: residual += forward(in), then out = rms_norm(residual).
    ///
    /// Shapes  in [tokens, inputs()]; residual, out [tokens, outputs()]; workspace [workspace_add_norm(tokens)] or more
    /// Memory  allocates nothing; nothing overlaps
    /// Order   on `stream`, the collective too
    /// Errors  shape_mismatch; a collective's error stops the stream
    template <Communicator C>
    [[nodiscard]] Result<> forward_add_norm(TensorView<float const, 2, Backend> in,
                                            TensorView<float, 2, Backend> residual, RmsNorm<Backend> const& norm,
                                            TensorView<float, 2, Backend> out, TensorView<float, 1, Backend> workspace,
                                            C& comm, Stream& stream) const {
        if (auto const known = check_views("row_linear", in, residual, norm.weight, out, workspace); !known)
            return known;
        auto const tokens = in.extent(0);
        auto const needed = workspace_add_norm(tokens);
        if (workspace.elements() < needed) {
            return Error{ErrorCode::shape_mismatch}
                .in("row_linear")
                .because("the workspace is too small")
                .got(workspace.elements())
                .at_least(needed);
        }
        auto const size = tokens * outputs_;
        TensorView<float, 2, Backend> const sum{workspace.data(), {tokens, outputs_}};
        auto const rest = workspace.part(size, workspace.elements() - size);
        if (auto const done = forward(in, sum, rest, comm, stream); !done) return done;
        return residual_norm(TensorView<float const, 2, Backend>(sum), residual, norm.weight, out, norm.epsilon, stream,
                             norm.offset);
    }

    /// Floats that `forward_scattered` needs beside its tensors.
    [[nodiscard]] std::int64_t workspace_scattered(std::int64_t tokens) const {
        if (place_.ranks == 1) return workspace(tokens);
        if constexpr (Policy::has_fixed_tree) return tree_.workspace_scattered(tokens);
        return tokens * outputs_;
    }

    /// The same sum, of which each rank gets the rows of its tokens: sequence parallelism.
    ///
    /// Shapes  in [tokens, inputs()], out [split_units(tokens, ranks, rank), outputs()] dense; workspace
    ///         [workspace_scattered(tokens)] or more
    /// Memory  allocates nothing; nothing overlaps
    /// Order   on `stream`, the collective too
    /// Errors  shape_mismatch; a collective's error stops the stream
    template <Communicator C>
    [[nodiscard]] Result<> forward_scattered(TensorView<float const, 2, Backend> in, TensorView<float, 2, Backend> out,
                                             TensorView<float, 1, Backend> workspace, C& comm, Stream& stream) const {
        if (place_.ranks == 1) return forward(in, out, workspace, comm, stream);
        auto const tokens = in.extent(0);
        auto const own = split_units(tokens, place_.ranks, place_.rank).size();
        if (auto const checked = check_call(in, out, own, workspace, workspace_scattered(tokens), comm); !checked)
            return checked;
        if constexpr (Policy::has_fixed_tree) {
            auto const done = tree_.sum_scattered(products_of(in), tokens, out, workspace, comm, stream);
            if (!done) return done;
        } else {
            TensorView<float, 2, Backend> const whole{workspace.data(), {tokens, outputs_}};
            if (auto const done = multiply_all(in, whole, stream); !done) return done;
            auto const count = [tokens, ranks = place_.ranks, outputs = outputs_](std::int32_t rank) {
                return split_units(tokens, ranks, rank).size() * outputs;
            };
            submit_reduce_scatter(comm, TensorView<float const, 1, Backend>{whole.data(), {whole.elements()}},
                                  TensorView<float, 1, Backend>{out.data(), {out.elements()}}, count, stream);
        }
        if (bias_.size() == 0) return {};
        return add_row<float>(TensorView<float const, 1, Backend>(bias_.view()), out, stream);
    }

    /// This rank's inputs, as columns of the whole weight.
    [[nodiscard]] UnitRange own_inputs() const { return own_; }
    /// Calls visit(weight) for the weight that it holds, if it holds one.
    template <class Visit>
    void for_each_weight(Visit const& visit) {
        if (weight_) visit(*weight_);
    }
    [[nodiscard]] std::int64_t inputs() const { return own_.size(); }
    [[nodiscard]] std::int64_t outputs() const { return outputs_; }
    [[nodiscard]] TensorPlace place() const { return place_; }
    /// What the rank holds.
    [[nodiscard]] Bytes bytes() const { return weight_ ? bias_.bytes() + weight_->bytes() : bias_.bytes(); }

private:
    RowLinear() = default;

    [[nodiscard]] static Result<> check(WeightSource const& source, InputPieces const& pieces, TensorPlace place,
                                        UnitRange held) {
        auto const refused = [] { return Error{ErrorCode::invalid_argument}.in("row_linear"); };
        if (auto const placed = detail::check_place("row_linear", place); !placed) return placed;
        if (auto const cut = detail::check_pieces("row_linear", pieces); !cut) return cut;
        auto const own = pieces.inputs_of_rank(place.ranks, place.rank);
        if (held.size() != source.inputs || held.begin > own.begin || held.end < own.end) {
            return refused()
                .at("inputs")
                .because("the source does not hold this rank's columns of the weight")
                .got(source.inputs)
                .expected(held.size());
        }
        auto const grain = input_grain(source.format, source.group);
        if (pieces.grain % grain != 0) {
            return refused()
                .at("pieces")
                .because("part blocks of " + std::string(name_of(source.format)))
                .got(pieces.grain)
                .multiple_of(grain)
                .fix("cut by pieces whose grain is a multiple of input_grain");
        }
        return {};
    }

    template <Communicator C>
    [[nodiscard]] Result<> check_call(TensorView<float const, 2, Backend> in, TensorView<float, 2, Backend> out,
                                      std::int64_t rows, TensorView<float, 1, Backend> workspace, std::int64_t needed,
                                      C const& comm) const {
        if (auto const known = check_views("row_linear", in, out, workspace); !known) return known;
        auto const refused = [] { return Error{ErrorCode::shape_mismatch}.in("row_linear"); };
        if (in.extent(1) != inputs())
            return refused()
                .because("the input does not have this rank's columns")
                .got(in.extent(1))
                .expected(inputs());
        if (out.extent(0) != rows || out.extent(1) != outputs_ || !out.is_dense()) {
            return refused()
                .because("the output does not have the layer's rows and columns without gaps")
                .got(out.elements())
                .expected(rows * outputs_);
        }
        if (workspace.elements() < needed)
            return refused().because("the workspace is too small").got(workspace.elements()).at_least(needed);
        return check_group(comm);
    }
    template <Communicator C>
    [[nodiscard]] Result<> check_group(C const& comm) const {
        if (comm.size() == place_.ranks && comm.rank() == place_.rank) return {};
        return Error{ErrorCode::shape_mismatch}
            .in("row_linear")
            .because("the layer was cut for another group")
            .got(comm.size())
            .expected(place_.ranks);
    }

    /// All of the rank's columns at once.
    template <class T>
    [[nodiscard]] Result<> multiply_all(TensorView<T const, 2, Backend> in, TensorView<T, 2, Backend> out,
                                        Stream& stream) const {
        if (weight_) return detail::multiply_bound<Backend>(in, *weight_, out, stream);
        return fill<T>(out, 0.0F, stream);
    }

    /// What the tree is made of: all rows are multiplied by the one weight.
    template <class T>
    [[nodiscard]] auto products_of(TensorView<T const, 2, Backend> in) const {
        return [this, in](UnitRange tokens, auto const& multiply) -> Result<> {
            return multiply(*weight_, in.rows(tokens.begin, tokens.size()), UnitRange{0, tokens.size()});
        };
    }

    TensorPlace place_;
    UnitRange own_;
    std::int64_t outputs_ = 0;
    detail::ProductTree<Backend> tree_;
    /// None of a rank without inputs.
    std::optional<typename Backend::Weight> weight_;
    Buffer<float, Backend> bias_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
