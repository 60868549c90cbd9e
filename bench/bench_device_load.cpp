// SPDX-License-Identifier: Apache-2.0
// Loading a checkpoint of 1.1 billion parameters onto a device: the file's bytes by the seconds until the first step, against the lower of
// the rates at which pinned memory is copied to the device and the file is read.

#include <shardwise/quant/scheme.hpp>

#include "device_bench.hpp"
#include "device_generate.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>

namespace {

using namespace shardwise;
using bench::DeviceBench;
using bench::GeneratedModel;

void measure(DeviceBench& run, GeneratedModel const& model, std::string const& name, LoadOptions const& load,
             double bound, double goal) {
    run.section("load as " + name, [&] {
        // Twice: the first one finds code that is not loaded.
        double seconds = 0.0;
        for (int pass = 0; pass < (bench::is_emulated ? 1 : 2); ++pass)
            seconds = model.generate({.made = 1, .load = load}).load_seconds;
        auto const bytes = static_cast<double>(std::filesystem::file_size(model.weights_file()));
        auto const rate = bytes / seconds;
        run.add("load 1.1B of bf16 as " + name, rate * 1e-9, "GB/s", "pinned copy or reading", bound * 1e-9,
                rate / bound, goal);
    });
}

}  // namespace

int main(int argc, char** argv) {
    DeviceBench run("device_load", argc, argv);
    bench::LlamaShape shape;
    if (bench::is_emulated) shape = {256, 64, 128, 2, 4, 2};
    run.attempt("load", [&] {
        GeneratedModel const model(shape);
        auto const pinned = run.pinned_rate();
        auto const read = bench::file_rate(model.weights_file());
        run.add("host to device, pinned, 64 MiB", pinned * 1e-9, "GB/s", "", 0.0, 0.0, 0.0);
        run.add("the file read, by all cores", read * 1e-9, "GB/s", "", 0.0, 0.0, 0.0);
        auto const bound = std::min(pinned, read);
        measure(run, model, "it is stored", {}, bound, 0.8);
        // Packed by the processor meanwhile.
        measure(run, model, "int8", {.quant = bench::take(parse_quant_scheme("int8"))}, bound, 0.0);
        measure(run, model, "q4_0", {.quant = bench::take(parse_quant_scheme("q4_0-pure"))}, bound, 0.0);
    });
    return run.finish();
}
