// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Memory of a group that a process holds open.
struct GroupMemory {
    pid_t process = 0;
    ino_t inode = 0;
    /// Opens the memory, also where its own name is gone.
    std::string path;
};

/// Shows where a process holds the memory of a group after its name is gone: a unix socket to which nobody connects, whose abstract
/// name says the group, the process and its descriptor. The system takes it away with the process. Where it cannot be
/// made, the group is not seen.
class GroupBeacon {
public:
    GroupBeacon() = default;
    GroupBeacon(std::uint64_t group, int descriptor) {
        struct stat status {};
        if (fstat(descriptor, &status) != 0) return;
        auto const name = prefix_of(group) + std::to_string(getpid()) + "/" + std::to_string(descriptor) + "/" +
                          std::to_string(status.st_ino);
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        // The first byte of an abstract name is 0.
        if (name.size() + 1 > sizeof address.sun_path) return;
        std::memcpy(address.sun_path + 1, name.data(), name.size());
        auto const size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
        socket_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (socket_ >= 0) (void)bind(socket_, reinterpret_cast<sockaddr const*>(&address), size);
    }
    GroupBeacon(GroupBeacon&& other) noexcept : socket_(std::exchange(other.socket_, -1)) {}
    GroupBeacon& operator=(GroupBeacon&& other) noexcept {
        std::swap(socket_, other.socket_);
        return *this;
    }
    ~GroupBeacon() {
        if (socket_ >= 0) close(socket_);
    }

    /// The memory of a group that processes of this user hold in this machine's /dev/shm. A name proves nothing, be it another
    /// user's or inherited by the fork of a process that has ended: what counts is what that process holds.
    ///
    /// Source  proc(5), /proc/net/unix: the path is the last field, '@' stands for the 0 of an abstract one
    [[nodiscard]] static std::vector<GroupMemory> seen(std::uint64_t group) {
        std::vector<GroupMemory> found;
        struct stat folder {};
        auto* const sockets = std::fopen("/proc/net/unix", "re");
        if (sockets == nullptr) return found;
        auto const prefix = "@" + prefix_of(group);
        char line[512];
        while (stat("/dev/shm", &folder) == 0 && std::fgets(line, sizeof line, sockets) != nullptr) {
            auto const* const name = std::strstr(line, prefix.c_str());
            long process = 0;
            int descriptor = 0;
            unsigned long long inode = 0;
            if (name == nullptr || std::sscanf(name + prefix.size(), "%ld/%d/%llu", &process, &descriptor, &inode) != 3)
                continue;
            GroupMemory held{static_cast<pid_t>(process), static_cast<ino_t>(inode),
                            "/proc/" + std::to_string(process) + "/fd/" + std::to_string(descriptor)};
            struct stat status {};
            bool const is_ours = stat(held.path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
                                 status.st_uid == geteuid() && status.st_dev == folder.st_dev &&
                                 status.st_ino == held.inode;
            if (is_ours) found.push_back(std::move(held));
        }
        std::fclose(sockets);
        return found;
    }

private:
    [[nodiscard]] static std::string prefix_of(std::uint64_t group) {
        return "shardwise/" + std::to_string(group) + "/";
    }

    int socket_ = -1;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
