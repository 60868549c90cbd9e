#include <shardwise/kernels/attention.hpp>

#include <doctest/doctest.h>

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
        CachedRows<std::int8_t, Host> const rows({elements.data(), {32, 8}}, pages.data(), page_rows, 4,
                                                 {scales.data(), {scale_rows, scale_heads}});
        return attention<float, std::int8_t>({q.data(), {1, 8}}, rows, rows, {out.data(), {1, 8}}, options, stream);
    }
};

std::vector<IsaLevel> levels_here() {
    std::vector<IsaLevel> found;
    for (auto const level : {IsaLevel::portable, IsaLevel::avx2, IsaLevel::avx512}) {
        if (level <= detect_isa()) found.push_back(level);
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
          "attention: bytes need scales for each row (got 16, expected 32)");
    for (std::int64_t const page_rows : {24, 8, 0, -16}) {
        CAPTURE(page_rows);
        auto const refused = bytes.attend(page_rows, 32, 2);
        REQUIRE(!refused);
        CHECK(refused.error().message().find("power of two") != std::string::npos);
    }
}
