// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/multiply_call.hpp>
#include <shardwise/backend/detail/row_element.hpp>
#include <shardwise/backend/device.hpp>
#include <shardwise/backend/device_weight.hpp>
#include <shardwise/backend/gemm_options.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/quant/half_types.hpp>
#include <shardwise/quant/weight_format.hpp>

#include <concepts>
#include <cstdint>
#include <string_view>

// The products by weights that DeviceBackend declares.

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// The format of weights that lie as rows of T do.
template <class T>
inline constexpr WeightFormat format_of_rows = std::same_as<T, float>      ? WeightFormat::f32
                                               : std::same_as<T, Bfloat16> ? WeightFormat::bf16
                                                                           : WeightFormat::f16;

/// Products of many rows are the vendor's library's, where there is one and the weight lies as rows of T do. All others are kernels of ours.
template <class T>
[[nodiscard]] constexpr bool is_vendor_format(WeightFormat format) {
    return format == format_of_rows<T>;
}

/// True for floats, and for halves whose rows are whole packs: of others a vendor's product has few kernels, or none.
template <class T, class Out, class Backend>
[[nodiscard]] bool is_for_vendor(TensorView<T const, 2, Backend> const& in, TensorView<Out, 2, Backend> const& out) {
    auto const is_aligned = [](auto const* data, std::int64_t row) {
        constexpr auto size = static_cast<std::int64_t>(sizeof *data);
        return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && row * size % 16 == 0;
    };
    return sizeof(T) == 4 || (is_aligned(in.data(), in.stride(0)) && is_aligned(out.data(), out.stride(0)));
}

/// Checks that a range is one of whole blocks of a weight's inputs.
template <class Api>
[[nodiscard]] Result<> check_device_range(std::string_view subject, DeviceWeight<Api> const& weight, UnitRange inputs) {
    Error error{ErrorCode::shape_mismatch};
    error.in(subject);
    if (inputs.begin < 0 || inputs.size() < 0 || inputs.end > weight.inputs())
        return error.because("the range leaves the weight's inputs").got(inputs.end).at_most(weight.inputs());
    auto const block = weight.grain();
    bool const is_cut = inputs.end % block != 0 && inputs.end != weight.inputs();
    if (inputs.begin % block != 0 || is_cut) {
        return error.because("the range parts a block")
            .got(inputs.begin % block != 0 ? inputs.begin : inputs.end)
            .multiple_of(block);
    }
    return {};
}

/// Checks the extents of a product by a range of a weight's inputs.
template <class Api, class T, class Out>
[[nodiscard]] Result<> check_device_product(std::string_view subject, TensorView<T const, 2, DeviceBackend<Api>> in,
                                            DeviceWeight<Api> const& weight, UnitRange inputs,
                                            TensorView<Out, 2, DeviceBackend<Api>> out) {
    if (auto const known = check_views(subject, in, out); !known) return known;
    if (auto const whole = check_device_range(subject, weight, inputs); !whole) return whole;
    Error error{ErrorCode::shape_mismatch};
    error.in(subject);
    if (in.extent(1) != inputs.size()) {
        return error.because("a row is not as wide as the weight").got(in.extent(1)).expected(inputs.size());
    }
    if (out.extent(0) != in.extent(0)) {
        return error.because("the output has another number of rows than the input")
            .got(out.extent(0))
            .expected(in.extent(0));
    }
    if (out.extent(1) != weight.outputs()) {
        return error.because("the output is not as wide as the weight has outputs")
            .got(out.extent(1))
            .expected(weight.outputs());
    }
    return {};
}

}  // namespace detail

template <class Api>
template <class T, class Out>
Result<bool> DeviceBackend<Api>::multiply_either(TensorView<T const, 2, DeviceBackend> in,
                                                 DeviceWeight<Api> const& weight, float const* bias,
                                                 TensorView<Out, 2, DeviceBackend> out, Stream& stream) {
    // Without the vendor's, halves are multiplied by tiles of the device's units for matrices, as packed weights are.
    bool const has_own = sizeof(T) == 2 && !Context::Products::is_vendors && stream.context().facts().has_matrix_unit;
    bool const is_many = in.extent(0) > max_own_rows && detail::is_vendor_format<T>(weight.format());
    if (is_many && !has_own && detail::is_for_vendor(in, out)) {
        auto const checked = detail::check_device_product<Api>("multiply", in, weight, {0, weight.inputs()}, out);
        if (!checked) return checked.error();
        if (out.empty()) return false;
        auto const view = weight.view();
        constexpr auto size = static_cast<std::int64_t>(sizeof(T));
        TensorView<T const, 2, DeviceBackend> const factor(reinterpret_cast<T const*>(view.rows),
                                                           {weight.outputs(), weight.inputs()}, view.row_bytes / size);
        return multiply_matrices<T>(in, factor, bias, out, {.is_b_transposed = true}, stream);
    }
    auto const done = submit_product(in, weight, {0, weight.inputs()}, out, false, stream);
    return done ? Result<bool>(false) : Result<bool>(done.error());
}

template <class Api>
template <class T, class Out>
Result<> DeviceBackend<Api>::multiply(TensorView<T const, 2, DeviceBackend> in, DeviceWeight<Api> const& weight,
                                      TensorView<Out, 2, DeviceBackend> out, Stream& stream) {
    auto const done = multiply_either(in, weight, nullptr, out, stream);
    return done ? Result<>{} : Result<>(done.error());
}

template <class Api>
template <class T, class Out>
Result<bool> DeviceBackend<Api>::multiply_with_bias(TensorView<T const, 2, DeviceBackend> in,
                                                    DeviceWeight<Api> const& weight,
                                                    TensorView<float const, 1, DeviceBackend> bias,
                                                    TensorView<Out, 2, DeviceBackend> out, Stream& stream) {
    if (bias.elements() != weight.outputs()) {
        return Error{ErrorCode::shape_mismatch}
            .in("multiply")
            .because("the bias has not one number per output of the weight")
            .got(bias.elements())
            .expected(weight.outputs());
    }
    return multiply_either(in, weight, bias.data(), out, stream);
}

template <class Api>
template <class T, class Out>
Result<> DeviceBackend<Api>::multiply(TensorView<T const, 2, DeviceBackend> in, DeviceWeight<Api> const& weight,
                                      UnitRange inputs, TensorView<Out, 2, DeviceBackend> out, Stream& stream) {
    return submit_product(in, weight, inputs, out, true, stream);
}

template <class Api>
template <class T, class Out>
Result<> DeviceBackend<Api>::submit_product(TensorView<T const, 2, DeviceBackend> in, DeviceWeight<Api> const& weight,
                                            UnitRange inputs, TensorView<Out, 2, DeviceBackend> out, bool is_fixed,
                                            Stream& stream) {
    static_assert(std::same_as<Out, float> || std::same_as<Out, T>, "products are floats, or as their rows");
    auto const checked = detail::check_device_product<Api>("multiply", in, weight, inputs, out);
    if (!checked || out.empty()) return checked;
    detail::MultiplyCall const call{.weight = weight.view(inputs),
                                    .in = in.data(),
                                    .in_row = in.stride(0),
                                    .out = out.data(),
                                    .out_row = out.stride(0),
                                    .rows = in.extent(0),
                                    .has_tiles = !is_fixed && stream.context().facts().has_matrix_unit,
                                    .in_element = detail::row_element<T>,
                                    .out_element = detail::row_element<Out>};
    stream.submit([&](typename Api::Stream native) { return detail::launch_multiply<Api>(call, native); });
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
