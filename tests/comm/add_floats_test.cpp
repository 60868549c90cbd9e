// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/detail/add_floats.hpp>

#include <doctest/doctest.h>

#include "../comm/collective_cases.hpp"

#include <cstdint>
#include <cstring>
#include <vector>

using namespace shardwise;
using detail::FloatArrays;

namespace {

bool are_same_bits(std::vector<float> const& a, std::vector<float> const& b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

}  // namespace

TEST_CASE(
    "add_arrays: sums of any length and number of arrays have the bits of additions in their order, in every target") {
    for (std::int32_t sources = 2; sources <= FloatArrays::most; sources += 3) {
        for (std::int64_t const count : {0, 1, 15, 16, 17, 64, 200}) {
            std::vector<std::vector<float>> values;
            for (std::int32_t i = 0; i < sources; ++i) values.push_back(testing::any_floats(i, count));
            auto expected = values[0];
            for (std::size_t i = 1; i < values.size(); ++i) {
                for (std::size_t k = 0; k < expected.size(); ++k) expected[k] += values[i][k];
            }
            FloatArrays arrays;
            arrays.sources = arrays.targets = sources;
            for (std::int32_t i = 0; i < sources; ++i) {
                arrays.from[i] = arrays.to[i] = values[static_cast<std::size_t>(i)].data();
            }
            add_arrays(arrays, count);
            for (auto const& sums : values) CHECK(are_same_bits(sums, expected));
        }
    }
}

TEST_CASE("add_floats and add_arrays: every level of instructions gives the same bits") {
    constexpr std::int64_t count = 320;
    auto const a = testing::any_floats(1, count);
    auto const b = testing::any_floats(2, count);
    auto const c = testing::any_floats(3, count);
    std::vector<float> two(a);
    std::vector<float> three(a);
    for (std::size_t i = 0; i < a.size(); ++i) {
        two[i] = a[i] + b[i];
        three[i] = two[i] + c[i];
    }
    auto const level = detect_isa();
    std::vector<float> out(a.size());
    FloatArrays arrays;
    arrays.sources = 3;
    arrays.targets = 1;
    arrays.from[0] = a.data();
    arrays.from[1] = b.data();
    arrays.from[2] = c.data();
    arrays.to[0] = out.data();
    auto const check = [&](auto const& add, auto const& add_all) {
        add(out.data(), a.data(), b.data(), count);
        CHECK(are_same_bits(out, two));
        add_all(arrays, count);
        CHECK(are_same_bits(out, three));
    };
    check(detail::add_floats, detail::add_arrays);
#if defined(SHARDWISE_HAS_X86_LEVELS)
    if (level >= IsaLevel::avx2) check(detail::add_floats_avx2, detail::add_arrays_avx2);
    if (level >= IsaLevel::avx512) check(detail::add_floats_avx512, detail::add_arrays_avx512);
#elif defined(SHARDWISE_HAS_ARM_LEVELS)
    CHECK(level >= IsaLevel::neon);
    check(detail::add_floats_neon, detail::add_arrays_neon);
#else
    (void)level;
#endif
}

TEST_CASE("add_and_replace: any length at every level of instructions gives both sums and the next values") {
    for (std::int64_t const count : {0, 1, 16, 63, 64, 79, 320, 1'001}) {
        auto const own = testing::any_floats(1, count);
        auto const others = testing::any_floats(2, count);
        auto const next = testing::any_floats(3, count);
        std::vector<float> expected(own);
        for (std::size_t i = 0; i < own.size(); ++i) expected[i] += others[i];
        auto const check = [&](auto const& add) {
            auto sums = own;
            auto place = others;
            add(sums.data(), place.data(), next.data(), count);
            CHECK(are_same_bits(sums, expected));
            CHECK(are_same_bits(place, next));
        };
        check(detail::add_and_replace<false>);
        check(detail::add_and_replace<true>);
#if defined(SHARDWISE_HAS_X86_LEVELS)
        if (count % 16 != 0) continue;
        if (detect_isa() >= IsaLevel::avx2) {
            check(detail::add_and_replace_avx2<false>);
            check(detail::add_and_replace_avx2<true>);
        }
        if (detect_isa() >= IsaLevel::avx512) {
            check(detail::add_and_replace_avx512<false>);
            check(detail::add_and_replace_avx512<true>);
        }
#elif defined(SHARDWISE_HAS_ARM_LEVELS)
        if (count % 16 != 0) continue;
        check(detail::add_and_replace_neon<false>);
        check(detail::add_and_replace_neon<true>);
#endif
    }
}
