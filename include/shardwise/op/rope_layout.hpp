// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Which elements of a head turn together.
enum class RopeLayout : std::uint8_t {
    half,         // element i with i + rotary/2 (llama, neox, most)
    interleaved,  // elements 2i and 2i + 1 (deepseek, gpt-j)
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
