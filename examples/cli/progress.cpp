// SPDX-License-Identifier: Apache-2.0
#include "progress.hpp"

#include <chrono>
#include <cstdio>
#include <sys/ioctl.h>
#include <unistd.h>

namespace shardwise::cli {

namespace {

constexpr auto frame = std::chrono::milliseconds(100);

[[nodiscard]] double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

[[nodiscard]] int width_of_stderr() {
    winsize size{};
    bool const is_known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    return is_known ? size.ws_col : 80;
}

}  // namespace

Progress::Progress(ColorMode mode)
    : bar_(
          now,
          [](std::string_view text) {
              (void)std::fwrite(text.data(), 1, text.size(), stderr);
              (void)std::fflush(stderr);
          },
          width_of_stderr()) {
    if (!may_animate(mode)) return;
    thread_ = std::thread([this] {
        std::unique_lock lock(mutex_);
        while (!wake_.wait_for(lock, frame, [this] { return is_done_; })) bar_.draw();
    });
}

Progress::~Progress() {
    if (!thread_.joinable()) return;
    {
        std::lock_guard const lock(mutex_);
        is_done_ = true;
    }
    wake_.notify_one();
    thread_.join();
    bar_.clear();
}

}  // namespace shardwise::cli
