// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/host.hpp>
#include <shardwise/backend/weight_source.hpp>
#include <shardwise/calibrate/rate_probe.hpp>
#include <shardwise/core/bytes.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/quant/weight_format.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What products with one weight were measured to do.
struct ProductRate {
    WeightFormat format = WeightFormat::f32;
    /// Rows of activations.
    std::int64_t rows = 1;
    /// Multiplications and additions.
    ///
    /// Units  operations per second
    double operations = 0.0;
    /// Of the weight as it is held.
    ///
    /// Units  bytes per second
    double bytes = 0.0;
};

namespace detail {

/// A weight of some numbers that are not all alike.
struct ProbeWeight {
    std::vector<std::byte> data;
    std::vector<std::byte> scales;
    WeightSource source;
};

/// Inputs are a multiple of the format's blocks, and of 32.
[[nodiscard]] inline ProbeWeight probe_weight(WeightFormat format, std::int64_t outputs, std::int64_t inputs) {
    ProbeWeight weight;
    weight.source = {format, outputs, inputs, {}, {}, 0};
    if (traits(format).scales == ScalePlace::group) weight.source.group = 32;
    auto const bytes = outputs * data_bytes(format, inputs);
    auto const scales = outputs * scale_bytes(format, inputs, weight.source.group);
    // 0x3c3c is a small positive number in every float format, and as a scale; as integers it is as good as any.
    weight.data.assign(static_cast<std::size_t>(bytes), std::byte{0x3c});
    weight.scales.assign(static_cast<std::size_t>(scales), std::byte{0x3c});
    weight.source.data = weight.data;
    weight.source.scales = weight.scales;
    return weight;
}

/// Bytes of a thousand weights, about: enough to make a weight of a wanted size.
[[nodiscard]] constexpr std::int64_t thousand_weights(WeightFormat format) {
    return 1000 * traits(format).bits / 8;
}

/// Times one product; `rows` of activations.
template <class Timer>
[[nodiscard]] Result<ProductRate> time_product(Timer& timer, typename Timer::Backend::Weight const& weight,
                                               WeightFormat format, std::int64_t rows, RateProbe const& probe) {
    using B = typename Timer::Backend;
    auto in = Buffer<float, B>::allocate(timer.context(), rows * weight.inputs());
    if (!in) return in.error();
    auto out = Buffer<float, B>::allocate(timer.context(), rows * weight.outputs());
    if (!out) return out.error();
    std::vector<float> const values(static_cast<std::size_t>(in->size()), 0.5F);
    TensorView<float const, 1, Host> const given(values.data(), {in->size()});
    if (auto const sent = B::template copy<float>(given, in->view(), timer.stream()); !sent) return sent.error();
    TensorView<float const, 2, B> const from(in->data(), {rows, weight.inputs()});
    TensorView<float, 2, B> const to(out->data(), {rows, weight.outputs()});
    auto const seconds = timer.seconds(probe, [&] { return B::multiply(from, weight, to, timer.stream()); });
    if (!seconds) return seconds.error();
    auto const elements = static_cast<double>(weight.outputs() * weight.inputs());
    return ProductRate{format, rows, 2.0 * elements * static_cast<double>(rows) / *seconds,
                       static_cast<double>(weight.bytes().count()) / *seconds};
}

}  // namespace detail

/// What a product with one row of activations does by a weight of about `bytes`, on what a HostTimer or a DeviceTimer
/// times: it is bound by reading the weight where `bytes` are more than the caches hold.
///
/// Errors  out_of_memory; deadline_exceeded; backend_failure of a device
template <class Timer>
[[nodiscard]] Result<ProductRate> measure_one_row(Timer& timer, WeightFormat format, RateProbe const& probe,
                                                  Bytes bytes) {
    constexpr std::int64_t inputs = 4096;
    auto const outputs = std::max<std::int64_t>(bytes.count() / (detail::thousand_weights(format) * inputs / 1000), 16);
    auto held = Timer::Backend::hold_weight(timer.context(), detail::probe_weight(format, outputs, inputs).source);
    if (!held) return held.error();
    return detail::time_product(timer, *held, format, 1, probe);
}

/// The largest product that is measured: `rows` of activations by a weight [width, width].
struct ProductExtent {
    /// The shape of a layer of a model with a billion weights.
    std::int64_t width = 2048;
    std::int64_t rows = 512;
};

/// What large products do: as many rows as take long enough, those of `extent` at most.
///
/// Errors  out_of_memory; deadline_exceeded; backend_failure of a device
template <class Timer>
[[nodiscard]] Result<ProductRate> measure_product(Timer& timer, WeightFormat format, RateProbe const& probe,
                                                  ProductExtent const& extent = {}) {
    auto const width = extent.width;
    auto held = Timer::Backend::hold_weight(timer.context(), detail::probe_weight(format, width, width).source);
    if (!held) return held.error();
    auto quick = probe;
    quick.time = std::chrono::nanoseconds{0};
    quick.runs = 1;
    // Slow machines get fewer rows: a run that takes a fifth of the time to measure tells enough.
    auto rows = std::min<std::int64_t>(32, extent.rows);
    while (rows < extent.rows) {
        auto const tried = detail::time_product(timer, *held, format, rows, quick);
        if (!tried) return tried.error();
        auto const seconds = 2.0 * static_cast<double>(width * width * rows) / tried->operations;
        if (seconds > std::chrono::duration<double>(probe.time).count() / 5.0) break;
        rows *= 2;
    }
    return detail::time_product(timer, *held, format, rows, probe);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
