// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/hardware/preset.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Apple's chips with their largest memory, all of it: how much the GPU may take is the system's to say, about 70 %.
/// Halves and brains run at the fp32 rate. Where Apple prints no rate: cores x 128 lanes x 2 x the highest clock.
inline constexpr std::array<PresetRow, 7> apple_presets{{
    {"M1-Max-64GB", "apple7", 65536, 400, {.fp32 = 10.4, .bf16 = 10.4}, unified_memory(400), {},
     "Apple M1 Max announcement", "M1 Max"},
    {"M1-Ultra-128GB", "apple7", 131072, 800, {.fp32 = 21, .bf16 = 21}, unified_memory(800), {},
     "Apple M1 Ultra announcement", "M1 Ultra"},
    {"M2-Max-96GB", "apple8", 98304, 400, {.fp32 = 13.6, .bf16 = 13.6}, unified_memory(400), {},
     "Apple M2 Max announcement; rate: half of the M2 Ultra's", "M2 Max"},
    {"M2-Ultra-192GB", "apple8", 196608, 800, {.fp32 = 27.2, .bf16 = 27.2}, unified_memory(800), {},
     "Apple M2 Ultra announcement", "M2 Ultra"},
    {"M3-Max-128GB", "apple9", 131072, 400, {.fp32 = 14.1, .bf16 = 14.1}, unified_memory(400), {},
     "Apple M3 Max announcement; rate: 40 cores at 1.38 GHz", "M3 Max"},
    {"M3-Ultra-512GB", "apple9", 524288, 819, {.fp32 = 28.3, .bf16 = 28.3}, unified_memory(819), {},
     "Apple M3 Ultra announcement; rate: 80 cores at 1.38 GHz", "M3 Ultra"},
    {"M4-Max-128GB", "apple9", 131072, 546, {.fp32 = 16.2, .bf16 = 16.2}, unified_memory(546), {},
     "Apple M4 Max announcement; rate: 40 cores at 1.58 GHz", "M4 Max"},
}};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
