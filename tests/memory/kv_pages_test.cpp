// SPDX-License-Identifier: Apache-2.0
#include <shardwise/memory/kv_pages.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <limits>

namespace {

using namespace shardwise;

TEST_CASE("kv_sequence_pages: whole pages, and of a window what the queries of a step see, wherever pages begin") {
    constexpr KvCapacity capacity{.sequences = 4, .context = 1000, .step_tokens = 20};
    static_assert(kv_sequence_pages(capacity, 0, 1000) == 63);
    static_assert(kv_sequence_pages(capacity, 0, 1) == 1);
    static_assert(kv_sequence_pages(capacity, 0, 0) == 0);
    for (std::int64_t const window : {1, 2, 15, 16, 17, 64, 100, 979, 980, 5000}) {
        for (std::int64_t const step : {1, 2, 16, 17, 20, 999, 4000}) {
            auto const asked = KvCapacity{.sequences = 4, .context = 1000, .step_tokens = step};
            // By counting: the first key that the first of the new queries sees, and the last of the new keys.
            std::int64_t most = 0;
            for (std::int64_t past = 0; past < 1000; ++past) {
                auto const last = std::min<std::int64_t>(past + step, 1000) - 1;
                auto const first = std::max<std::int64_t>(past - window + 1, 0);
                most = std::max(most, last / kv_page_tokens - first / kv_page_tokens + 1);
            }
            CAPTURE(window);
            CAPTURE(step);
            CHECK(kv_sequence_pages(asked, window, 1000) >= most);
            CHECK(kv_sequence_pages(asked, window, 1000) <= most + 1);
        }
    }
    constexpr KvCapacity everything{.sequences = 4, .context = 1000, .step_tokens = 20, .policy = WindowPolicy::full};
    static_assert(kv_sequence_pages(everything, 64, 1000) == 63);
}

TEST_CASE("kv_layer_bytes: pages of all sequences or of the tokens that are asked for, with the scales of bytes") {
    constexpr KvLayer layer{.heads = 2, .key_dim = 64, .value_dim = 32};
    constexpr KvCapacity capacity{.sequences = 3, .context = 40, .step_tokens = 8};
    static_assert(kv_pages(capacity, 0) == 9);
    static_assert(kv_layer_bytes(layer, capacity) == Bytes{9 * 16 * 2 * (64 + 32) * 4});
    constexpr KvCapacity half{.sequences = 3, .context = 40, .step_tokens = 8, .dtype = Dtype::bf16};
    static_assert(kv_layer_bytes(layer, half) == Bytes{9 * 16 * 2 * (64 + 32) * 2});
    constexpr KvCapacity bytes{.sequences = 3, .context = 40, .step_tokens = 8, .dtype = Dtype::i8};
    static_assert(kv_layer_bytes(layer, bytes) == Bytes{9 * 16 * 2 * (64 + 32 + 8)});
    constexpr KvCapacity shared{.sequences = 3, .context = 40, .step_tokens = 8, .tokens = 50};
    static_assert(kv_pages(shared, 0) == 4);
    static_assert(kv_layer_bytes({}, capacity) == Bytes{0});
    constexpr auto most = std::numeric_limits<std::int64_t>::max();
    static_assert(!kv_layer_bytes(layer, {.sequences = most / 2, .context = most, .step_tokens = 1}));
    static_assert(!kv_layer_bytes({.heads = 1, .key_dim = most, .value_dim = 1}, capacity));
}

}  // namespace
