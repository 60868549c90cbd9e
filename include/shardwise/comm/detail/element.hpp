// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Element `i` of memory of any alignment: a caller's data may begin at any byte.
template <class T>
[[nodiscard]] inline T load_element(void const* from, std::int64_t i) {
    T value;
    std::memcpy(&value, static_cast<std::byte const*>(from) + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
    return value;
}
template <class T>
inline void store_element(void* to, std::int64_t i, T value) {
    std::memcpy(static_cast<std::byte*>(to) + i * static_cast<std::int64_t>(sizeof(T)), &value, sizeof(T));
}

template <class T>
[[nodiscard]] inline bool is_aligned(T const* data) {
    return reinterpret_cast<std::uintptr_t>(data) % alignof(T) == 0;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
