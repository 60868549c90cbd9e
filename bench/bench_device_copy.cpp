// SPDX-License-Identifier: Apache-2.0
// What a device moves: copies within its memory, to and from the host's, and what a launch and an event cost. Others are
// measured by the first of these.

#include <shardwise/backend/detail/pinned_array.hpp>
#include <shardwise/kernels/device/copy_rows.hpp>
#include <shardwise/kernels/device/scale.hpp>

#include "device_bench.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace {

using namespace shardwise;
using bench::check;
using bench::Device;
using bench::DeviceBench;
using bench::scaled;
using bench::take;

template <class Api>
Api api_of(DeviceContext<Api> const&);
using Api = decltype(api_of(std::declval<Device::Context const&>()));

constexpr std::int64_t width = 4096;
constexpr std::int64_t mebi = std::int64_t{1} << 20;

void measure_device(DeviceBench& run) {
    run.section("device copy", [&] {
        run.add("copy by the vendor, 512 MiB, read and written", run.copy_rate() * 1e-9, "GB/s", "", 0, 0, 0);
    });
    for (auto const megabytes : {64, 256}) {
        auto const rows = scaled(megabytes * mebi / 4) / width + (bench::is_emulated ? 1 : 0);
        auto const bytes = 4.0 * static_cast<double>(rows * width);
        auto const size = std::to_string(megabytes) + " MiB";
        run.section("copy_rows " + size, [&] {
            bench::Rotated<float> from(run, rows * width, true);
            bench::Rotated<float> to(run, rows * width, false);
            auto const seconds = run.time([&](std::int64_t i) {
                check(copy_rows<float>(from.rows(i, rows, width), to.matrix(i, rows, width), run.stream()));
            });
            run.add_rate("copy_rows, " + size, 2 * bytes, seconds, 0.9);
        });
    }
}

/// Copies between the host's memory, `host`, and the device's, each way.
void add_host_copies(DeviceBench& run, std::string const& kind, std::byte* host, std::int64_t bytes) {
    auto device = run.memory<std::byte>(bytes);
    TensorView<std::byte, 1, Host> const view(host, {bytes});
    auto const in = run.time([&](std::int64_t) {
        check(
            Device::copy<std::byte>(TensorView<std::byte const, 1, Host>(host, {bytes}), device.view(), run.stream()));
    });
    auto const out = run.time(
        [&](std::int64_t) { check(Device::copy<std::byte>(std::as_const(device).view(), view, run.stream())); });
    auto const size = " " + std::to_string(bytes / mebi) + " MiB, " + kind;
    run.add("host to device," + size, static_cast<double>(bytes) / in * 1e-9, "GB/s", "", 0, 0, 0);
    run.add("device to host," + size, static_cast<double>(bytes) / out * 1e-9, "GB/s", "", 0, 0, 0);
}

void measure_host(DeviceBench& run) {
    for (auto const megabytes : {1, 64}) {
        auto const bytes = scaled(megabytes * mebi);
        run.section("pinned copies", [&] {
            auto pinned = take(detail::PinnedArray<Api, std::byte>::make(bytes));
            std::fill(pinned.data(), pinned.data() + bytes, std::byte{1});
            add_host_copies(run, "pinned", pinned.data(), bytes);
        });
        run.section("pageable copies", [&] {
            std::vector<std::byte> pageable(static_cast<std::size_t>(bytes), std::byte{1});
            add_host_copies(run, "pageable", pageable.data(), bytes);
        });
    }
}

void measure_calls(DeviceBench& run) {
    auto const calls = scaled(4096, 256);
    // A kernel of one element: what it takes is its launch.
    auto const launch = [&](Device::Stream& stream, float* at) {
        check(scale<float>(TensorView<float const, 2, Device>(at, {1, 1}), TensorView<float, 2, Device>(at, {1, 1}),
                           1.0F, stream));
    };
    run.section("launch", [&] {
        auto memory = run.numbers<float>(1);
        auto const in_stream = run.time([&](std::int64_t) { launch(run.stream(), memory.data()); });
        run.add_time("a kernel of one element, one after another", in_stream, 0.0);
        auto const in_graph = run.time_in_graph([&](std::int64_t) { launch(run.stream(), memory.data()); });
        run.add_time("a kernel of one element, in a graph of 64", in_graph, 0.0);
        auto const start = std::chrono::steady_clock::now();
        for (std::int64_t i = 0; i < calls / 16; ++i) launch(run.stream(), memory.data());
        auto const host = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        run.add_time("host's time to launch it", host / static_cast<double>(calls / 16), 0.0);
        run.wait();
    });
    run.section("event", [&] {
        auto other = run.context().make_stream();
        Device::Event event;
        event.record(run.stream());
        auto const start = std::chrono::steady_clock::now();
        for (std::int64_t i = 0; i < calls; ++i) {
            event.record(run.stream());
            event.block(other, std::chrono::seconds(10));
        }
        auto const host = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        run.add_time("host's time to record an event and hold a stream back by it", host / static_cast<double>(calls),
                     0.0);
        run.wait();
        check(other.synchronize(Deadline::after(std::chrono::seconds(30))));
    });
    run.section("round trip", [&] {
        auto memory = run.numbers<float>(1);
        auto pinned = take(detail::PinnedArray<Api, float>::make(1));
        auto const trips = scaled(512, 64);
        auto const start = std::chrono::steady_clock::now();
        for (std::int64_t i = 0; i < trips; ++i) {
            launch(run.stream(), memory.data());
            check(Device::copy<float>(std::as_const(memory).view(), TensorView<float, 1, Host>(pinned.data(), {1}),
                                      run.stream()));
            run.wait();
        }
        auto const host = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        run.add_time("kernel, copy of one float to the host, wait", host / static_cast<double>(trips), 0.0);
    });
}

}  // namespace

int main(int argc, char** argv) {
    DeviceBench run("device_copy", argc, argv);
    measure_device(run);
    measure_host(run);
    measure_calls(run);
    return run.finish();
}
