// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdio>
#include <cstdlib>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Prints one line and ends the program. Not constexpr: a constant expression that reaches it is an error that shows the condition.
[[noreturn]] inline void assertion_failed(char const* condition, char const* file, int line) {
    static_cast<void>(std::fprintf(stderr, "%s:%d: shardwise: assertion failed: %s\n", file, line, condition));
    std::abort();
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail

/// Ends the program where a condition is false that only a bug of the caller makes false: `*result` of an error, an index beyond
/// the end. On where SHARDWISE_ASSERTIONS is 1: by default without NDEBUG. To replace it, define SHARDWISE_ASSERT(condition) as a
/// statement before the first header of shardwise, the same in all units; it may be used in constant expressions.
#ifndef SHARDWISE_ASSERT
#if SHARDWISE_ASSERTIONS
#define SHARDWISE_ASSERT(condition) \
    ((condition) ? static_cast<void>(0) : ::shardwise::detail::assertion_failed(#condition, __FILE__, __LINE__))
#else
#define SHARDWISE_ASSERT(condition) static_cast<void>(0)
#endif
#endif
