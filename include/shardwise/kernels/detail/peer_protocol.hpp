// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device_attribute.hpp>
#include <shardwise/core/version.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// How ranks on devices exchange staging memory: the whole synchronisation of the one-shot all-reduce, written over a block
/// of threads so that a test can explore it with atomics that read stale values (tests/comm/explorer.hpp).
///
/// A rank has two staging halves, a step number, and for each of its blocks a flag from every rank. Block b of step s writes
/// its part of half s % 2, tells block b of every rank "s", waits until all have told it, and reads the same part of all. No
/// exit barrier is needed: a rank that tells s + 1 has ended step s, and nobody writes half s % 2 again, in step s + 2,
/// before all have told it s + 1. That one block's word stands for its whole rank because a step is a kernel, kernels of a
/// rank run one after another, and every step has the same blocks, whatever its length. The step number is a rank's, not a
/// block's, and lies in device memory, so that a replayed graph counts on.
struct PeerProtocol {
    [[nodiscard]] SHARDWISE_DEVICE static std::uint32_t half(std::uint32_t step) { return step % 2; }

    /// True where a flag says that its rank is in this step, or already in the next one: nobody is further ahead. Numbers wrap
    /// around.
    [[nodiscard]] SHARDWISE_DEVICE static bool has_arrived(std::uint32_t flag, std::uint32_t step) {
        return flag - step <= 1U;
    }

    /// One step of one block; false where it failed.
    template <class Block>
    [[nodiscard]] SHARDWISE_DEVICE static bool exchange(Block& block) {
        if (!block.begin()) return false;
        auto const step = block.last_step() + 1U;
        block.write(half(step));
        block.tell(step);
        if (!block.wait(step)) return false;
        block.read(half(step));
        block.end(step);
        return true;
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
