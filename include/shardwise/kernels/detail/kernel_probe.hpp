// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/core/tensor_view.hpp>

#include <cstdint>
#include <type_traits>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What kernels are called with, on some back end, where activations are T.
template <class B, class T = float>
requires requires {
    typename B::Stream;
}
struct KernelProbe {
    TensorView<T const, 2, B> in;
    TensorView<T, 2, B> out;
    TensorView<T const, 1, B> row;
    /// What multiplies or is added to rows: a device's models hold it in float whatever their activations are.
    TensorView<std::conditional_t<HasHostMemory<B>, T, float> const, 1, B> held;
    TensorView<float const, 2, B> weights;
    TensorView<float, 2, B> cache;
    TensorView<float const, 1, B> vector;
    TensorView<float, 1, B> sums;
    TensorView<double, 1, B> scales;
    TensorView<std::int32_t const, 1, B> ids;
    TensorView<std::int32_t, 1, B> chosen;
    TensorView<std::int32_t, 2, B> routes;
    typename B::Stream& stream;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
