// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/backend/device.hpp>
#include <shardwise/backend/timed_event.hpp>
#include <shardwise/core/deadline.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/executor/block_times.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Times the blocks of an executor's steps, once `measure` says where they are added: by the processor's clock, and the stream is waited
/// for after each block.
template <ComputeBackend Backend>
class BlockTimer {
public:
    using Stream = typename Backend::Stream;

    /// `times` outlives this; `first` is the first of the rank's blocks.
    void measure(BlockTimes& times, std::size_t first) {
        times_ = &times;
        first_ = first;
    }
    [[nodiscard]] bool is_on() const { return times_ != nullptr; }

    /// A step begins. What is in the stream is no time of it.
    ///
    /// Errors  those of what is in the stream
    [[nodiscard]] Result<> begin(std::int64_t tokens, std::int64_t sequences, Stream& stream) {
        if (!is_on()) return {};
        if (auto const waited = wait(stream); !waited) return waited;
        times_->begin(tokens, sequences);
        before_ = Clock::now();
        return {};
    }
    /// The rank's block `at` is in the stream.
    [[nodiscard]] Result<> end_block(std::size_t at, Stream& stream) {
        if (!is_on()) return {};
        if (auto const waited = wait(stream); !waited) return waited;
        auto const now = Clock::now();
        times_->add(first_ + at, std::chrono::duration<double>(now - before_).count());
        before_ = now;
        return {};
    }
    /// All of the step's blocks are.
    [[nodiscard]] Result<> end(Stream&) { return {}; }

private:
    using Clock = std::chrono::steady_clock;

    [[nodiscard]] static Result<> wait(Stream& stream) {
        return stream.synchronize(Deadline::after(std::chrono::hours(1)));
    }

    BlockTimes* times_ = nullptr;
    std::size_t first_ = 0;
    Clock::time_point before_{};
};

/// On a device: by events in the stream, which is waited for once, when all of a step is in it.
template <class Api>
class BlockTimer<DeviceBackend<Api>> {
public:
    using Stream = DeviceStream<Api>;

    void measure(BlockTimes& times, std::size_t first) {
        times_ = &times;
        first_ = first;
    }
    [[nodiscard]] bool is_on() const { return times_ != nullptr; }

    /// Errors  those of the vendor's calls
    [[nodiscard]] Result<> begin(std::int64_t tokens, std::int64_t sequences, Stream& stream) {
        if (!is_on()) return {};
        times_->begin(tokens, sequences);
        recorded_ = 0;
        return record(stream);
    }
    [[nodiscard]] Result<> end_block(std::size_t, Stream& stream) { return is_on() ? record(stream) : Result<>{}; }
    /// Errors  those of the vendor's calls, and of what is in the stream
    [[nodiscard]] Result<> end(Stream& stream) {
        if (!is_on()) return {};
        if (auto const waited = stream.synchronize(Deadline::after(std::chrono::hours(1))); !waited) return waited;
        for (std::size_t at = 0; at + 1 < recorded_; ++at) {
            auto const seconds = points_[at + 1].since(points_[at]);
            if (!seconds) return seconds.error();
            times_->add(first_ + at, *seconds);
        }
        return {};
    }

private:
    [[nodiscard]] Result<> record(Stream& stream) {
        if (recorded_ == points_.size()) {
            auto made = TimedEvent<Api>::make(stream.device());
            if (!made) return made.error();
            points_.push_back(std::move(*made));
        }
        points_[recorded_++].record(stream);
        return stream.failure() ? Result<>(*stream.failure()) : Result<>{};
    }

    BlockTimes* times_ = nullptr;
    std::size_t first_ = 0;
    std::vector<TimedEvent<Api>> points_;
    std::size_t recorded_ = 0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
