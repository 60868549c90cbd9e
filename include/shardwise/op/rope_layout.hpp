#pragma once

#include <cstdint>

namespace shardwise::inline v0_2_0 {

/// Which elements of a head turn together.
enum class RopeLayout : std::uint8_t {
    half,         // element i with i + rotary/2 (llama, neox, most)
    interleaved,  // elements 2i and 2i + 1 (deepseek, gpt-j)
};

}  // namespace shardwise::inline v0_2_0
