// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/backend/host.hpp>
#include <shardwise/core/deadline.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/parallel/layer_source.hpp>

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

/// What computes a layer from its weights' bytes, which stay until what it put into `stream` is done.
template <class L>
concept LayerWorker = requires(L& layer, std::span<std::byte const> weights, HostStream& stream) {
    { layer(std::int64_t{}, weights, stream) } -> std::same_as<Result<>>;
};

/// Layers that a stream has room for unless told otherwise: one is computed, the next is fetched.
inline constexpr std::int64_t weight_stream_depth = 2;

/// Walks over layers whose weights lie elsewhere (LayerSource): while one is computed the next ones are fetched, by a thread of
/// the stream's own, into as many buffers as `depth` says. The next walk's first layers are fetched before this one ends. When it
/// goes it waits for what its layers put into the caller's stream.
///
/// Memory  depth times the largest layer, from the context
/// Source  DeepSpeed's ZeRO-Inference
template <LayerSource Source>
class WeightStream {
public:
    /// Allocates the buffers and begins to fetch the first layers. The context outlives the stream.
    ///
    /// Errors  invalid_argument for a depth below 2, with which nothing would overlap; out_of_memory
    [[nodiscard]] static Result<WeightStream> create(HostContext& context, Source source,
                                                     std::int64_t depth = weight_stream_depth) {
        if (depth < 2) {
            return Error{ErrorCode::invalid_argument}
                .in("weight stream")
                .at("depth")
                .because("leaves no buffer to fetch into while a layer is computed")
                .got(depth)
                .at_least(2);
        }
        WeightStream stream(std::move(source));
        auto& state = *stream.state_;
        std::int64_t largest = 0;
        for (std::int64_t layer = 0; layer < state.source.layers(); ++layer)
            largest = std::max(largest, state.source.bytes(layer).count());
        state.slots.resize(static_cast<std::size_t>(std::min(depth, std::max(state.source.layers(), std::int64_t{1}))));
        for (auto& slot : state.slots) {
            auto buffer = Buffer<std::byte, Host>::allocate(context, largest);
            if (!buffer) return buffer.error();
            slot.buffer = std::move(*buffer);
        }
        for (std::size_t i = 0; i < state.slots.size() && state.source.layers() > 0; ++i) state.fetch_next();
        return Result<WeightStream>(std::move(stream));
    }

    /// Computes every layer once, in order: work(layer, weights, stream).
    ///
    /// Order   waits for each layer's weights before `work` is called; a buffer is refilled once `stream` is done with it
    /// Errors  those of `work` and of the source; deadline_exceeded. After an error every later walk returns it
    template <LayerWorker Work>
    [[nodiscard]] Result<> run(Work&& work, HostStream& stream, Deadline deadline) {
        if (!failed_) {
            if (auto const done = walk(work, stream, deadline); !done) failed_ = done.error();
        }
        return failed_ ? Result<>(*failed_) : Result<>{};
    }

    /// What the source was asked for so far; the layers of the next walk that are here already included.
    [[nodiscard]] std::int64_t layers_fetched() const { return state_->fetched; }
    [[nodiscard]] Bytes bytes() const {
        Bytes sum{0};
        for (auto const& slot : state_->slots) sum = sum + slot.buffer.bytes();
        return sum;
    }

private:
    template <class Work>
    [[nodiscard]] Result<> walk(Work& work, HostStream& stream, Deadline deadline) {
        auto& state = *state_;
        for (std::int64_t layer = 0; layer < state.source.layers(); ++layer) {
            auto& slot = state.slots[static_cast<std::size_t>(state.computed % state.depth())];
            if (auto const fetched = slot.fetched.synchronize(deadline); !fetched) return fetched;
            auto const size = static_cast<std::size_t>(state.source.bytes(layer).count());
            Result<> const done = work(layer, std::span<std::byte const>(slot.buffer.data(), size), stream);
            slot.used.record(stream);
            if (!done) return done;
            ++state.computed;
            state.fetch_next(deadline);
        }
        return stream.synchronize(deadline);
    }

    struct Slot {
        Buffer<std::byte, Host> buffer;
        /// Of the layer in it; of the work that read it last.
        HostEvent fetched;
        HostEvent used;
    };
    /// In one place, because the fetching thread knows where it is.
    struct State {
        explicit State(Source from) : source(std::move(from)), fetches(StreamMode::queued) {}
        /// Waits for what reads the buffers, as where a walk ended at its deadline.
        ~State() {
            for (auto const& slot : slots) (void)slot.used.synchronize(Deadline::after(std::chrono::hours(24 * 365)));
        }

        [[nodiscard]] std::int64_t depth() const { return static_cast<std::int64_t>(slots.size()); }
        void fetch_next(Deadline deadline = Deadline::after(std::chrono::hours(24))) {
            auto const layer = fetched % source.layers();
            auto* const slot = &slots[static_cast<std::size_t>(fetched % depth())];
            slot->used.block(fetches, deadline.left());
            fetches.submit([this, layer, slot] {
                auto const size = static_cast<std::size_t>(source.bytes(layer).count());
                return source.read(layer, 0, std::span<std::byte>(slot->buffer.data(), size));
            });
            slot->fetched.record(fetches);
            ++fetched;
        }

        Source source;
        List<Slot> slots;
        std::int64_t fetched = 0;
        std::int64_t computed = 0;
        HostStream fetches;
    };

    explicit WeightStream(Source source) : state_(std::make_unique<State>(std::move(source))) {}

    std::unique_ptr<State> state_;
    std::optional<Error> failed_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
