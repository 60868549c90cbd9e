// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// One rank of a tensor-parallel group.
struct TensorPlace {
    std::int64_t ranks = 1;
    std::int64_t rank = 0;
};

/// The largest group of ranks that layers work with.
inline constexpr std::int32_t max_group_ranks = 1024;

namespace detail {

/// Errors  invalid_argument for a rank that the group does not have; capacity_exceeded for more ranks than max_group_ranks
[[nodiscard]] constexpr Result<> check_place(std::string_view subject, TensorPlace const& place) {
    if (place.ranks < 1) {
        return Error{ErrorCode::invalid_argument}
            .in(subject)
            .at("ranks")
            .because("are less than one")
            .got(place.ranks)
            .at_least(1);
    }
    if (place.ranks > max_group_ranks) {
        return Error{ErrorCode::capacity_exceeded}
            .in(subject)
            .at("ranks")
            .because("are more than layers work with")
            .got(place.ranks)
            .at_most(max_group_ranks)
            .fix("split the group");
    }
    if (place.rank >= 0 && place.rank < place.ranks) return {};
    return Error{ErrorCode::invalid_argument}
        .in(subject)
        .at("rank")
        .because("is no rank of the group")
        .got(place.rank)
        .between(0, place.ranks - 1);
}

/// Whether a communicator is that of the group which something was made for.
///
/// Errors  invalid_argument
template <class C>
[[nodiscard]] Result<> check_group(std::string_view subject, TensorPlace const& place, C& comm) {
    if (comm.size() == place.ranks && comm.rank() == place.rank) return {};
    return Error{ErrorCode::invalid_argument}
        .in(subject)
        .because("was made for another group")
        .got(comm.size())
        .expected(place.ranks);
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
