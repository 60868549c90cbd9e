// expect: not handled in switch
// without: shardwise/op/visit_op.hpp: case OpKind::gated_delta:
#include <shardwise/op/visit_op.hpp>

using namespace shardwise;

static_assert(visit_op(OpKind::linear, [](auto of) { return of.kind; }) == OpKind::linear);
