// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Copies values to another place, which may overlap them.
///
/// Order  on `stream`
template <ComputeBackend Backend, class T>
[[nodiscard]] Result<> move_values(T const* from, T* to, std::int64_t count, typename Backend::Stream& stream) {
    if constexpr (HasHostMemory<Backend>) {
        stream.submit([from, to, count] {
            std::memmove(to, from, static_cast<std::size_t>(count) * sizeof(T));
            return Result<>{};
        });
        return {};
    } else {
        // Both lie in one arena. Where they overlap they go in parts as long as they are apart, from the side that is free.
        bool const is_before = to < from;
        auto const apart = is_before ? from - to : to - from;
        auto const part = std::min<std::int64_t>(apart, count);
        for (std::int64_t done = 0; part > 0 && done < count;) {
            auto const size = std::min(part, count - done);
            auto const at = is_before ? done : count - done - size;
            TensorView<T const, 1, Backend> const source(from + at, {size});
            auto const copied = Backend::template copy<T>(source, TensorView<T, 1, Backend>(to + at, {size}), stream);
            if (!copied) return copied;
            done += size;
        }
        return {};
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
