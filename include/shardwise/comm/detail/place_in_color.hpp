// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/communicator.hpp>

#include <cstdint>
#include <cstring>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A rank's number among those that chose its color, and which they are.
struct ColorPlace {
    std::int32_t rank = 0;
    std::vector<std::int32_t> members;

    [[nodiscard]] std::int32_t size() const { return static_cast<std::int32_t>(members.size()); }
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
        if (peer == comm.rank()) place.rank = place.size();
        place.members.push_back(peer);
    }
    return place;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
