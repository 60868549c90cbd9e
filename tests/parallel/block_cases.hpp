// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "llama_block.hpp"

#include <cstdint>

/// What a deterministic block must give over every communicator: each case runs on all ranks and returns what is wrong.
namespace shardwise::testing {

template <Communicator C>
[[nodiscard]] Result<Floats> run_prompt(LlamaBlock const& block, Floats const& in, C& comm) {
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    auto rank = BlockRank<Deterministic>::create(block, context, {comm.size(), comm.rank()});
    if (!rank) return rank.error();
    return rank->forward(in, 0, static_cast<std::int64_t>(in.size()) / block.hidden, comm, stream);
}

/// A prompt through a block has the bits that one rank alone gives it.
template <Communicator C>
[[nodiscard]] Result<> check_deterministic_block(C& comm) {
    LlamaBlock const block;
    auto const in = random_floats(4 * block.hidden, 1);
    auto const group = ThreadsGroup::create(1);
    if (!group) return group.error();
    auto single = group->join(0);
    if (!single) return single.error();
    auto const alone = run_prompt(block, in, *single);
    if (!alone) return alone.error();
    auto const made = run_prompt(block, in, comm);
    if (!made) return made.error();
    if (is_bitwise_equal(*made, *alone)) return {};
    return Error{ErrorCode::invalid_argument}.in("block").because("has other bits than alone");
}

}  // namespace shardwise::testing
