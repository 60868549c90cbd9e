// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/calibrate/calibrate_device.hpp>
#include <shardwise/calibrate/measure_peers.hpp>

#include "backends.hpp"
#include "pair_sample.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace shardwise::testing {

/// Sizes that an emulator gets through; a loaded machine has ten times the time.
inline DeviceCalibrationOptions hasty_calibration() {
    return {.probe_bytes = Bytes{1 << 16},
            .extent = {256, 4},
            .attention = {.heads = 2, .kv_heads = 1, .head_dim = 16, .prompt = 4, .contexts = {4, 16, 1000}},
            .probe_time = std::chrono::milliseconds(1),
            .limit = 10 * DeviceCalibrationOptions{}.limit};
}

}  // namespace shardwise::testing

TEST_SUITE_BEGIN("fibers");

TEST_CASE("calibrate_device: every rate is measured, and all memory is given back" * doctest::test_suite("timing")) {
    using namespace shardwise;
    using B = testing::TestDevice;
    auto const bench = testing::open_bench<B>();
    if (!bench) return;
    auto const before = bench->context().memory().current();
    std::int64_t steps = 0;
    auto const note = [&steps](WorkProgress const& progress) {
        CHECK(progress.done == steps);
        ++steps;
        CHECK(progress.total == 6 + 2 * static_cast<std::int64_t>(calibrated_formats.size()));
    };
    auto const found = calibrate_device(bench->context(), testing::hasty_calibration(), Observer(note));
    REQUIRE_MESSAGE(found, (found ? "" : found.error().message()));
    CHECK(steps == 6 + 2 * static_cast<std::int64_t>(calibrated_formats.size()));
    CHECK(found->id() == std::string(B::name) + ":0");
    for (auto const rate : {found->memory, found->host_to_device, found->device_to_host}) {
        CHECK(rate > 1e5);
        CHECK(rate < 1e14);
    }
    for (auto const seconds : {found->copy_latency, found->launch}) {
        CHECK(seconds > 0.0);
        CHECK(seconds < 1.0);
    }
    REQUIRE(found->products.size() == 2 * calibrated_formats.size());
    for (std::size_t i = 0; i < found->products.size(); ++i) {
        auto const& product = found->products[i];
        CAPTURE(name_of(product.format));
        CHECK(product.format == calibrated_formats[i / 2].format);
        CHECK(product.rows == (i % 2 == 0 ? 4 : 1));
        CHECK(product.operations > 1e3);
        CHECK(product.operations < 1e17);
        CHECK(product.bytes > 1e3);
        CHECK(product.bytes < 1e14);
    }
    // In fp32 the longest are more than all that is to be read.
    std::vector<std::pair<Dtype, std::int64_t>> lengths;
    for (auto const& rate : found->attention) {
        lengths.emplace_back(rate.kv, rate.context);
        for (auto const value : {rate.decode, rate.prefill}) {
            CHECK(value > 1e2);
            CHECK(value < 1e17);
        }
    }
    CHECK(lengths == std::vector<std::pair<Dtype, std::int64_t>>{{Dtype::f32, 4},
                                                                 {Dtype::f32, 16},
                                                                 {Dtype::bf16, 4},
                                                                 {Dtype::bf16, 16},
                                                                 {Dtype::bf16, 1000},
                                                                 {Dtype::i8, 4},
                                                                 {Dtype::i8, 16},
                                                                 {Dtype::i8, 1000}});
    CHECK(bench->context().memory().current() == before);
}

TEST_CASE("measure_peers: both ways of a sum are measured by size, and what was measured says which is taken") {
    using namespace shardwise;
    using B = testing::TestDevice;
    using Api = B::VendorApi;
    if (!testing::open_bench<B>() || !Api::co_resident_blocks) return;
#if !defined(SHARDWISE_HAS_CUDA) && !defined(SHARDWISE_HAS_HIP)
    // A block of each rank: every block is a thread here.
    auto& machine = testing::FakeMachine::get();
    auto const before = std::exchange(machine.multiprocessors, 3);
#endif
    std::vector<std::int32_t> const devices{0};
    PeerProbe probe{.sizes = {64, 4096}, .rounds = 2, .sums = 2};
    auto const times = measure_peers<Api>(devices, 3, probe);
    REQUIRE_MESSAGE(times, (times ? "" : times.error().message()));
    REQUIRE(times->size() == 2);
    for (std::size_t i = 0; i < 2; ++i) {
        auto const& time = (*times)[i];
        CHECK(time.ranks == 3);
        CHECK(time.devices == 1);
        CHECK(time.bytes == probe.sizes[i]);
        for (auto const seconds : {time.one_shot, time.two_shot}) {
            CHECK(seconds > 0.0);
            CHECK(seconds < 60.0);
        }
    }
    probe.deadline = Deadline::after(std::chrono::nanoseconds(0));
    auto const late = measure_peers<Api>(devices, 2, probe);
    REQUIRE_FALSE(late);
    CHECK(late.error().code() == ErrorCode::deadline_exceeded);
    probe.deadline = Deadline::after(std::chrono::milliseconds(300));
    probe.rounds = 1 << 20;
    auto const cut = measure_peers<Api>(devices, 2, probe);
    REQUIRE_FALSE(cut);
    CHECK(cut.error().code() == ErrorCode::deadline_exceeded);
    // By the options, else by the table.
    auto context = B::Context::open();
    REQUIRE(context);
    std::vector<DeviceContext<Api>*> const contexts(3, context->get());
    for (auto const& [from, at, takes] : {std::tuple{std::int64_t{-1}, std::int64_t{512 << 10}, true},
                                          {-1, 1024, false},
                                          {0, 4, true},
                                          {1025, 1024, false},
                                          {1024, 1024, true},
                                          {std::numeric_limits<std::int64_t>::max(), 1 << 30, false}}) {
        PeerOptions options;
        options.two_shot_bytes = from;
        auto const group = PeerGroup<Api>::open(contexts, options);
        REQUIRE(group);
        CHECK((*group)->takes_two_shots(at) == takes);
    }
#if !defined(SHARDWISE_HAS_CUDA) && !defined(SHARDWISE_HAS_HIP)
    context->reset();
    CHECK(machine.is_empty());
    machine.multiprocessors = before;
#endif
}

TEST_CASE("calibrate_device: what is not measured in time is named, and impossible sizes are refused") {
    using namespace shardwise;
    auto const bench = testing::open_bench<testing::TestDevice>();
    if (!bench) return;
    auto options = testing::hasty_calibration();
    options.limit = std::chrono::nanoseconds(0);
    auto const late = calibrate_device(bench->context(), options);
    REQUIRE_FALSE(late);
    CHECK(late.error().code() == ErrorCode::deadline_exceeded);
    CHECK(late.error().place() == "memory of the device");
    options = testing::hasty_calibration();
    options.extent.width = 100;
    CHECK(calibrate_device(bench->context(), options).error().code() == ErrorCode::invalid_argument);
    options = testing::hasty_calibration();
    options.attention.kv_heads = 3;
    CHECK(calibrate_device(bench->context(), options).error().place() == "attention");
    options = testing::hasty_calibration();
    options.probe_bytes = Bytes{0};
    CHECK(calibrate_device(bench->context(), options).error().code() == ErrorCode::invalid_argument);
}

#if !defined(SHARDWISE_HAS_CUDA) && !defined(SHARDWISE_HAS_HIP)
TEST_CASE("calibrate_device: each vendor call that fails ends it by its name, and nothing stays") {
    using namespace shardwise;
    auto& machine = testing::FakeMachine::get();
    auto const run = [] {
        auto const context = testing::Fake::Context::open();
        return context ? calibrate_device(**context, testing::hasty_calibration())
                       : Result<DeviceCalibration>(context.error());
    };
    constexpr std::array afters{0, 1, 3};
    std::size_t number = 0;
    // Not those that a wait is made of: memory in use is let go of then, which vendors wait for and the fake one does not.
    for (auto const* const call : {"allocate", "allocate_pinned", "create_timed_event", "seconds_between", "copy",
                                   "clear", "create_stream", "launch_graph", "describe", "count_devices"}) {
        ++number;
        if (testing::takes_samples() && number % 2 == 0) continue;
        for (std::size_t i = 0; i < afters.size(); ++i) {
            if (!testing::takes_alternative(number, i, afters.size())) continue;
            auto const after = afters[i];
            CAPTURE(call);
            CAPTURE(after);
            auto const before = machine.calls(call);
            machine.fail(call, after);
            auto const found = run();
            machine.mend();
            bool const is_named = found || found.error().code() == ErrorCode::out_of_memory ||
                                  std::string(found.error().message()).find(call) != std::string::npos;
            CHECK(is_named);
            if (machine.calls(call) - before > after) CHECK_FALSE(found);
            if (after == 0) CHECK_FALSE(found);
            CHECK(machine.is_empty());
        }
    }
    // Without graphs launches are timed one after another.
    machine.fail("begin_capture");
    auto const found = run();
    machine.mend();
    REQUIRE(found);
    CHECK(found->launch > 0.0);
}
#endif

TEST_SUITE_END();
