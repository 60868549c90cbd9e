// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_api.hpp>
#include <shardwise/backend/detail/device_fault.hpp>
#include <shardwise/backend/detail/pinned.hpp>
#include <shardwise/backend/detail/poll.hpp>
#include <shardwise/core/deadline.hpp>
#include <shardwise/core/result.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

template <class Api>
class DeviceContext;

/// Work in order on a device. The first failure stops the stream: what follows is skipped, and `synchronize` returns it.
/// One thread at a time.
///
/// Order  work runs in the order in which it was put in; work of two streams is ordered by events only
template <class Api>
class DeviceStream {
public:
    using Native = typename Api::Stream;
    using Fault = std::shared_ptr<detail::Pinned<Api, detail::FaultRecord>>;

    DeviceStream(DeviceStream&& other) noexcept
        : context_(other.context_),
          device_(other.device_),
          limit_(other.limit_),
          stream_(other.stream_),
          mark_(std::exchange(other.mark_, std::nullopt)),
          is_owner_(std::exchange(other.is_owner_, false)),
          is_captured_(other.is_captured_),
          failure_(std::move(other.failure_)),
          faults_(std::move(other.faults_)),
          standing_(std::move(other.standing_)),
          watcher_(std::move(other.watcher_)),
          lent_(other.lent_) {}
    DeviceStream& operator=(DeviceStream&&) = delete;
    /// Waits for what was put in, at most as long as the context's limit; a stream that it did not make is left alone.
    ~DeviceStream() {
        if (is_owner_) (void)synchronize(Deadline::after(limit_));
        detail::DeviceScope<Api> const scope(device_);
        if (mark_) Api::destroy_event(*mark_);
        if (is_owner_) Api::destroy_stream(stream_);
    }

    /// Puts work in: `enqueue(native stream)` returns Result<> and does not wait. Its failure, like an earlier one, is what
    /// `synchronize` returns.
    template <class Function>
    void submit(Function&& enqueue) {
        if (failure_) return;
        detail::DeviceScope<Api> const scope(device_);
        auto const result = scope.result() ? enqueue(stream_) : scope.result();
        if (!result) failure_ = result.error();
    }

    /// Waits until everything that was put in is done, asking with pauses: the vendors' own wait has no limit.
    ///
    /// Errors  the first failure; what a kernel reports; deadline_exceeded
    [[nodiscard]] Result<> synchronize(Deadline deadline) {
        if (mark_) {
            detail::DeviceScope<Api> const scope(device_);
            auto const marked = scope.result() ? Api::record(*mark_, stream_) : scope.result();
            auto const begin = std::chrono::steady_clock::now();
            auto const is_reached = [&]() -> Result<bool> {
                auto const reached = Api::is_reached(*mark_);
                if (!reached || *reached || !watcher_) return reached;
                if (auto const sound = watcher_(std::chrono::steady_clock::now() - begin); !sound) return sound.error();
                return false;
            };
            auto const reached = marked ? detail::poll(is_reached, deadline) : Result<bool>(marked.error());
            if (!reached) {
                fail(reached.error());
            } else if (!*reached && !failure_) {
                return Error{ErrorCode::deadline_exceeded}
                    .in("stream")
                    .because("did not finish before its deadline")
                    .fix("allow more time, or find the kernel that does not end");
            }
            for (auto const* const faults : {&faults_, &standing_}) {
                for (auto const& fault : *faults) {
                    if (auto const found = detail::fault_result(fault->value()); !found) fail(found.error());
                }
            }
            faults_.clear();
        }
        if (failure_) return *failure_;
        return {};
    }

    /// Makes `synchronize` report what kernels of this stream write into the record.
    void watch(Fault const& fault) {
        if (faults_.empty() || faults_.back() != fault) faults_.push_back(fault);
    }
    /// The same from now on: for kernels that a graph puts in again.
    void watch_always(Fault const& fault) { standing_.push_back(fault); }
    /// Asks this while `synchronize` waits, with how long it has: an error ends the wait and stops the stream. None: {}.
    using Watcher = std::function<Result<>(std::chrono::nanoseconds)>;
    void watch_by(Watcher watcher) { watcher_ = std::move(watcher); }
    /// Whether what is put in is taken down rather than run (DeviceGraph::capture says so).
    [[nodiscard]] bool is_captured() const { return is_captured_; }
    void set_captured(bool is_captured) { is_captured_ = is_captured; }
    /// Memory of the device, aligned as allocations are, that products of this stream use one after another: as much as
    /// DeviceBackend::product_workspace says is of use. Who lends it keeps it until what was put in since is done. None: {}.
    void lend_to_products(std::span<std::byte> memory) { lent_ = memory; }
    [[nodiscard]] std::span<std::byte> lent_to_products() const { return lent_; }
    /// Stops the stream, as a failure of its work would.
    void fail(Error const& error) {
        if (!failure_) failure_ = error;
    }

    [[nodiscard]] DeviceContext<Api>& context() const { return *context_; }
    [[nodiscard]] std::int32_t device() const { return device_; }
    [[nodiscard]] Native native() const { return stream_; }
    [[nodiscard]] std::optional<Error> const& failure() const { return failure_; }

private:
    friend class DeviceContext<Api>;

    DeviceStream(DeviceContext<Api>& context, std::int32_t device, std::chrono::nanoseconds limit,
                 std::optional<Native> adopted)
        : context_(&context), device_(device), limit_(limit) {
        detail::DeviceScope<Api> const scope(device_);
        auto const opened = scope.result() ? open(adopted) : scope.result();
        if (!opened) fail(opened.error());
    }

    Result<> open(std::optional<Native> adopted) {
        if (adopted) {
            stream_ = *adopted;
        } else {
            auto const stream = Api::create_stream();
            if (!stream) return stream.error();
            stream_ = *stream;
            is_owner_ = true;
        }
        auto const mark = Api::create_event();
        if (!mark) return mark.error();
        mark_ = *mark;
        return {};
    }

    DeviceContext<Api>* context_;
    std::int32_t device_;
    std::chrono::nanoseconds limit_;
    Native stream_{};
    /// The event that `synchronize` waits for.
    std::optional<typename Api::Event> mark_;
    bool is_owner_ = false;
    bool is_captured_ = false;
    std::optional<Error> failure_;
    std::vector<Fault> faults_;
    std::vector<Fault> standing_;
    Watcher watcher_;
    std::span<std::byte> lent_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
