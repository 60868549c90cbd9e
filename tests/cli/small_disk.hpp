// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "temporary_folder.hpp"

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <sched.h>
#include <string>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

namespace shardwise::tests {

/// A file system of so many bytes: tmpfs, where a process of this object's has mounted it for itself.
class SmallDisk {
public:
    explicit SmallDisk(std::int64_t bytes) {
        int said[2] = {-1, -1};
        if (::pipe2(said, O_CLOEXEC) != 0) return;
        holder_ = ::fork();
        if (holder_ == 0) {
            (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
            int const problem = mount(bytes);
            (void)!::write(said[1], &problem, sizeof problem);
            while (problem == 0) (void)::pause();
            ::_exit(1);
        }
        (void)::close(said[1]);
        if (holder_ < 0 || ::read(said[0], &problem_, sizeof problem_) != sizeof problem_) problem_ = EIO;
        (void)::close(said[0]);
    }
    SmallDisk(SmallDisk const&) = delete;
    SmallDisk& operator=(SmallDisk const&) = delete;
    ~SmallDisk() {
        if (holder_ <= 0) return;
        (void)::kill(holder_, SIGKILL);
        (void)::waitpid(holder_, nullptr, 0);
    }

    /// Why there is none: this process may not mount anything; "" where there is one.
    [[nodiscard]] std::string missing() const { return problem_ == 0 ? std::string() : std::strerror(problem_); }
    [[nodiscard]] std::string path() const { return "/proc/" + std::to_string(holder_) + "/root" + folder_.path(); }

private:
    static bool put(char const* path, std::string const& text) {
        auto const file = ::open(path, O_WRONLY | O_CLOEXEC);
        if (file < 0) return false;
        bool const done = ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
        (void)::close(file);
        return done;
    }
    /// 0 or an errno.
    [[nodiscard]] int mount(std::int64_t bytes) const {
        auto const user = ::geteuid();
        auto const group = ::getegid();
        if (user != 0 || ::unshare(CLONE_NEWNS) != 0) {
            if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return errno;
            bool const is_mapped = put("/proc/self/setgroups", "deny") &&
                                   put("/proc/self/uid_map", "0 " + std::to_string(user) + " 1") &&
                                   put("/proc/self/gid_map", "0 " + std::to_string(group) + " 1");
            if (!is_mapped) return errno;
        }
        if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return errno;
        auto const size = "size=" + std::to_string(bytes);
        return ::mount("tmpfs", folder_.path().c_str(), "tmpfs", 0, size.c_str()) == 0 ? 0 : errno;
    }

    testing::TemporaryFolder folder_;
    pid_t holder_ = -1;
    int problem_ = EIO;
};

}  // namespace shardwise::tests
