// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/unfused.hpp>
#include <shardwise/kernels/detail/attention_backward_task.hpp>
#include <shardwise/kernels/detail/lanes.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

// What a training step alone needs of the lanes: headers of inference do not pay for it.

namespace shardwise::inline SHARDWISE_NAMESPACE {

SHARDWISE_UNFUSED_BEGIN

namespace detail::kernels_portable {

// Each needs those before it.
// clang-format off
SHARDWISE_TARGET_QUIET
#include <shardwise/kernels/detail/backward_kernels.inc>
#include <shardwise/kernels/detail/attention_backward_kernels.inc>
SHARDWISE_TARGET_LOUD
// clang-format on

}  // namespace detail::kernels_portable

SHARDWISE_UNFUSED_END

#if defined(SHARDWISE_HAS_X86_LEVELS)

SHARDWISE_TARGET_BEGIN_AVX2

namespace detail::kernels_avx2 {

// clang-format off
#include <shardwise/kernels/detail/backward_kernels.inc>
#include <shardwise/kernels/detail/attention_backward_kernels.inc>
// clang-format on

}  // namespace detail::kernels_avx2

SHARDWISE_TARGET_END

SHARDWISE_TARGET_BEGIN_AVX512

namespace detail::kernels_avx512 {

// clang-format off
#include <shardwise/kernels/detail/backward_kernels.inc>
#include <shardwise/kernels/detail/attention_backward_kernels.inc>
// clang-format on

}  // namespace detail::kernels_avx512

SHARDWISE_TARGET_END

#elif defined(SHARDWISE_HAS_ARM_LEVELS)

SHARDWISE_TARGET_BEGIN_NEON

namespace detail::kernels_neon {

// clang-format off
#include <shardwise/kernels/detail/backward_kernels.inc>
#include <shardwise/kernels/detail/attention_backward_kernels.inc>
// clang-format on

}  // namespace detail::kernels_neon

SHARDWISE_TARGET_END

#endif

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
