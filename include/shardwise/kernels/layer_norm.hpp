#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/kernels/detail/check_rows.hpp>
#include <shardwise/kernels/detail/element.hpp>

#include <cmath>
#include <cstdint>

namespace shardwise::inline v0_2_0 {

/// Centres each row and scales it to a variance of 1: out = (in - mean) / sqrt(variance + epsilon) * weight + bias.
///
/// Shapes  in, out [rows, width], out may be in; weight [width]; bias [width] or empty
/// Order   on `stream`
/// Errors  shape_mismatch
/// Source  Ba, Kiros and Hinton, Layer Normalization, 2016; the variance is that of the row, not of a sample (as torch's)
template <ActivationElement T>
[[nodiscard]] Result<> layer_norm(TensorView<T const, 2, Host> in, TensorView<T const, 1, Host> weight,
                                  TensorView<T const, 1, Host> bias, TensorView<T, 2, Host> out, float epsilon,
                                  HostStream& stream) {
    auto const width = in.extent(1);
    if (auto const checked = detail::check_rows("layer_norm", in, weight.elements(), out); !checked) return checked;
    if (!bias.empty() && bias.elements() != width) {
        return Error{ErrorCode::shape_mismatch}
            .in("layer_norm")
            .because("the bias is not as wide as a row")
            .got(bias.elements())
            .expected(width);
    }
    auto const normalise = [=](std::int64_t begin, std::int64_t end) {
        for (auto row = begin; row < end; ++row) {
            auto const* const from = in.row(row);
            auto* const to = out.row(row);
            double sum = 0.0;
            for (std::int64_t i = 0; i < width; ++i) sum += static_cast<double>(static_cast<float>(from[i]));
            auto const mean = sum / static_cast<double>(width);
            // Two passes: the sum of squares minus the square of the sum loses digits where the mean is large.
            double squares = 0.0;
            for (std::int64_t i = 0; i < width; ++i) {
                auto const centred = static_cast<double>(static_cast<float>(from[i])) - mean;
                squares += centred * centred;
            }
            auto const variance = squares / static_cast<double>(width);
            auto const scale = static_cast<float>(1.0 / std::sqrt(variance + static_cast<double>(epsilon)));
            for (std::int64_t i = 0; i < width; ++i) {
                auto const centred = static_cast<float>(static_cast<double>(static_cast<float>(from[i])) - mean);
                auto const shift = bias.empty() ? 0.0F : static_cast<float>(bias.data()[i]);
                to[i] = T(centred * scale * static_cast<float>(weight.data()[i]) + shift);
            }
        }
    };
    Host::launch(in.extent(0), normalise, stream, detail::row_grain(width));
    return {};
}

}  // namespace shardwise::inline v0_2_0
