// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <fcntl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Kills all children of this process, and once their parents are dead their children, until none is left. A child that
/// the system itself does not let go is waited for 10 seconds.
inline void kill_children() {
    char path[64];
    (void)std::snprintf(path, sizeof path, "/proc/self/task/%d/children", static_cast<int>(getpid()));
    for (int round = 0; round < 10000; ++round) {
        char text[4096];
        auto const file = open(path, O_RDONLY | O_CLOEXEC);
        auto const size = file < 0 ? ssize_t{0} : read(file, text, sizeof text);
        if (file >= 0) close(file);
        pid_t number = 0;
        // A number that the buffer cuts off has no blank after it: the next round sees it whole.
        for (ssize_t i = 0; i < size; ++i) {
            if (text[i] >= '0' && text[i] <= '9') {
                number = number * 10 + (text[i] - '0');
            } else {
                if (number > 1) (void)kill(number, SIGKILL);
                number = 0;
            }
        }
        pid_t ended = 0;
        do {
            ended = waitpid(-1, nullptr, WNOHANG);
        } while (ended > 0);
        if (ended < 0 && errno == ECHILD) return;
        timespec const pause{0, 1000000};
        (void)nanosleep(&pause, nullptr);
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
