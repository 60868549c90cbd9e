// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/backend/host/thread_pool.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/kernels/detail/check_rows.hpp>
#include <shardwise/kernels/detail/element.hpp>
#include <shardwise/kernels/detail/lanes.hpp>
#include <shardwise/kernels/detail/launch_pieces.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// What is found of each piece of some rows.
struct SoftmaxPieces {
    List<float> greatest;
    List<double> sums;

    explicit SoftmaxPieces(std::int64_t count)
        : greatest(static_cast<std::size_t>(count)), sums(static_cast<std::size_t>(count)) {}
    /// Of `count` pieces from `first` on; NaN where one is.
    [[nodiscard]] float largest(std::size_t first, std::int64_t count) const {
        auto largest = greatest[first];
        for (auto i = first + 1; i < first + static_cast<std::size_t>(count); ++i) {
            if (greatest[i] > largest || std::isnan(greatest[i])) largest = greatest[i];
        }
        return largest;
    }
    [[nodiscard]] double sum(std::size_t first, std::int64_t count) const {
        double total = 0.0;
        for (auto i = first; i < first + static_cast<std::size_t>(count); ++i) total += sums[i];
        return total;
    }
};

/// A softmax of long rows, piece by piece.
template <class T>
struct HostSoftmax {
    float (*greatest_of)(T const*, std::int64_t);
    double (*sum)(T const*, std::int64_t, float);
    void (*scale)(T const*, T*, std::int64_t, float, double);

    TensorView<T const, 2, Host> in;
    TensorView<T, 2, Host> out;

    void run(RowPieces const& pieces, ThreadPool* pool) const {
        auto const per_row = pieces.per_row;
        SoftmaxPieces found(pieces.count());
        auto const place = [&](std::int64_t row, std::int64_t begin) {
            return static_cast<std::size_t>(row * per_row + begin / pieces.columns);
        };
        run_pieces(pieces, pool, [&](std::int64_t row, std::int64_t begin, std::int64_t end) {
            found.greatest[place(row, begin)] = greatest_of(in.row(row) + begin, end - begin);
        });
        run_pieces(pieces, pool, [&](std::int64_t row, std::int64_t begin, std::int64_t end) {
            auto const largest = found.largest(place(row, 0), per_row);
            found.sums[place(row, begin)] = sum(in.row(row) + begin, end - begin, largest);
        });
        run_pieces(pieces, pool, [&](std::int64_t row, std::int64_t begin, std::int64_t end) {
            auto const first = place(row, 0);
            auto const largest = found.largest(first, per_row);
            auto* const to = out.row(row) + begin;
            if (largest == -std::numeric_limits<float>::infinity()) {
                std::fill_n(to, end - begin, T(0.0F));
            } else {
                scale(in.row(row) + begin, to, end - begin, largest, found.sum(first, per_row));
            }
        });
    }
};

}  // namespace detail

/// out = exp(in - max) / sum, row by row. A row of only minus infinity (everything masked) becomes zeros, one with a NaN or plus
/// infinity NaNs. The bits of a row do not depend on the rows beside it, nor on the threads.
///
/// Shapes  in, out [rows, width], out may be in
/// Memory  rows longer than 16 Ki elements need 12 bytes for each 16 Ki
/// Order   on `stream`
/// Errors  shape_mismatch; what the stream says of its instruction set
template <ActivationElement T>
[[nodiscard]] Result<> softmax(TensorView<T const, 2, Host> in, TensorView<T, 2, Host> out, HostStream& stream) {
    auto const width = in.extent(1);
    if (auto const checked = detail::check_rows("softmax", in, width, out); !checked) return checked;
    if (!stream.isa()) return stream.isa().error();
    auto const level = *stream.isa();
    detail::RowPieces const pieces(in.extent(0), width);
    if (pieces.per_row == 1) {
        auto const kernel =
            detail::choose_kernel<void (*)(T const*, T*, std::int64_t)>(level, SHARDWISE_KERNEL_LEVELS(softmax_row<T>));
        auto const normalise = [=](std::int64_t row, std::int64_t, std::int64_t) {
            kernel(in.row(row), out.row(row), width);
        };
        detail::launch_pieces(pieces, normalise, stream);
        return {};
    }
    using Softmax = detail::HostSoftmax<T>;
    Softmax const host{
        detail::choose_kernel<decltype(Softmax::greatest_of)>(level, SHARDWISE_KERNEL_LEVELS(greatest_of<T>)),
        detail::choose_kernel<decltype(Softmax::sum)>(level, SHARDWISE_KERNEL_LEVELS(softmax_sum<T>)),
        detail::choose_kernel<decltype(Softmax::scale)>(level, SHARDWISE_KERNEL_LEVELS(softmax_scale<T>)), in, out};
    stream.submit([host, pieces, pool = stream.pool()]() -> Result<> {
        host.run(pieces, pool);
        return {};
    });
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
