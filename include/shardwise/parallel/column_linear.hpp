// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/core/assert.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/kernels/expert_table.hpp>
#include <shardwise/parallel/detail/check_rank_columns.hpp>
#include <shardwise/parallel/detail/held_bias.hpp>
#include <shardwise/parallel/detail/product_with_bias.hpp>
#include <shardwise/parallel/weight_slice.hpp>

#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// One rank's outputs of a linear layer: out = in * rows^T + bias, the rows those of the weight that the rank owns, packed
/// one after another whatever their order in the checkpoint. No communication, and the bits of an output do not depend on
/// which other outputs the rank owns. Follow with a row-parallel layer (which sums) or a gather.
///
/// Memory  the rows in the back end's own order, and their biases; no scratch
template <ComputeBackend Backend>
class ColumnLinear {
public:
    using Stream = typename Backend::Stream;

    /// Holds some rows of a weight, which is not needed afterwards. `bias` is that of all rows, or empty. Where `is_fixed`, a row's
    /// bits do not depend on the rows beside it either, as they may where a device multiplies many rows in another way than few.
    ///
    /// Errors  as slice_weight and hold_weight; shape_mismatch where the bias has not one number per row
    [[nodiscard]] static Result<ColumnLinear> create(typename Backend::Context& context, WeightSource const& whole,
                                                     std::span<UnitRange const> rows,
                                                     TensorView<float const, 1, Backend> bias = {},
                                                     bool is_fixed = false) {
        auto const slice = slice_weight(whole, rows, {0, whole.inputs});
        if (!slice) return slice.error();
        ColumnLinear layer;
        layer.inputs_ = whole.inputs;
        layer.is_fixed_ = is_fixed;
        layer.outputs_ = slice->source().outputs;
        if (layer.outputs_ > 0) {
            auto held = Backend::hold_weight(context, slice->source());
            if (!held) return held.error();
            layer.weight_.emplace(std::move(*held));
        }
        auto held_bias = detail::hold_bias<Backend>(context, bias, rows, whole.outputs);
        if (!held_bias) return held_bias.error();
        layer.bias_ = std::move(*held_bias);
        return Result<ColumnLinear>(std::move(layer));
    }

    /// out = in * rows^T + bias.
    ///
    /// Shapes  in [tokens, inputs()], out [tokens, outputs()]
    /// Memory  allocates nothing; `out` does not overlap `in`
    /// Order   on `stream`
    /// Errors  shape_mismatch
    [[nodiscard]] Result<> forward(TensorView<float const, 2, Backend> in, TensorView<float, 2, Backend> out,
                                   Stream& stream) const {
        return forward<float, float>(in, out, stream);
    }
    /// The same of rows of T, whose products are as they are or float.
    template <ActivationElement T, ActivationElement Out>
    [[nodiscard]] Result<> forward(TensorView<T const, 2, Backend> in, TensorView<Out, 2, Backend> out,
                                   Stream& stream) const {
        if (auto const known = check_views("column_linear", in, out); !known) return known;
        if (auto const checked = check_columns(in.extent(1), out.extent(1)); !checked) return checked;
        if (in.extent(0) != out.extent(0)) {
            return Error{ErrorCode::shape_mismatch}
                .in("column_linear")
                .because("input and output do not have the same rows")
                .got(out.extent(0))
                .expected(in.extent(0));
        }
        return forward_bound(in, out, stream);
    }

    /// Whether `forward` takes so many columns: asked once by who calls forward_bound.
    ///
    /// Errors  shape_mismatch
    [[nodiscard]] Result<> check_columns(std::int64_t in, std::int64_t out) const {
        return detail::check_rank_columns("column_linear", in, inputs_, out, outputs_);
    }
    /// `forward` between places whose columns check_columns has taken, and whose rows are the same: nothing is checked again.
    template <ActivationElement T, ActivationElement Out>
    [[nodiscard]] Result<> forward_bound(TensorView<T const, 2, Backend> in, TensorView<Out, 2, Backend> out,
                                         Stream& stream) const {
        SHARDWISE_ASSERT(in.extent(1) == inputs_ && out.extent(1) == outputs_ && in.extent(0) == out.extent(0));
        if (!weight_ || in.extent(0) == 0) return {};
        // The host's bits do not depend on the rows beside.
        if (!is_fixed_ || std::same_as<Backend, Host>)
            return detail::multiply_add_bound<Backend>(in, *weight_, bias_, out, stream);
        auto const multiplied = Backend::multiply(in, *weight_, UnitRange{0, inputs_}, out, stream);
        if (!multiplied || bias_.size() == 0) return multiplied;
        return detail::add_bias<Out, Backend>(bias_, out, stream);
    }

    [[nodiscard]] std::int64_t inputs() const { return inputs_; }
    [[nodiscard]] std::int64_t outputs() const { return outputs_; }
    /// What the rank holds.
    [[nodiscard]] Bytes bytes() const { return (weight_ ? weight_->bytes() : Bytes{0}) + bias_.bytes(); }
    /// Calls visit(weight) for the weights that it holds, in an order of their own.
    template <class Visit>
    void for_each_weight(Visit const& visit) {
        if (weight_) visit(*weight_);
    }
    /// What its products are made of; no weight where it has no outputs.
    [[nodiscard]] ExpertFactor<Backend> factor() const { return {weight_ ? &*weight_ : nullptr, bias_.view()}; }

private:
    ColumnLinear() = default;

    std::int64_t inputs_ = 0;
    std::int64_t outputs_ = 0;
    bool is_fixed_ = false;
    std::optional<typename Backend::Weight> weight_;
    Buffer<float, Backend> bias_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
