// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/gemm_options.hpp>
#include <shardwise/backend/weight_source.hpp>
#include <shardwise/core/deadline.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/op/product_sums.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

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

/// A back end multiplies matrices in its memory, in stream order.
template <class B>
concept MultipliesMatrices = requires(TensorView<float const, 2, B> factor, TensorView<float, 2, B> out,
                                      typename B::Stream& stream) {
    { B::template gemm<float>(factor, factor, out, GemmOptions{}, stream) } -> std::same_as<Result<>>;
};

/// A back end keeps weights in an order of its own and multiplies rows of activations by them, or by a range of their inputs
/// that begins and ends where the format's blocks do: out = in * weight^T.
template <class B>
concept HoldsWeights = requires(typename B::Context& context, WeightSource const& source,
                                typename B::Weight const& weight, TensorView<float const, 2, B> in,
                                TensorView<float, 2, B> out, typename B::Stream& stream) {
    { B::hold_weight(context, source) } -> std::same_as<Result<typename B::Weight>>;
    { weight.outputs() } -> std::same_as<std::int64_t>;
    { weight.inputs() } -> std::same_as<std::int64_t>;
    { weight.bytes() } -> std::same_as<Bytes>;
    { B::multiply(in, weight, out, stream) } -> std::same_as<Result<>>;
    { B::multiply(in, weight, UnitRange{}, out, stream) } -> std::same_as<Result<>>;
};

/// A back end sums products by ranges of a weight's inputs in one go, without memory for what is not yet summed.
template <class B>
concept SumsProducts = requires(TensorView<float const, 2, B> in, typename B::Weight const& weight,
                                ProductSums const& sums, TensorView<float, 3, B> out, typename B::Stream& stream) {
    { B::multiply_sums(in, weight, sums, out, stream) } -> std::same_as<Result<>>;
};

namespace detail {

/// A body as `launch` takes it: device compilers need a named type.
struct RangeProbe {
    constexpr void operator()(std::int64_t, std::int64_t) const {}
};

}  // namespace detail

/// A back end runs a body over ranges of indices, in stream order.
template <class B>
concept LaunchesKernels = requires(typename B::Stream& stream) {
    B::launch(std::int64_t{}, detail::RangeProbe{}, stream);
};

/// A back end's memory is the host's: plain code reads and writes what views show.
template <class B>
concept HasHostMemory = requires {
    requires B::is_host_memory;
};

/// What `allocate` takes and counts for so many bytes: a device gives whole parts of a block.
template <class B>
[[nodiscard]] constexpr std::int64_t allocation_grain() {
    if constexpr (requires { B::allocation_grain; }) {
        return B::allocation_grain;
    } else {
        return 1;
    }
}
template <class B>
[[nodiscard]] constexpr Bytes allocated_bytes(Bytes bytes) {
    constexpr auto grain = allocation_grain<B>();
    return Bytes{(bytes.count() + grain - 1) / grain * grain};
}

/// Where kernels and layers run.
template <class B>
concept ComputeBackend = HasBackendName<B> && HasContext<B> && AllocatesMemory<B> && SynchronizesStreams<B> &&
    OrdersStreams<B> && CopiesMemory<B> && MultipliesMatrices<B> && HoldsWeights<B> && LaunchesKernels<B>;

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
