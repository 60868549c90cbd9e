// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/core/result.hpp>

#include <cstdint>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Allocates a buffer whose values collectives move: where the context's owner has set memory apart for it (DeviceContext::set_apart), as
/// a library of collectives may want it, there. The host has none such.
///
/// Errors  as Buffer::allocate
template <class T, class Backend>
[[nodiscard]] Result<> allocate_apart(Buffer<T, Backend>& out, typename Backend::Context& context, std::int64_t count) {
    constexpr bool has_apart = requires {
        context.take_apart(true);
    };
    if constexpr (has_apart) context.take_apart(true);
    auto made = Buffer<T, Backend>::allocate(context, count);
    if constexpr (has_apart) context.take_apart(false);
    if (!made) return made.error();
    out = std::move(*made);
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
