// SPDX-License-Identifier: Apache-2.0
// What graphs save: kernels one by one and as a graph, by the device's time and by the host's; what capturing costs; and decoding of a
// small model with and without them.

#include <shardwise/kernels/device/rms_norm.hpp>

#include "device_bench.hpp"
#include "device_generate.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

namespace {

using namespace shardwise;
using bench::check;
using bench::Device;
using bench::DeviceBench;
using bench::take;

double seconds_since(std::chrono::steady_clock::time_point begin) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// A step's worth of kernels that take no time to speak of, one after another: norms of one row.
void measure_kernels(DeviceBench& run, std::int64_t kernels) {
    auto const name = std::to_string(kernels) + " norms of a row of 4096";
    run.section(name, [&] {
        constexpr std::int64_t width = bench::is_emulated ? 64 : 4096;
        auto row = run.numbers<Bfloat16>(width);
        auto const weight = run.numbers<Bfloat16>(width, 2);
        auto const put = [&]() -> Result<> {
            for (std::int64_t i = 0; i < kernels; ++i) {
                auto const view = row.matrix(1, width);
                auto const done = rms_norm<Bfloat16>(TensorView<Bfloat16 const, 2, Device>(view), weight.view(), view,
                                                     1e-5F, run.stream());
                if (!done) return done;
            }
            return {};
        };
        // Code is loaded at its first call, which a capture may not hold.
        check(put());
        run.wait();
        auto const eager = run.time([&](std::int64_t) { check(put()); });
        auto begin = std::chrono::steady_clock::now();
        check(put());
        auto const eager_host = seconds_since(begin);
        run.wait();

        begin = std::chrono::steady_clock::now();
        auto const graph = take(DeviceBench::Graph::capture(run.stream(), put));
        auto const capture = seconds_since(begin);
        auto const replayed = run.time([&](std::int64_t) { graph.launch(run.stream()); });
        run.wait();
        begin = std::chrono::steady_clock::now();
        graph.launch(run.stream());
        auto const replayed_host = seconds_since(begin);
        run.wait();

        run.add(name + ", as a graph", replayed * 1e6, "us", "one by one", eager * 1e6, eager / replayed, 0.0);
        run.add(name + ", host's time to launch the graph", replayed_host * 1e6, "us", "one by one", eager_host * 1e6,
                eager_host / replayed_host, 0.0);
        run.add(name + ", capture and instantiation", capture * 1e6, "us", "", 0.0, 0.0, 0.0);
    });
}

void measure_model(DeviceBench& run) {
    bench::LlamaShape shape{32000, 1024, 2816, 16, 16, 4};
    if (bench::is_emulated) shape = {256, 64, 128, 2, 4, 2};
    run.section("decode", [&] {
        bench::GeneratedModel const model(shape);
        bench::GenerateOptions options{.made = bench::scaled(128, 32)};
        auto const with = model.generate(options).decode;
        options.has_graphs = false;
        auto const without = model.generate(options).decode;
        run.add("decode of 16 layers of width 1024, bf16, with graphs", with, "tokens/s", "without", without,
                with / without, 0.0);
    });
}

}  // namespace

int main(int argc, char** argv) {
    DeviceBench run("device_graph", argc, argv);
    measure_kernels(run, 16);
    measure_kernels(run, 256);
    measure_model(run);
    return run.finish();
}
