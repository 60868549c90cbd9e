// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/process_mark.hpp>
#include <shardwise/backend/host/stream.hpp>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A point in a stream that others can wait for. Copies are the same event.
class HostEvent {
public:
    /// Marks the point after what the stream holds now; a new record replaces the old one. Where the stream fails before, who
    /// waits for the point gets that failure, at once.
    void record(HostStream& stream) {
        // A point that nobody else knows of is used again: a step allocates none.
        if (point_.use_count() != 1 || !point_->restart()) point_ = std::make_shared<Point>();
        auto const point = point_;
        stream.submit_mark([point](std::optional<Error> const& failure) {
            {
                std::lock_guard const lock(point->mutex);
                point->is_reached = true;
                point->failure = failure;
            }
            point->changed.notify_all();
        });
    }

    /// Keeps what is put into `stream` from now on after this point. An event that was never recorded holds nothing up.
    void block(HostStream& stream, std::chrono::nanoseconds limit) const {
        if (!point_) return;
        stream.submit([point = point_, limit] { return point->wait(Deadline::after(limit)); });
    }

    /// Waits for the point.
    ///
    /// Errors  deadline_exceeded; the failure of the recorded stream before the point
    [[nodiscard]] Result<> synchronize(Deadline deadline) const { return point_ ? point_->wait(deadline) : Result<>{}; }

    /// True where the point is passed, or was never set.
    [[nodiscard]] bool is_reached() const { return !point_ || point_->has_come(); }

private:
    struct Point {
        std::mutex mutex;
        std::condition_variable changed;
        bool is_reached = false;
        std::optional<Error> failure{};

        detail::ProcessMark process{};

        /// In a fork of the process that recorded it: who would reach it is not there, and may have held the mutex.
        [[nodiscard]] bool is_behind() const { return !process.is_here(); }
        [[nodiscard]] bool has_come() {
            std::unique_lock lock(mutex, std::defer_lock);
            if (!is_behind())
                lock.lock();
            else if (!lock.try_lock())
                return false;
            return is_reached;
        }
        /// Makes it a new point, where it is passed.
        [[nodiscard]] bool restart() {
            if (is_behind()) return false;
            std::lock_guard const lock(mutex);
            if (!is_reached) return false;
            is_reached = false;
            failure.reset();
            return true;
        }
        Result<> wait(Deadline deadline) {
            if (is_behind() && !has_come()) {
                return Error{ErrorCode::unsupported}
                    .in("event")
                    .because("was recorded in the process that this one is a fork of, and not reached before")
                    .fix("record it in a stream that was made after the fork");
            }
            std::unique_lock lock(mutex);
            if (changed.wait_until(lock, deadline.moment(), [this] { return is_reached; })) {
                return failure ? Result<>(*failure) : Result<>{};
            }
            return Error{ErrorCode::deadline_exceeded}
                .in("event")
                .because("was not reached before its deadline")
                .fix("allow more time, or look for the failure in the stream that records it");
        }
    };

    std::shared_ptr<Point> point_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
