// expect: look_at
// without: shardwise/executor/block_cut.hpp: look_at(RopeOp, Operation const&)
#include <shardwise/executor/block_cut.hpp>

template class shardwise::detail::BlockCutter<shardwise::Fast>;
