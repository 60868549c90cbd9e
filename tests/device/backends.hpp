// SPDX-License-Identifier: Apache-2.0
#pragma once

// The back ends that a test program runs its cases on. tests/device/README.md says which programs there are.

#if defined(SHARDWISE_HAS_CUDA)
#include <shardwise/backend/cuda.hpp>
#elif defined(SHARDWISE_HAS_HIP)
#include <shardwise/backend/hip.hpp>
#else
#include "fake_vendor.hpp"
#endif

// The host's products and kernels take long to compile under a sanitizer, and their own rooms run them there. Where the fake vendor's warps
// are what a program is made for, the host has been compared elsewhere.
#if !defined(SHARDWISE_HAS_CUDA) && !defined(SHARDWISE_HAS_HIP) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(SHARDWISE_TEST_DEVICE_ALONE)
#if !defined(__has_feature)
#define SHARDWISE_TEST_HOST
#elif !__has_feature(address_sanitizer)
#define SHARDWISE_TEST_HOST
#endif
#endif
#if defined(SHARDWISE_TEST_HOST)
#include <shardwise/backend/host/products.hpp>
#include <shardwise/kernels/activation.hpp>
#include <shardwise/kernels/add.hpp>
#include <shardwise/kernels/add_row.hpp>
#include <shardwise/kernels/arg_max.hpp>
#include <shardwise/kernels/attention_temperature.hpp>
#include <shardwise/kernels/copy_rows.hpp>
#include <shardwise/kernels/embedding.hpp>
#include <shardwise/kernels/fill.hpp>
#include <shardwise/kernels/layer_norm.hpp>
#include <shardwise/kernels/mean_rows.hpp>
#include <shardwise/kernels/residual_norm.hpp>
#include <shardwise/kernels/rms_norm.hpp>
#include <shardwise/kernels/rope.hpp>
#include <shardwise/kernels/rope_turns.hpp>
#include <shardwise/kernels/scale.hpp>
#include <shardwise/kernels/scale_rows.hpp>
#include <shardwise/kernels/soft_cap.hpp>
#include <shardwise/kernels/softmax.hpp>
#include <shardwise/kernels/step_attention.hpp>
#include <shardwise/kernels/store_step.hpp>
#include <shardwise/kernels/take_rows.hpp>
#include <shardwise/kernels/weigh_rows.hpp>
#endif

#include <shardwise/backend/host.hpp>
#include <shardwise/kernels/device/activation.hpp>
#include <shardwise/kernels/device/add.hpp>
#include <shardwise/kernels/device/add_row.hpp>
#include <shardwise/kernels/device/all_reduce.hpp>
#include <shardwise/kernels/device/arg_max.hpp>
#include <shardwise/kernels/device/attention_temperature.hpp>
#include <shardwise/kernels/device/combine_rows.hpp>
#include <shardwise/kernels/device/copy_rows.hpp>
#include <shardwise/kernels/device/embedding.hpp>
#include <shardwise/kernels/device/fill.hpp>
#include <shardwise/kernels/device/gated_delta.hpp>
#include <shardwise/kernels/device/layer_norm.hpp>
#include <shardwise/kernels/device/mean_rows.hpp>
#include <shardwise/kernels/device/order_experts.hpp>
#include <shardwise/kernels/device/quantize.hpp>
#include <shardwise/kernels/device/residual_norm.hpp>
#include <shardwise/kernels/device/rms_norm.hpp>
#include <shardwise/kernels/device/rope.hpp>
#include <shardwise/kernels/device/rope_turns.hpp>
#include <shardwise/kernels/device/route.hpp>
#include <shardwise/kernels/device/scale.hpp>
#include <shardwise/kernels/device/scale_rows.hpp>
#include <shardwise/kernels/device/soft_cap.hpp>
#include <shardwise/kernels/device/softmax.hpp>
#include <shardwise/kernels/device/square_sums.hpp>
#include <shardwise/kernels/device/step_attention.hpp>
#include <shardwise/kernels/device/store_step.hpp>
#include <shardwise/kernels/device/take_rows.hpp>
#include <shardwise/kernels/device/weigh_rows.hpp>
#include <shardwise/kernels/device/xielu.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <iostream>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace shardwise::testing {

#if defined(SHARDWISE_HAS_CUDA)
using TestDevice = Cuda;
#elif defined(SHARDWISE_HAS_HIP)
using TestDevice = Hip;
#else
using TestDevice = Fake;
#endif

/// A context of a back end, or why this machine has none.
template <class B>
[[nodiscard]] Result<std::unique_ptr<typename B::Context>> open_context() {
    if constexpr (std::is_same_v<B, Host>) {
        return std::make_unique<HostContext>(HostOptions{.threads = 2, .streams = StreamMode::queued});
    } else {
        return B::Context::open();
    }
}

/// A context, a stream, and the way of vectors there and back.
template <class B>
class Bench {
public:
    explicit Bench(std::unique_ptr<typename B::Context> context)
        : context_(std::move(context)), stream_(context_->make_stream()) {}

    [[nodiscard]] typename B::Context& context() { return *context_; }
    [[nodiscard]] typename B::Stream& stream() { return stream_; }

    template <class T>
    [[nodiscard]] Buffer<T, B> send(std::vector<T> const& values) {
        auto buffer = Buffer<T, B>::allocate(*context_, static_cast<std::int64_t>(values.size()));
        REQUIRE(buffer);
        TensorView<T const, 1, Host> const from(values.data(), {static_cast<std::int64_t>(values.size())});
        REQUIRE(B::template copy<T>(from, buffer->view(), stream_));
        wait();
        return std::move(*buffer);
    }
    template <class T>
    [[nodiscard]] std::vector<T> fetch(Buffer<T, B> const& buffer) {
        std::vector<T> values(static_cast<std::size_t>(buffer.size()));
        TensorView<T, 1, Host> const to(values.data(), {buffer.size()});
        REQUIRE(B::template copy<T>(buffer.view(), to, stream_));
        wait();
        return values;
    }
    void wait() {
        auto const result = stream_.synchronize(Deadline::after(std::chrono::seconds{60}));
        INFO(std::string(result ? "" : result.error().message()));
        REQUIRE(result);
    }

private:
    std::unique_ptr<typename B::Context> context_;
    typename B::Stream stream_;
};

/// A bench, or nothing where the machine has no such device: ctest shows the program as skipped by the line that is printed.
template <class B>
[[nodiscard]] std::unique_ptr<Bench<B>> open_bench() {
    auto context = open_context<B>();
    if (!context) {
        std::cout << "SKIPPED: no device for " << B::name << ": " << context.error().message() << '\n';
        return nullptr;
    }
    return std::make_unique<Bench<B>>(std::move(*context));
}

/// Numbers between -1 and 1, the same on every run.
template <class T = float>
[[nodiscard]] std::vector<T> numbers(std::int64_t count, unsigned seed) {
    std::mt19937 generator(seed);
    std::vector<T> values(static_cast<std::size_t>(count));
    for (auto& value : values) {
        value = T(static_cast<float>(static_cast<double>(generator()) / 2147483648.0 - 1.0));
    }
    return values;
}

#if defined(SHARDWISE_TEST_HOST)
#define SHARDWISE_TEST_BACKENDS shardwise::Host, shardwise::testing::TestDevice
#else
#define SHARDWISE_TEST_BACKENDS shardwise::testing::TestDevice
#endif

/// The unit roundoff of an element type: 2^-24, 2^-11, 2^-8.
template <class T>
inline constexpr double roundoff = std::is_same_v<T, float>     ? 0x1p-24
                                   : std::is_same_v<T, Float16> ? 0x1p-11
                                                                : 0x1p-8;

}  // namespace shardwise::testing
