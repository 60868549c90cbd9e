// SPDX-License-Identifier: Apache-2.0
#include <shardwise/monitor/host_reader.hpp>

#include <doctest/doctest.h>

#include "fake_machine.hpp"

#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

using namespace shardwise;
using shardwise::testing::FakeMachine;

namespace {

struct Host {
    explicit Host(FakeMachine& machine) : files(machine.options().root), reader(files) {}
    HostSample look() {
        HostSample sample;
        reader.read(sample, cores);
        return sample;
    }
    bool notes_say(std::string const& text) const {
        for (auto const& note : reader.notes()) {
            if (note.find(text) != std::string::npos) return true;
        }
        return false;
    }

    SystemFiles files;
    HostReader reader;
    std::vector<float> cores;
};

}  // namespace

TEST_CASE("HostReader: the share of processors that worked since the look before, all and each") {
    FakeMachine machine;
    machine.put("/proc/stat", "cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 50 0 50 400 0 0 0 0 0 0\ncpu1 50 0 50 400 0 0 0 0 0 0\nintr 1\n");
    Host host(machine);
    auto const first = host.look();
    CHECK_FALSE(first.cpu);
    CHECK(host.cores.empty());
    // 100 ticks each: cpu0 works for 75 of them, cpu1 waits for a disk.
    machine.put("/proc/stat", "cpu  160 5 110 885 40 0 0 0 0 0\ncpu0 110 5 60 425 0 0 0 0 0 0\ncpu1 50 0 50 460 40 0 0 0 0 0\nintr 2\n");
    auto const second = host.look();
    REQUIRE(second.cpu);
    CHECK(*second.cpu == doctest::Approx(37.5));
    REQUIRE(host.cores.size() == 2);
    CHECK(host.cores[0] == doctest::Approx(75.0));
    CHECK(host.cores[1] == 0.0F);
    CHECK(*second.busiest_core == doctest::Approx(75.0));
}

TEST_CASE("HostReader: memory is what the tightest control group leaves, as detection has it") {
    FakeMachine machine;
    Host plain(machine);
    CHECK(*plain.look().memory_total == Bytes{65536 * 1024});
    CHECK(*plain.look().memory_used == Bytes{32768 * 1024});
    machine.put("/proc/self/cgroup", "0::/job\n");
    machine.put("/proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    machine.put("/sys/fs/cgroup/job/memory.max", "20000000\n");
    machine.put("/sys/fs/cgroup/job/memory.current", "7000000\n");
    machine.put("/sys/fs/cgroup/job/memory.stat", "anon 1\nactive_file 3\ninactive_file 2000000\n");
    Host grouped(machine);
    auto const sample = grouped.look();
    CHECK(*sample.memory_total == Bytes{20000000});
    CHECK(*sample.memory_used == Bytes{5000000});
    CHECK(*sample.memory_percent() == doctest::Approx(25.0));
    auto const detected = read_system_memory(grouped.files);
    CHECK(detected.total == *sample.memory_total);
    CHECK(detected.total - detected.available == *sample.memory_used);
    // A limit may change while it runs.
    machine.put("/sys/fs/cgroup/job/memory.max", "max\n");
    CHECK(*grouped.look().memory_total == Bytes{65536 * 1024});
}

TEST_CASE("HostReader: pressure by resource; what the kernel does not tell is empty and said") {
    FakeMachine machine;
    Host bare(machine);
    CHECK_FALSE(bare.look().cpu_pressure);
    CHECK(bare.notes_say("/proc/pressure"));
    machine.put("/proc/pressure/cpu", "some avg10=12.05 avg60=1.00 avg300=0.00 total=5\n");
    machine.put("/proc/pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=5\nfull avg10=3.00\n");
    Host host(machine);
    auto const sample = host.look();
    CHECK(*sample.cpu_pressure == doctest::Approx(12.05));
    CHECK(*sample.memory_pressure == 0.0);
    CHECK_FALSE(sample.io_pressure);
}

TEST_CASE("HostReader: energy of all packages over wraps, without the domains within them") {
    FakeMachine machine;
    std::string const rapl = "/sys/class/powercap/intel-rapl:";
    for (auto const* package : {"0", "1"}) {
        machine.put(rapl + package + "/name", "package-" + std::string(package) + "\n");
        machine.put(rapl + package + "/max_energy_range_uj", "262143328850\n");
        machine.put(rapl + package + "/energy_uj", "262143000000\n");
    }
    machine.put(rapl + "2/name", "psys\n");
    machine.put(rapl + "2/energy_uj", "0\n");
    machine.put(rapl + "0:0/name", "core\n");
    machine.put(rapl + "0:0/energy_uj", "0\n");
    Host host(machine);
    CHECK(*host.look().energy == 0.0);
    machine.put(rapl + "0/energy_uj", "262143100000\n");
    machine.put(rapl + "1/energy_uj", "1671149\n");
    // 0.1 J and, over the wrap, 2 J.
    CHECK(*host.look().energy == doctest::Approx(2.1));
}

TEST_CASE("HostReader: RAPL that only root may read is empty; the note names file and rule") {
    FakeMachine machine;
    std::string const package = "/sys/class/powercap/intel-rapl:0";
    machine.put(package + "/name", "package-0\n");
    machine.put(package + "/energy_uj", "123456\n");
    auto const file = machine.options().root + package + "/energy_uj";
    REQUIRE(::chmod(file.c_str(), 0400) == 0);
    if (::geteuid() == 0) {
        REQUIRE(::chmod(machine.folder().path().c_str(), 0755) == 0);
        REQUIRE(::seteuid(65534) == 0);
    } else {
        REQUIRE(::chmod(file.c_str(), 0) == 0);
    }
    {
        Host host(machine);
        CHECK_FALSE(host.look().energy);
        CHECK(host.look().memory_total);
        CHECK(host.notes_say(package + "/energy_uj may not be read"));
        CHECK(host.notes_say("chmod a+r"));
    }
    if (::getuid() == 0) REQUIRE(::seteuid(0) == 0);
}

TEST_CASE("HostReader: a look takes less than a millisecond of processor time" * doctest::test_suite("timing")) {
    // 0.1 % of a core at 10 Hz is 100 us a look; ten times that here, for machines that are slow or busy.
    SystemFiles const files;
    HostReader reader(files);
    HostSample sample;
    std::vector<float> cores;
    rusage before{};
    rusage after{};
    constexpr int looks = 200;
    ::getrusage(RUSAGE_SELF, &before);
    for (int i = 0; i < looks; ++i) reader.read(sample, cores);
    ::getrusage(RUSAGE_SELF, &after);
    auto const seconds = [](timeval time) { return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6; };
    auto const used = seconds(after.ru_utime) + seconds(after.ru_stime) - seconds(before.ru_utime) - seconds(before.ru_stime);
    MESSAGE("one look at the host takes ", used / looks * 1e6, " us: ", used / looks * 10.0 * 100.0, " % of a core at 10 Hz");
    CHECK(used / looks < 1e-3);
}
