// SPDX-License-Identifier: Apache-2.0
#include <shardwise/kernels/store_rows.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

using namespace shardwise;

namespace {

/// A cache of 32 rows in two pages that lie the other way round, of which a sequence has `count`.
template <class Cache>
struct Store {
    static constexpr std::int64_t rows = 32;
    static constexpr std::int64_t width = 6;
    static constexpr std::int64_t heads = 2;

    HostContext context{{.threads = 1}};
    HostStream stream = context.make_stream();
    std::vector<Cache> memory = std::vector<Cache>(rows * width);
    std::vector<float> scales = std::vector<float>(rows * heads);
    std::vector<float> from = std::vector<float>(rows * width, 2.0F);
    std::int32_t pages[2] = {1, 0};
    std::int64_t page_rows = 16;
    std::int64_t count = 20;

    TensorView<Cache, 2, Host> all() { return {memory.data(), {rows, width}}; }
    TensorView<float, 2, Host> all_scales() { return {scales.data(), {rows, heads}}; }
    CachedRows<Cache, Host> view() { return {all(), pages, page_rows, count, all_scales()}; }
    TensorView<float const, 2, Host> some(std::int64_t taken, std::int64_t wide = width) {
        return {from.data(), {taken, wide}};
    }
};

void check_refused(Result<> const& result, std::string const& reason) {
    REQUIRE_FALSE(result);
    CHECK(result.error().code() == ErrorCode::shape_mismatch);
    CHECK(result.error().message().find(reason) != std::string::npos);
}

}  // namespace

TEST_CASE("store_rows: rows lie where the pages say, up to the last that the sequence has") {
    Store<float> store;
    for (std::size_t i = 0; i < store.from.size(); ++i) store.from[i] = static_cast<float>(i);
    REQUIRE(store_rows<float>(store.some(5), store.all(), store.view(), 15, store.stream));
    // Row 15 ends the first page, which is the memory's second.
    CHECK(store.memory[31 * 6] == 0.0F);
    CHECK(store.memory[0] == 6.0F);
    CHECK(store.memory[3 * 6 + 5] == 29.0F);
    CHECK(store.memory[4 * 6] == 0.0F);
    REQUIRE(store_rows<float>(store.some(0), store.all(), store.view(), 20, store.stream));
}

TEST_CASE("store_rows: bytes are off by half a step of their head's greatest element, however small that is") {
    for (float const magnitude : {1e30F, 1.0F, 3.8e-37F, 3.7e-37F, 1e-38F, 1e-40F}) {
        CAPTURE(magnitude);
        Store<std::int8_t> store;
        float const parts[6] = {1.0F, -0.1F, 0.0F, -1.0F, 0.5F, 0.37F};
        for (std::size_t i = 0; i < 6; ++i) store.from[i] = magnitude * parts[i];
        REQUIRE(store_rows<std::int8_t>(store.some(1), store.all(), store.view(), 0, store.stream, store.all_scales()));
        auto const row = store.view();
        int wrong = 0;
        for (std::int64_t i = 0; i < 6; ++i) {
            auto const got = static_cast<double>(row.row(0)[i]) * static_cast<double>(row.scale(0, i / 3));
            auto const expected = static_cast<double>(store.from[static_cast<std::size_t>(i)]);
            // The scale and the quotient are rounded; scales below 2^-126 to multiples of 2^-149.
            auto const allowed = static_cast<double>(magnitude) / 254.0 * (1.0 + 0x1p-14) + 127.0 * 0x1p-150;
            wrong += std::abs(got - expected) <= allowed ? 0 : 1;
        }
        CHECK(wrong == 0);
    }
}

TEST_CASE(
    "store_rows: what the cache does not have, or memory that it does not show, is refused before anything is stored") {
    Store<float> store;
    constexpr auto most = std::numeric_limits<std::int64_t>::max();
    for (std::int64_t const first : {std::int64_t{-1}, std::int64_t{16}, most})
        check_refused(store_rows<float>(store.some(5), store.all(), store.view(), first, store.stream), "so many rows");
    check_refused(store_rows<float>(store.some(1, 5), store.all(), store.view(), 0, store.stream), "as wide as");
    check_refused(store_rows<float>(store.some(1), {store.memory.data(), {32, 5}}, store.view(), 0, store.stream),
                  "as wide as");
    check_refused(store_rows<float>(store.some(1), {store.memory.data(), {31, 6}}, store.view(), 0, store.stream),
                  "what the cache shows");
    store.page_rows = 8;
    check_refused(store_rows<float>(store.some(1), store.all(), store.view(), 0, store.stream), "power of two");
    for (auto const value : store.memory) CHECK(value == 0.0F);

    Store<std::int8_t> bytes;
    auto const put = [&](TensorView<float, 2, Host> scales) {
        return store_rows<std::int8_t>(bytes.some(1), bytes.all(), bytes.view(), 0, bytes.stream, scales);
    };
    CHECK(put(bytes.all_scales()));
    check_refused(put({}), "scales for each row");
    check_refused(put({bytes.scales.data(), {31, 2}}), "scales for each row");
    check_refused(put({bytes.scales.data(), {32, 0}}), "no multiple of the heads");
    std::vector<float> more(32 * 4);
    check_refused(put({more.data(), {32, 4}}), "no multiple of the heads");
}
