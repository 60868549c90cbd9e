// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/error.hpp>
#include <shardwise/core/observer.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

namespace shardwise::cli {

/// The line of a progress bar after `seconds`: "reading shards  [####......]  12 of 30  2 s". Where the total is 0 a block
/// wanders instead. At most `width` columns.
[[nodiscard]] inline std::string progress_line(WorkProgress const& progress, double seconds, int width) {
    constexpr int cells = 24;
    auto const elapsed = std::max(seconds, 0.0);
    std::string bar(cells, '.');
    std::string count;
    if (progress.total > 0) {
        auto const done = std::clamp<std::int64_t>(progress.done, 0, progress.total);
        auto const share = static_cast<double>(done) / static_cast<double>(progress.total);
        auto const filled = static_cast<std::size_t>(share * cells);
        bar.replace(0, filled, filled, '#');
        count = std::to_string(done) + " of " + std::to_string(progress.total) + "  ";
    } else {
        constexpr int block = 4;
        auto const step = static_cast<std::int64_t>(elapsed * 8.0) % (2 * (cells - block));
        auto const place = step < cells - block ? step : 2 * (cells - block) - step;
        bar.replace(static_cast<std::size_t>(place), block, block, '#');
    }
    auto const room = static_cast<std::size_t>(std::max(width, 1));
    auto const time = count + std::to_string(static_cast<std::int64_t>(elapsed)) + " s";
    auto line = escaped(progress.work) + "  [" + bar + "]  " + time;
    if (line.size() > room) line = escaped(progress.work) + "  " + time;
    return line.substr(0, room);
}

/// A line on a terminal that shows work which takes longer than a second, and goes when the work is done.
class ProgressBar {
public:
    /// Gives seconds from any point in time on.
    using Clock = std::function<double()>;
    using Sink = std::function<void(std::string_view)>;

    ProgressBar(Clock clock, Sink sink, int width)
        : clock_(std::move(clock)), sink_(std::move(sink)), width_(width), start_(clock_()) {}

    /// Notes how far the work has come; draws nothing.
    void note(WorkProgress const& progress) {
        std::lock_guard const lock(mutex_);
        work_ = progress.work;
        done_ = progress.done;
        total_ = progress.total;
    }
    /// Draws the line where it is time for it.
    void draw() {
        std::lock_guard const lock(mutex_);
        auto const seconds = clock_() - start_;
        if (seconds < quiet_seconds) return;
        // The last column stays free: some terminals begin a new line behind it.
        sink_("\r" + progress_line({work_, done_, total_}, seconds, width_ - 1) + "\x1b[K");
        is_drawn_ = true;
    }
    /// Takes the line away.
    void clear() {
        std::lock_guard const lock(mutex_);
        if (is_drawn_) sink_("\r\x1b[K");
        is_drawn_ = false;
    }

private:
    static constexpr double quiet_seconds = 1.0;

    Clock clock_;
    Sink sink_;
    int width_;
    double start_;
    std::mutex mutex_;
    std::string work_ = "working";
    std::int64_t done_ = 0;
    std::int64_t total_ = 0;
    bool is_drawn_ = false;
};

}  // namespace shardwise::cli
