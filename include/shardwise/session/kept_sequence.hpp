// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/memory/kv_pages.hpp>
#include <shardwise/model/block_program.hpp>
#include <shardwise/op/work.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Tokens that a sequence may have before a layer with a window writes over its first ones; 0 where a layer keeps a state of all.
/// It is of the whole model: stages of a pipeline, whose layers see unequally far, know the same of a sequence.
[[nodiscard]] inline std::int64_t whole_tokens(BlockProgram const& program, KvCapacity const& capacity) {
    auto pages = kv_sequence_pages(capacity, 0, capacity.context);
    for (auto const& block : program.blocks()) {
        for (auto const& op : program.body(block).operations()) {
            auto const kept = kept_heads(op);
            // A state cannot go back to an earlier token.
            if (kept.state > 0) return 0;
            if (kept.is_kept()) pages = std::min(pages, kv_sequence_pages(capacity, kept.window, capacity.context));
        }
    }
    return pages * kv_page_tokens;
}

/// A sequence that has ended, whose keys and values are still in the cache: what a prompt begins with like it need not be
/// computed again.
struct KeptSequence {
    std::int64_t slot = 0;
    /// Those in the cache.
    std::vector<std::int32_t> tokens;
    /// True while no layer with a window has written over any of them: then a prompt may leave them anywhere.
    bool is_whole = false;

    /// Tokens of a prompt that are known; its last one is computed, for the logits after it.
    [[nodiscard]] std::int64_t known(std::span<std::int32_t const> prompt) const {
        auto const end = prompt.empty() ? prompt.begin() : prompt.end() - 1;
        auto const common = std::mismatch(prompt.begin(), end, tokens.begin(), tokens.end()).first - prompt.begin();
        return is_whole || common == static_cast<std::int64_t>(tokens.size()) ? common : 0;
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
