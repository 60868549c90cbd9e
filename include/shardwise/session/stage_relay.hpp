// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/comm/broadcast.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>
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

    /// Tells all ranks what the teller has: tokens and, where they are shared, logits. Every rank calls it.
    ///
    /// Errors  those of `broadcast`
    [[nodiscard]] Result<> tell(TensorView<std::int32_t, 1, Host> tokens, TensorView<float, 2, Host> logits) const {
        if (auto const told = broadcast(*links.world, tokens, teller); !told) return told;
        if (!shares_logits) return {};
        TensorView<float, 1, Host> const all(logits.data(), {logits.elements()});
        return broadcast(*links.world, all, teller);
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
