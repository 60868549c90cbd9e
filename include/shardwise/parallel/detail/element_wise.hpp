// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/backend/host/products.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/add.hpp>
#include <shardwise/kernels/detail/element.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Runs a body over ranges; a back end whose launches take a grain gets one: fewer items are not worth another thread.
template <ComputeBackend Backend, class Body>
void launch_ranges(std::int64_t count, std::int64_t grain, Body body, typename Backend::Stream& stream) {
    if constexpr (requires { Backend::launch(count, body, stream, grain); }) {
        Backend::launch(count, body, stream, grain);
    } else {
        Backend::launch(count, body, stream);
    }
}

/// to += from, in the trees of gradients. Device compilers need named bodies.
struct AddBody {
    float* to;
    float const* from;
    constexpr void operator()(std::int64_t begin, std::int64_t end) const {
        for (auto i = begin; i < end; ++i) to[i] += from[i];
    }
};

/// to += from, by the kernel that every back end has.
template <ComputeBackend Backend>
[[nodiscard]] Result<> add_to(TensorView<float, 1, Backend> to, float const* from, typename Backend::Stream& stream) {
    using ConstRow = TensorView<float const, 2, Backend>;
    TensorView<float, 2, Backend> const row(to.data(), {1, to.elements()});
    return add<float>(ConstRow(row), ConstRow(from, {1, to.elements()}), row, stream);
}

template <ComputeBackend Backend>
void add(TensorView<float, 1, Backend> to, float const* from, typename Backend::Stream& stream) {
    launch_ranges<Backend>(to.elements(), row_grain(1), AddBody{to.data(), from}, stream);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
