// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device_stream.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A point in a stream of a device that others can wait for. Copies are the same event until one is recorded anew.
template <class Api>
class DeviceEvent {
public:
    /// Marks the point after what the stream holds now; a new record replaces the old one. After a failure there is no
    /// point: whoever waits for the event gets the failure.
    void record(DeviceStream<Api>& stream) {
        if (!point_ || point_.use_count() > 1 || point_->device != stream.device()) {
            point_ = std::make_shared<Point>(stream.device());
        }
        point_->failure.reset();
        stream.submit([this](typename Api::Stream native) -> Result<> {
            if (!point_->event) {
                auto const event = Api::create_event();
                if (!event) return event.error();
                point_->event = *event;
            }
            return Api::record(*point_->event, native);
        });
        point_->failure = stream.failure();
    }

    /// Keeps what is put into `stream` from now on after this point. An event that was never recorded holds nothing up.
    /// The device waits, not the caller, so there is nothing to limit here: `synchronize` has the deadline.
    void block(DeviceStream<Api>& stream, std::chrono::nanoseconds) const {
        if (!point_) return;
        if (point_->failure) return stream.fail(*point_->failure);
        stream.submit([this](typename Api::Stream native) { return Api::hold_back(native, *point_->event); });
    }

    /// Waits for the point.
    ///
    /// Errors  deadline_exceeded; the failure that came before it
    [[nodiscard]] Result<> synchronize(Deadline deadline) const {
        if (!point_) return {};
        if (point_->failure) return *point_->failure;
        detail::DeviceScope<Api> const scope(point_->device);
        if (!scope.result()) return scope.result();
        auto const reached = detail::poll([this] { return Api::is_reached(*point_->event); }, deadline);
        if (!reached) return reached.error();
        if (*reached) return {};
        return Error{ErrorCode::deadline_exceeded}
            .in("event")
            .because("was not reached before its deadline")
            .fix("allow more time, or look for the failure in the stream that records it");
    }

    /// True where the point is passed, or was never set.
    [[nodiscard]] bool is_reached() const {
        if (!point_) return true;
        if (point_->failure) return false;
        detail::DeviceScope<Api> const scope(point_->device);
        if (!scope.result()) return false;
        auto const reached = Api::is_reached(*point_->event);
        return reached && *reached;
    }

private:
    struct Point {
        explicit Point(std::int32_t on) : device(on) {}
        Point(Point const&) = delete;
        Point& operator=(Point const&) = delete;
        ~Point() {
            if (!event) return;
            detail::DeviceScope<Api> const scope(device);
            Api::destroy_event(*event);
        }

        std::int32_t device;
        std::optional<typename Api::Event> event;
        std::optional<Error> failure;
    };

    std::shared_ptr<Point> point_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
