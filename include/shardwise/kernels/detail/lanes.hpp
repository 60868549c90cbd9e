// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/kernels/detail/lanes_avx2.hpp>
#include <shardwise/kernels/detail/lanes_avx512.hpp>
#include <shardwise/kernels/detail/lanes_neon.hpp>
#include <shardwise/kernels/detail/lanes_portable.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

// The function of an instruction set level, and the functions of one name, for choose_kernel.

#if defined(SHARDWISE_HAS_X86_LEVELS)
template <class Function>
[[nodiscard]] Function choose_kernel(IsaLevel level, Function portable, Function avx2, Function avx512) {
    if (level >= IsaLevel::avx512) return avx512;
    if (level >= IsaLevel::avx2) return avx2;
    return portable;
}
#define SHARDWISE_KERNEL_LEVELS(...) \
    &detail::kernels_portable::__VA_ARGS__, &detail::kernels_avx2::__VA_ARGS__, &detail::kernels_avx512::__VA_ARGS__
#elif defined(SHARDWISE_HAS_ARM_LEVELS)
template <class Function>
[[nodiscard]] Function choose_kernel(IsaLevel level, Function portable, Function neon) {
    return level >= IsaLevel::neon ? neon : portable;
}
#define SHARDWISE_KERNEL_LEVELS(...) &detail::kernels_portable::__VA_ARGS__, &detail::kernels_neon::__VA_ARGS__
#else
template <class Function>
[[nodiscard]] Function choose_kernel(IsaLevel, Function portable) {
    return portable;
}
#define SHARDWISE_KERNEL_LEVELS(...) &detail::kernels_portable::__VA_ARGS__
#endif

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
