// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/communicator.hpp>
#include <shardwise/executor/pipeline_stage.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How the ranks of a pipeline generate together: the last stage chooses the tokens, and all others are told.
template <Communicator C>
struct StageRelay {
    /// The neighbours; its world is all ranks of all stages.
    StageLinks<C> links{};
    /// The rank of the last stage that tells the others; -1 where all ranks choose for themselves.
    std::int32_t teller = -1;
    /// Logits are shown on a rank that does not make them: all ranks get them. The same on all ranks.
    bool shares_logits = false;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
