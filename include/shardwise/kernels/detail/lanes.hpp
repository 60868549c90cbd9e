// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/kernels/detail/lanes_avx2.hpp>
#include <shardwise/kernels/detail/lanes_avx512.hpp>
#include <shardwise/kernels/detail/lanes_portable.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The function of an instruction set level.
template <class Function>
[[nodiscard]] Function choose_kernel([[maybe_unused]] IsaLevel level, Function portable, [[maybe_unused]] Function avx2,
                                     [[maybe_unused]] Function avx512) {
#if defined(SHARDWISE_HAS_X86_LEVELS)
    if (level >= IsaLevel::avx512) return avx512;
    if (level >= IsaLevel::avx2) return avx2;
#endif
    return portable;
}

/// The three functions of one name, for choose_kernel.
#if defined(SHARDWISE_HAS_X86_LEVELS)
#define SHARDWISE_KERNEL_LEVELS(...) \
    &detail::kernels_portable::__VA_ARGS__, &detail::kernels_avx2::__VA_ARGS__, &detail::kernels_avx512::__VA_ARGS__
#else
#define SHARDWISE_KERNEL_LEVELS(...)                                                \
    &detail::kernels_portable::__VA_ARGS__, &detail::kernels_portable::__VA_ARGS__, \
        &detail::kernels_portable::__VA_ARGS__
#endif

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
