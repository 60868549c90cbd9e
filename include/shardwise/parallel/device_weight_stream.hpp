// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/device.hpp>
#include <shardwise/backend/host.hpp>
#include <shardwise/backend/pinned_memory.hpp>
#include <shardwise/core/deadline.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/parallel/layer_source.hpp>
#include <shardwise/parallel/weight_stream.hpp>

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Layers some of which lie where a device copies from: in_memory(layer) is null for those that are read instead.
template <class S>
concept PinnedLayerSource = LayerSource<S> && requires(S const& source) {
    { source.in_memory(std::int64_t{}) } -> std::same_as<std::byte const*>;
};

/// WeightStream of a device: walks over layers whose weights lie in the host's memory or in a file. While one is computed the next is
/// copied by a stream of its own, into as many slots as `depth` says; what lies in a file is read by a thread before that. A layer
/// has the same slot in every walk, and the next walk's first layers are fetched before this one ends. When it goes it waits for
/// what still copies and computes, at most as long as the context's limit.
///
/// Memory  slots: depth times the largest layer; of layers that are read, two pinned buffers of the largest
/// Source  DeepSpeed's ZeRO-Inference
template <class Api, PinnedLayerSource Source>
class DeviceWeightStream {
    using Backend = DeviceBackend<Api>;

public:
    /// Allocates the slots and begins to fetch the first layers. The contexts outlive this; `host` counts pinned memory.
    ///
    /// Errors  invalid_argument for a depth below 2, with which nothing would overlap; out_of_memory; those of the device's calls
    [[nodiscard]] static Result<DeviceWeightStream> create(DeviceContext<Api>& context, MemoryCounter& host,
                                                           Source source, std::int64_t depth = weight_stream_depth) {
        if (depth < 2) {
            return Error{ErrorCode::invalid_argument}
                .in("weight stream")
                .at("depth")
                .because("leaves no slot to copy into while a layer is computed")
                .got(depth)
                .at_least(2);
        }
        DeviceWeightStream made(context, std::move(source));
        auto& state = *made.state_;
        std::int64_t largest = 0;
        std::int64_t largest_read = 0;
        for (std::int64_t layer = 0; layer < state.layers(); ++layer) {
            auto const bytes = state.source.bytes(layer).count();
            largest = std::max(largest, bytes);
            if (!state.is_read(layer)) continue;
            largest_read = std::max(largest_read, bytes);
            state.read_layers.push_back(layer);
        }
        state.slots.resize(static_cast<std::size_t>(std::min(depth, state.layers())));
        for (auto& slot : state.slots) {
            auto buffer = Buffer<std::byte, Backend>::allocate(context, largest);
            if (!buffer) return buffer.error();
            slot.buffer = std::move(*buffer);
        }
        state.reads.resize(std::min<std::size_t>(2, state.read_layers.size()));
        for (auto& read : state.reads) {
            auto memory = PinnedMemory<Api>::allocate(context, host, largest_read);
            if (!memory) return memory.error();
            read.memory = std::move(*memory);
        }
        if (!state.reads.empty()) state.reader.emplace(StreamMode::queued);
        for (std::size_t i = 0; i < state.reads.size(); ++i) state.read_next();
        for (std::int64_t layer = 0; layer < state.depth(); ++layer) state.copy_pinned(layer);
        if (state.copies.failure()) return *state.copies.failure();
        return Result<DeviceWeightStream>(std::move(made));
    }

    /// Where the bytes of a layer are while it is computed.
    [[nodiscard]] std::byte const* place(std::int64_t layer) const { return state_->slot(layer).buffer.data(); }

    /// Keeps what is put into `stream` from now on after the layer's copy. Every walk acquires and releases all layers, in order.
    ///
    /// Order   waits for layers that are read, not for copies
    /// Errors  those of the source; deadline_exceeded. After an error every later call returns it
    [[nodiscard]] Result<> acquire(std::int64_t layer, DeviceStream<Api>& stream, Deadline deadline) {
        if (failed_) return *failed_;
        auto& state = *state_;
        if (auto const here = state.copy_read(layer, deadline); !here) return failed_.emplace(here.error());
        if (auto const later = std::exchange(state.postponed, std::nullopt)) state.copy_pinned(*later);
        state.slot(layer).fetched.block(stream, std::chrono::hours(24));
        return {};
    }
    /// What `stream` holds now is the last to read the layer: the next one of its slot may be copied afterwards.
    void release(std::int64_t layer, DeviceStream<Api>& stream) {
        auto& state = *state_;
        state.slot(layer).used.record(stream);
        auto const next = state.after(layer);
        // A layer that has its slot for itself stays.
        if (next == layer) return;
        // A copy into this slot waits for what computes now, and those after it with it: what is read for the next layer goes first.
        if (layer + 1 < state.layers() && state.is_read(layer + 1)) {
            state.postponed = next;
        } else {
            state.copy_pinned(next);
        }
    }

    /// What it holds on the device.
    [[nodiscard]] Bytes bytes() const {
        Bytes sum{0};
        for (auto const& slot : state_->slots) sum += slot.buffer.bytes();
        return sum;
    }

private:
    struct Slot {
        Buffer<std::byte, Backend> buffer;
        /// Of the copy into it; of the work that read it last.
        DeviceEvent<Api> fetched;
        DeviceEvent<Api> used;
    };
    /// What a layer is read into.
    struct Read {
        PinnedMemory<Api> memory;
        HostEvent done;
        /// Of the copy out of it.
        DeviceEvent<Api> copied;
    };
    /// In one place, because the reading thread knows where it is.
    struct State {
        State(DeviceContext<Api>& context, Source from) : source(std::move(from)), copies(context.make_stream()) {}
        ~State() {
            auto const deadline = Deadline::after(copies.context().limit());
            for (auto const& slot : slots) (void)slot.used.synchronize(deadline);
        }

        [[nodiscard]] std::int64_t layers() const { return source.layers(); }
        [[nodiscard]] std::int64_t depth() const { return static_cast<std::int64_t>(slots.size()); }
        [[nodiscard]] bool is_read(std::int64_t layer) const {
            return source.in_memory(layer) == nullptr && source.bytes(layer).count() > 0;
        }
        [[nodiscard]] Slot& slot(std::int64_t layer) { return slots[static_cast<std::size_t>(layer % depth())]; }
        /// The layer that has the slot next.
        [[nodiscard]] std::int64_t after(std::int64_t layer) const {
            return layer + depth() < layers() ? layer + depth() : layer % depth();
        }
        void copy(std::int64_t layer, std::byte const* from) {
            auto& to = slot(layer);
            to.used.block(copies, std::chrono::hours(24));
            auto const bytes = source.bytes(layer).count();
            TensorView<std::byte const, 1, Host> const whole(from, {bytes});
            TensorView<std::byte, 1, Backend> const place(to.buffer.data(), {bytes});
            if (auto const done = Backend::template copy<std::byte>(whole, place, copies); !done)
                copies.fail(done.error());
            to.fetched.record(copies);
        }
        void copy_pinned(std::int64_t layer) {
            if (auto const* const from = source.in_memory(layer)) copy(layer, from);
        }
        /// Puts the copy of a layer that is read into its stream, once it is read, and has the one after next read.
        [[nodiscard]] Result<> copy_read(std::int64_t layer, Deadline deadline) {
            if (!is_read(layer)) return {};
            auto& read = reads[copied_reads++ % reads.size()];
            if (auto const done = read.done.synchronize(deadline); !done) return done;
            copy(layer, read.memory.data());
            read.copied.record(copies);
            read_next();
            return {};
        }
        void read_next() {
            auto const layer = read_layers[begun_reads % read_layers.size()];
            auto& read = reads[begun_reads % reads.size()];
            ++begun_reads;
            auto const limit = copies.context().limit();
            reader->submit([this, limit, layer, copied = read.copied, to = read.memory.data()]() -> Result<> {
                auto const free = copied.synchronize(Deadline::after(limit));
                if (!free) return free;
                return source.read(layer, 0, {to, static_cast<std::size_t>(source.bytes(layer).count())});
            });
            read.done.record(*reader);
        }

        Source source;
        List<Slot> slots;
        List<Read> reads;
        /// The layers that are read, in order; how many reads were begun, and copied, in all walks.
        List<std::int64_t> read_layers;
        std::size_t begun_reads = 0;
        std::size_t copied_reads = 0;
        /// A layer in pinned memory whose copy goes after that of the one that is acquired next.
        std::optional<std::int64_t> postponed;
        DeviceStream<Api> copies;
        std::optional<HostStream> reader;
    };

    DeviceWeightStream(DeviceContext<Api>& context, Source source)
        : state_(std::make_unique<State>(context, std::move(source))) {}

    std::unique_ptr<State> state_;
    std::optional<Error> failed_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
