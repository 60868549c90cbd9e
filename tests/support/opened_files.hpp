// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <sys/inotify.h>
#include <unistd.h>

namespace shardwise::testing {

/// Counts how often anybody opens a file, in this process or another one, while it lives.
class OpenedFile {
public:
    explicit OpenedFile(std::string const& path)
        : queue_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)),
          // Two openings with nothing between them would be one event: readings and closings keep them apart.
          watch_(::inotify_add_watch(queue_, path.c_str(), IN_OPEN | IN_ACCESS | IN_CLOSE_NOWRITE)) {}
    OpenedFile(OpenedFile const&) = delete;
    OpenedFile& operator=(OpenedFile const&) = delete;
    ~OpenedFile() { ::close(queue_); }

    [[nodiscard]] bool is_watched() const { return watch_ >= 0; }
    /// How often it was opened since this was last asked.
    [[nodiscard]] int count() const {
        int opened = 0;
        std::array<char, 1U << 14U> bytes;
        for (ssize_t size = 0; (size = ::read(queue_, bytes.data(), bytes.size())) > 0;) {
            for (std::size_t at = 0; at < static_cast<std::size_t>(size);) {
                inotify_event event;
                std::memcpy(&event, bytes.data() + at, sizeof event);
                opened += (event.mask & IN_OPEN) != 0 ? 1 : 0;
                at += sizeof event + event.len;
            }
        }
        return opened;
    }

private:
    int queue_;
    int watch_;
};

}  // namespace shardwise::testing
