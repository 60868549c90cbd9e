// SPDX-License-Identifier: Apache-2.0
#include <shardwise/hardware/system/process_memory.hpp>
#include <shardwise/hardware/system/processor.hpp>
#include <shardwise/hardware/system/system_memory.hpp>

#include <doctest/doctest.h>

#include "fake_machine.hpp"

#include <string>
#include <sys/stat.h>

using namespace shardwise;
using shardwise::testing::FakeMachine;

namespace {

SystemFiles files_of(FakeMachine& machine) {
    return SystemFiles(machine.options().root);
}

/// A machine of 64 GiB, 48 of them available.
void put_memory(FakeMachine const& machine) {
    machine.put("/proc/meminfo",
                "MemTotal:       67108864 kB\nMemFree:        20971520 kB\nMemAvailable:   50331648 kB\n");
}

constexpr std::int64_t gib = std::int64_t{1} << 30;

}  // namespace

TEST_CASE("Memory without control groups is the machine's") {
    FakeMachine machine;
    put_memory(machine);
    auto const memory = read_system_memory(files_of(machine));
    CHECK(memory.total == 64_GiB);
    CHECK(memory.available == 48_GiB);
    CHECK(memory.limit == Bytes{-1});
    machine.put("/proc/meminfo", "MemTotal: 1024 kB\nMemFree: 512 kB\n");
    CHECK_MESSAGE(read_system_memory(files_of(machine)).available == Bytes{512 * 1024},
                  "old kernels have no MemAvailable");
    machine.put("/proc/meminfo", "MemTotal: 99999999999999999999 kB\nMemAvailable: -5 kB\n");
    CHECK(read_system_memory(files_of(machine)).total == Bytes{});
}

TEST_CASE("Version 2: the tightest of the nested groups limits, and what its members use is gone") {
    FakeMachine machine;
    put_memory(machine);
    machine.put("/proc/self/cgroup", "0::/user.slice/job/step\n");
    auto const group = [&](std::string const& path, std::string const& limit, std::int64_t used, std::int64_t cache) {
        machine.put("/sys/fs/cgroup" + path + "/memory.max", limit + "\n");
        machine.put("/sys/fs/cgroup" + path + "/memory.current", std::to_string(used) + "\n");
        machine.put("/sys/fs/cgroup" + path + "/memory.stat",
                    "anon 1\nfile 2\ninactive_file " + std::to_string(cache) + "\n");
    };
    group("/user.slice/job/step", "max", 5 * gib, 0);
    auto memory = read_system_memory(files_of(machine));
    CHECK(memory.total == 64_GiB);
    group("/user.slice/job", std::to_string(32 * gib), 12 * gib, 4 * gib);
    memory = read_system_memory(files_of(machine));
    CHECK(memory.total == 32_GiB);
    CHECK(memory.limit == 32_GiB);
    CHECK_MESSAGE(memory.available == 24_GiB, "file cache that can go is not in use");
    // An outer group that allows more, but whose other members have used it up.
    group("/user.slice", std::to_string(40 * gib), 39 * gib, 0);
    memory = read_system_memory(files_of(machine));
    CHECK(memory.total == 32_GiB);
    CHECK(memory.available == 1_GiB);
    group("/user.slice/job/step", std::to_string(2 * gib), 3 * gib, 0);
    memory = read_system_memory(files_of(machine));
    CHECK(memory.total == 2_GiB);
    CHECK_MESSAGE(memory.available == Bytes{}, "never less than nothing");
}

TEST_CASE("Version 1: the memory controller, and the value that stands for no limit") {
    FakeMachine machine;
    put_memory(machine);
    machine.put("/proc/self/cgroup", "12:cpu,cpuacct:/a\n11:memory:/slurm/job_7\n1:name=systemd:/\n0::/\n");
    auto const at = std::string("/sys/fs/cgroup/memory/slurm");
    machine.put(at + "/job_7/memory.limit_in_bytes", "9223372036854771712\n");
    CHECK(read_system_memory(files_of(machine)).total == 64_GiB);
    machine.put(at + "/memory.limit_in_bytes", std::to_string(16 * gib) + "\n");
    machine.put(at + "/memory.usage_in_bytes", std::to_string(10 * gib) + "\n");
    machine.put(at + "/memory.stat", "inactive_file 1\ntotal_inactive_file " + std::to_string(2 * gib) + "\n");
    auto const memory = read_system_memory(files_of(machine));
    CHECK(memory.total == 16_GiB);
    CHECK(memory.available == 8_GiB);
}

TEST_CASE("In a container the group's path may begin above what the container sees, or lie outside") {
    FakeMachine machine;
    put_memory(machine);
    machine.put("/proc/self/cgroup", "5:memory:/docker/abc\n");
    machine.put("/proc/self/mountinfo",
                "30 20 0:26 /docker/abc /sys/fs/cgroup/memory ro,nosuid - cgroup cgroup rw,memory\n"
                "31 20 0:27 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n");
    machine.put("/sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(8 * gib));
    CHECK(read_system_memory(files_of(machine)).total == 8_GiB);
    machine.put("/proc/self/cgroup", "0::/../other\n");
    machine.put("/proc/self/mountinfo", "30 20 0:26 / /somewhere/else rw shared:4 - cgroup2 cgroup2 rw\n");
    machine.put("/somewhere/else/memory.max", std::to_string(4 * gib));
    CHECK(read_system_memory(files_of(machine)).total == 4_GiB);
}

TEST_CASE("A process: what it holds in memory now and at most") {
    FakeMachine machine;
    CHECK_FALSE(read_process_memory(files_of(machine)));
    machine.put("/proc/self/status", "Name:\tVmHWM: 7 kB\nVmPeak:\t  900 kB\nVmHWM:\t   300 kB\nVmRSS:\t   200 kB\n");
    auto const memory = read_process_memory(files_of(machine));
    REQUIRE(memory);
    CHECK(memory->resident == Bytes{200 * 1024});
    CHECK(memory->peak == Bytes{300 * 1024});
    machine.put("/proc/self/status", "VmHWM:\t   300 kB\nVmRSS:\t   many kB\n");
    CHECK_FALSE(read_process_memory(files_of(machine)));
    // Of this one.
    auto const own = read_process_memory();
    REQUIRE(own);
    CHECK(own->resident.count() > 1'000'000);
    CHECK(own->peak >= own->resident);
}

TEST_CASE("A processor: cores and threads, what may be used of them, caches, flags, NUMA nodes") {
    FakeMachine machine;
    machine.put("/proc/cpuinfo",
                "processor\t: 0\nmodel name\t: AMD EPYC 7763 64-Core Processor\ncpu MHz\t\t: 2445.1\n"
                "flags\t\t: fpu sse4_2 avx2 fma f16c avx512f_like\n\nprocessor\t: 1\nmodel name\t: other\n");
    machine.put("/sys/devices/system/cpu/online", "0-7\n");
    for (int number = 0; number < 8; ++number) {
        auto const at = "/sys/devices/system/cpu/cpu" + std::to_string(number);
        machine.put(at + "/topology/core_id", std::to_string(number % 2));
        machine.put(at + "/topology/physical_package_id", std::to_string(number / 4));
        auto const cache = [&](int index, std::string const& level, std::string const& type, std::string const& size,
                               std::string const& shared) {
            auto const place = at + "/cache/index" + std::to_string(index);
            machine.put(place + "/level", level);
            machine.put(place + "/type", type);
            machine.put(place + "/size", size);
            machine.put(place + "/shared_cpu_list", shared);
        };
        cache(0, "1", "Data", "32K", std::to_string(number % 4));
        cache(3, "3", "Unified", "32M", number < 4 ? "0-3" : "4-7");
    }
    machine.put("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "3500000\n");
    machine.put("/proc/self/status", "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t0-5\n");
    machine.put("/proc/self/cgroup", "0::/a/b\n");
    machine.put("/sys/fs/cgroup/a/cpu.max", "350000 100000\n");
    machine.put("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    machine.put("/sys/devices/system/node/node0/cpulist", "0-3\n");
    machine.put("/sys/devices/system/node/node0/meminfo",
                "Node 0 MemTotal:       1024 kB\nNode 0 MemFree:         512 kB\n");
    machine.put("/sys/devices/system/node/node0/distance", "10 32\n");
    machine.put("/sys/devices/system/node/node1/cpulist", "4-7\n");
    auto const processor = read_processor(files_of(machine));
    CHECK(processor.name == "AMD EPYC 7763 64-Core Processor");
    CHECK(processor.threads == 8);
    CHECK(processor.cores == 4);
    CHECK_MESSAGE(processor.usable_threads == 4, "six by affinity, 3.5 by the group's quota");
    CHECK(processor.hertz == 3.5e9);
    CHECK(processor.flags == std::vector<std::string>{"sse4_2", "avx2", "fma", "f16c"});
    REQUIRE(processor.caches.size() == 2);
    CHECK(processor.caches[0].type == "data");
    CHECK(processor.caches[0].size == Bytes{32 << 10});
    CHECK(processor.caches[0].count == 4);
    CHECK(processor.caches[1].level == 3);
    CHECK(processor.caches[1].size == Bytes{32 << 20});
    CHECK(processor.caches[1].count == 2);
    REQUIRE(processor.nodes.size() == 2);
    CHECK(processor.nodes[0].total == Bytes{1024 * 1024});
    CHECK(processor.nodes[0].free == Bytes{512 * 1024});
    CHECK(processor.nodes[0].distances == std::vector<std::int64_t>{10, 32});
    CHECK(processor.nodes[1].processors == std::vector<std::int64_t>{4, 5, 6, 7});
    // 4 cores x 3.5 GHz x 32.
    CHECK(peak_rates(processor).fp32 == doctest::Approx(448e9));
}

TEST_CASE("Arm names its processors by numbers and its instruction sets by features") {
    FakeMachine machine;
    machine.put("/proc/cpuinfo",
                "processor\t: 0\nBogoMIPS\t: 100.00\nFeatures\t: fp asimd asimddp i8mm bf16 sve\n"
                "CPU implementer\t: 0x41\nCPU part\t: 0xd40\n");
    auto const processor = read_processor(files_of(machine));
    CHECK(processor.name == "ARM implementer 0x41 part 0xd40");
    CHECK(processor.flags == std::vector<std::string>{"asimd", "asimddp", "i8mm", "bf16", "sve"});
    CHECK(processor.threads == 1);
    CHECK(processor.usable_threads == 1);
}

TEST_CASE("Lists of numbers: what is no list is empty, and none is long") {
    CHECK(parse_number_list("0-2,8,5-6\n") == std::vector<std::int64_t>{0, 1, 2, 5, 6, 8});
    CHECK(parse_number_list("3,1-3") == std::vector<std::int64_t>{1, 2, 3});
    for (auto const* text : {"", "\n", "x", "1-", "-1", "3-1", "1,,2", "0-99999999999", "99999999999999999999"}) {
        CAPTURE(text);
        CHECK(parse_number_list(text).empty());
    }
}

TEST_CASE("A FIFO or a folder in the way of a kernel file is no file and does not block") {
    FakeMachine machine;
    machine.put("/proc/dir/x", "");
    CHECK(::mkfifo((machine.options().root + "/proc/fifo").c_str(), 0600) == 0);
    auto const files = files_of(machine);
    CHECK_FALSE(files.text("/proc/fifo"));
    CHECK_FALSE(files.text("/proc/dir"));
    CHECK_FALSE(files.text("/proc/absent"));
    CHECK(files.text("/proc/dir/x") == "");
}

TEST_CASE("This machine has a processor and memory") {
    SystemFiles const files;
    CHECK(read_processor(files).threads > 0);
    CHECK(read_processor(files).usable_threads > 0);
    auto const memory = read_system_memory(files);
    CHECK(memory.total > Bytes{});
    CHECK(memory.available <= memory.total);
}
