// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A target that has no loss: torch's ignore_index.
inline constexpr std::int32_t ignored_target = -100;

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
