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

/// to += value: also makes +0 of -0 where the value is +0.
struct ShiftBody {
    float* to;
    float value;
    constexpr void operator()(std::int64_t begin, std::int64_t end) const {
        for (auto i = begin; i < end; ++i) to[i] += value;
    }
};

/// sums += each row, one column after another, in the order of the rows.
struct AddColumnsBody {
    float const* from;
    std::int64_t stride;
    std::int64_t rows;
    float* sums;
    constexpr void operator()(std::int64_t begin, std::int64_t end) const {
        for (auto j = begin; j < end; ++j) {
            auto sum = sums[j];
            for (std::int64_t i = 0; i < rows; ++i) sum += from[i * stride + j];
            sums[j] = sum;
        }
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

template <ComputeBackend Backend>
void shift(TensorView<float, 1, Backend> to, float value, typename Backend::Stream& stream) {
    launch_ranges<Backend>(to.elements(), row_grain(1), ShiftBody{to.data(), value}, stream);
}

template <ComputeBackend Backend>
void add_columns(TensorView<float const, 2, Backend> from, TensorView<float, 1, Backend> sums,
                 typename Backend::Stream& stream) {
    launch_ranges<Backend>(sums.elements(), row_grain(from.extent(0)),
                           AddColumnsBody{from.data(), from.stride(0), from.extent(0), sums.data()}, stream);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
