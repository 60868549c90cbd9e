// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Which bytes of one block are free. What stays is taken from below, what soon goes from above, so that it leaves no gaps behind.
class FreeRanges {
public:
    explicit FreeRanges(std::int64_t bytes = 0) {
        if (bytes > 0) free_.push_back({0, bytes});
    }

    /// The offset of so many bytes, in the lowest range or at the end of the highest one that has them; nothing where none has.
    [[nodiscard]] std::optional<std::int64_t> take(std::int64_t bytes, bool is_from_above) {
        auto const fits = [&](Range const& range) { return range.end - range.begin >= bytes; };
        if (is_from_above) {
            auto const found = std::find_if(free_.rbegin(), free_.rend(), fits);
            if (found == free_.rend()) return std::nullopt;
            found->end -= bytes;
            auto const offset = found->end;
            if (found->begin == found->end) free_.erase(std::next(found).base());
            return offset;
        }
        auto const found = std::find_if(free_.begin(), free_.end(), fits);
        if (found == free_.end()) return std::nullopt;
        auto const offset = found->begin;
        found->begin += bytes;
        if (found->begin == found->end) free_.erase(found);
        return offset;
    }
    /// Gives back what was taken.
    void give_back(std::int64_t offset, std::int64_t bytes) {
        auto const end = offset + bytes;
        auto const next =
            std::find_if(free_.begin(), free_.end(), [&](Range const& range) { return range.begin >= end; });
        bool const joins_next = next != free_.end() && next->begin == end;
        bool const joins_last = next != free_.begin() && std::prev(next)->end == offset;
        if (joins_last && joins_next) {
            std::prev(next)->end = next->end;
            free_.erase(next);
        } else if (joins_last) {
            std::prev(next)->end = end;
        } else if (joins_next) {
            next->begin = offset;
        } else {
            free_.insert(next, {offset, end});
        }
    }
    /// The most that can be taken at once.
    [[nodiscard]] std::int64_t largest() const {
        std::int64_t most = 0;
        for (auto const& range : free_) most = std::max(most, range.end - range.begin);
        return most;
    }

private:
    struct Range {
        std::int64_t begin;
        std::int64_t end;
    };

    /// In order; no two touch.
    std::vector<Range> free_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
