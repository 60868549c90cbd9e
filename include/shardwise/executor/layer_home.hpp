// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Where the weights of a layer lie between its uses: where it computes, or on the cpu or disk, from where they are
/// fetched for every step.
enum class LayerHome : std::uint8_t { resident, cpu, disk };

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
