#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/kernels/detail/check_rows.hpp>
#include <shardwise/kernels/detail/element.hpp>

#include <cmath>
#include <cstdint>
#include <limits>

namespace shardwise::inline v0_2_0 {

/// out = exp(in - max) / sum, row by row. A row of only minus infinity (everything masked) becomes zeros.
///
/// Shapes  in, out [rows, width], out may be in
/// Order   on `stream`
/// Errors  shape_mismatch
template <ActivationElement T>
[[nodiscard]] Result<> softmax(TensorView<T const, 2, Host> in, TensorView<T, 2, Host> out, HostStream& stream) {
    auto const width = in.extent(1);
    if (auto const checked = detail::check_rows("softmax", in, width, out); !checked) return checked;
    auto const normalise = [=](std::int64_t begin, std::int64_t end) {
        for (auto row = begin; row < end; ++row) {
            auto const* const from = in.row(row);
            auto* const to = out.row(row);
            auto largest = -std::numeric_limits<float>::infinity();
            for (std::int64_t i = 0; i < width; ++i) {
                auto const value = static_cast<float>(from[i]);
                if (value > largest || std::isnan(value)) largest = value;
            }
            double sum = 0.0;
            bool const is_masked = largest == -std::numeric_limits<float>::infinity();
            for (std::int64_t i = 0; i < width && !is_masked; ++i) {
                sum += static_cast<double>(std::exp(static_cast<float>(from[i]) - largest));
            }
            auto const scale = is_masked ? 0.0F : static_cast<float>(1.0 / sum);
            for (std::int64_t i = 0; i < width; ++i) {
                to[i] = T(is_masked ? 0.0F : std::exp(static_cast<float>(from[i]) - largest) * scale);
            }
        }
    };
    Host::launch(in.extent(0), normalise, stream, detail::row_grain(width));
    return {};
}

}  // namespace shardwise::inline v0_2_0
