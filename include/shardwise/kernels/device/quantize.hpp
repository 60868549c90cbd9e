// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device.hpp>
#include <shardwise/backend/device_weight.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/detail/check_quantize.hpp>
#include <shardwise/kernels/detail/element.hpp>
#include <shardwise/kernels/detail/embedding_call.hpp>
#include <shardwise/kernels/detail/pack.hpp>
#include <shardwise/kernels/detail/quantize_call.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Defined in kernels/quantize_launch.cuh.
template <class Api>
Result<> launch_quantize(QuantizeCall const& call, typename Api::Stream stream);
/// Defined in kernels/embedding_launch.cuh.
template <class Api>
Result<> launch_weight_rows(std::string_view name, WeightRowsCall const& call, typename Api::Stream stream);

/// Elements of a row that a team of threads encodes at once: those of a scale, or as many as it takes where there is none.
[[nodiscard]] constexpr std::int64_t quantized_span(WeightFormat format, std::int64_t width, std::int64_t group) {
    switch (traits(format).scales) {
        case ScalePlace::row:
            return width;
        case ScalePlace::group:
            return group;
        case ScalePlace::none:
            return 32;
        case ScalePlace::blocks:
        case ScalePlace::block:
            break;
    }
    return traits(format).block_elements;
}

}  // namespace detail

/// Quantizes a matrix into a weight of the device: the values of `weight` are those that the host's `quantize` makes of the same
/// numbers, bit for bit.
///
/// Shapes  in [weight.outputs(), weight.inputs()]; `weight` comes from allocate_weight, which is told the format and the group
/// Memory  `weight` stays alive until it is done
/// Order   on `stream`
/// Errors  unsupported for a format that can_quantize refuses, and for spans of more than 2^32 elements under one scale;
///         shape_mismatch; invalid_argument for a weight that rests elsewhere
template <class Api>
[[nodiscard]] Result<> quantize(TensorView<float const, 2, DeviceBackend<Api>> in, DeviceWeight<Api>& weight,
                                DeviceStream<Api>& stream) {
    if (auto const known = check_views("quantize", in); !known) return known;
    auto const format = weight.format();
    if (auto const known = detail::check_quantized_format(format); !known) return known;
    if (auto const same = detail::check_quantized_shape("quantize", false, in, weight.outputs(), weight.inputs());
        !same) {
        return same;
    }
    if (in.empty()) return {};
    auto* const bytes = weight.own_bytes();
    if (bytes == nullptr) {
        return Error{ErrorCode::invalid_argument}
            .in("quantize")
            .because("the weight has no memory of its own: its bytes rest elsewhere")
            .fix("take a weight of allocate_weight");
    }
    auto const view = weight.view();
    auto const place = [&](std::byte const* part) { return bytes + (part - view.rows); };
    auto const span = detail::quantized_span(format, in.extent(1), weight.grain());
    constexpr std::int64_t most = std::int64_t{1} << 32U;
    if (span > most) {
        return Error{ErrorCode::unsupported}
            .in("quantize")
            .at(name_of(format))
            .because("has more elements under one scale than devices count")
            .got(span)
            .at_most(most);
    }
    detail::QuantizeCall const call{.format = format,
                                    .in = in.data(),
                                    .in_row = in.stride(0),
                                    .rows = in.extent(0),
                                    .width = in.extent(1),
                                    .span = span,
                                    .spans = ceil_divide(in.extent(1), span),
                                    .quants = place(view.rows),
                                    .row_bytes = view.row_bytes,
                                    .planes = place(view.planes),
                                    .block_row = view.block_row,
                                    .scales = place(view.scales),
                                    .scale_row = view.scale_row,
                                    .is_packed = detail::has_packs(in.data(), in.extent(0), in.stride(0), in.extent(1)),
                                    .team_shift = 0,
                                    .column_blocks = 1};
    stream.submit([&](typename Api::Stream native) { return detail::launch_quantize<Api>(call, native); });
    return {};
}

/// The values of a weight of the device, in any format that it multiplies by: the host's `dequantize`, bit for bit, rounded to the
/// output's type.
///
/// Shapes  out [weight.outputs(), weight.inputs()]
/// Memory  `weight` stays alive until it is done
/// Order   on `stream`
/// Errors  shape_mismatch
template <ActivationElement T, class Api>
[[nodiscard]] Result<> dequantize(DeviceWeight<Api> const& weight, TensorView<T, 2, DeviceBackend<Api>> out,
                                  DeviceStream<Api>& stream) {
    if (auto const known = check_views("dequantize", out); !known) return known;
    if (auto const same = detail::check_quantized_shape("dequantize", true, out, weight.outputs(), weight.inputs());
        !same) {
        return same;
    }
    if (out.empty()) return {};
    detail::WeightRowsCall const call{
        nullptr, 0, weight.view(), out.data(), out.stride(0), out.extent(0), detail::row_element<T>};
    stream.submit(
        [&](typename Api::Stream native) { return detail::launch_weight_rows<Api>("dequantize", call, native); });
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
