#pragma once

#include <shardwise/comm/communicator.hpp>

#include <cstdint>
#include <cstring>

namespace shardwise::inline v0_2_0::detail {

/// A rank's number among those that chose its color, and how many they are.
struct ColorPlace {
    std::int32_t rank = 0;
    std::int32_t members = 0;
};

/// Asks all ranks for their color.
template <Communicator C>
[[nodiscard]] Result<ColorPlace> place_in_color(C& comm, std::int32_t color) {
    comm.begin({CollectiveKind::split});
    comm.put(comm.mine(sizeof color), &color, sizeof color);
    if (auto const stepped = comm.step(); !stepped) return stepped.error();
    ColorPlace place;
    for (std::int32_t peer = 0; peer < comm.size(); ++peer) {
        auto theirs = color;
        if (peer != comm.rank()) std::memcpy(&theirs, comm.theirs(peer), sizeof theirs);
        if (theirs != color) continue;
        if (peer == comm.rank()) place.rank = place.members;
        ++place.members;
    }
    return place;
}

}  // namespace shardwise::inline v0_2_0::detail
