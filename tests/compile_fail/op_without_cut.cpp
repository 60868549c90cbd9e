// expect: look_at
// without: shardwise/model/value_grains.hpp: look_at(RopeOp, Operation const&)
#include <shardwise/model/value_grains.hpp>

constexpr auto grains(shardwise::BlockBody const& body) {
    return shardwise::value_grains(body, [](shardwise::Operation const&) { return shardwise::InputPieces{}; });
}
static_assert(grains(shardwise::BlockBody{}).size() == 0);
