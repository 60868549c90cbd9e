// SPDX-License-Identifier: Apache-2.0
#include <shardwise/monitor/sampler.hpp>

#include <doctest/doctest.h>

#include "fake_machine.hpp"

#include <chrono>
#include <string>
#include <thread>

using namespace shardwise;
using namespace std::chrono_literals;
using shardwise::testing::FakeMachine;
namespace machines = shardwise::testing::machines;

namespace {

Sampler sample(FakeMachine& machine, std::chrono::milliseconds interval, std::chrono::milliseconds patience = 500ms) {
    auto monitor = DeviceMonitor::open({"", machine.options()});
    REQUIRE(monitor);
    auto sampler = Sampler::start(*std::move(monitor), {interval, patience});
    REQUIRE(sampler);
    return *std::move(sampler);
}

}  // namespace

TEST_CASE("Sampler: sums up exactly what a device told, look by look") {
    FakeMachine machine;
    machine.nvidia(std::string(machines::one_gpu) +
                   "series device=0 key=utilization values=0,20,100\n"
                   "series device=0 key=energy values=5000,6000,9000\n");
    auto sampler = sample(machine, 30ms);
    MonitorSample last;
    REQUIRE(sampler.wait_for(3, 10s, last) >= 3);
    CHECK(*last.devices.at(0).utilization == 100.0);
    CHECK(sampler.stop());
    auto const summary = sampler.summary();
    REQUIRE(summary.devices.size() == 1);
    auto const& utilization = *summary.devices[0].utilization;
    // The third value stays: its looks are all but two.
    auto const looks = static_cast<double>(utilization.count);
    CHECK(utilization.count == summary.samples);
    CHECK(utilization.min == 0.0);
    CHECK(utilization.max == 100.0);
    CHECK(utilization.mean == doctest::Approx((20.0 + 100.0 * (looks - 2)) / looks));
    CHECK(*summary.devices[0].energy == doctest::Approx(4.0));
    CHECK(*summary.any_gpu_active);
}

TEST_CASE("Sampler: a slow call makes looks drop out, and none is made up for") {
    FakeMachine machine;
    machine.nvidia(std::string(machines::one_gpu) + "sleep call=nvmlDeviceGetUtilizationRates milliseconds=130\n"
                                                    "series device=0 key=utilization values=1\n");
    auto sampler = sample(machine, 50ms);
    MonitorSample last;
    auto const begin = std::chrono::steady_clock::now();
    REQUIRE(sampler.wait_for(3, 10s, last) >= 3);
    // Looks begin on the beat: at 0, 150 and 300 ms, and end 130 ms later.
    CHECK(std::chrono::steady_clock::now() - begin > 380ms);
    auto const summary = sampler.summary();
    CHECK(summary.skipped >= 2 * summary.samples);
}

TEST_CASE("Sampler: a call that hangs is named and does not hang the end") {
    FakeMachine machine;
    machine.nvidia(std::string(machines::one_gpu) + "sleep call=nvmlDeviceGetUtilizationRates milliseconds=1500\n");
    auto sampler = sample(machine, 50ms, 100ms);
    std::this_thread::sleep_for(400ms);
    CHECK(sampler.hanging_call() == "nvmlDeviceGetUtilizationRates");
    MonitorSample last;
    CHECK(sampler.wait_for(1, 1ms, last) == 0);
    auto const begin = std::chrono::steady_clock::now();
    CHECK_FALSE(sampler.stop());
    CHECK(std::chrono::steady_clock::now() - begin < 800ms);
    CHECK(sampler.summary().samples == 0);
    // The fake library and its file stay until the call has returned.
    std::this_thread::sleep_for(1700ms);
}

TEST_CASE("Sampler: refuses an interval that no look keeps") {
    FakeMachine machine;
    auto monitor = DeviceMonitor::open({"cpu", machine.options()});
    REQUIRE(monitor);
    auto const sampler = Sampler::start(*std::move(monitor), {std::chrono::microseconds(10)});
    REQUIRE_FALSE(sampler);
    CHECK(sampler.error().code() == ErrorCode::invalid_argument);
}

TEST_CASE("Sampler: a hundred looks a second keep their pace" * doctest::test_suite("timing")) {
    FakeMachine machine;
    machine.nvidia(machines::dgx());
    auto sampler = sample(machine, 10ms);
    std::this_thread::sleep_for(1s);
    (void)sampler.stop();
    auto const summary = sampler.summary();
    // Looks and those left out lie on the beat; a busy machine may leave some out.
    CHECK(summary.samples + summary.skipped >= 95);
    CHECK(summary.samples + summary.skipped <= 125);
    CHECK(summary.samples >= 50);
}
