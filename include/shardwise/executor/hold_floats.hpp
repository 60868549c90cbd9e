// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/backend/host.hpp>
#include <shardwise/core/deadline.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A back end's copy of some values; there when this returns.
///
/// Errors  out_of_memory; on a device those of its calls, and deadline_exceeded after the context's limit
template <ComputeBackend Backend>
[[nodiscard]] Result<Buffer<float, Backend>> hold_floats(typename Backend::Context& context,
                                                         std::vector<float> const& values) {
    auto const count = static_cast<std::int64_t>(values.size());
    auto buffer = Buffer<float, Backend>::allocate(context, count);
    if (!buffer || count == 0) return buffer;
    if constexpr (HasHostMemory<Backend>) {
        std::copy(values.begin(), values.end(), buffer->data());
    } else {
        auto stream = context.make_stream();
        TensorView<float const, 1, Host> const from(values.data(), {count});
        auto const copied = Backend::template copy<float>(from, buffer->view(), stream);
        if (!copied) return copied.error();
        auto const done = stream.synchronize(Deadline::after(context.limit()));
        if (!done) return done.error();
    }
    return buffer;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
