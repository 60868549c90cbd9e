// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>

#include <concepts>
#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Rows that a memory takes: as wide, and of bytes with scales for each row of the memory.
template <class Cache, class T, class Backend>
[[nodiscard]] Result<> check_stored(std::string_view kernel, TensorView<T const, 2, Backend> const& in,
                                    TensorView<Cache, 2, Backend> const& memory,
                                    TensorView<float, 2, Backend> const& scales) {
    auto const differs = [&](std::string_view reason, std::int64_t got, std::int64_t expected) -> Result<> {
        return Error{ErrorCode::shape_mismatch}.in(kernel).because(reason).got(got).expected(expected);
    };
    if (memory.extent(1) != in.extent(1))
        return differs("the memory is not as wide as the cache", memory.extent(1), in.extent(1));
    if constexpr (std::same_as<Cache, std::int8_t>) {
        if (scales.extent(0) < memory.extent(0))
            return differs("bytes need scales for each row", scales.extent(0), memory.extent(0));
        auto const heads = scales.extent(1);
        if (heads < 1 || in.extent(1) % heads != 0)
            return differs("the rows are no multiple of the heads that have scales", in.extent(1), heads);
    }
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
