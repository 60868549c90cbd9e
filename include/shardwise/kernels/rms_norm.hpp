#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/kernels/detail/check_rows.hpp>
#include <shardwise/kernels/detail/element.hpp>

#include <cmath>
#include <cstdint>

namespace shardwise::inline v0_2_0 {

namespace detail {

/// 1 / sqrt(mean of squares + epsilon) of a row, the sum in double: the same for any number of threads and lanes.
template <class T>
[[nodiscard]] float inverse_rms(T const* row, std::int64_t width, float epsilon) {
    double squares = 0.0;
    for (std::int64_t i = 0; i < width; ++i) {
        auto const value = static_cast<double>(static_cast<float>(row[i]));
        squares += value * value;
    }
    return static_cast<float>(1.0 / std::sqrt(squares / static_cast<double>(width) + static_cast<double>(epsilon)));
}

}  // namespace detail

/// Scales each row to a root mean square of 1, then by the weight: out = in / rms(in) * (weight + offset).
///
/// Shapes  in, out [rows, width], out may be in; weight [width]
/// Order   on `stream`
/// Errors  shape_mismatch
/// Source  Zhang and Sennrich, Root Mean Square Layer Normalization, 2019; gemma adds 1 to the weight (`offset`)
template <ActivationElement T>
[[nodiscard]] Result<> rms_norm(TensorView<T const, 2, Host> in, TensorView<T const, 1, Host> weight,
                                TensorView<T, 2, Host> out, float epsilon, HostStream& stream, float offset = 0.0F) {
    auto const width = in.extent(1);
    if (auto const checked = detail::check_rows("rms_norm", in, weight.elements(), out); !checked) return checked;
    auto const normalise = [=](std::int64_t begin, std::int64_t end) {
        for (auto row = begin; row < end; ++row) {
            auto const* const from = in.row(row);
            auto* const to = out.row(row);
            auto const scale = detail::inverse_rms(from, width, epsilon);
            for (std::int64_t i = 0; i < width; ++i) {
                to[i] = T(static_cast<float>(from[i]) * scale * (static_cast<float>(weight.data()[i]) + offset));
            }
        }
    };
    Host::launch(in.extent(0), normalise, stream, detail::row_grain(width));
    return {};
}

}  // namespace shardwise::inline v0_2_0
