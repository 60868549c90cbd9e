// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/core/span.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Cuts layers into contiguous stages of at least one layer so that the heaviest stage is as light as can be; returns
/// each stage's first layer and, last, the number of layers. There must be at least as many layers as stages.
///
/// Order  among equally good cuts the first stages hold as much as the heaviest allows
[[nodiscard]] constexpr List<std::int64_t> split_stages(Span<Bytes const> layers, std::int64_t stages) {
    List<std::int64_t> begins;
    auto const count = static_cast<std::int64_t>(layers.size());
    auto const fill = [&](Bytes limit) {
        begins.clear();
        std::int64_t next = 0;
        for (std::int64_t stage = 0; stage < stages; ++stage) {
            begins.push_back(next);
            Bytes held{0};
            bool const is_last = stage + 1 == stages;
            while (next < count && (is_last || count - next > stages - stage - 1)) {
                auto const with = held + layers[static_cast<std::size_t>(next)];
                if (limit < with && (begins.back() < next || is_last)) break;
                if (limit < with) return false;
                held = with;
                ++next;
            }
        }
        begins.push_back(next);
        return next == count;
    };
    Bytes low{0};
    Bytes high{0};
    for (auto const layer : layers) {
        high += layer;
        if (low < layer) low = layer;
    }
    while (low < high) {
        auto const middle = Bytes{low.count() + (high.count() - low.count()) / 2};
        if (fill(middle)) high = middle;
        else low = middle + Bytes{1};
    }
    (void)fill(low);
    return begins;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
