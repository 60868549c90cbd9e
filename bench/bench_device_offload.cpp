// SPDX-License-Identifier: Apache-2.0
// Decoding with layers that do not stay on the device: their bytes by the seconds of a token, against the rate at which pinned memory is
// copied to the device.

#include "device_bench.hpp"
#include "device_generate.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

namespace {

using namespace shardwise;
using bench::DeviceBench;
using bench::GeneratedModel;

void measure(DeviceBench& run, GeneratedModel const& model, std::string const& name, LayerHome home, double bound,
             std::string const& bound_name, double goal) {
    run.section(name, [&] {
        auto const rates = model.generate({.made = bench::scaled(run.is_quick() ? 16 : 32, 8), .home = home});
        auto const rate = rates.decode * bench::weight_bytes(model.shape(), 16.0, 0.0);
        run.add(name + ", layers' bytes a second", rate * 1e-9, "GB/s", bound_name, bound * 1e-9, rate / bound, goal);
        run.add(name + ", decode", rates.decode, "tokens/s", "", 0.0, 0.0, 0.0);
    });
}

}  // namespace

int main(int argc, char** argv) {
    DeviceBench run("device_offload", argc, argv);
    bench::LlamaShape shape;
    if (bench::is_emulated) shape = {256, 64, 128, 3, 4, 2};
    run.attempt("offload", [&] {
        GeneratedModel const model(shape);
        auto const pinned = run.pinned_rate();
        measure(run, model, "1.1B bf16, all layers in the host's memory", LayerHome::cpu, pinned, "pinned copy", 0.9);
        auto const read = bench::file_rate(model.weights_file());
        measure(run, model, "1.1B bf16, all layers in the file", LayerHome::disk, std::min(pinned, read),
                "pinned copy or reading", 0.0);
    });
    return run.finish();
}
