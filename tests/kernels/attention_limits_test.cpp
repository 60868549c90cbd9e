// SPDX-License-Identifier: Apache-2.0
#include <shardwise/kernels/attention.hpp>
#include <shardwise/kernels/store_rows.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

using namespace shardwise;

namespace {

/// One query of one head at the end of its keys.
struct OneQuery {
    static constexpr std::int64_t width = 4;

    AttentionOptions options{
        .shape = {.heads = 1, .kv_heads = 1, .key_dim = width, .value_dim = width, .is_causal = false}};
    std::vector<float> q = std::vector<float>(width, 10.0F);
    std::vector<float> k;
    std::vector<float> v;
    std::vector<float> sinks{};

    explicit OneQuery(std::int64_t keys)
        : k(static_cast<std::size_t>(keys * width), 1.0F), v(static_cast<std::size_t>(keys * width), 2.0F) {}

    void set_key(std::int64_t key, float value) {
        for (std::int64_t i = 0; i < width; ++i) k[static_cast<std::size_t>(key * width + i)] = value;
    }
    std::vector<float> attend(IsaLevel level, bool splits) const {
        HostContext context({.threads = 2, .isa = level});
        auto stream = context.make_stream();
        std::vector<float> out(width, 77.0F);
        auto const keys = static_cast<std::int64_t>(k.size()) / width;
        std::vector<float> workspace(splits ? static_cast<std::size_t>(attention_workspace(options, 1, keys)) : 0);
        REQUIRE(
            attention<float, float>({q.data(), {1, width}}, TensorView<float const, 2, Host>{k.data(), {keys, width}},
                                    TensorView<float const, 2, Host>{v.data(), {keys, width}}, {out.data(), {1, width}},
                                    options, stream, {workspace.data(), {static_cast<std::int64_t>(workspace.size())}},
                                    {sinks.data(), {static_cast<std::int64_t>(sinks.size())}}));
        return out;
    }
};

/// Bytes of two heads in pages, and whatever does not fit them.
struct Bytes8 {
    std::vector<float> q = std::vector<float>(8, 1.0F);
    std::vector<std::int8_t> elements = std::vector<std::int8_t>(32 * 8, 1);
    std::vector<float> scales = std::vector<float>(32 * 2, 1.0F);
    std::vector<std::int32_t> pages{1, 0};
    std::vector<float> out = std::vector<float>(8);

    Result<> attend(std::int64_t page_rows, std::int64_t scale_rows, std::int64_t scale_heads) {
        HostContext context({.threads = 1});
        auto stream = context.make_stream();
        AttentionOptions const options{.shape = {.heads = 2, .kv_heads = 2, .key_dim = 4, .value_dim = 4}};
        CachedRows<std::int8_t, Host> const rows({elements.data(), {32, 8}}, pages, page_rows, 4,
                                                 {scales.data(), {scale_rows, scale_heads}});
        return attention<float, std::int8_t>({q.data(), {1, 8}}, rows, rows, {out.data(), {1, 8}}, options, stream);
    }
};

std::vector<IsaLevel> levels_here() {
    std::vector<IsaLevel> found;
    for (auto const level : {IsaLevel::portable, IsaLevel::neon, IsaLevel::avx2, IsaLevel::avx512}) {
        if (has_isa(level)) found.push_back(level);
    }
    return found;
}

}  // namespace

TEST_CASE("attention: keys whose scores are minus infinity have no weight, even where a whole part is of them") {
    for (auto const level : levels_here()) {
        CAPTURE(name_of(level));
        for (bool const splits : {false, true}) {
            CAPTURE(splits);
            // Parts have 256 keys: the first one's products are beyond all floats.
            OneQuery problem(600);
            for (std::int64_t key = 0; key < 256; ++key) problem.set_key(key, -1e38F);
            CHECK(problem.attend(level, splits) == std::vector<float>(4, 2.0F));
            for (std::int64_t key = 256; key < 600; ++key) problem.set_key(key, -1e38F);
            CHECK(problem.attend(level, splits) == std::vector<float>(4, 0.0F));
            problem.sinks = {-std::numeric_limits<float>::infinity()};
            CHECK(problem.attend(level, splits) == std::vector<float>(4, 0.0F));
            problem.sinks = {1.0F};
            CHECK(problem.attend(level, splits) == std::vector<float>(4, 0.0F));
            // What is no number stays so among them.
            problem.set_key(300, std::numeric_limits<float>::quiet_NaN());
            CHECK(std::isnan(problem.attend(level, splits)[0]));
        }
        OneQuery nothing(0);
        nothing.sinks = {-std::numeric_limits<float>::infinity()};
        CHECK(nothing.attend(level, false) == std::vector<float>(4, 0.0F));
    }
}

TEST_CASE("attention: a window wider than any context hides nothing") {
    for (bool const is_causal : {false, true}) {
        CAPTURE(is_causal);
        OneQuery problem(300);
        problem.options.first_query = 299;
        problem.options.shape.is_causal = is_causal;
        for (std::size_t i = 0; i < 4 * 150; ++i) problem.v[i] = 6.0F;
        problem.options.shape.window = std::numeric_limits<std::int64_t>::max();
        CHECK(problem.attend(IsaLevel::portable, false) == std::vector<float>(4, 4.0F));
        problem.options.shape.window = 150;
        CHECK(problem.attend(IsaLevel::portable, false) == std::vector<float>(4, 2.0F));
    }
}

TEST_CASE("attention: of a split context only the parts that a window shows are touched") {
    OneQuery problem(256 * 20);
    problem.options.first_query = 256 * 20 - 1;
    problem.options.shape.window = 300;
    HostContext context({.threads = 2});
    auto stream = context.make_stream();
    auto const keys = *problem.options.first_query + 1;
    std::vector<float> workspace(static_cast<std::size_t>(attention_workspace(problem.options, 1, keys)), 123.0F);
    REQUIRE(workspace.size() == 20 * (4 + 2));
    std::vector<float> out(4);
    TensorView<float const, 2, Host> const k{problem.k.data(), {keys, 4}};
    TensorView<float const, 2, Host> const v{problem.v.data(), {keys, 4}};
    REQUIRE(attention<float, float>({problem.q.data(), {1, 4}}, k, v, {out.data(), {1, 4}}, problem.options, stream,
                                    {workspace.data(), {20 * 6}}));
    CHECK(out == std::vector<float>(4, 2.0F));
    // Two parts of four values, a greatest score and a sum of weights each.
    CHECK(std::count(workspace.begin(), workspace.end(), 123.0F) == 18 * 6);
}

TEST_CASE("attention: the pieces of a split context are spread evenly where early queries see few of them") {
    struct Case {
        AttentionShape shape;
        std::int64_t queries;
        std::int64_t past;
    };
    Case const cases[] = {
        {{.heads = 9, .kv_heads = 3, .key_dim = 64, .value_dim = 64}, 400, 0},
        {{.heads = 1, .kv_heads = 1, .key_dim = 64, .value_dim = 64}, 2048, 0},
        {{.heads = 4, .kv_heads = 4, .key_dim = 64, .value_dim = 64}, 900, 300},
        {{.heads = 8, .kv_heads = 1, .key_dim = 64, .value_dim = 64}, 1, 4095},
    };
    for (auto const& each : cases) {
        auto const& shape = each.shape;
        auto const queries = each.queries;
        auto const past = each.past;
        CAPTURE(queries);
        auto const keys = past + queries;
        detail::AttentionCut const cut(shape, queries, keys, 1);
        auto const pieces = cut.tiles() * cut.parts;
        double shares[2]{};
        for (std::int64_t i = 0; i < pieces; ++i) {
            auto const [tile, part] = cut.piece(shape, queries, {0, cut.parts}, i);
            for (auto query = tile.first_query; query < tile.first_query + tile.queries; ++query) {
                auto const begin = part * detail::attention_part_keys;
                auto const end = std::min(begin + detail::attention_part_keys, past + query + 1);
                shares[i < pieces / 2 ? 0 : 1] +=
                    static_cast<double>(std::max<std::int64_t>(0, end - begin) * tile.heads * tile.kv_heads);
            }
        }
        auto const pairs = static_cast<double>(queries * past + queries * (queries + 1) / 2);
        CHECK(shares[0] + shares[1] == pairs * static_cast<double>(shape.heads));
        CHECK(shares[0] / shares[1] == doctest::Approx(1.0).epsilon(0.1));
    }
}

TEST_CASE("attention: scales, soft caps, pages and scales of bytes that cannot be are refused") {
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    std::vector<float> const in(4, 1.0F);
    std::vector<float> out(4);
    TensorView<float const, 2, Host> const row{in.data(), {1, 4}};
    for (float const value : {-0.5F, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
        AttentionOptions options{.shape = {.heads = 1, .kv_heads = 1, .key_dim = 4, .value_dim = 4}, .scale = value};
        auto const scaled = attention<float, float>(row, row, row, {out.data(), {1, 4}}, options, stream);
        REQUIRE(!scaled);
        CHECK(scaled.error().code() == ErrorCode::invalid_argument);
        CHECK(scaled.error().message() == "attention: scale: must be at least 0, and finite");
        options.scale = 0.0F;
        options.soft_cap = value;
        auto const capped = attention<float, float>(row, row, row, {out.data(), {1, 4}}, options, stream);
        REQUIRE(!capped);
        CHECK(capped.error().message() == "attention: soft_cap: must be at least 0, and finite");
    }
    AttentionOptions const options{.shape = {.heads = 1, .kv_heads = 1, .key_dim = 4, .value_dim = 4}};
    CHECK(attention<float, float>(row, row, row, {out.data(), {4, 1}}, options, stream).error().message() ==
          "attention: the output needs a row per query (got 4, expected 1)");

    Bytes8 bytes;
    CHECK(bytes.attend(16, 32, 2));
    CHECK(bytes.out == std::vector<float>(8, 1.0F));
    CHECK(bytes.attend(16, 32, 1).error().message() ==
          "attention: bytes need a scale for each key-value head (got 1, expected 2)");
    CHECK(bytes.attend(16, 16, 2).error().message() ==
          "attention: bytes need scales for each row (got 16, expected at least 32)");
    for (std::int64_t const page_rows : {24, 8, 0, -16}) {
        CAPTURE(page_rows);
        auto const refused = bytes.attend(page_rows, 32, 2);
        REQUIRE(!refused);
        CHECK(refused.error().message().find("power of two") != std::string::npos);
    }
}

TEST_CASE("attention: by default queries are the last of the keys; a first query that is not among them is refused") {
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    constexpr std::int64_t keys = 50;
    AttentionOptions options{.shape = {.heads = 1, .kv_heads = 1, .key_dim = 1, .value_dim = 1}};
    std::vector<float> const q(60, 0.0F);
    std::vector<float> const k(keys, 0.0F);
    std::vector<float> v(keys);
    for (std::int64_t i = 0; i < keys; ++i) v[static_cast<std::size_t>(i)] = static_cast<float>(i);
    std::vector<float> out(60, 77.0F);
    auto const attend = [&](std::int64_t queries) {
        return attention<float, float>({q.data(), {queries, 1}}, TensorView<float const, 2, Host>{k.data(), {keys, 1}},
                                       TensorView<float const, 2, Host>{v.data(), {keys, 1}},
                                       {out.data(), {queries, 1}}, options, stream);
    };
    // Equal scores: the mean of the values that are seen.
    REQUIRE(attend(1));
    CHECK(out[0] == doctest::Approx(24.5));
    REQUIRE(attend(2));
    CHECK(out[0] == doctest::Approx(24.0));
    CHECK(out[1] == doctest::Approx(24.5));
    options.first_query = 0;
    REQUIRE(attend(2));
    CHECK(out[0] == 0.0F);
    CHECK(out[1] == doctest::Approx(0.5));
    for (std::int64_t const first :
         {std::int64_t{-1}, std::int64_t{-5}, std::int64_t{49}, std::int64_t{1000},
          std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()}) {
        CAPTURE(first);
        options.first_query = first;
        auto const refused = attend(2);
        REQUIRE(!refused);
        CHECK(refused.error().code() == ErrorCode::invalid_argument);
        CHECK(refused.error().place() == "first_query");
    }
    options.first_query = 49;
    CHECK(attend(1));
    options.first_query.reset();
    CHECK(!attend(51));
    // Queries that see every key may be more than they are.
    options.shape.is_causal = false;
    REQUIRE(attend(60));
    CHECK(out[59] == doctest::Approx(24.5));
    options.first_query = 51;
    CHECK(!attend(1));
}

TEST_CASE("CachedRows: too few pages and pages that the memory does not have are refused") {
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    std::vector<float> memory(3 * 16 * 4);
    std::vector<float> const q(4, 1.0F);
    std::vector<float> out(4);
    AttentionOptions const options{.shape = {.heads = 1, .kv_heads = 1, .key_dim = 4, .value_dim = 4}};
    auto const refusal = [&](std::vector<std::int32_t> const& pages, std::int64_t count) {
        CachedRows<float, Host> const rows({memory.data(), {3 * 16, 4}}, pages, 16, count);
        auto const attended =
            attention<float, float>({q.data(), {1, 4}}, rows, rows, {out.data(), {1, 4}}, options, stream);
        auto const stored = store_rows<float>({q.data(), {1, 4}}, {memory.data(), {3 * 16, 4}}, rows, 0, stream);
        CHECK(stored.has_value() == attended.has_value());
        return attended ? std::string() : attended.error().message();
    };
    CHECK(refusal({2, 0}, 32).empty());
    CHECK(refusal({2, 0}, 17).empty());
    // Pages that no row lies in are not looked at.
    CHECK(refusal({2, 1'000'000}, 16).empty());
    CHECK(refusal({2, 0}, 33) == "attention: pages: are fewer than the rows lie in (got 2, expected 3)");
    CHECK(refusal({}, 1) == "attention: pages: are fewer than the rows lie in (got 0, expected 1)");
    CHECK(refusal({2, 3}, 32) == "attention: pages: name one that the memory does not have (got 3, expected 2)");
    CHECK(refusal({1'000'000}, 1).find("name one that the memory does not have") != std::string::npos);
    CHECK(refusal({-1}, 1).find("name one that the memory does not have") != std::string::npos);
    CHECK(!refusal({0}, -1).empty());
}
