// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_api.hpp>
#include <shardwise/backend/device_stream.hpp>
#include <shardwise/core/result.hpp>

#include <cstdint>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A point in a stream of a device that keeps the time at which the device reached it. A graph that is taken down holds none.
///
/// Example
///     first.record(stream);
///     launch(stream);
///     last.record(stream);
///     stream.synchronize(deadline);
///     auto const seconds = last.since(first);
template <class Api>
class TimedEvent {
public:
    /// Errors  backend_failure
    [[nodiscard]] static Result<TimedEvent> make(std::int32_t device) {
        detail::DeviceScope<Api> const scope(device);
        if (!scope.result()) return scope.result().error();
        auto const event = Api::create_timed_event();
        if (!event) return event.error();
        return TimedEvent(device, *event);
    }
    TimedEvent(TimedEvent&& other) noexcept
        : device_(other.device_), event_(other.event_), is_owner_(std::exchange(other.is_owner_, false)) {}
    TimedEvent& operator=(TimedEvent&&) = delete;
    ~TimedEvent() {
        if (!is_owner_) return;
        detail::DeviceScope<Api> const scope(device_);
        Api::destroy_event(event_);
    }

    /// Marks the point after what the stream holds now.
    void record(DeviceStream<Api>& stream) {
        stream.submit([this](typename Api::Stream native) { return Api::record(event_, native); });
    }

    /// The time from `first` to here. Both are recorded, and their streams were waited for.
    ///
    /// Units   seconds
    /// Errors  backend_failure, also for a point that is not reached
    [[nodiscard]] Result<double> since(TimedEvent const& first) const {
        detail::DeviceScope<Api> const scope(device_);
        if (!scope.result()) return scope.result().error();
        return Api::seconds_between(first.event_, event_);
    }

private:
    TimedEvent(std::int32_t device, typename Api::Event event) : device_(device), event_(event) {}

    std::int32_t device_;
    typename Api::Event event_;
    bool is_owner_ = true;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
