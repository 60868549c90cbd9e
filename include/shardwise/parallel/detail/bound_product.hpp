// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/backend/host.hpp>
#include <shardwise/backend/host/multiply.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/op/product_sums.hpp>

#include <concepts>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// out = in * weight^T of a layer that has checked them, once for a call or, where it is bound, when it was loaded. The host's product
/// begins at once, by the kernel that the weight holds; others look again.
template <ComputeBackend Backend, class T, class Out>
[[nodiscard]] Result<> multiply_bound(TensorView<T const, 2, Backend> in, typename Backend::Weight const& weight,
                                      TensorView<Out, 2, Backend> out, typename Backend::Stream& stream) {
    if constexpr (std::same_as<Backend, Host>) {
        return multiply_checked(in, weight, UnitRange{0, weight.inputs()}, out, stream);
    } else {
        return Backend::multiply(in, weight, out, stream);
    }
}

/// Sums of such products, by steps that the layer has checked.
template <ComputeBackend Backend, class T>
[[nodiscard]] Result<> multiply_sums_bound(TensorView<T const, 2, Backend> in,
                                           typename Backend::Weight const& weight, ProductSums const& sums,
                                           TensorView<float, 3, Backend> out, typename Backend::Stream& stream) {
    if constexpr (std::same_as<Backend, Host>) {
        return multiply_sums_checked(in, weight, sums, out, stream);
    } else {
        return Backend::multiply_sums(in, weight, sums, out, stream);
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
