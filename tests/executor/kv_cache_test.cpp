// SPDX-License-Identifier: Apache-2.0
#include <shardwise/executor/kv_cache.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace {

using namespace shardwise;

constexpr std::array layers{KvLayer{.heads = 2, .key_dim = 3, .value_dim = 2},
                            KvLayer{.heads = 1, .key_dim = 4, .value_dim = 0, .window = 5}};

TEST_CASE_TEMPLATE("KvCache: allocates what kv_layer_bytes says, and gives back what was written, page by page", Cache,
                   float, Bfloat16, std::int8_t) {
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    KvCapacity const capacity{.sequences = 2, .context = 50, .step_tokens = 4, .dtype = dtype_of<Cache>};
    auto made = KvCache<Host>::create(context, layers, capacity);
    REQUIRE(made);
    auto& cache = *made;
    auto const predicted = *kv_layer_bytes(layers[0], capacity) + *kv_layer_bytes(layers[1], capacity);
    CHECK(context.memory().current() == predicted);
    CHECK(cache.bytes() == predicted);

    // Two sequences take pages in turn, so that each one's lie apart.
    std::vector<float> keys(6);
    std::vector<float> values(4);
    std::vector<float> latent(4);
    auto const key = [](std::int64_t slot, std::int64_t token, std::int64_t i) {
        return static_cast<float>(slot * 1000 + token * 8 + i);
    };
    for (std::int64_t token = 0; token < 50; ++token) {
        for (std::int64_t slot = 0; slot < 2; ++slot) {
            REQUIRE(cache.reserve(slot, token + 1));
            for (std::int64_t i = 0; i < 6; ++i) keys[static_cast<std::size_t>(i)] = key(slot, token, i);
            for (std::int64_t i = 0; i < 4; ++i)
                values[static_cast<std::size_t>(i)] = latent[static_cast<std::size_t>(i)] = -key(slot, token, i);
            REQUIRE(cache.store(0, slot, token, {keys.data(), {1, 6}}, {values.data(), {1, 4}}, stream));
            REQUIRE(cache.store(1, slot, token, {latent.data(), {1, 4}}, {}, stream));
            // The tokens of the window, whatever lay in their pages before.
            auto const seen = cache.template keys<Cache>(1, slot, token + 1);
            for (auto past = std::max<std::int64_t>(0, token - 4); past <= token; ++past) {
                auto const got = static_cast<float>(seen.row(past)[3]);
                auto const scale = seen.has_scales() ? seen.scale(past, 0) : 1.0F;
                CHECK(got * scale == doctest::Approx(static_cast<double>(-key(slot, past, 3))).epsilon(0.01));
            }
        }
    }
    CHECK(cache.free_pages() == 0);
    for (std::int64_t slot = 0; slot < 2; ++slot) {
        auto const rows = cache.template keys<Cache>(0, slot, 50);
        CHECK(rows.count() == 50);
        for (std::int64_t token = 0; token < 50; ++token) {
            auto const scale = rows.has_scales() ? rows.scale(token, 1) : 1.0F;
            CHECK(static_cast<float>(rows.row(token)[5]) * scale ==
                  doctest::Approx(static_cast<double>(key(slot, token, 5))).epsilon(0.01));
        }
    }
}

TEST_CASE("KvCache: sequences share the pages; one that lacks them gets none, and takes what another gives back") {
    HostContext context({.threads = 1});
    auto made = KvCache<Host>::create(context, layers, {.sequences = 3, .context = 64, .step_tokens = 4, .tokens = 96});
    REQUIRE(made);
    auto& cache = *made;
    CHECK(cache.free_pages() == 6);
    CHECK(cache.could_hold(64));
    CHECK_FALSE(cache.could_hold(65));
    REQUIRE(cache.reserve(0, 64));
    CHECK(cache.free_pages() == 2);
    CHECK(cache.has_room(32));
    CHECK_FALSE(cache.has_room(33));
    auto const refused = cache.reserve(1, 33);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code() == ErrorCode::out_of_memory);
    CHECK(refused.error().message().find("not enough free pages") != std::string::npos);
    CHECK(cache.free_pages() == 2);
    REQUIRE(cache.reserve(1, 20));
    // Nothing more for what it has already.
    REQUIRE(cache.reserve(1, 32));
    CHECK(cache.free_pages() == 0);
    cache.release(0);
    CHECK(cache.free_pages() == 4);
    REQUIRE(cache.reserve(2, 64));
    cache.release(1);
    cache.release(2);
    CHECK(cache.free_pages() == 6);
    CHECK(cache.reserve(3, 1).error().code() == ErrorCode::invalid_argument);
    CHECK(cache.reserve(0, 65).error().code() == ErrorCode::invalid_argument);
}

#if defined(__linux__)
/// Whether the system was asked to back an address with large pages: "hg" among the flags of its mapping.
bool has_huge_page_advice(void const* address) {
    auto const wanted = reinterpret_cast<std::uintptr_t>(address);
    std::ifstream mappings("/proc/self/smaps");
    bool is_here = false;
    for (std::string line; std::getline(mappings, line);) {
        std::istringstream words(line);
        std::string first;
        words >> first;
        if (auto const dash = first.find('-');
            dash != first.npos && first.find_first_not_of("0123456789abcdef-") == first.npos) {
            is_here =
                std::stoull(first, nullptr, 16) <= wanted && wanted < std::stoull(first.substr(dash + 1), nullptr, 16);
        } else if (is_here && first == "VmFlags:") {
            return (line + " ").find(" hg ") != line.npos;
        }
    }
    return false;
}

TEST_CASE("KvCache: keys and values lie on large pages where the system has them") {
    if (!std::filesystem::exists("/sys/kernel/mm/transparent_hugepage/enabled")) return;
    HostContext context({.threads = 1});
    std::array const wide{KvLayer{.heads = 8, .key_dim = 128, .value_dim = 128}};
    KvCapacity const capacity{.sequences = 1, .context = 4096, .step_tokens = 1, .dtype = Dtype::f32};
    auto cache = KvCache<Host>::create(context, wide, capacity);
    REQUIRE(cache);
    REQUIRE(cache->reserve(0, 4096));
    CHECK(has_huge_page_advice(cache->template keys<float>(0, 0, 4096).row(2048)));
    CHECK(has_huge_page_advice(cache->template values<float>(0, 0, 4096).row(2048)));
}
#endif

TEST_CASE("KvCache: a state of each sequence lies beside keys and values, and cannot go back") {
    HostContext context({.threads = 1});
    KvCapacity const capacity{.sequences = 2, .context = 50, .step_tokens = 4};
    std::array const with_state{layers[0], KvLayer{.state = 7}};
    auto made = KvCache<Host>::create(context, with_state, capacity);
    REQUIRE(made);
    auto& cache = *made;
    CHECK(*kv_layer_bytes(with_state[1], capacity) == Bytes{2 * 7 * 4});
    CHECK(cache.bytes() == *kv_layer_bytes(layers[0], capacity) + Bytes{2 * 7 * 4});
    CHECK(context.memory().current() == cache.bytes());
    CHECK(cache.states(0).empty());
    auto const states = cache.states(1);
    CHECK(states.extent(0) == 2);
    CHECK(states.extent(1) == 7);
    CHECK(cache.check_state(1, 0, 0));
    cache.advance_state(1, 0, 5);
    cache.advance_state(1, 1, 3);
    CHECK(cache.check_state(1, 0, 5));
    cache.advance_state(1, 0, 6);
    for (std::int64_t const past : {3, 5, 7}) {
        auto const back = cache.check_state(1, 0, past);
        REQUIRE(!back);
        CHECK(back.error().code() == ErrorCode::invalid_argument);
    }
    CHECK(cache.check_state(1, 0, 6));
    CHECK(cache.check_state(1, 1, 3));
    // Another sequence begins anew.
    CHECK(cache.check_state(1, 0, 0));
}

TEST_CASE("KvCache: element types and sizes that no cache has are refused") {
    HostContext context({.threads = 1});
    auto const refused = [&](KvCapacity const& capacity) {
        return KvCache<Host>::create(context, layers, capacity).error().code();
    };
    CHECK(refused({.context = 8, .step_tokens = 8, .dtype = Dtype::f16}) == ErrorCode::unsupported);
    CHECK(refused({.sequences = 1 << 20, .context = std::int64_t{1} << 44, .step_tokens = 8}) ==
          ErrorCode::size_overflow);
    CHECK(context.memory().current() == Bytes{0});
}

}  // namespace
