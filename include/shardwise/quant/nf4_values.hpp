// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>
#include <shardwise/quant/nf4_list.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The sixteen values of NF4: quantiles of a normal distribution, scaled to [-1, 1].
///
/// Source  QLoRA (arXiv 2305.14314), appendix E; bitsandbytes functional.py (get_4bit_type)
inline constexpr std::array<float, 16> nf4_values{SHARDWISE_NF4_VALUES};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
