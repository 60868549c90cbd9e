// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Outputs whose values lie beside each other in a packed weight: the floats of an AVX-512 register.
inline constexpr std::int64_t panel_outputs = 16;
/// Panels begin on a cache line.
inline constexpr std::int64_t panel_alignment = 64;
/// Inputs whose codes a panel of a quantised format keeps together.
inline constexpr std::int64_t quant_block = 32;

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
