// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/detail/check_rows.hpp>
#include <shardwise/kernels/detail/element.hpp>
#include <shardwise/kernels/detail/pack.hpp>
#include <shardwise/kernels/detail/square_sums_call.hpp>
#include <shardwise/kernels/square_cut.hpp>
#include <shardwise/op/norm.hpp>

#include <algorithm>
#include <cstdint>

// What is planned for.
static_assert(shardwise::square_bytes(1).count() == shardwise::detail::square_floats * sizeof(float));

// The two halves of an RMS norm of rows that no rank holds whole; parallel/device_sharded_norm.hpp adds up the sums between them.

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Defined in kernels/square_sums_launch.cuh.
template <class Api, class T>
Result<> launch_sum_squares(SquareSumsCall<T> const& call, typename Api::Stream stream);
template <class Api, class T>
Result<> launch_scale_by_squares(ScaleBySquaresCall<T> const& call, typename Api::Stream stream);

/// True where the pieces of all rows begin on packs and are made of them.
template <class T, class Api>
[[nodiscard]] bool has_packed_pieces(TensorView<T const, 2, DeviceBackend<Api>> in, SquareCut const& cut) {
    constexpr std::int64_t pack = pack_elements<T>;
    auto const begin = cut.counted.begin;
    bool const is_whole = cut.pieces.grain % pack == 0 && cut.pieces.inputs % pack == 0;
    return is_whole && begin % pack == 0 && cut.counted.end % pack == 0 && (begin - cut.first) % pack == 0 &&
           is_on_pack(in.data()) && (in.extent(0) <= 1 || in.stride(0) % pack == 0);
}

}  // namespace detail

/// The squares of the columns that the rank counts, added up for each row and piece; pieces of which it has none give 0. A sum has three
/// floats, one of which is normal whatever the elements are; its bits are those of the piece, whatever rank has it and whatever lies
/// beside it.
///
/// Shapes  in [rows, the rank's columns]; sums [rows, 3 * cut.pieces.count] dense
/// Order   on `stream`
/// Errors  shape_mismatch
template <ActivationElement T, class Api>
[[nodiscard]] Result<> sum_squares(TensorView<T const, 2, DeviceBackend<Api>> in, SquareCut const& cut,
                                   TensorView<float, 2, DeviceBackend<Api>> sums, DeviceStream<Api>& stream) {
    if (auto const known = check_views("sum_squares", in, sums); !known) return known;
    auto const refused = [] { return Error{ErrorCode::shape_mismatch}.in("sum_squares"); };
    auto const rows = in.extent(0);
    auto const numbers = cut.pieces.count;
    if (sums.extent(0) != rows)
        return refused().because("the sums are not of the input's rows").got(sums.extent(0)).expected(rows);
    if (numbers < 1 || cut.pieces.grain < 1 || sums.extent(1) != numbers * detail::square_floats || !sums.is_dense())
        return refused()
            .because("a row does not have three floats for each piece")
            .got(sums.extent(1))
            .expected(numbers * detail::square_floats);
    auto const& counted = cut.counted;
    if (counted.size() > 0 && (counted.begin < cut.first || counted.end - cut.first > in.extent(1)))
        return refused()
            .because("a sum's columns are not the input's")
            .got(counted.end - cut.first)
            .expected(in.extent(1));
    if (rows == 0) return {};
    // Grains are whole but for the last, which ends with the row.
    detail::SquareSumsCall<T> const call{in.data(),
                                         in.stride(0),
                                         sums.data(),
                                         rows,
                                         numbers,
                                         cut.pieces.grains(),
                                         cut.pieces.grain,
                                         counted.begin,
                                         std::min(counted.end, cut.pieces.inputs),
                                         cut.first,
                                         detail::has_packed_pieces(in, cut)};
    stream.submit([&](typename Api::Stream native) { return detail::launch_sum_squares<Api, T>(call, native); });
    return {};
}

/// The columns of an RMS norm whose rows are `whole` columns wide: each row's sums are those of all of its pieces (sum_squares), and are
/// added up in order.
///
/// Shapes  in, out [rows, width], out may be in; sums [rows, 3 * pieces] dense; weight [width]
/// Order   on `stream`
/// Errors  shape_mismatch
template <ActivationElement T, class Api>
[[nodiscard]] Result<> scale_by_squares(TensorView<T const, 2, DeviceBackend<Api>> in,
                                        TensorView<float const, 2, DeviceBackend<Api>> sums, std::int64_t whole,
                                        TensorView<float const, 1, DeviceBackend<Api>> weight,
                                        TensorView<T, 2, DeviceBackend<Api>> out, float epsilon,
                                        DeviceStream<Api>& stream, float offset = 0.0F) {
    if (auto const known = check_views("scale_by_squares", sums, weight); !known) return known;
    auto const width = in.extent(1);
    if (auto const checked = detail::check_rows("scale_by_squares", in, weight.elements(), out); !checked)
        return checked;
    auto const refused = [] { return Error{ErrorCode::shape_mismatch}.in("scale_by_squares"); };
    if (sums.extent(0) != in.extent(0) || whole < width) {
        return refused().because("the sums are not of the input's rows").got(sums.extent(0)).expected(in.extent(0));
    }
    if (sums.extent(1) % detail::square_floats != 0 || !sums.is_dense())
        return refused()
            .because("a row does not have three floats for each piece")
            .got(sums.extent(1))
            .multiple_of(detail::square_floats);
    if (in.empty()) return {};
    detail::ScaleBySquaresCall<T> const call{
        in.data(),  in.stride(0),  weight.data(), sums.data(), sums.extent(1) / detail::square_floats,
        out.data(), out.stride(0), in.extent(0),  width,       static_cast<float>(whole),
        epsilon,    offset};
    stream.submit([&](typename Api::Stream native) { return detail::launch_scale_by_squares<Api, T>(call, native); });
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
