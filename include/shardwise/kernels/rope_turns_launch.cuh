// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/kernels/detail/portions_launch.cuh>
#include <shardwise/kernels/rope_turns.cuh>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <class Api>
Result<> launch_rope_turns(RopeTurnsCall const& call, typename Api::Stream stream) {
    return launch_portions<Api, RopeTurnsCall>("rope_turns", SHARDWISE_KERNEL(make_turns<1>),
                                               SHARDWISE_KERNEL(make_turns<1>), 1, false, call.tokens, call.pairs,
                                               stream, call);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
