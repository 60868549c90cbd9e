// SPDX-License-Identifier: Apache-2.0
#include <shardwise/calibrate/calibrate.hpp>
#include <shardwise/calibrate/describe_machine.hpp>
#include <shardwise/cost/collective.hpp>
#include <shardwise/cost/device_rates.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <string_view>
#include <vector>

using namespace shardwise;

namespace {

/// Enough to measure something, in caches; a loaded machine under sanitizers has ten times the time.
CalibrationOptions const hasty{.threads = 2,
                               .probe_bytes = Bytes{2 << 20},
                               .probe_time = std::chrono::milliseconds(2),
                               .limit = 10 * CalibrationOptions{}.limit};

/// A machine without accelerators.
[[nodiscard]] Detection processor_only() {
    DetectedDevice found;
    found.id = "cpu";
    found.device.name = "Some Processor";
    found.device.kind = DeviceKind::cpu;
    found.device.id = DeviceId::cpu();
    found.device.memory = Bytes{8LL << 30U};
    found.device.memory_free = Bytes{6LL << 30U};
    found.device.peak.fp32 = 1e12;
    found.is_available = true;
    Detection detection;
    detection.devices.push_back(found);
    return detection;
}

}  // namespace

TEST_CASE("calibrate: every rate is measured, and none is impossible" * doctest::test_suite("timing")) {
    std::vector<std::int64_t> steps;
    auto const note = [&steps](WorkProgress const& progress) { steps.push_back(progress.done); };
    auto const found = calibrate(hasty, Observer(note));
    REQUIRE_MESSAGE(found, (found ? "" : found.error().message()));
    CHECK(found->threads == 2);
    CHECK(steps.size() == 4 + 2 * calibrated_formats.size() + 1);
    CHECK(steps.back() + 1 == static_cast<std::int64_t>(steps.size()));
    // From a machine of the last century under a debugger to one that nobody has built.
    for (auto const rate :
         {found->read_one, found->read_all, found->copy_one, found->copy_all, found->all_reduce.bandwidth}) {
        CHECK(rate > 1e5);
        CHECK(rate < 1e14);
    }
    CHECK(found->all_reduce.ranks == 2);
    CHECK(found->all_reduce.latency > 1e-9);
    CHECK(found->all_reduce.latency < 1.0);
    REQUIRE(found->products.size() == 2 * calibrated_formats.size());
    for (auto const& product : found->products) {
        CAPTURE(name_of(product.format));
        CHECK(product.operations > 1e5);
        CHECK(product.operations < 1e17);
        CHECK(product.bytes > 1e3);
        CHECK(product.bytes < 1e14);
    }
    CHECK(found->products[0].rows >= 32);
    CHECK(found->products[1].rows == 1);
}

TEST_CASE("calibrate: what is not measured in time is named") {
    auto options = hasty;
    options.limit = std::chrono::nanoseconds(0);
    auto const found = calibrate(options);
    REQUIRE_FALSE(found);
    CHECK(found.error().code() == ErrorCode::deadline_exceeded);
    CHECK(found.error().place() == "reading memory");
    options = hasty;
    options.ranks = -1;
    CHECK(calibrate(options).error().code() == ErrorCode::invalid_argument);
}

TEST_CASE(
    "describe_machine: without accelerators the processor is a device for each rank, with its share of the rates") {
    Calibration calibration;
    calibration.read_all = 40e9;
    calibration.products = {{WeightFormat::bf16, 512, 2e11, 4e8},
                            {WeightFormat::bf16, 1, 3e10, 3.6e10},
                            {WeightFormat::int4, 512, 1e11, 1e8}};
    calibration.all_reduce = {2, 2e-6, 5e9};
    auto const machine = describe_machine(calibration, processor_only());
    REQUIRE(machine.accelerators().size() == 2);
    auto const& rank = machine.devices[1];
    CHECK(rank.id == DeviceId::gpu(1));
    CHECK(rank.kind == DeviceKind::cpu);
    CHECK(rank.name.view() == "Some Processor");
    CHECK(rank.available() == Bytes{3LL << 30U});
    CHECK(rank.bandwidth == 20e9);
    CHECK(rank.measured.products.bf16 == 1e11);
    CHECK(rank.measured.products.int4 == 5e10);
    CHECK(rank.measured.one_row.bf16 == 1.8e10);
    CHECK(machine.between(0, 1) == Link{LinkType::memory_bus, 5e9, 2e-6, true});

    // A plan prices what was measured as it is.
    auto const rates = device_rates(rank, Dtype::bf16);
    CHECK(rates.products == 1e11);
    CHECK(rates.memory == 1.8e10);
    CHECK(rates.kernel_seconds == 0.0);
    CHECK(all_reduce_seconds(4e6, RankGroup::in_node(2, machine.between(0, 1))) == doctest::Approx(2e-6 + 4e6 / 5e9));
}

TEST_CASE("describe_machine: accelerators stay as detected, and the processor beside them is measured whole") {
    auto detection = processor_only();
    DetectedDevice gpu;
    gpu.device.memory = Bytes{24LL << 30U};
    gpu.is_available = true;
    detection.devices.insert(detection.devices.begin(), gpu);
    Calibration calibration;
    calibration.read_all = 40e9;
    calibration.all_reduce = {2, 2e-6, 5e9};
    auto const machine = describe_machine(calibration, detection);
    REQUIRE(machine.devices.size() == 2);
    CHECK(machine.devices[0] == gpu.device);
    CHECK(machine.devices[1].id == DeviceId::cpu());
    CHECK(machine.devices[1].measured.bandwidth == 40e9);
    CHECK(machine.devices[1].memory == Bytes{8LL << 30U});
}

namespace {

/// A machine with a processor and two GPUs, of which this process may use the second.
[[nodiscard]] Detection with_gpus() {
    auto detection = processor_only();
    for (int number = 1; number >= 0; --number) {
        DetectedDevice gpu;
        gpu.id = number == 1 ? "cuda:0" : "GPU-hidden";
        gpu.device.name = "Some Card";
        gpu.device.memory = Bytes{24LL << 30U};
        gpu.device.peak.bf16 = 1e14;
        gpu.device.link = {LinkType::nvlink, 3e11, 1e-6};
        gpu.is_available = number == 1;
        detection.devices.insert(detection.devices.begin(), gpu);
    }
    return detection;
}

[[nodiscard]] DeviceCalibration measured_gpu() {
    DeviceCalibration gpu;
    gpu.vendor = "cuda";
    gpu.memory = 8e11;
    gpu.host_to_device = 2.5e10;
    gpu.device_to_host = 2.6e10;
    gpu.copy_latency = 9e-6;
    gpu.launch = 2e-6;
    gpu.products = {{WeightFormat::bf16, 2048, 8e13, 1e9}, {WeightFormat::bf16, 1, 1e12, 7e11}};
    return gpu;
}

}  // namespace

TEST_CASE("add_measured: what was measured of a device is what plans price by, and its way to the processor too") {
    auto const detection = with_gpus();
    Calibration calibration;
    calibration.read_all = 40e9;
    auto machine = describe_machine(calibration, detection);
    REQUIRE(machine.devices.size() == 2);
    auto measured = measured_gpu();
    measured.attention = {{Dtype::f32, 64, 1e9, 2e9}, {Dtype::bf16, 1024, 3e9, 4e9}};
    REQUIRE(add_measured(machine, detection, measured));
    auto const& gpu = machine.devices[0];
    CHECK(device_rates(gpu, Dtype::bf16, default_efficiency, {Dtype::bf16, 2000}).decode_attention == 3e9);
    CHECK(device_rates(gpu, Dtype::bf16, default_efficiency, {Dtype::f32, 8}).prefill_attention == 2e9);
    CHECK(gpu.measured.attention[2].context == 0);
    CHECK(gpu.measured.products.bf16 == 8e13);
    CHECK(gpu.measured.one_row.bf16 == 7e11);
    CHECK(gpu.measured.bandwidth == 8e11);
    CHECK(gpu.measured.launch == 2e-6);
    CHECK(gpu.peak.bf16 == 1e14);
    CHECK(machine.between(0, 1) == Link{LinkType::pcie, 2.5e10, 9e-6, true});
    auto const rates = device_rates(gpu, Dtype::bf16);
    CHECK(rates.products == 8e13);
    CHECK(rates.memory == 7e11);
    CHECK(rates.kernel_seconds == 2e-6);

    // Measured again, it replaces what stood there.
    auto again = measured_gpu();
    again.device_to_host = 1e10;
    machine.links[0].link.type = LinkType::nvlink;
    REQUIRE(add_measured(machine, detection, again));
    CHECK(machine.links.size() == 1);
    CHECK(machine.between(1, 0).bandwidth == 1e10);
    CHECK(machine.between(1, 0).type == LinkType::nvlink);
}

TEST_CASE("add_measured: a device that was not found is refused by its name") {
    auto const detection = with_gpus();
    auto machine = describe_machine({}, detection);
    auto const before = machine.devices;
    auto gpu = measured_gpu();
    gpu.device = 1;
    auto const refused = add_measured(machine, detection, gpu);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code() == ErrorCode::no_such_device);
    CHECK(refused.error().place() == "cuda:1");
    CHECK(machine.devices == before);
    CHECK(machine.links.empty());
}
