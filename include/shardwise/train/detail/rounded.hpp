// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <type_traits>

// An empty statement through which a number passes: the compiler does not know what comes out, so it cannot fuse what was done
// before with what is done after.
#if defined(__x86_64__)
#define SHARDWISE_PASS_THROUGH(value) asm("" : "+x"(value))
#elif defined(__aarch64__)
#define SHARDWISE_PASS_THROUGH(value) asm("" : "+w"(value))
#else
#define SHARDWISE_PASS_THROUGH(value) asm("" : "+m"(value))
#endif

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The value as it is rounded to its type. Put around a product that is added to something, it keeps the compiler from fusing
/// both into one operation that rounds once (g++ does so by default wherever the target has one, in whole programs compiled with
/// -march=native): the order of operations that is written is the one that is computed, on every machine.
[[nodiscard]] constexpr float rounded(float value) {
    if (!std::is_constant_evaluated()) SHARDWISE_PASS_THROUGH(value);
    return value;
}
[[nodiscard]] constexpr double rounded(double value) {
    if (!std::is_constant_evaluated()) SHARDWISE_PASS_THROUGH(value);
    return value;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
