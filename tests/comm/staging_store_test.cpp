// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/detail/staging_store.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <numeric>
#include <thread>
#include <vector>

using namespace shardwise;

TEST_CASE("store_past_caches: copies any length from and to any alignment, and nothing beside") {
    std::vector<unsigned char> from(400);
    std::iota(from.begin(), from.end(), static_cast<unsigned char>(1));
    for (std::size_t source = 0; source < 3; ++source) {
        for (std::size_t target = 0; target < 66; target += 5) {
            for (std::size_t const bytes : {0U, 1U, 15U, 63U, 64U, 65U, 128U, 200U}) {
                std::vector<unsigned char> to(400, 0);
                detail::store_past_caches(reinterpret_cast<std::byte*>(to.data() + 64 + target),
                                          reinterpret_cast<std::byte const*>(from.data() + source), bytes);
                for (std::size_t i = 0; i < to.size(); ++i) {
                    bool const is_inside = i >= 64 + target && i < 64 + target + bytes;
                    auto const expected = is_inside ? from[source + i - 64 - target] : 0;
                    if (to[i] != expected) FAIL("byte " << i << " of " << bytes << " at " << target);
                }
            }
        }
    }
}

TEST_CASE("StoreChoice: takes the faster way of late, tries the other now and then, and leaves short calls alone") {
    detail::StoreChoice choice;
    choice.begin(detail::StoreChoice::min_bytes - 1);
    CHECK_FALSE(choice.is_past_caches());
    choice.end();
    // The slow way sleeps: which it is changes half-way, and the choice follows.
    for (bool const is_slow_past_caches : {true, false}) {
        int wrong = 0;
        for (int call = 0; call < 200; ++call) {
            choice.begin(std::size_t{1} << 20U);
            bool const is_slow = choice.is_past_caches() == is_slow_past_caches;
            if (is_slow) std::this_thread::sleep_for(std::chrono::microseconds(50));
            wrong += is_slow && call >= 130 ? 1 : 0;
            choice.end();
        }
        CHECK(wrong <= 3);
    }
}
