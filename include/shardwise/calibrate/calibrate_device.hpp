// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/device.hpp>
#include <shardwise/backend/device_graph.hpp>
#include <shardwise/backend/device_product.hpp>
#include <shardwise/backend/device_weight.hpp>
#include <shardwise/backend/memory_counter.hpp>
#include <shardwise/backend/pinned_memory.hpp>
#include <shardwise/calibrate/calibrated_formats.hpp>
#include <shardwise/calibrate/device_calibration.hpp>
#include <shardwise/calibrate/device_timer.hpp>
#include <shardwise/calibrate/measure_attention.hpp>
#include <shardwise/calibrate/memory_rates.hpp>
#include <shardwise/calibrate/product_rates.hpp>
#include <shardwise/calibrate/rate_probe.hpp>
#include <shardwise/core/observer.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/device/compiled_kernels.hpp>
#include <shardwise/kernels/device/fill.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How much is measured of a device, and how long that may take.
struct DeviceCalibrationOptions {
    /// What probes of memory, or of products with one row, read; by default beyond the caches of every device. Attention reads no
    /// sequence whose keys and values are more, but the shortest.
    Bytes probe_bytes = memory_probe_bytes;
    /// The largest product.
    ProductExtent extent{4096, 2048};
    AttentionExtent attention{};
    /// For each of the probes.
    std::chrono::nanoseconds probe_time = std::chrono::milliseconds(100);
    /// For all of them.
    std::chrono::nanoseconds limit = std::chrono::seconds(55);
};

namespace detail {

/// Measures one thing of a device after another and tells an observer.
template <class Api>
class DeviceCalibrator {
    using B = DeviceBackend<Api>;

public:
    DeviceCalibrator(DeviceContext<Api>& context, DeviceCalibrationOptions const& options, Observer const& observer)
        : context_(context), options_(options), observer_(observer), deadline_(Deadline::after(options.limit)) {}

    [[nodiscard]] Result<DeviceCalibration> run() {
        if (auto const runs = check_device_code(context_); !runs) return runs.error();
        auto timer = DeviceTimer<Api>::open(context_);
        if (!timer) return timer.error();
        DeviceCalibration found;
        found.vendor = Api::name;
        found.device = context_.device();
        for (auto const measure : {&DeviceCalibrator::measure_memory, &DeviceCalibrator::measure_host_copies,
                                   &DeviceCalibrator::measure_launch, &DeviceCalibrator::measure_products,
                                   &DeviceCalibrator::measure_attentions}) {
            if (auto const done = (this->*measure)(*timer, found); !done) return done.error();
        }
        return found;
    }

private:
    static constexpr std::array cached_types{Dtype::f32, Dtype::bf16, Dtype::i8};
    static constexpr std::int64_t probes =
        3 + 2 * static_cast<std::int64_t>(calibrated_formats.size()) + static_cast<std::int64_t>(cached_types.size());
    static constexpr std::int64_t short_copy = 4096;
    static constexpr std::int64_t launches_in_graph = 64;

    RateProbe next(std::string_view name) {
        observer_(name, done_++, probes);
        return {.name = name, .time = options_.probe_time, .deadline = deadline_};
    }
    [[nodiscard]] std::int64_t bytes() const { return options_.probe_bytes.count(); }

    [[nodiscard]] Result<> measure_memory(DeviceTimer<Api>& timer, DeviceCalibration& found) {
        auto const probe = next("memory of the device");
        auto from = Buffer<std::byte, B>::allocate(context_, bytes());
        if (!from) return from.error();
        auto to = Buffer<std::byte, B>::allocate(context_, bytes());
        if (!to) return to.error();
        timer.stream().submit([&](typename Api::Stream native) {
            return Api::clear(from->data(), static_cast<std::size_t>(bytes()), native);
        });
        auto const seconds = timer.seconds(probe, [&] {
            return B::template copy<std::byte>(std::as_const(*from).view(), to->view(), timer.stream());
        });
        if (!seconds) return seconds.error();
        found.memory = 2.0 * static_cast<double>(bytes()) / *seconds;
        return {};
    }

    [[nodiscard]] Result<> measure_host_copies(DeviceTimer<Api>& timer, DeviceCalibration& found) {
        auto probe = next("copies to and from the device");
        probe.time /= 3;
        MemoryCounter host;
        auto pinned = PinnedMemory<Api>::allocate(context_, host, bytes());
        if (!pinned) return pinned.error();
        std::fill(pinned->data(), pinned->data() + bytes(), std::byte{1});
        auto device = Buffer<std::byte, B>::allocate(context_, bytes());
        if (!device) return device.error();
        auto const to_device = [&](std::int64_t count) {
            return timer.seconds(probe, [&] {
                return B::template copy<std::byte>(TensorView<std::byte const, 1, Host>(pinned->data(), {count}),
                                                   device->view().part(0, count), timer.stream());
            });
        };
        auto const whole = to_device(bytes());
        if (!whole) return whole.error();
        auto const brief = to_device(std::min(short_copy, bytes()));
        if (!brief) return brief.error();
        auto const back = timer.seconds(probe, [&] {
            return B::template copy<std::byte>(std::as_const(*device).view(),
                                               TensorView<std::byte, 1, Host>(pinned->data(), {bytes()}),
                                               timer.stream());
        });
        if (!back) return back.error();
        found.host_to_device = static_cast<double>(bytes()) / *whole;
        found.device_to_host = static_cast<double>(bytes()) / *back;
        found.copy_latency = *brief;
        return {};
    }

    [[nodiscard]] Result<> measure_launch(DeviceTimer<Api>& timer, DeviceCalibration& found) {
        auto const probe = next("launches");
        auto memory = Buffer<float, B>::allocate(context_, 1);
        if (!memory) return memory.error();
        auto& stream = timer.stream();
        auto const launch = [&] { return fill<float>(TensorView<float, 2, B>(memory->data(), {1, 1}), 1.0F, stream); };
        auto const single = timer.seconds(probe, launch);
        if (!single) return single.error();
        found.launch = *single;
        auto const graph = DeviceGraph<Api>::capture(stream, [&]() -> Result<> {
            for (std::int64_t i = 0; i < launches_in_graph; ++i) {
                if (auto const done = launch(); !done) return done;
            }
            return {};
        });
        // A vendor may take no graphs down; a failure of the device comes back from the stream.
        if (!graph) return stream.synchronize(probe.deadline);
        auto const together = timer.seconds(probe, [&]() -> Result<> {
            graph->launch(stream);
            return {};
        });
        if (!together) return together.error();
        found.launch = std::min(found.launch, *together / static_cast<double>(launches_in_graph));
        return {};
    }

    /// With the workspace that a rank lends to its products.
    [[nodiscard]] Result<> measure_products(DeviceTimer<Api>& timer, DeviceCalibration& found) {
        auto workspace = Buffer<std::byte, B>::allocate(context_, B::product_workspace().count());
        if (!workspace) return workspace.error();
        timer.stream().lend_to_products({workspace->data(), static_cast<std::size_t>(workspace->size())});
        auto const done = measure_all_products(timer, found);
        timer.stream().lend_to_products({});
        return done;
    }
    [[nodiscard]] Result<> measure_all_products(DeviceTimer<Api>& timer, DeviceCalibration& found) {
        for (auto const& each : calibrated_formats) {
            auto const large = measure_product(timer, each.format, next("products"), options_.extent);
            if (!large) return large.error();
            found.products.push_back(*large);
            auto const one_row = measure_one_row(timer, each.format, next("products"), options_.probe_bytes);
            if (!one_row) return one_row.error();
            found.products.push_back(*one_row);
        }
        return {};
    }

    [[nodiscard]] Result<> measure_attentions(DeviceTimer<Api>& timer, DeviceCalibration& found) {
        auto const& contexts = options_.attention.contexts;
        auto const shortest = *std::min_element(contexts.begin(), contexts.end());
        for (auto const kv : cached_types) {
            auto probe = next("attention");
            probe.time /= static_cast<int>(contexts.size());
            for (auto const context : contexts) {
                // One that is longer than all that is to be read is left out: plans take the next shorter one.
                if (context != shortest && cache_bytes(kv, context, options_.attention) > bytes()) continue;
                auto const rate =
                    measure_attention(timer, kv, context, options_.attention, options_.probe_bytes, probe);
                if (!rate) return rate.error();
                found.attention.push_back(*rate);
            }
        }
        return {};
    }

    DeviceContext<Api>& context_;
    DeviceCalibrationOptions const& options_;
    Observer const& observer_;
    Deadline deadline_;
    std::int64_t done_ = 0;
};

}  // namespace detail

/// Measures what a device does: copies within its memory and to and from the host's, what a launch costs, products by format
/// for many rows and for one, attention by length and element type of the cache. Nothing else should run on it meanwhile.
///
/// Memory  on the device at most about three times `probe_bytes` or, where those are more, the largest product in fp32 with its
///         activations (128 MiB by default) or the shortest sequences, and the workspace of the vendor's products; pinned on the host
///         `probe_bytes`; all of it is given back
/// Errors  invalid_argument for impossible options; out_of_memory; backend_failure; deadline_exceeded, naming what was not
///         measured in time
template <class Api>
[[nodiscard]] Result<DeviceCalibration> calibrate_device(DeviceContext<Api>& context,
                                                         DeviceCalibrationOptions const& options = {},
                                                         Observer const& observer = {}) {
    Error refused{ErrorCode::invalid_argument};
    refused.in("calibrate");
    if (options.probe_bytes.count() < 1) return refused.at("probe_bytes").because("is nothing to read");
    if (options.extent.rows < 1) return refused.at("extent").because("has no row");
    if (options.extent.width < 1 || options.extent.width % 256 != 0)
        return refused.at("extent").because("has a width that is no multiple of 256").got(options.extent.width);
    auto const& attention = options.attention;
    auto const least = *std::min_element(attention.contexts.begin(), attention.contexts.end());
    bool const is_attention = std::min({least, attention.kv_heads, attention.head_dim, attention.prompt}) >= 1 &&
                              attention.heads % std::max<std::int64_t>(attention.kv_heads, 1) == 0 &&
                              attention.heads >= 1;
    if (!is_attention) return refused.at("attention").because("has no shape, or none that groups its heads");
    return detail::DeviceCalibrator<Api>(context, options, observer).run();
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
