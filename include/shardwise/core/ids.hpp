// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <compare>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A number that names one thing of a kind; ids of two kinds do not mix.
template <class Tag>
class Id {
public:
    constexpr Id() = default;
    constexpr explicit Id(std::int32_t value) : value_(value) {}

    [[nodiscard]] constexpr std::int32_t value() const { return value_; }

    friend constexpr auto operator<=>(Id, Id) = default;

private:
    std::int32_t value_ = -1;
};

/// One repeated block of a model, counted from 0 over the whole model.
using LayerId = Id<struct LayerTag>;
/// One participant of a parallel group.
using Rank = Id<struct RankTag>;

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
