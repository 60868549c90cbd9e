// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/span.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/kernels/detail/check_rows.hpp>
#include <shardwise/kernels/detail/element.hpp>
#include <shardwise/kernels/detail/lanes.hpp>

#include <cstdint>

// The two halves of an RMS norm of rows that no rank holds whole; parallel/sharded_norm.hpp adds up the sums between them.

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Columns of a row whose squares are added up in one number.
struct SquareSum {
    UnitRange columns;
    /// Which of a row's numbers.
    std::int64_t sum = 0;
};

/// The squares of some columns of each row, summed in double; a row's other numbers become 0.
///
/// Shapes  in [rows, width], sums [rows, numbers]; `parts`: columns within the width, numbers below `numbers`, each at most once
/// Memory  `parts` outlives what is in the stream
/// Order   on `stream`
/// Errors  shape_mismatch; what the stream says of its instruction set
template <ActivationElement T>
[[nodiscard]] Result<> sum_squares(TensorView<T const, 2, Host> in, Span<SquareSum const> parts,
                                   TensorView<double, 2, Host> sums, HostStream& stream) {
    if (auto const known = check_views("sum_squares", in, sums); !known) return known;
    auto const refused = [] { return Error{ErrorCode::shape_mismatch}.in("sum_squares"); };
    if (in.extent(0) != sums.extent(0))
        return refused().because("the sums are not of the input's rows").got(sums.extent(0)).expected(in.extent(0));
    for (auto const& part : parts) {
        auto const& columns = part.columns;
        if (columns.begin < 0 || columns.end < columns.begin || columns.end > in.extent(1))
            return refused().because("a sum's columns are not the input's").got(columns.end).expected(in.extent(1));
        if (part.sum < 0 || part.sum >= sums.extent(1))
            return refused().because("a row has no such sum").got(part.sum).expected(sums.extent(1));
    }
    if (!stream.isa()) return stream.isa().error();
    auto const kernel = detail::choose_kernel<double (*)(T const*, std::int64_t)>(
        *stream.isa(), SHARDWISE_KERNEL_LEVELS(square_sum<T>));
    auto const sum = [=](std::int64_t begin, std::int64_t end) {
        for (auto row = begin; row < end; ++row) {
            auto* const to = sums.row(row);
            for (std::int64_t i = 0; i < sums.extent(1); ++i) to[i] = 0.0;
            for (auto const& part : parts) to[part.sum] = kernel(in.row(row) + part.columns.begin, part.columns.size());
        }
    };
    Host::launch(in.extent(0), sum, stream, detail::row_grain(in.extent(1)));
    return {};
}

/// The columns of an RMS norm whose rows are `whole` columns wide: each row's numbers are the squares of all of them, and are
/// added up in order.
///
/// Shapes  in, out [rows, width], out may be in; sums [rows, numbers]; weight [width]
/// Order   on `stream`
/// Errors  shape_mismatch; what the stream says of its instruction set
template <ActivationElement T>
[[nodiscard]] Result<> scale_by_squares(TensorView<T const, 2, Host> in, TensorView<double const, 2, Host> sums,
                                        std::int64_t whole, TensorView<T const, 1, Host> weight,
                                        TensorView<T, 2, Host> out, float epsilon, HostStream& stream,
                                        float offset = 0.0F) {
    if (auto const known = check_views("scale_by_squares", sums, weight); !known) return known;
    auto const width = in.extent(1);
    if (auto const checked = detail::check_rows("scale_by_squares", in, weight.elements(), out); !checked)
        return checked;
    if (sums.extent(0) != in.extent(0) || whole < width) {
        return Error{ErrorCode::shape_mismatch}
            .in("scale_by_squares")
            .because("the sums are not of the input's rows")
            .got(sums.extent(0))
            .expected(in.extent(0));
    }
    if (!stream.isa()) return stream.isa().error();
    auto const kernel =
        detail::choose_kernel<void (*)(T const*, T const*, T*, std::int64_t, double, std::int64_t, float, float)>(
            *stream.isa(), SHARDWISE_KERNEL_LEVELS(rms_norm_columns<T>));
    auto const scale = [=](std::int64_t begin, std::int64_t end) {
        for (auto row = begin; row < end; ++row) {
            double squares = 0.0;
            for (std::int64_t i = 0; i < sums.extent(1); ++i) squares += sums.row(row)[i];
            kernel(in.row(row), weight.data(), out.row(row), width, squares, whole, epsilon, offset);
        }
    };
    Host::launch(in.extent(0), scale, stream, detail::row_grain(width));
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
