#pragma once

#include <cstdint>

namespace shardwise::inline v0_2_0 {

/// Where the weights of a layer lie between its uses: where it computes, or on the cpu or disk, from where they are
/// fetched for every step.
enum class LayerHome : std::uint8_t { resident, cpu, disk };

}  // namespace shardwise::inline v0_2_0
