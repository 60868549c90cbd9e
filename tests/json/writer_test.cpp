// SPDX-License-Identifier: Apache-2.0
#include <shardwise/json/value.hpp>
#include <shardwise/json/writer.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <string>

using namespace shardwise;

namespace {

template <class T>
std::string written(T const& value) {
    JsonWriter json;
    json.value(value);
    return json.text();
}

}  // namespace

TEST_CASE("JsonWriter: writes members in the order of the calls, on one line") {
    JsonWriter json;
    json.begin_object().member("schema", "shardwise.map/1").member("fits", true);
    json.key("device_map").begin_object().member("model.embed", 0).member("lm_head", "cpu").end_object();
    json.key("fix").begin_array().end_array();
    json.key("devices").begin_array();
    json.begin_object().member("used", Bytes{42}).end_object();
    json.value(nullptr).value(std::uint64_t{18446744073709551615U});
    json.end_array().end_object();
    CHECK(json.text() == R"({"schema":"shardwise.map/1","fits":true,"device_map":{"model.embed":0,"lm_head":"cpu"},)"
                         R"("fix":[],"devices":[{"used":42},null,18446744073709551615]})");
    CHECK(parse_json(json.text()).has_value());
}

TEST_CASE("JsonWriter: indents where asked") {
    JsonWriter json(2);
    json.begin_object().member("a", 1).key("b").begin_array().value(1).value(2).end_array();
    json.key("c").begin_object().end_object().end_object();
    CHECK(json.text() == "{\n  \"a\": 1,\n  \"b\": [\n    1,\n    2\n  ],\n  \"c\": {}\n}");
}

TEST_CASE("JsonWriter: numbers read back as the same number") {
    CHECK(written(0.1) == "0.1");
    CHECK(written(2.0) == "2.0");
    CHECK(written(-0.0) == "-0.0");
    CHECK(written(1e308) == "1e+308");
    CHECK(written(std::numeric_limits<double>::quiet_NaN()) == "null");
    CHECK(written(-std::numeric_limits<double>::infinity()) == "null");
    CHECK(written(std::numeric_limits<std::int64_t>::min()) == "-9223372036854775808");
    for (double const value : {1.0 / 3.0, 5e-324, 1.7976931348623157e308, 123456789.125, 1e22, 1e21}) {
        auto const text = written(value);
        CAPTURE(text);
        CHECK(parse_json(text)->root().real() == value);
        CHECK(parse_json(text)->root().kind() == JsonKind::real);
    }
}

TEST_CASE("JsonWriter: text is escaped, control characters never reach a terminal") {
    CHECK(written("a\"b\\c/\n\t") == R"("a\"b\\c/\n\t")");
    CHECK(written(std::string("nul\0x\x1b[31m\x7f", 11)) == R"("nul\u0000x\u001b[31m\u007f")");
    CHECK(written("caf\xC3\xA9 \xF0\x9F\x98\x80") == "\"caf\xC3\xA9 \xF0\x9F\x98\x80\"");
    CHECK(written("\xC2\x9B"
                  "1m") == R"("\u009b1m")");
}

TEST_CASE("JsonWriter: marks of direction are escapes of the same value, their neighbours are characters") {
    std::string all, wanted;
    for (unsigned code : {0x61CU, 0x200EU, 0x200FU, 0x202AU, 0x202EU, 0x2066U, 0x2069U}) {
        char escape[8];
        std::snprintf(escape, sizeof escape, "\\u%04x", code);
        wanted += escape;
        if (code < 0x800) {
            all += {static_cast<char>(0xC0U | code >> 6U), static_cast<char>(0x80U | (code & 63U))};
        } else {
            all += {static_cast<char>(0xE0U | code >> 12U), static_cast<char>(0x80U | (code >> 6U & 63U)),
                    static_cast<char>(0x80U | (code & 63U))};
        }
    }
    CHECK(JsonWriter().value(all).text() == '"' + wanted + '"');
    CHECK(*parse_json(JsonWriter().value(all).text())->root().string() == all);
    std::string const others = "\xd8\x9b\xe2\x80\x8d\xe2\x80\xa9\xe2\x80\xaf\xe2\x81\xa5\xe2\x81\xaa";
    CHECK(JsonWriter().value(others).text() == '"' + others + '"');
}

TEST_CASE("JsonWriter: text that is not UTF-8 becomes replacement characters") {
    CHECK(written("a\xFFz") == "\"a\xEF\xBF\xBDz\"");
    CHECK(written("\xED\xA0\x80") == "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
    CHECK(parse_json(written("long enough text \xC3"))->root().string() == "long enough text \xEF\xBF\xBD");
}
