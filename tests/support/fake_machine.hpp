// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/hardware/detection_options.hpp>

#include "temporary_folder.hpp"

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

namespace shardwise::testing {

/// A machine made of a folder in the place of / and of fake vendor libraries that read what it has from files.
class FakeMachine {
public:
    FakeMachine() {
        options_.nvml_library = folder_ / "no-libnvidia-ml.so.1";
        options_.amd_smi_libraries = {folder_ / "no-libamd_smi.so"};
        options_.root = folder_ / "root";
        options_.environment = {};
        put("/proc/meminfo", "MemTotal: 65536 kB\nMemFree: 1024 kB\nMemAvailable: 32768 kB\n");
        put("/proc/cpuinfo", "processor\t: 0\nmodel name\t: Test CPU\nflags\t\t: fpu avx2 fma\ncpu MHz\t\t: 2000.0\n");
    }

    /// Puts a file below the root folder.
    void put(std::string const& path, std::string_view text) const { folder_.write("root" + path, text); }
    /// Puts a symbolic link below the root folder.
    void link(std::string const& path, std::string const& target) const { folder_.link("root" + path, target); }

    /// Gives the machine NVIDIA's driver with the GPUs of a machine file (tests/fakes/machine_file.hpp).
    void nvidia(std::string_view rows, std::string_view library = "fake_nvml") {
        options_.nvml_library = library_path(library);
        ::setenv("SHARDWISE_FAKE_NVML", folder_.write("nvidia", rows).c_str(), 1);
    }
    /// Gives the machine AMD's library with the GPUs of a machine file.
    void amd(std::string_view rows, std::string_view library = "fake_amd_smi") {
        options_.amd_smi_libraries = {library_path(library)};
        ::setenv("SHARDWISE_FAKE_AMD_SMI", folder_.write("amd", rows).c_str(), 1);
    }

    [[nodiscard]] DetectionOptions& options() { return options_; }
    [[nodiscard]] TemporaryFolder const& folder() const { return folder_; }

private:
    /// What the suite builds from tests/fakes.
    static std::string library_path(std::string_view name) {
        auto const build = std::filesystem::path(SHARDWISE_PROGRAM).parent_path().parent_path();
        return (build / "tests" / "fakes" / ("lib" + std::string(name) + ".so")).string();
    }

    TemporaryFolder folder_;
    DetectionOptions options_;
};

namespace machines {

inline constexpr std::string_view one_gpu =
    "gpu name=\"NVIDIA GeForce RTX 4090\" uuid=GPU-11111111-aaaa pci=00000000:01:00.0 memory=25757220864 "
    "free=24696061952 "
    "capability=8.9 numa=0 processors=0xFFFF pcie_generation=4 pcie_width=16\n";

inline constexpr std::string_view mixed =
    "gpu name=\"NVIDIA GeForce RTX 3090\" uuid=GPU-30900000-aaaa pci=00000000:01:00.0 memory=25769803776 "
    "capability=8.6\n"
    "gpu name=\"NVIDIA GeForce RTX 4090\" uuid=GPU-40900000-bbbb pci=00000000:02:00.0 memory=25769803776 "
    "capability=8.9\n"
    "gpu name=\"Tesla T4\" uuid=GPU-40000000-cccc pci=00000000:03:00.0 memory=16106127360 capability=7.5\n";

inline constexpr std::string_view mig =
    "gpu name=\"NVIDIA A100-SXM4-40GB\" uuid=GPU-a0 pci=00000000:07:00.0 memory=42949672960 capability=8.0 mig=1\n"
    "gpu name=\"NVIDIA A100-SXM4-40GB\" uuid=GPU-a1 pci=00000000:0B:00.0 memory=42949672960 capability=8.0 mig=0\n"
    "mig parent=0 place=0 uuid=MIG-11 memory=20937965568 free=20900000000 slices=3 gpu_instance=1 compute_instance=0\n"
    "mig parent=0 place=2 uuid=MIG-12 memory=5100273664 slices=1 gpu_instance=7 compute_instance=0\n";

/// Eight A100 on switches: the first four near NUMA node 0.
[[nodiscard]] inline std::string dgx() {
    std::string rows;
    for (int i = 0; i < 8; ++i) {
        auto const number = std::to_string(i);
        rows += "gpu name=\"NVIDIA A100-SXM4-80GB\" uuid=GPU-8000000" + number + " pci=00000000:" + number +
                "7:00.0 memory=85899345920 capability=8.0 pcie_generation=4 pcie_width=16 numa=" + (i < 4 ? "0" : "1") +
                "\n";
        rows += "nvswitch gpu=" + number + " count=12\n";
    }
    return rows;
}

}  // namespace machines

}  // namespace shardwise::testing
