// expect: RopeOp
// without: shardwise/executor/ops/executed_ops.hpp: executor/ops/rope.hpp
#include <shardwise/executor/ops/executed_ops.hpp>

using namespace shardwise;

std::int64_t scratch(detail::CountedBlock const& block) {
    return detail::scratch_floats<Host, Fast>(block);
}
