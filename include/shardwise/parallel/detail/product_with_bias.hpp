// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/parallel/detail/bound_product.hpp>
#include <shardwise/parallel/detail/held_bias.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// out = in * weight^T + bias of a layer that has checked them; an empty bias is none. A back end's product adds the bias itself where it can.
template <ComputeBackend Backend, class T, class Out>
[[nodiscard]] Result<> multiply_add_bound(TensorView<T const, 2, Backend> in, typename Backend::Weight const& weight,
                                          Buffer<float, Backend> const& bias, TensorView<Out, 2, Backend> out,
                                          typename Backend::Stream& stream) {
    if (bias.size() == 0) return multiply_bound<Backend>(in, weight, out, stream);
    if constexpr (requires { Backend::multiply_with_bias(in, weight, bias.view(), out, stream); }) {
        auto const added = Backend::multiply_with_bias(in, weight, bias.view(), out, stream);
        if (!added) return added.error();
        if (*added) return {};
    } else {
        if (auto const done = multiply_bound<Backend>(in, weight, out, stream); !done) return done;
    }
    return add_bias<Out, Backend>(bias, out, stream);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
