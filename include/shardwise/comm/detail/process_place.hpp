// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <array>
#include <cstdint>
#include <cstdio>
#include <sys/stat.h>
#include <unistd.h>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Which process of which machine this is, for ranks that may be anywhere to compare.
struct ProcessPlace {
    /// The kernel's number of its start; of a kernel that tells none, the machine's name.
    std::array<char, 64> machine{};
    std::int64_t process = 0;
    /// Of process numbers: containers of one machine have numbers of their own.
    std::uint64_t numbers = 0;

    friend bool operator==(ProcessPlace const&, ProcessPlace const&) = default;

    /// Source  proc(5), /proc/sys/kernel/random/boot_id; namespaces(7), /proc/[pid]/ns
    [[nodiscard]] static ProcessPlace current() {
        ProcessPlace place;
        auto* const file = std::fopen("/proc/sys/kernel/random/boot_id", "re");
        if (file != nullptr) {
            auto const read = std::fread(place.machine.data(), 1, place.machine.size() - 1, file);
            std::fclose(file);
            place.machine[read] = '\0';
        }
        if (place.machine[0] == '\0') (void)gethostname(place.machine.data(), place.machine.size() - 1);
        place.process = getpid();
        struct stat facts {};
        if (stat("/proc/self/ns/pid", &facts) == 0) place.numbers = static_cast<std::uint64_t>(facts.st_ino);
        return place;
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
