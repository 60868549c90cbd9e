// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The 256 numbers that a byte of an 8-bit optimizer's state stands for, in increasing order.
struct DynamicMap {
    std::array<float, 256> values{};
    /// Between each two, exact in double.
    std::array<double, 255> middles{};

    /// A decade of positive numbers: the place of its first one, where it begins, and numbers for each unit.
    struct Decade {
        std::int32_t first = 0;
        float begin = 0.0F;
        float density = 0.0F;
    };
    std::array<Decade, 7> decades{};
    /// The place of 0.
    std::int32_t zero = 0;

    /// The nearest number's place, the lower one of two that are as near; that of the lowest for what is undefined.
    [[nodiscard]] constexpr std::uint8_t nearest(float value) const {
        auto const size = value < 0.0F ? -value : value;
        if (!(size <= 1.0F)) return value > 0.0F ? 255 : 0;
        // Numbers of a decade are equally far apart: a guess, and where rounding or the decade's edge missed, the next one.
        std::size_t decade = decades.size() - 1;
        while (decade > 0 && size < decades[decade].begin) --decade;
        auto const& at = decades[decade];
        auto place = at.first + static_cast<std::int32_t>((size - at.begin) * at.density);
        // Negative numbers mirror the positive ones at 0.
        if (value < 0.0F) place = 2 * zero - place;
        place = place < 0 ? 0 : place > 255 ? 255 : place;
        auto const exact = static_cast<double>(value);
        while (place < 255 && exact > middles[static_cast<std::size_t>(place)]) ++place;
        while (place > 0 && exact <= middles[static_cast<std::size_t>(place - 1)]) --place;
        return static_cast<std::uint8_t>(place);
    }
};

/// Seven decades from 1e-7 to 1, each cut into twice as many equal parts as the one below: the numbers are the middles of the
/// parts, and 0 and 1. The signed map has each with both signs; the unsigned one has parts of half the size instead.
///
/// Rounded to float once. bitsandbytes computes the same numbers in float, by vectors whose width is the machine's, so that its own
/// last bits differ between machines; they are within three units of the last place of these (tests/train/adam8bit_test.cpp).
///
/// Source  Dettmers, 8-Bit Approximations for Parallelism in Deep Learning, 2015
constexpr DynamicMap make_dynamic_map(bool is_signed) {
    DynamicMap map;
    std::size_t count = 0;
    constexpr std::array<double, 7> decades{1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0};
    for (std::size_t i = 0; i < decades.size(); ++i) {
        auto const parts = std::int64_t{1} << (is_signed ? i : i + 1);
        for (std::int64_t k = 0; k < parts; ++k) {
            // 0.1 + 0.9 (k + 1/2) / parts, in whole numbers but for the last two steps.
            auto const twentieths = static_cast<double>(2 * parts + 9 * (2 * k + 1));
            auto const middle = static_cast<float>(decades[i] * (twentieths / static_cast<double>(20 * parts)));
            map.values[count++] = middle;
            if (is_signed) map.values[count++] = -middle;
        }
    }
    map.values[count++] = 0.0F;
    map.values[count++] = 1.0F;
    std::sort(map.values.begin(), map.values.end());
    map.zero = is_signed ? 127 : 0;
    for (std::size_t i = 0; i < decades.size(); ++i) {
        auto const parts = 1 << (is_signed ? i : i + 1);
        // After 0 and the decades below, of 1, 2, 4, ... numbers, or of 2, 4, 8, ...
        map.decades[i] = {map.zero + parts - (is_signed ? 0 : 1), static_cast<float>(0.1 * decades[i]),
                          static_cast<float>(parts / (0.9 * decades[i]))};
    }
    for (std::size_t i = 0; i < map.middles.size(); ++i) {
        map.middles[i] = (static_cast<double>(map.values[i]) + static_cast<double>(map.values[i + 1])) / 2.0;
    }
    return map;
}

inline constexpr DynamicMap signed_dynamic_map = make_dynamic_map(true);
inline constexpr DynamicMap unsigned_dynamic_map = make_dynamic_map(false);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
