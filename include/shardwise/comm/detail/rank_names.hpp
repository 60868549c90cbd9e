// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What errors call the ranks of a group. A part that was split off numbers its ranks anew: where the numbers differ, both are
/// said, because processes, logs and machines go by those of the whole group.
class RankNames {
public:
    /// Of a group that is no part of another.
    RankNames() = default;
    /// Of the part that these ranks of the whole group make, in the order of the part.
    explicit RankNames(std::vector<std::int32_t> members) : members_(std::move(members)) {}

    /// Of a part of this group, made of these of its ranks.
    [[nodiscard]] RankNames of_part(std::vector<std::int32_t> members) const {
        for (auto& member : members) member = in_whole(member);
        return RankNames(std::move(members));
    }

    /// The rank's number in the group that was not split off.
    [[nodiscard]] std::int32_t in_whole(std::int32_t rank) const {
        auto const i = static_cast<std::size_t>(rank);
        return i < members_.size() ? members_[i] : rank;
    }
    /// "1", or "1 (of all: rank 5)".
    [[nodiscard]] std::string number(std::int32_t rank) const {
        return std::to_string(rank) + in_whole(std::span(&rank, 1));
    }
    /// "rank 1", or "rank 1 (of all: rank 5)".
    [[nodiscard]] std::string name(std::int32_t rank) const { return "rank " + number(rank); }
    /// "1, 2", or "1, 2 (of all: rank 4, 5)"; `note(rank)` is said after a rank's number.
    template <class Note>
    [[nodiscard]] std::string list(std::span<std::int32_t const> ranks, Note const& note) const {
        std::string text;
        for (auto const rank : ranks) text += (text.empty() ? "" : ", ") + std::to_string(rank) + note(rank);
        return text + in_whole(ranks);
    }
    [[nodiscard]] std::string list(std::span<std::int32_t const> ranks) const {
        return list(ranks, [](std::int32_t) { return ""; });
    }
    /// What follows a list of ranks: nothing, or " (of all: rank 4, 5)".
    [[nodiscard]] std::string in_whole(std::span<std::int32_t const> ranks) const {
        std::string text;
        bool differs = false;
        for (auto const rank : ranks) {
            text += (text.empty() ? "" : ", ") + std::to_string(in_whole(rank));
            differs = differs || in_whole(rank) != rank;
        }
        return differs ? " (of all: rank " + text + ")" : "";
    }

private:
    std::vector<std::int32_t> members_;
};

/// Those of a communicator that has `rank_names()`; any other is taken for a whole group.
template <class C>
[[nodiscard]] RankNames names_of_ranks(C const& comm) {
    if constexpr (requires { comm.rank_names(); })
        return comm.rank_names();
    else
        return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
