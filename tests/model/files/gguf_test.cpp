// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/files/gguf.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <ctime>
#include <string>
#include <string_view>

namespace {

using shardwise::ErrorCode;

/// A GGUF file written by hand, number by number.
///
/// Source  ggml docs/gguf.md
class Bytes {
public:
    template <class Number>
    Bytes& put(Number number) {
        char raw[sizeof(Number)];
        std::memcpy(raw, &number, sizeof(Number));
        text.append(raw, sizeof(Number));
        return *this;
    }
    Bytes& header(std::int64_t tensors, std::int64_t keys, std::uint32_t version = 3) {
        text += "GGUF";
        return put(version).put(tensors).put(keys);
    }
    Bytes& name(std::string_view value) {
        put(static_cast<std::uint64_t>(value.size()));
        text += value;
        return *this;
    }
    Bytes& u32(std::string_view key, std::uint32_t value) { return name(key).put(std::uint32_t{4}).put(value); }
    Bytes& tensor(std::string_view title, std::initializer_list<std::int64_t> extents, std::uint32_t type,
                  std::int64_t offset) {
        name(title).put(static_cast<std::uint32_t>(extents.size()));
        for (auto const extent : extents) put(extent);
        return put(type).put(offset);
    }
    Bytes& data(std::size_t size, std::size_t alignment = 32) {
        text.resize((text.size() + alignment - 1) / alignment * alignment);
        text.resize(text.size() + size);
        return *this;
    }

    std::string text;
};

auto read(Bytes const& bytes) {
    return shardwise::parse_gguf(bytes.text, "m.gguf");
}

void refuse(Bytes const& bytes, ErrorCode code, std::string_view place) {
    auto const header = read(bytes);
    REQUIRE_FALSE(header.has_value());
    CHECK(header.error().code() == code);
    CHECK(header.error().subject() == "m.gguf");
    CHECK(header.error().place() == place);
}
void refuse(Bytes const& bytes, std::string_view place) {
    refuse(bytes, ErrorCode::malformed_file, place);
}

constexpr std::uint32_t f32 = 0;
constexpr std::uint32_t q4_1 = 3;

Bytes small_file() {
    Bytes bytes;
    bytes.header(2, 3).name("general.architecture").put(std::uint32_t{8}).name("llama");
    bytes.u32("llama.block_count", 2);
    bytes.name("tokenizer.ggml.tokens")
        .put(std::uint32_t{9})
        .put(std::uint32_t{8})
        .put(std::uint64_t{2})
        .name("a")
        .name("");
    bytes.tensor("output_norm.weight", {64}, f32, 0).tensor("token_embd.weight", {64, 3}, q4_1, 256);
    // The last tensor takes 120 bytes and 8 of padding.
    return bytes.data(256 + 128);
}

}  // namespace

TEST_CASE("a GGUF header gives metadata and tensors in torch's order of extents") {
    auto const bytes = small_file();
    auto const header = read(bytes);
    REQUIRE(header.has_value());
    CHECK(header->version == 3);
    CHECK(header->metadata.size() == 3);
    CHECK(header->metadata.text("general.architecture") == "llama");
    CHECK(header->metadata.integer("llama.block_count") == 2);
    auto const tokens = header->metadata.find("tokenizer.ggml.tokens");
    REQUIRE(tokens.has_value());
    CHECK(tokens->count == 2);
    CHECK(bytes.text.substr(tokens->offset + 8, 1) == "a");
    CHECK_FALSE(header->metadata.find("llama.vocab_size").has_value());
    REQUIRE(header->tensors.size() == 2);
    CHECK(header->tensors[1].name == "token_embd.weight");
    CHECK(header->tensors[1].shape == shardwise::Shape{3, 64});
    CHECK(header->tensors[1].type == shardwise::GgmlType::q4_1);
    CHECK(header->tensors[1].bytes.count() == 3 * 2 * 20);  // two blocks of 32 in 20 bytes per row
    CHECK(header->tensors[1].offset == header->tensors[0].offset + 256);
    CHECK(header->tensors[1].offset + 128 == static_cast<std::int64_t>(bytes.text.size()));
}

TEST_CASE("every scalar type is read, numbers beyond 63 bits only as reals") {
    Bytes bytes;
    bytes.header(0, 8, 2);
    bytes.name("u8").put(std::uint32_t{0}).put(std::uint8_t{255}).name("i8").put(std::uint32_t{1}).put(std::int8_t{-1});
    bytes.name("u16")
        .put(std::uint32_t{2})
        .put(std::uint16_t{65535})
        .name("i32")
        .put(std::uint32_t{5})
        .put(std::int32_t{-7});
    bytes.name("f32").put(std::uint32_t{6}).put(0.5F).name("bool").put(std::uint32_t{7}).put(std::uint8_t{1});
    bytes.name("u64").put(std::uint32_t{10}).put(~std::uint64_t{0}).name("f64").put(std::uint32_t{12}).put(0.25);
    auto const header = read(bytes);
    REQUIRE(header.has_value());
    auto const& metadata = header->metadata;
    CHECK(metadata.integer("u8") == 255);
    CHECK(metadata.integer("i8") == -1);
    CHECK(metadata.integer("u16") == 65535);
    CHECK(metadata.integer("i32") == -7);
    CHECK(metadata.find("f32")->real == 0.5);
    CHECK_FALSE(metadata.integer("f32").has_value());
    CHECK(metadata.integer("bool") == 1);
    CHECK_FALSE(metadata.integer("u64").has_value());
    CHECK(metadata.find("u64")->real > 1.8e19);
    CHECK(metadata.find("f64")->real == 0.25);
}

TEST_CASE("an array of numbers is read on request") {
    Bytes bytes;
    bytes.header(0, 1).name("heads").put(std::uint32_t{9}).put(std::uint32_t{5}).put(std::uint64_t{3});
    bytes.put(std::int32_t{8}).put(std::int32_t{4}).put(std::int32_t{2});
    auto const header = read(bytes);
    REQUIRE(header.has_value());
    CHECK(header->metadata.integers(*header->metadata.find("heads"), 100) == std::vector<std::int64_t>{8, 4, 2});
    CHECK(header->metadata.integers(*header->metadata.find("heads"), 2).size() == 2);
}

TEST_CASE("rows 32 to 34: magic and version") {
    Bytes wrong;
    wrong.text = "GGML";
    refuse(wrong, "magic");
    for (std::uint32_t const version : {0U, 1U, 4U, 0x7FFFFFFFU}) {
        refuse(Bytes{}.header(0, 0, version), ErrorCode::unsupported, "version");
    }
    auto const swapped = read(Bytes{}.header(0, 0, 0x03000000U));
    REQUIRE_FALSE(swapped.has_value());
    CHECK(swapped.error().code() == ErrorCode::unsupported);
    CHECK(swapped.error().message().find("big-endian") != std::string::npos);
    CHECK(read(Bytes{}.header(0, 0, 2)).has_value());
    CHECK(read(Bytes{}.header(0, 0, 3)).has_value());
}

TEST_CASE("rows 35 and 36: negative counts") {
    refuse(Bytes{}.header(0, -1), "metadata_kv_count");
    refuse(Bytes{}.header(-1, 0), "tensor_count");
}

TEST_CASE("rows 37 to 39: keys") {
    refuse(Bytes{}.header(0, 1).put(~std::uint64_t{0}).data(64), "metadata");
    refuse(Bytes{}.header(0, 1).put(std::uint64_t{70000}).data(80000), "metadata");
    refuse(Bytes{}.header(0, 1).u32("", 1), "metadata");
    refuse(Bytes{}.header(0, 2).u32("a", 1).u32("a", 1), "a");
}

TEST_CASE("rows 40 to 42: value types and arrays") {
    refuse(Bytes{}.header(0, 1).name("k").put(std::uint32_t{13}).put(std::uint64_t{0}), "k");
    refuse(Bytes{}.header(0, 1).name("k").put(std::uint32_t{9}).put(std::uint32_t{13}).put(std::uint64_t{0}), "k");
    refuse(Bytes{}.header(0, 1).name("k").put(std::uint32_t{9}).put(std::uint32_t{9}).put(std::uint64_t{0}), "k");
    for (std::uint64_t const count : {std::uint64_t{5}, ~std::uint64_t{0}, std::uint64_t{1} << 62U}) {
        for (std::uint32_t const element : {4U, 8U}) {
            refuse(Bytes{}.header(0, 1).name("k").put(std::uint32_t{9}).put(element).put(count).put(std::uint32_t{1}),
                   "k");
        }
    }
    refuse(Bytes{}.header(0, 1).name("k").put(std::uint32_t{8}).put(~std::uint64_t{0}), "k");
}

TEST_CASE("rows 43 to 45: alignment") {
    for (std::uint32_t const alignment : {0U, 3U, 13U}) {
        refuse(Bytes{}.header(1, 1).u32("general.alignment", alignment).tensor("t", {4}, f32, 0).data(32),
               "general.alignment");
    }
    refuse(Bytes{}.header(0, 1).name("general.alignment").put(std::uint32_t{10}).put(std::uint64_t{32}),
           "general.alignment");
    refuse(Bytes{}.header(0, 1).u32("general.alignment", 0x80000000U), "general.alignment");
    refuse(Bytes{}.header(1, 1).u32("general.alignment", 0x80000000U).tensor("t", {4}, f32, 0).data(32),
           "general.alignment");
    auto const wide =
        Bytes{}.header(2, 1).u32("general.alignment", 64).tensor("t", {4}, f32, 0).tensor("u", {4}, f32, 64);
    CHECK(read(Bytes{wide}.data(128, 64)).has_value());
}

TEST_CASE("rows 46 and 47: tensor names") {
    CHECK(read(Bytes{}.header(1, 0).tensor(std::string(63, 'n'), {8}, f32, 0).data(32)).has_value());
    refuse(Bytes{}.header(1, 0).tensor(std::string(64, 'n'), {8}, f32, 0).data(32), "tensors");
    refuse(Bytes{}.header(2, 0).tensor("t", {8}, f32, 0).tensor("t", {8}, f32, 32).data(64), "t");
}

TEST_CASE("rows 48 to 54: dimensions and sizes") {
    auto const one = [](std::initializer_list<std::int64_t> extents, std::uint32_t type = f32) {
        return Bytes{}.header(1, 0).tensor("t", extents, type, 0).data(64);
    };
    constexpr auto most = std::int64_t{0x7FFFFFFFFFFFFFFF};
    refuse(one({1, 1, 1, 1, 1}), "t");
    refuse(one({-1}), "t");
    CHECK(read(one({0, 4})).has_value());
    CHECK(read(one({4, 0})).has_value());
    refuse(one({most, 2, 1, 1}), ErrorCode::size_overflow, "t");
    refuse(one({most / 2 + 1}), ErrorCode::size_overflow, "t");  // SIZE_MAX / 4 elements of four bytes
    refuse(one({31}, q4_1), "t");
    constexpr std::int64_t huge = 0x7FFFFFFFFFFFFFC0;
    constexpr std::uint32_t i8 = 24;
    refuse(Bytes{}.header(2, 0).tensor("a", {huge}, i8, 0).tensor("b", {huge}, i8, huge).data(64), "a");
}

TEST_CASE("row 55: types that GGUF gave up or never had") {
    for (std::uint32_t const type : {4U, 5U, 31U, 32U, 33U, 36U}) {
        refuse(Bytes{}.header(1, 0).tensor("t", {256}, type, 0).data(64), ErrorCode::unsupported, "t");
    }
    for (std::uint32_t const type : {1000U, 0xFFFFFFFFU}) {
        refuse(Bytes{}.header(1, 0).tensor("t", {256}, type, 0).data(64), "t");
    }
}

TEST_CASE("rows 56 and 57: offsets") {
    refuse(Bytes{}.header(1, 0).tensor("t", {8}, f32, 16).data(64), "t");
    refuse(Bytes{}.header(1, 0).tensor("t", {8}, f32, -32).data(64), "t");
    refuse(Bytes{}.header(2, 0).tensor("t", {8}, f32, 32).tensor("u", {8}, f32, 0).data(64), "t");
    refuse(Bytes{}.header(1, 0).tensor("t", {16}, f32, 0).data(63), "t");
}

TEST_CASE("row 58: a file cut at any byte is refused") {
    auto bytes = small_file();
    REQUIRE(read(bytes).has_value());
    while (!bytes.text.empty()) {
        bytes.text.pop_back();
        CHECK_FALSE(read(bytes).has_value());
    }
}

TEST_CASE("row 59: a million key-values are read in linear time") {
    Bytes bytes;
    constexpr std::uint32_t count = 1'000'000;
    bytes.header(0, count);
    for (std::uint32_t i = 0; i < count; ++i) bytes.u32("key." + std::to_string(i), i);
    auto const start = std::clock();
    auto const header = read(bytes);
    auto const seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    REQUIRE(header.has_value());
    CHECK(header->metadata.integer("key.777777") == 777777);
    // Sanitized and unoptimised builds take a second, quadratic time would take hours.
    CHECK(seconds < 10.0);
}
