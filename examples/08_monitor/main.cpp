// SPDX-License-Identifier: Apache-2.0
// Watches the devices and the host around some work, and says what the work took.
#include <shardwise/monitor/sampler.hpp>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>

namespace {

/// Half a second of arithmetic.
double work() {
    auto const end = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
    double sum = 0.0;
    for (int i = 1; std::chrono::steady_clock::now() < end; ++i) sum += std::sin(i);
    return sum;
}

}  // namespace

int main() {
    using namespace shardwise;
    // "" is every device that may be used; a machine without any has its host.
    auto monitor = DeviceMonitor::open({"", {}});
    if (!monitor) return std::puts(monitor.error().message().c_str()), 1;
    auto sampler = Sampler::start(*std::move(monitor), {std::chrono::milliseconds(50)});
    if (!sampler) return std::puts(sampler.error().message().c_str()), 1;
    std::printf("the work is %s\n", std::isfinite(work()) ? "done" : "lost");
    sampler->stop();  // with a last look

    auto const report = sampler->summary();
    std::printf("watched for about half a second: %s\n", report.duration > 0.4 ? "yes" : "no");
    std::printf("looked several times: %s\n", report.samples > 2 ? "yes" : "no");
    std::printf("the host's memory is known: %s\n", report.host_memory_total ? "yes" : "no");
    // What a machine does not tell is empty, never 0.
    for (auto const& device : report.devices) {
        if (device.energy) std::fprintf(stderr, "%.1f J by its %s\n", *device.energy, std::string(name_of(device.energy_source)).c_str());
    }
    return 0;
}
