// SPDX-License-Identifier: Apache-2.0
#include <shardwise/backend/host/products.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

using namespace shardwise;

namespace {

HostOptions const two_threads{.threads = 2, .is_pinned = false, .streams = StreamMode::immediate, .isa = {}};

struct Stored {
    WeightFormat format;
    /// Bytes of data and of scales for a row of 256 inputs; int4 has groups of 64.
    std::size_t data;
    std::size_t scales;
};
constexpr Stored all_formats[] = {
    {WeightFormat::f32, 1024, 0},  {WeightFormat::bf16, 512, 0}, {WeightFormat::f16, 512, 0},
    {WeightFormat::int8, 256, 4},  {WeightFormat::int4, 128, 8}, {WeightFormat::nf4, 128, 16},
    {WeightFormat::mxfp4, 128, 8}, {WeightFormat::q4_0, 144, 0}, {WeightFormat::q4_1, 160, 0},
    {WeightFormat::q5_0, 176, 0},  {WeightFormat::q5_1, 192, 0}, {WeightFormat::q8_0, 272, 0},
    {WeightFormat::q4_k, 144, 0},  {WeightFormat::q5_k, 176, 0}, {WeightFormat::q6_k, 210, 0},
};

}  // namespace

TEST_CASE("hold_weight allocates exactly packed_weight_bytes, for every format, and gives it back") {
    HostContext context(two_threads);
    constexpr std::int64_t outputs = 21;
    for (auto const& stored : all_formats) {
        std::vector<std::byte> const data(stored.data * outputs);
        std::vector<std::byte> const scales(stored.scales * outputs);
        {
            auto const held = Host::hold_weight(context, {stored.format, outputs, 256, data, scales, 64});
            REQUIRE_MESSAGE(held, name_of(stored.format));
            CHECK(held->format() == stored.format);
            CHECK(held->outputs() == outputs);
            CHECK(held->inputs() == 256);
            CHECK(held->bytes() == *packed_weight_bytes(stored.format, outputs, 256, 64));
            CHECK(context.memory().current() == held->bytes());
        }
        CHECK(context.memory().current() == Bytes{0});
    }
}

TEST_CASE("hold_weight: weights of moderate size lie one after another, are counted one by one and end in any order") {
    HostContext context(two_threads);
    std::vector<std::byte> const data(std::size_t{1} << 18U, std::byte{0x3C});
    WeightSource const source{WeightFormat::bf16, 512, 256, data, {}, 0};
    auto const bytes = *packed_weight_bytes(source.format, source.outputs, source.inputs, 0);
    std::vector<HostWeight> held;
    for (int i = 0; i < 3; ++i) held.push_back(*Host::hold_weight(context, source));
    CHECK(held[0].packed().data + bytes.count() == held[1].packed().data);
    CHECK(held[1].packed().data + bytes.count() == held[2].packed().data);
    CHECK(context.memory().current() == Bytes{3 * bytes.count()});
    held.erase(held.begin());
    CHECK(context.memory().current() == Bytes{2 * bytes.count()});
    CHECK(held[1].bytes() == bytes);
    CHECK(held[1].packed().data[bytes.count() - 1] == std::byte{0x3C});
    held.clear();
    CHECK(context.memory().current() == Bytes{0});
}

TEST_CASE("WeightChunks: a weight that a chunk has no room for begins another, and the first stays while it is used") {
    detail::WeightChunks chunks;
    std::vector<std::shared_ptr<std::byte>> pieces;
    constexpr std::int64_t bytes = (1 << 23) - 1;
    for (int i = 0; i < 9; ++i) {
        pieces.push_back(chunks.allocate(bytes));
        REQUIRE(pieces.back() != nullptr);
        CHECK(reinterpret_cast<std::uintptr_t>(pieces.back().get()) % 64 == 0);
        pieces.back().get()[0] = pieces.back().get()[bytes - 1] = std::byte(i);
    }
    for (int i = 0; i < 9; ++i) {
        auto const* const piece = pieces[static_cast<std::size_t>(i)].get();
        CHECK(piece[0] == std::byte(i));
        CHECK(piece[bytes - 1] == std::byte(i));
    }
}

TEST_CASE("hold_weight refuses data or scales of another size than the extents ask for, for every format") {
    HostContext context(two_threads);
    for (auto const& stored : all_formats) {
        std::vector<std::byte> const data(stored.data * 3 + 1);
        std::vector<std::byte> const scales(stored.scales * 3 + 1);
        auto const right_data = std::span(data).first(stored.data * 3);
        auto const right_scales = std::span(scales).first(stored.scales * 3);
        REQUIRE(Host::hold_weight(context, {stored.format, 3, 256, right_data, right_scales, 64}));
        for (auto const& source : {WeightSource{stored.format, 3, 256, data, right_scales, 64},
                                   WeightSource{stored.format, 3, 256, right_data, scales, 64},
                                   WeightSource{stored.format, 2, 256, right_data, right_scales, 64}}) {
            auto const held = Host::hold_weight(context, source);
            REQUIRE_FALSE(held);
            CHECK(held.error().code() == ErrorCode::shape_mismatch);
            CHECK(held.error().subject() == "weight");
            CHECK(held.error().place() == name_of(stored.format));
        }
    }
    std::vector<std::byte> const data(39);
    auto const held = Host::hold_weight(context, {WeightFormat::f32, 2, 5, data, {}, 0});
    CHECK(held.error().message() ==
          "weight: fp32: its data are not as many bytes as its extents ask for (got 39, expected 40)");
}

TEST_CASE("hold_weight refuses negative extents, cut blocks, groups of nothing and sizes beyond 63 bits") {
    HostContext context(two_threads);
    auto const code = [&](WeightFormat format, std::int64_t outputs, std::int64_t inputs, std::int64_t group) {
        auto const held = Host::hold_weight(context, {format, outputs, inputs, {}, {}, group});
        return held ? ErrorCode{} : held.error().code();
    };
    CHECK(code(WeightFormat::f32, -1, 4, 0) == ErrorCode::invalid_argument);
    CHECK(code(WeightFormat::f32, 4, -1, 0) == ErrorCode::invalid_argument);
    CHECK(code(WeightFormat::int4, 4, 4, 0) == ErrorCode::invalid_argument);
    CHECK(code(WeightFormat::q4_k, 4, 128, 0) == ErrorCode::shape_mismatch);
    CHECK(code(WeightFormat::nf4, 4, 32, 0) == ErrorCode::shape_mismatch);
    CHECK(code(WeightFormat::mxfp4, 4, 33, 0) == ErrorCode::shape_mismatch);
    CHECK(code(WeightFormat::f32, std::int64_t{1} << 62U, 4, 0) == ErrorCode::size_overflow);
    CHECK(code(WeightFormat::f32, 4, std::int64_t{1} << 62U, 0) == ErrorCode::size_overflow);
    CHECK(context.memory().peak() == Bytes{0});
}

TEST_CASE("hold_weight: outputs of no inputs take nothing, however many") {
    HostContext context(two_threads);
    auto const held = Host::hold_weight(context, {WeightFormat::f32, std::int64_t{1} << 62U, 0, {}, {}, 0});
    REQUIRE(held);
    CHECK(held->outputs() == std::int64_t{1} << 62U);
    CHECK(held->bytes() == Bytes{0});
}
