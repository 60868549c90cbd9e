// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/kernels/detail/check_parts.hpp>
#include <shardwise/kernels/detail/check_rows.hpp>
#include <shardwise/kernels/detail/element.hpp>
#include <shardwise/kernels/detail/lanes.hpp>
#include <shardwise/kernels/detail/row_task.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// residual_norm of one addend for what is known to fit.
template <ActivationElement T>
[[nodiscard]] Result<> residual_norm_bound(TensorView<T const, 2, Host> in, TensorView<T, 2, Host> residual,
                                           TensorView<T const, 1, Host> weight, TensorView<T, 2, Host> out,
                                           float epsilon, HostStream& stream, float offset = 0.0F) {
    if (!stream.isa()) return stream.isa().error();
    auto const width = residual.extent(1);
    using Kernel = void (*)(SumParts<T>, std::int64_t, T*, T const*, T*, std::int64_t, float, float);
    auto const kernel = choose_kernel<Kernel>(*stream.isa(), SHARDWISE_KERNEL_LEVELS(residual_norm_row<T>));
    auto const add_and_normalise = [=](std::int64_t begin, std::int64_t end) {
        for (auto row = begin; row < end; ++row) {
            T const* const part = in.row(row);
            kernel({&part, 1}, 0, residual.row(row), weight.data(), out.row(row), width, epsilon, offset);
        }
    };
    Host::launch(residual.extent(0), add_and_normalise, stream, row_grain(width));
    return {};
}

}  // namespace detail

/// What follows an all-reduce in a block, in one pass over memory: residual += parts[0] + parts[1] + ..., summed in rank order in
/// float, then out = rms_norm(residual). With parts of float it has the bits of the all-reduce, the addition and the norm one
/// after another; with 16-bit parts the sum is not rounded before it is added.
///
/// Shapes  parts: what each rank contributes, at least one, of [rows, width] without gaps; residual, out [rows, width], which do
///         not overlap; weight [width]
/// Memory  the parts' list is copied, the parts stay alive until it is done
/// Order   on `stream`
/// Errors  shape_mismatch; invalid_argument without parts; capacity_exceeded for more than 64; what the stream says of its
///         instruction set
template <ActivationElement T>
[[nodiscard]] Result<> residual_norm(std::span<T const* const> parts, TensorView<T, 2, Host> residual,
                                     TensorView<T const, 1, Host> weight, TensorView<T, 2, Host> out, float epsilon,
                                     HostStream& stream, float offset = 0.0F) {
    if (auto const known = check_views("residual_norm", residual, weight, out); !known) return known;
    constexpr std::size_t max_parts = detail::max_residual_parts;
    auto const width = residual.extent(1);
    TensorView<T const, 2, Host> const read = residual;
    if (auto const checked = detail::check_rows("residual_norm", read, weight.elements(), out); !checked)
        return checked;
    auto const count = static_cast<std::int64_t>(parts.size());
    if (auto const checked = detail::check_parts<T>("residual_norm", parts, read); !checked) return checked;
    if (!stream.isa()) return stream.isa().error();
    using Kernel = void (*)(detail::SumParts<T>, std::int64_t, T*, T const*, T*, std::int64_t, float, float);
    auto const kernel = detail::choose_kernel<Kernel>(*stream.isa(), SHARDWISE_KERNEL_LEVELS(residual_norm_row<T>));
    detail::Addends<T, max_parts> const addends(parts);
    auto const add_and_normalise = [=](std::int64_t begin, std::int64_t end) {
        for (auto row = begin; row < end; ++row) {
            kernel({addends.parts, count}, row * width, residual.row(row), weight.data(), out.row(row), width, epsilon,
                   offset);
        }
    };
    Host::launch(residual.extent(0), add_and_normalise, stream, detail::row_grain(width));
    return {};
}

/// residual += in, then out = rms_norm(residual): the same for one addend.
///
/// Shapes  in, residual, out [rows, width]; in without gaps; weight [width]
/// Order   on `stream`
/// Errors  shape_mismatch; what the stream says of its instruction set
template <ActivationElement T>
[[nodiscard]] Result<> residual_norm(TensorView<T const, 2, Host> in, TensorView<T, 2, Host> residual,
                                     TensorView<T const, 1, Host> weight, TensorView<T, 2, Host> out, float epsilon,
                                     HostStream& stream, float offset = 0.0F) {
    if (auto const checked = detail::check_addend("residual_norm", in, residual, weight, out); !checked) return checked;
    T const* const part = in.data();
    return residual_norm<T>(std::span<T const* const>(&part, 1), residual, weight, out, epsilon, stream, offset);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
