// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/unfused.hpp>
#include <shardwise/kernels/detail/lanes.hpp>
#include <shardwise/train/detail/optimizer_task.hpp>
#include <shardwise/train/detail/rounded.hpp>

#include <cmath>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

SHARDWISE_UNFUSED_BEGIN

namespace detail::kernels_portable::optimizers {

SHARDWISE_ALWAYS_INLINE Floats square_root(Floats a) {
    return Floats{std::sqrt(a[0]), std::sqrt(a[1]), std::sqrt(a[2]), std::sqrt(a[3])};
}
#include <shardwise/train/detail/optimizer_kernels.inc>

}  // namespace detail::kernels_portable::optimizers

SHARDWISE_UNFUSED_END

#if defined(SHARDWISE_HAS_X86_LEVELS)

SHARDWISE_TARGET_BEGIN_AVX2

namespace detail::kernels_avx2::optimizers {

SHARDWISE_ALWAYS_INLINE Floats square_root(Floats a) {
    return _mm256_sqrt_ps(a);
}
#include <shardwise/train/detail/optimizer_kernels.inc>

}  // namespace detail::kernels_avx2::optimizers

SHARDWISE_TARGET_END

SHARDWISE_TARGET_BEGIN_AVX512

namespace detail::kernels_avx512::optimizers {

SHARDWISE_ALWAYS_INLINE Floats square_root(Floats a) {
    return _mm512_sqrt_ps(a);
}
#include <shardwise/train/detail/optimizer_kernels.inc>

}  // namespace detail::kernels_avx512::optimizers

SHARDWISE_TARGET_END

#elif defined(SHARDWISE_HAS_ARM_LEVELS)

SHARDWISE_TARGET_BEGIN_NEON

namespace detail::kernels_neon::optimizers {

SHARDWISE_ALWAYS_INLINE Floats square_root(Floats a) {
    return vsqrtq_f32(a);
}
#include <shardwise/train/detail/optimizer_kernels.inc>

}  // namespace detail::kernels_neon::optimizers

SHARDWISE_TARGET_END

#endif

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
