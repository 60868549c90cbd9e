// SPDX-License-Identifier: Apache-2.0
#include <shardwise/hardware/presets.hpp>

#include <doctest/doctest.h>

#include <string>
#include <string_view>

using namespace shardwise;

namespace {

// Every preset is there in constant expressions.
static_assert(find_device_preset("A100-40GB")->memory == 40_GiB);
static_assert(find_device_preset("MI300X")->architecture == FixedText<16>{"gfx942"});
static_assert(find_device_preset("no such device") == nullptr);
static_assert(device_presets.size() >= 25);

double gib(Bytes bytes) { return static_cast<double>(bytes.count()) / 1073741824.0; }

bool is_in(double value, double low, double high) { return low <= value && value <= high; }

/// The number before "GB" at the end of a name; 0 where there is none.
int gigabytes_in(std::string_view name) {
    if (!name.ends_with("GB")) return 0;
    return std::stoi(std::string(name.substr(name.rfind('-') + 1)));
}

}  // namespace

TEST_CASE("device_presets: no name occurs twice, whatever its case and separators, nor does a driver's") {
    for (auto const& one : device_presets) {
        for (auto const& other : device_presets) {
            if (&one == &other) continue;
            CAPTURE(std::string(one.device.name.view()));
            CHECK_FALSE(detail::is_same_device_name(one.device.name.view(), other.device.name.view()));
            CHECK((*one.driver_name == '\0' || std::string_view{one.driver_name} != other.driver_name));
        }
    }
}

TEST_CASE("device_presets: every row is plausible and names its source") {
    for (auto const& preset : device_presets) {
        auto const& device = preset.device;
        CAPTURE(std::string(device.name.view()));
        CHECK(std::string_view{preset.source}.size() >= 10);
        CHECK_FALSE(device.architecture.empty());
        CHECK(device.id.is_accelerator());
        CHECK(is_in(gib(device.memory), 8, 512));
        CHECK(is_in(device.bandwidth, 200e9, 8000e9));
        // The whole memory is read in 10 ms to 0.7 s: a slip by a factor of ten shows.
        CHECK(is_in(static_cast<double>(device.memory.count()) / device.bandwidth, 0.01, 0.7));
        CHECK(is_in(device.link.bandwidth, 16e9, 1000e9));
        CHECK(is_in(device.link.latency, 1e-6, 1e-4));
        if (device.network.type != LinkType::none) {
            CHECK(is_in(device.network.bandwidth, 6e9, 100e9));
            CHECK(device.network.bandwidth < device.link.bandwidth);
        }
    }
}

TEST_CASE("device_presets: the memory is within 7 % of what the name says") {
    for (auto const& preset : device_presets) {
        auto const named = gigabytes_in(preset.device.name.view());
        CAPTURE(std::string(preset.device.name.view()));
        if (named > 0) CHECK(is_in(gib(preset.device.memory) / named, 0.93, 1.07));
    }
}

TEST_CASE("device_presets: memory is what drivers report, by the same convention for siblings") {
    auto const memory = [](std::string_view name) { return find_device_preset(name)->memory; };
    CHECK(memory("H100-80GB") == 81559_MiB);
    CHECK(memory("H100-80GB") == memory("H800-80GB"));
    CHECK(memory("H100-80GB") == memory("H100-PCIe-80GB"));
    CHECK(memory("RTX4090") == 24564_MiB);
    CHECK(memory("RTX5090") == 32607_MiB);
    CHECK(memory("L4") == 23034_MiB);
    CHECK(memory("L40S") == memory("L40"));
    CHECK(memory("B200-180GB") == 183359_MiB);
    CHECK(memory("MI300X-192GB") == 196592_MiB);
    CHECK(memory("MI250X-128GB") == 2 * memory("MI250X-GCD-64GB"));
    for (auto const& preset : device_presets) {
        CAPTURE(preset.device.name.view());
        std::string_view const source = preset.source;
        if (preset.device.kind == DeviceKind::cuda) CHECK(source.find("memory: nvidia-smi") != source.npos);
    }
}

TEST_CASE("device_presets: rates are dense and ordered: the narrower the type, the faster") {
    for (auto const& preset : device_presets) {
        auto const& peak = preset.device.peak;
        CAPTURE(std::string(preset.device.name.view()));
        CHECK(is_in(peak.fp32, 4e12, 200e12));
        CHECK(peak.of(Dtype::f16) >= peak.fp32);
        CHECK(peak.of(Dtype::bf16) >= peak.fp32);
        CHECK(peak.of(Dtype::f16) <= 2.6e15);
        CHECK(peak.of(Dtype::f8_e4m3) >= peak.of(Dtype::f16));
        CHECK(peak.of(Dtype::f4) >= peak.of(Dtype::f8_e4m3));
        CHECK(peak.of(Dtype::i8) >= peak.of(Dtype::f16));
        // Sparse figures are twice the dense ones: none has slipped in where both are given.
        if (peak.fp8 > 0) CHECK(is_in(peak.fp8 / peak.bf16, 1.97, 2.03));
        if (peak.fp64 > 0) CHECK(peak.fp64 <= peak.fp32);
    }
}

TEST_CASE("device_presets: what an architecture has no unit for has no rate") {
    for (auto const& preset : device_presets) {
        auto const& device = preset.device;
        auto const name = device.architecture.view();
        CAPTURE(std::string(device.name.view()));
        bool const has_bf16 = name != "sm_60" && name != "sm_70" && name != "sm_75" && name != "gfx906";
        CHECK((device.peak.bf16 > 0) == has_bf16);
        bool const has_fp8 = name == "sm_89" || name == "sm_90" || name.starts_with("sm_1") || name == "gfx942" ||
                             name == "gfx950" || name == "gfx1201";
        CHECK((device.peak.fp8 > 0) == has_fp8);
        bool const has_fp4 = name.starts_with("sm_1") || name == "gfx950";
        CHECK((device.peak.fp4 > 0) == has_fp4);
        bool const is_vendor_right = name.starts_with("sm_")     ? device.kind == DeviceKind::cuda
                                     : name.starts_with("gfx")   ? device.kind == DeviceKind::hip
                                     : name.starts_with("apple") ? device.kind == DeviceKind::metal
                                                                 : false;
        CHECK(is_vendor_right);
    }
}

TEST_CASE("PeakRates: a type without a unit runs at the rate of the next wider one") {
    auto const& volta = find_device_preset("V100-16GB")->peak;
    CHECK(volta.of(Dtype::f16) == 125e12);
    CHECK(volta.of(Dtype::bf16) == 15.7e12);
    CHECK(volta.of(Dtype::i8) == 125e12);
    CHECK(volta.of(Dtype::i4) == 125e12);
    CHECK(find_device_preset("A100-40GB")->peak.of(Dtype::f8_e4m3) == 312e12);
    CHECK(find_device_preset("H100-80GB")->peak.of(Dtype::f4) == 1979e12);
    CHECK(find_device_preset("RTX4090")->peak.of(Dtype::f64) == 82.6e12);
}

TEST_CASE("find_device_preset: forgives case, separators, and no memory where one preset only has the name") {
    auto const name = [](std::string_view asked) {
        auto const* found = find_device_preset(asked);
        return found == nullptr ? std::string{} : std::string(found->name.view());
    };
    CHECK(name("a100_40gb") == "A100-40GB");
    CHECK(name("A100 40GB") == "A100-40GB");
    CHECK(name("rtx 4060 ti 16gb") == "RTX4060Ti-16GB");
    CHECK(name("RTX-4090") == "RTX4090");
    CHECK(name("h100") == "H100-80GB");
    CHECK(name("h100-pcie") == "H100-PCIe-80GB");
    CHECK(name("mi250x") == "MI250X-128GB");
    CHECK(name("m2 ultra") == "M2-Ultra-192GB");
    CHECK(name("A100").empty());  // of 40 or of 80 GB
    CHECK(name("A100-4").empty());
    CHECK(name("").empty());
    CHECK(name("-").empty());
}

// Names as nvidia-smi -L, rocm-smi and Metal print them.
TEST_CASE("find_device_preset_for: finds what a driver names, of the right memory") {
    auto const name = [](std::string_view driver_name, Bytes memory) {
        auto const* found = find_device_preset_for(driver_name, memory);
        return found == nullptr ? std::string{} : std::string(found->name.view());
    };
    CHECK(name("NVIDIA A100-SXM4-40GB", 40960_MiB) == "A100-40GB");
    CHECK(name("A100-SXM4-40GB", 40536_MiB) == "A100-40GB");
    CHECK(name("NVIDIA A100 80GB PCIe", 81920_MiB) == "A100-PCIe-80GB");
    CHECK(name("NVIDIA H100 80GB HBM3", 81559_MiB) == "H100-80GB");
    CHECK(name("NVIDIA GeForce RTX 4090", 24564_MiB) == "RTX4090");
    CHECK(name("Tesla T4", 15109_MiB) == "T4");
    CHECK(name("AMD Instinct MI300X", 196592_MiB) == "MI300X-192GB");
    CHECK(name("AMD Instinct MI250X", 65520_MiB) == "MI250X-GCD-64GB");
    CHECK(name("Apple M2 Ultra", 64_GiB) == "M2-Ultra-192GB");
    CHECK(name("NVIDIA GeForce RTX 4090 Laptop GPU", 16376_MiB).empty());
    CHECK(name("NVIDIA GeForce RTX 3060", 8192_MiB).empty());
    CHECK(name("NVIDIA Graphics Device", 81920_MiB).empty());
    CHECK(name("", 1_GiB).empty());
}
