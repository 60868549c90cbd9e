// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/backend/host/product/source.hpp>
#include <shardwise/backend/weight_source.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/kernels/detail/check_quantize.hpp>
#include <shardwise/kernels/detail/element.hpp>
#include <shardwise/kernels/detail/launch_pieces.hpp>
#include <shardwise/quant/weight_format.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Elements of a row that are encoded without those before and after them: blocks that share neither scales nor bytes.
[[nodiscard]] constexpr std::int64_t encoded_apart(WeightFormat format, std::int64_t width, std::int64_t group) {
    auto const& unit = traits(format);
    switch (unit.scales) {
        case ScalePlace::row:
            return width;
        case ScalePlace::group:
            return group < width ? 2 * group : width;
        case ScalePlace::none:
        case ScalePlace::blocks:
        case ScalePlace::block:
            break;
    }
    return unit.block_elements;
}

}  // namespace detail

/// Quantizes a matrix row by row, bit for bit as the format's reference does (quant/encode_*.hpp).
///
/// Shapes  in [rows, width]; data and scales as WeightSource says of outputs = rows, inputs = width; group for int4
/// Memory  `data` and `scales` stay alive until it is done
/// Order   on `stream`
/// Errors  unsupported for a format that can_quantize refuses; shape_mismatch; invalid_argument
[[nodiscard]] inline Result<> quantize(TensorView<float const, 2, Host> in, WeightFormat format,
                                       std::span<std::byte> data, std::span<std::byte> scales, HostStream& stream,
                                       std::int64_t group = 0) {
    if (auto const known = check_views("quantize", in); !known) return known;
    if (auto const known = detail::check_quantized_format(format); !known) return known;
    auto const rows = in.extent(0);
    auto const width = in.extent(1);
    WeightSource const target{format, rows, width, data, scales, group};
    if (auto const checked = detail::check_source(target); !checked) return checked;
    auto const encode = [=](std::int64_t row, std::int64_t begin, std::int64_t end) {
        detail::SourceBytes before;
        if (begin > 0) before = *detail::source_bytes({format, 1, begin, {}, {}, group});
        auto const row_data = static_cast<std::int64_t>(data.size()) / rows * row + before.data;
        auto const row_scales = static_cast<std::int64_t>(scales.size()) / rows * row + before.scales;
        traits(format).encode({in.row(row) + begin, static_cast<std::size_t>(end - begin)}, group,
                              {data.data() + row_data, scales.data() + row_scales});
    };
    detail::launch_pieces({rows, width, detail::encoded_apart(format, width, group), detail::row_grain(1) / 8}, encode,
                          stream);
    return {};
}

/// The values of a quantised matrix, bit for bit as the format's reference decodes them (quant/decode_*.hpp); int8, whose
/// scale is a 127th of bitsandbytes' SCB, is the product of scale and integer, rounded once.
///
/// Shapes  out [source.outputs, source.inputs]
/// Memory  what `source` shows stays alive until it is done
/// Order   on `stream`
/// Errors  shape_mismatch; invalid_argument
[[nodiscard]] inline Result<> dequantize(WeightSource const& source, TensorView<float, 2, Host> out,
                                         HostStream& stream) {
    if (auto const known = check_views("dequantize", out); !known) return known;
    if (auto const checked = detail::check_source(source); !checked) return checked;
    if (auto const same = detail::check_quantized_shape("dequantize", true, out, source.outputs, source.inputs);
        !same) {
        return same;
    }
    auto const decode = [=](std::int64_t row, std::int64_t begin, std::int64_t end) {
        for (auto first = begin; first < end; first += detail::source_chunk) {
            auto const count = std::min(detail::source_chunk, end - first);
            detail::decode_source(source, row, first, count, out.row(row) + first);
        }
    };
    detail::launch_pieces({source.outputs, source.inputs, detail::source_chunk}, decode, stream);
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
