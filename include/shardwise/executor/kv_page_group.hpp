// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/checked.hpp>
#include <shardwise/memory/kv_pages.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The pages of layers that see equally far.
struct KvPageGroup {
    std::int64_t window = 0;
    std::int64_t pages = 0;
    /// Pages that one sequence has at most; from there on it uses its first ones again.
    std::int64_t most = 0;
    /// The next one to take is the last.
    std::vector<std::int32_t> free;
    /// By slot: where each page of the sequence lies.
    std::vector<std::vector<std::int32_t>> lists;

    [[nodiscard]] std::int64_t needed(std::int64_t tokens) const {
        return std::min(ceil_divide(tokens, kv_page_tokens), most);
    }
    [[nodiscard]] std::int64_t held(std::int64_t slot) const {
        return std::min(static_cast<std::int64_t>(lists[static_cast<std::size_t>(slot)].size()), most);
    }
    void take(std::int64_t slot, std::int64_t tokens) {
        auto& list = lists[static_cast<std::size_t>(slot)];
        auto const wanted = static_cast<std::size_t>(ceil_divide(tokens, kv_page_tokens));
        while (list.size() < wanted) {
            if (static_cast<std::int64_t>(list.size()) < most) {
                list.push_back(free.back());
                free.pop_back();
            } else {
                list.push_back(list[list.size() - static_cast<std::size_t>(most)]);
            }
        }
    }
    void give_back(std::int64_t slot) {
        auto& list = lists[static_cast<std::size_t>(slot)];
        // The first page becomes the next to take again: one sequence after another uses the same memory.
        for (auto i = held(slot); i-- > 0;) free.push_back(list[static_cast<std::size_t>(i)]);
        list.clear();
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
