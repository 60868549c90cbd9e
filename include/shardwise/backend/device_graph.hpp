// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_api.hpp>
#include <shardwise/backend/device_stream.hpp>
#include <shardwise/core/result.hpp>

#include <cstdint>
#include <optional>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What was put into a stream once, to be put in again by one call: the same kernels and copies with the same arguments. Numbers that
/// change between launches lie in memory that the kernels read (StepTable).
///
/// Memory  whatever the work refers to outlives the last launch; the graph outlives what was launched of it
template <class Api>
class DeviceGraph {
public:
    DeviceGraph(DeviceGraph&& other) noexcept
        : device_(other.device_), graph_(std::exchange(other.graph_, std::nullopt)) {}
    DeviceGraph& operator=(DeviceGraph&& other) noexcept {
        std::swap(device_, other.device_);
        std::swap(graph_, other.graph_);
        return *this;
    }
    ~DeviceGraph() {
        if (!graph_) return;
        detail::DeviceScope<Api> const scope(device_);
        Api::destroy_graph(*graph_);
    }

    /// Takes down what `enqueue()` puts into the stream, without running it. Nothing in `enqueue` waits, allocates memory of the
    /// device, or puts work into another stream: vendors refuse that.
    ///
    /// Errors  what `enqueue` returns; a failure of what it put in, which stops the stream; unsupported or backend_failure of a vendor
    ///         that does not take down streams, or not this work: the stream goes on
    template <class Enqueue>
    [[nodiscard]] static Result<DeviceGraph> capture(DeviceStream<Api>& stream, Enqueue&& enqueue) {
        if (stream.failure()) return *stream.failure();
        detail::DeviceScope<Api> const scope(stream.device());
        if (!scope.result()) return scope.result().error();
        if (auto const begun = Api::begin_capture(stream.native()); !begun) return begun.error();
        stream.set_captured(true);
        Result<> const done = enqueue();
        stream.set_captured(false);
        // Also after a failure: the stream is in the middle of a capture until it ends.
        auto const graph = Api::end_capture(stream.native());
        DeviceGraph made(stream.device());
        if (graph) made.graph_ = *graph;
        if (!done) return done.error();
        if (stream.failure()) return *stream.failure();
        if (!graph) return graph.error();
        if (auto const uploaded = Api::upload_graph(*graph, stream.native()); !uploaded) return uploaded.error();
        return Result<DeviceGraph>(std::move(made));
    }

    /// Puts all of it in again.
    ///
    /// Order  on `stream`, of the device that it was captured on
    void launch(DeviceStream<Api>& stream) const {
        stream.submit([this](typename Api::Stream native) { return Api::launch_graph(*graph_, native); });
    }

private:
    explicit DeviceGraph(std::int32_t device) : device_(device) {}

    std::int32_t device_;
    std::optional<typename Api::Graph> graph_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
