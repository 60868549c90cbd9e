#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/core/deadline.hpp>
#include <shardwise/core/tensor_view.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <string_view>

namespace shardwise::inline v0_2_0 {

/// A back end has a name for messages.
template <class B>
concept HasBackendName = requires {
    { B::name } -> std::convertible_to<std::string_view>;
};

/// A back end keeps its state in a context that the caller owns.
template <class B>
concept HasContext = requires(typename B::Context& context) {
    { context.make_stream() } -> std::same_as<typename B::Stream>;
};

/// A back end gives and takes back counted memory.
template <class B>
concept AllocatesMemory = requires(typename B::Context& context, void* memory, Bytes bytes) {
    { B::allocate(context, bytes) } -> std::same_as<Result<void*>>;
    B::release(context, memory, bytes);
    { context.memory().peak() } -> std::same_as<Bytes>;
    { B::alignment } -> std::convertible_to<std::size_t>;
};

/// A stream can be waited for, with a deadline.
template <class B>
concept SynchronizesStreams = requires(typename B::Stream& stream, Deadline deadline) {
    { stream.synchronize(deadline) } -> std::same_as<Result<>>;
};

/// An event marks a point in a stream, which another stream or the caller waits for.
template <class B>
concept OrdersStreams = requires(typename B::Event& event, typename B::Stream& stream, Deadline deadline) {
    event.record(stream);
    event.block(stream, std::chrono::nanoseconds{1});
    { event.synchronize(deadline) } -> std::same_as<Result<>>;
    { event.is_reached() } -> std::same_as<bool>;
};

/// A back end copies within its memory, in stream order.
template <class B>
concept CopiesMemory = requires(TensorView<float const, 1, B> from, TensorView<float, 1, B> to,
                                typename B::Stream& stream) {
    { B::template copy<float>(from, to, stream) } -> std::same_as<Result<>>;
};

/// Where kernels and layers run.
template <class B>
concept ComputeBackend = HasBackendName<B> && HasContext<B> && AllocatesMemory<B> && SynchronizesStreams<B> &&
    OrdersStreams<B> && CopiesMemory<B>;

}  // namespace shardwise::inline v0_2_0
