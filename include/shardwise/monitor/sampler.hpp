// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/monitor/device_monitor.hpp>
#include <shardwise/monitor/monitor_summary.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How a sampler works.
struct SamplerOptions {
    /// From one look to the next.
    std::chrono::nanoseconds interval{std::chrono::seconds(1)};
    /// How long its end waits for a call that has not returned.
    std::chrono::milliseconds patience{500};
};

/// Looks at the devices again and again from a thread of its own, from its making to its end, and sums up what it sees.
///
/// Looks lie on a fixed beat. One that takes longer than the beat makes the next ones drop out; they are counted, not made up
/// for. A vendor's call that never returns does not keep the sampler's end: the thread then stays behind, inside the driver.
///
/// Memory  fixed: 160 KiB a device and 100 KiB for the host
/// Example  auto sampler = Sampler::start(*std::move(monitor)); work(); auto report = sampler->summary();
class Sampler {
public:
    /// Takes the monitor over and begins with a look at once.
    ///
    /// Errors  invalid_argument for an interval below 1 ms; capacity_exceeded where the system gives no thread
    [[nodiscard]] static Result<Sampler> start(DeviceMonitor monitor, SamplerOptions options = {}) {
        if (options.interval < std::chrono::milliseconds(1)) {
            return Error{ErrorCode::invalid_argument}
                .in("SamplerOptions::interval")
                .because("is shorter than a millisecond")
                .fix("looks take tens of microseconds for each device: ask for 10 ms or more");
        }
        Sampler out(std::make_shared<Shared>(std::move(monitor), options));
        try {
            out.thread_ = std::thread([shared = out.shared_] { shared->run(); });
        } catch (std::system_error const&) {
            return Error{ErrorCode::capacity_exceeded}.because("the system gives no thread to look at devices from");
        }
        return Result<Sampler>(std::move(out));
    }
    Sampler(Sampler&&) noexcept = default;
    Sampler& operator=(Sampler&&) = delete;
    ~Sampler() { stop(); }

    /// The devices that are watched.
    [[nodiscard]] std::vector<MonitoredDevice> const& devices() const { return shared_->devices; }

    /// Looks once more and ends the looks; true where the thread has ended, false where it stays behind in a call, which `hanging_call` names.
    bool stop() {
        if (!thread_.joinable()) return !is_left_behind_;
        std::unique_lock lock(shared_->mutex);
        shared_->is_stopping = true;
        shared_->changed.notify_all();
        bool const has_ended = shared_->changed.wait_for(lock, shared_->options.patience, [&] { return shared_->has_ended; });
        lock.unlock();
        if (has_ended) {
            thread_.join();
        } else {
            is_left_behind_ = true;
            thread_.detach();
        }
        return has_ended;
    }

    /// Waits for look number `number` (the first is 1) or a later one, and gives the latest: its number, or 0 where none
    /// came in time.
    std::uint64_t wait_for(std::uint64_t number, std::chrono::nanoseconds limit, MonitorSample& out) const {
        std::unique_lock lock(shared_->mutex);
        if (!shared_->changed.wait_for(lock, limit, [&] { return shared_->count >= number; })) return 0;
        out = shared_->latest;
        return shared_->count;
    }
    /// What was seen so far.
    [[nodiscard]] MonitorSummary summary() const {
        std::lock_guard const lock(shared_->mutex);
        return shared_->builder.summary();
    }
    /// Why something stays unknown, a sentence for each, without the first so many.
    [[nodiscard]] std::vector<std::string> notes(std::size_t first = 0) const {
        std::lock_guard const lock(shared_->mutex);
        auto const& all = shared_->notes;
        return {all.begin() + static_cast<std::ptrdiff_t>(std::min(first, all.size())), all.end()};
    }
    /// The vendor's call that a look has been in for longer than this; "" where none hangs.
    [[nodiscard]] std::string hanging_call(std::chrono::nanoseconds limit = std::chrono::milliseconds(100)) const {
        std::lock_guard const lock(shared_->mutex);
        bool const is_slow = shared_->is_looking && std::chrono::steady_clock::now() - shared_->look_began > limit;
        return is_slow ? shared_->watch->current() : "";
    }

private:
    /// What the thread and its owner share; whoever is last lets it go.
    struct Shared {
        Shared(DeviceMonitor made, SamplerOptions wanted)
            : monitor(std::move(made)),
              options(wanted),
              devices(monitor.devices()),
              watch(monitor.watch()),
              notes(monitor.notes()),
              builder(devices.size()) {}

        void run() {
            using clock = std::chrono::steady_clock;
            auto const begin = clock::now();
            std::int64_t beat = 0;
            MonitorSample sample;
            std::unique_lock lock(mutex);
            while (true) {
                bool const is_last = is_stopping;
                is_looking = true;
                look_began = clock::now();
                lock.unlock();
                monitor.read(sample);
                lock.lock();
                is_looking = false;
                latest = sample;
                builder.add(sample);
                if (monitor.notes().size() != notes.size()) notes = monitor.notes();
                ++count;
                changed.notify_all();
                if (is_last) break;
                // The first beat that still lies ahead.
                auto const next = std::max<std::int64_t>((clock::now() - begin) / options.interval + 1, beat + 1);
                builder.skip(static_cast<std::uint64_t>(next - beat - 1));
                beat = next;
                changed.wait_until(lock, begin + next * options.interval, [&] { return is_stopping; });
            }
            has_ended = true;
            changed.notify_all();
        }

        DeviceMonitor monitor;
        SamplerOptions const options;
        std::vector<MonitoredDevice> const devices;
        std::shared_ptr<CallWatch const> const watch;
        std::mutex mutex;
        std::condition_variable changed;
        std::vector<std::string> notes;
        SummaryBuilder builder;
        MonitorSample latest{};
        std::uint64_t count = 0;
        std::chrono::steady_clock::time_point look_began{};
        bool is_looking = false;
        bool is_stopping = false;
        bool has_ended = false;
    };

    explicit Sampler(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

    std::shared_ptr<Shared> shared_;
    std::thread thread_;
    bool is_left_behind_ = false;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
