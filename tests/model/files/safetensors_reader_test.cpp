// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/files/safetensors_reader.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <ctime>
#include <string>
#include <string_view>

namespace {

using shardwise::ErrorCode;

/// A tensor's entry as the format writes it.
std::string entry(std::string_view name, std::string_view dtype, std::string_view shape, std::string_view offsets) {
    return "\"" + std::string(name) + "\":{\"dtype\":\"" + std::string(dtype) + "\",\"shape\":[" + std::string(shape) +
           "],\"data_offsets\":[" + std::string(offsets) + "]}";
}

auto parse(std::string_view json, std::int64_t data_size = 0) {
    return shardwise::parse_safetensors_header(json, data_size, "m.safetensors");
}
void refuse(std::string_view json, std::int64_t data_size = 0, std::string_view place = {},
            ErrorCode code = ErrorCode::malformed_file) {
    auto const header = parse(json, data_size);
    REQUIRE_FALSE(header.has_value());
    CHECK(header.error().code() == code);
    CHECK(header.error().subject() == "m.safetensors");
    CHECK(header.error().place() == place);
}
auto length_of(std::uint64_t length, std::uint64_t file_size) {
    std::string first(8, '\0');
    for (std::size_t i = 0; i < 8; ++i) first[i] = static_cast<char>(static_cast<unsigned char>(length >> (8 * i)));
    return shardwise::safetensors_header_length(std::string_view{first}.substr(0, file_size), file_size,
                                                "m.safetensors");
}

}  // namespace

TEST_CASE("a header gives tensors in the order of their data") {
    auto const header = parse("{\"__metadata__\":{\"format\":\"pt\"}," + entry("b.weight", "BF16", "2,3", "8,20") +
                                  "," + entry("a", "F32", "2", "0,8") + "}",
                              20);
    REQUIRE(header.has_value());
    REQUIRE(header->size() == 2);
    CHECK((*header)[0].name == "a");
    CHECK((*header)[1].name == "b.weight");
    CHECK((*header)[1].dtype == shardwise::Dtype::bf16);
    CHECK((*header)[1].shape == shardwise::Shape{2, 3});
    CHECK((*header)[1].bytes.count() == 12);
    CHECK((*header)[1].offset == 8);
    CHECK(header->data_size().count() == 20);
}

TEST_CASE("every dtype of safetensors is read, others are unknown") {
    for (auto const* name :
         {"BOOL", "U8",  "I8",  "F8_E5M2", "F8_E4M3", "F8_E8M0", "I16", "U16", "F16",     "BF16",
          "I32",  "U32", "F32", "C64",     "F64",     "I64",     "U64", "F4",  "F6_E2M3", "F6_E3M2"}) {
        auto const dtype = *shardwise::parse_dtype(name);
        auto const bytes = std::to_string(shardwise::bits(dtype) * 4 / 8);
        CHECK_MESSAGE(parse("{" + entry("t", name, "4", "0," + bytes) + "}", std::stoll(bytes)).has_value(), name);
    }
    for (auto const* name : {"INT4", "I4", "C128", "f32", "", "float32"}) {
        refuse("{" + entry("t", name, "0", "0,0") + "}", 0, "t");
    }
}

TEST_CASE("rows 1 to 6: the header's length") {
    CHECK_FALSE(length_of(0, 0).has_value());
    CHECK_FALSE(length_of(2, 7).has_value());
    CHECK_FALSE(length_of(0, 100).has_value());
    CHECK_FALSE(length_of(~std::uint64_t{0}, 100).has_value());
    CHECK_FALSE(length_of(100'000'001, 200'000'000).has_value());
    CHECK_FALSE(length_of(93, 100).has_value());
    CHECK(length_of(92, 100).has_value());
    CHECK(*length_of(100'000'000, 200'000'000) == 100'000'000);
    CHECK(length_of(93, 100).error().place() == "header length");
}

TEST_CASE("rows 7 to 9: text that is no JSON object, white space around one") {
    refuse("{\"\xff\":1}");
    refuse("{");
    refuse("[]");
    refuse("7");
    refuse("");
    refuse("{} {}");
    CHECK(parse(" \n{}  ").has_value());
}

TEST_CASE("rows 10 to 12: duplicate keys and metadata") {
    auto const tensor = entry("t", "U8", "0", "0,0");
    refuse("{" + tensor + "," + tensor + "}", 0, "t");
    refuse("{\"__metadata__\":{},\"__metadata__\":{}}", 0, "__metadata__");
    for (auto const* value : {"1", "null", "{}", "[]", "true", "0.5"}) {
        refuse("{\"__metadata__\":{\"a\":" + std::string(value) + "}}", 0, "__metadata__");
    }
    refuse("{\"__metadata__\":[]}", 0, "__metadata__");
    CHECK(parse("{\"__metadata__\":{\"a\":\"b\"}," + tensor + "}").has_value());
    CHECK(parse("{" + tensor + ",\"__metadata__\":{}}").has_value());
    // A thumbnail or a log beyond what is read of any other string; a key or a dtype is no such thing.
    std::string const large(shardwise::max_json_token + 9, 'x');
    CHECK(parse("{\"__metadata__\":{\"a\":\"" + large + "\",\"b\":\"" + large + "\"}," + tensor + "}").has_value());
    CHECK(parse("{\"__metadata__\":{\"a\":\"b\"},\"" + large + "\":1}").error().code() == ErrorCode::capacity_exceeded);
}

TEST_CASE("rows 13 to 16: overlaps, holes, bytes too many or too few") {
    refuse("{" + entry("a", "U8", "4", "0,4") + "," + entry("b", "U8", "4", "3,7") + "}", 7, "b");
    refuse("{" + entry("a", "U8", "4", "0,4") + "," + entry("b", "U8", "4", "5,9") + "}", 9, "b");
    refuse("{" + entry("a", "U8", "4", "1,5") + "}", 5, "a");
    refuse("{" + entry("a", "U8", "4", "0,4") + "}", 6);
    refuse("{}", 1);
    refuse("{" + entry("a", "U8", "4", "0,4") + "}", 2, "a");
}

TEST_CASE("rows 17 and 18: offsets that run backwards, are negative, fractional or missing") {
    refuse("{" + entry("a", "U8", "0", "4,0") + "}", 4, "a");
    CHECK(parse("{" + entry("a", "U8", "0", "4,0") + "}", 4).error().reason() == "its data end before they begin");
    for (auto const* offsets :
         {"-4,0", "0,4.0", "0.5,4", "0,1e1", "0", "0,2,4", "", "\"0\",4", "0,18446744073709551615"}) {
        refuse("{" + entry("a", "U8", "4", offsets) + "}", 4, "a");
    }
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[4]}}", 4, "a");
    refuse("{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,4]}}", 4, "a");
    refuse("{\"a\":{\"shape\":[4],\"data_offsets\":[0,4]}}", 4, "a");
    refuse("{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4, "a");
    refuse("{\"a\":null}", 4, "a");
}

TEST_CASE("rows 19 to 21: shapes whose sizes overflow") {
    auto const overflow = ErrorCode::size_overflow;
    refuse("{" + entry("a", "U8", "9223372036854775807,3", "0,4") + "}", 4, "a", overflow);
    refuse("{" + entry("a", "U8", "4194305,4194305,211106198978564", "0,4") + "}", 4, "a", overflow);
    refuse("{" + entry("a", "F64", "2305843009213693952", "0,0") + "}", 0, "a", overflow);
    refuse("{" + entry("a", "U8", "-1", "0,0") + "}", 0, "a");
}

TEST_CASE("rows 22 and 24: data that disagree with dtype and shape") {
    refuse("{" + entry("a", "F32", "2", "0,4") + "}", 4, "a");
    refuse("{" + entry("a", "F4", "3", "0,2") + "}", 2, "a");
    refuse("{" + entry("a", "F4", "3", "0,1") + "}", 1, "a");
    CHECK(parse("{" + entry("a", "F4", "4", "0,2") + "}", 2).has_value());
}

TEST_CASE("rows 25 to 27: empty tensors and scalars") {
    auto const filled = entry("a", "U8", "4", "0,4");
    CHECK(parse("{" + entry("e", "F32", "2,0", "0,0") + "}").has_value());
    CHECK(parse("{" + filled + "," + entry("e", "F32", "2,0", "4,4") + "}", 4).has_value());
    CHECK(parse("{" + filled + "," + entry("e", "F32", "0", "0,0") + "}", 4).has_value());
    refuse("{" + filled + "," + entry("e", "F32", "0", "2,2") + "}", 4, "e");
    auto const scalar = parse("{" + entry("s", "F32", "", "0,4") + "}", 4);
    REQUIRE(scalar.has_value());
    CHECK((*scalar)[0].shape.rank() == 0);
}

TEST_CASE("row 28: a hundred thousand tensors are read in linear time") {
    std::string json = "{";
    constexpr int count = 100'000;
    for (int i = 0; i < count; ++i) {
        if (i > 0) json += ',';
        json += entry(
            "model.layers." + std::to_string(i / 800) + ".mlp.experts." + std::to_string(i % 800) + ".up_proj.weight",
            "BF16", "2,2", std::to_string(i * 8) + "," + std::to_string(i * 8 + 8));
    }
    json += '}';
    auto const start = std::clock();
    auto const header = parse(json, count * 8);
    auto const seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    REQUIRE(header.has_value());
    CHECK(header->size() == count);
    // Sanitized and unoptimised builds take a second, quadratic time would take hours.
    CHECK(seconds < 10.0);
}

TEST_CASE("row 29: deep nesting is refused where it begins") {
    refuse("{\"a\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}", 0, "a");
    refuse(std::string(100'000, '['));
    refuse("{\"a\":{\"shape\":" + std::string(100'000, '[') + "}}", 0, "a");
}

TEST_CASE("rows 30 and 31: strange names are names, lone surrogates are not text") {
    auto const header = parse("{" + entry("../\\u0000\\u001b[31m/x", "U8", "", "0,1") + "}", 1);
    REQUIRE(header.has_value());
    CHECK((*header)[0].name == std::string_view{"../\0\x1b[31m/x", 11});
    refuse("{\"\\ud800\":1}");
    refuse("{\"\\udc00\\ud800\":1}");
}
