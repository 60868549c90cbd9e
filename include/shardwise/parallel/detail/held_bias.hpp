// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/backend/host/products.hpp>
#include <shardwise/core/deadline.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/kernels/add_row.hpp>

#include <chrono>
#include <concepts>
#include <cstdint>
#include <span>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A copy of some ranges of a bias of `outputs` numbers; empty where there is no bias.
template <ComputeBackend Backend>
[[nodiscard]] Result<Buffer<float, Backend>> hold_bias(typename Backend::Context& context,
                                                       TensorView<float const, 1, Backend> bias,
                                                       std::span<UnitRange const> ranges, std::int64_t outputs) {
    if (bias.empty()) return Buffer<float, Backend>();
    if (bias.elements() != outputs) {
        return Error{ErrorCode::shape_mismatch}
            .in("bias")
            .because("has not one number per output of the weight")
            .got(bias.elements())
            .expected(outputs);
    }
    std::int64_t count = 0;
    for (auto const& range : ranges) count += range.size();
    auto held = Buffer<float, Backend>::allocate(context, count);
    if (!held) return held;
    auto stream = context.make_stream();
    std::int64_t place = 0;
    for (auto const& range : ranges) {
        auto const copied = Backend::template copy<float>(bias.part(range.begin, range.size()),
                                                          held->view().part(place, range.size()), stream);
        if (!copied) return copied.error();
        place += range.size();
    }
    // A copy within memory: only a broken device takes longer.
    auto const done = stream.synchronize(Deadline::after(std::chrono::seconds(30)));
    if (!done) return done.error();
    return held;
}

/// Adds a held bias, which is as wide as the rows, to each row.
template <ActivationElement T, ComputeBackend Backend>
[[nodiscard]] Result<> add_bias(Buffer<float, Backend> const& bias, TensorView<T, 2, Backend> out,
                                typename Backend::Stream& stream) {
    TensorView<float const, 1, Backend> const row = bias.view();
    if constexpr (std::same_as<Backend, Host>)
        return add_row_bound<T>(row, out, stream);
    else
        return add_row<T>(row, out, stream);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
