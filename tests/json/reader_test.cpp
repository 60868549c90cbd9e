// SPDX-License-Identifier: Apache-2.0
#include <shardwise/json/reader.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

using namespace shardwise;

namespace {

/// Writes the events down, one letter and value each.
struct Recorder {
    std::string events;
    Error error{ErrorCode::invalid_field};
    std::string_view refused_key;

    bool begin_object() { return events += "{ ", true; }
    bool end_object() { return events += "} ", true; }
    bool begin_array() { return events += "[ ", true; }
    bool end_array() { return events += "] ", true; }
    bool key(std::string_view text) {
        events += "k:" + std::string(text) + " ";
        return refused_key.empty() || text != refused_key;
    }
    bool string(std::string_view text) { return events += "s:" + std::string(text) + " ", true; }
    bool integer(std::int64_t value) { return events += "i:" + std::to_string(value) + " ", true; }
    bool unsigned_integer(std::uint64_t value) { return events += "u:" + std::to_string(value) + " ", true; }
    bool real(double value) { return events += "r:" + std::to_string(value) + " ", true; }
    bool boolean(bool value) { return events += value ? "true " : "false ", true; }
    bool null() { return events += "null ", true; }
    [[nodiscard]] Error const& refusal() const { return error; }
};

std::string events_of(std::string_view text) {
    Recorder recorder;
    auto const read = read_json(text, recorder);
    return read ? recorder.events : "error: " + read.error().message();
}

bool is_refused(std::string_view text) {
    return events_of(text).starts_with("error");
}

/// Ignores text, and says how it was told of it.
struct IgnoredText : JsonRefusals {
    std::string events;
    std::size_t longest_told = 0;
    bool begin_object() { return true; }
    bool end_object() { return true; }
    [[nodiscard]] bool ignores_text() const { return true; }
    bool key(std::string_view text) { return events += "k:" + std::string(text.substr(0, 3)) + " ", true; }
    bool string(std::string_view text) {
        longest_told = std::max(longest_told, text.size());
        return events += "s:" + std::string(text.substr(0, 3)) + " ", true;
    }
};

/// What a handler that ignores text is told of an object with this text, and another after it.
std::string events_around(std::string const& text) {
    IgnoredText handler;
    auto const done = read_json("{\"a\": \"" + text + "\", \"b\": \"c\"}", handler);
    if (!done) return "error: " + done.error().message();
    CHECK(handler.longest_told <= max_json_token);
    return handler.events;
}

}  // namespace

TEST_CASE("read_json: tells values in the order of the text") {
    CHECK(events_of(R"( {"a": [1, -2, 2.5, "x"], "b": {"c": true, "d": null}, "e": [], "f": {}} )") ==
          "{ k:a [ i:1 i:-2 r:2.500000 s:x ] k:b { k:c true k:d null } k:e [ ] k:f { } } ");
    CHECK(events_of("\t\r\n7 ") == "i:7 ");
    CHECK(events_of("false") == "false ");
    CHECK(events_of(R"([{"a":1},[2,3],{"b":4}])") == "[ { k:a i:1 } [ i:2 i:3 ] { k:b i:4 } ] ");
    CHECK(events_of("[[[]],[]]") == "[ [ [ ] ] [ ] ] ");
}

TEST_CASE("read_json: keeps integers exact up to 64 bits and calls larger ones real") {
    CHECK(events_of("9223372036854775807") == "i:9223372036854775807 ");
    CHECK(events_of("-9223372036854775808") == "i:-9223372036854775808 ");
    CHECK(events_of("9223372036854775808") == "u:9223372036854775808 ");
    CHECK(events_of("18446744073709551615") == "u:18446744073709551615 ");
    CHECK(events_of("18446744073709551616") == "r:18446744073709551616.000000 ");
    CHECK(events_of("-9223372036854775809") == "r:-9223372036854775808.000000 ");
    CHECK(events_of("-0") == "i:0 ");
    CHECK(events_of("1e2") == "r:100.000000 ");
}

TEST_CASE("read_json: a number too small for a double is zero, one too large is refused") {
    CHECK(events_of("1e-400") == "r:0.000000 ");
    CHECK(events_of("-1e-400") == "r:-0.000000 ");
    CHECK(events_of("0." + std::string(400, '0') + "1") == "r:0.000000 ");
    CHECK(events_of("1" + std::string(400, '0') + "e-390") == "r:10000000000.000000 ");
    CHECK(events_of("1e308") != "error");
    CHECK(is_refused("1e309"));
    CHECK(is_refused("-1e99999999999999999999"));
    CHECK(is_refused("1" + std::string(400, '0')));
    CHECK(is_refused("1" + std::string(400, '0') + "e-50"));
}

TEST_CASE("read_json: refuses malformed numbers, NaN and Infinity") {
    for (auto const* text : {"01", "-", "-a", "1.", ".5", "1e", "1e+", "+1", "0x10", "1_000", "NaN", "Infinity",
                             "-Infinity", "nan", "--1", "1.e5", "1.5.2"}) {
        CAPTURE(text);
        CHECK(is_refused(text));
    }
    CHECK(events_of("[NaN]") == "error: has NaN or Infinity, which JSON does not have, at byte 1");
    CHECK(events_of("[-Infinity]") == "error: has NaN or Infinity, which JSON does not have, at byte 2");
}

TEST_CASE("read_json: refuses what RFC 8259 does not allow") {
    for (auto const* text : {"",          " ",          "{",    "[",    "{\"a\"", "{\"a\":",   "{\"a\":1",
                             "{\"a\":1,", "{\"a\":1,}", "[1,]", "[,1]", "[1 2]",  "{a:1}",     "{'a':1}",
                             "{1:2}",     "tru",        "True", "nul",  "1 2",    "{} {}",     "[1]x",
                             "// c\n1",   "]",          "}",    "[}",   "{]",     "{\"a\" 1}", "{\"a\":}",
                             "{,}",       "\"",         "\"a",  "\"\\", "\"\\u",  "\"\\u12",   "\xEF\xBB\xBF{}"}) {
        CAPTURE(text);
        CHECK(is_refused(text));
    }
}

TEST_CASE("read_json: decodes escapes and surrogate pairs") {
    CHECK(events_of(R"("\"\\\/\b\f\n\r\t")") == "s:\"\\/\b\f\n\r\t ");
    CHECK(events_of(R"("a\u00e9\u20AC\uD83D\ude00z")") == "s:a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80z ");
    CHECK(events_of("\"plain text longer than eight bytes \\n and on\"") ==
          "s:plain text longer than eight bytes \n and on ");
    CHECK(events_of("\"\\u0000\"") == std::string("s:\0 ", 4));
    CHECK(events_of(R"({"\u006bey":"v"})") == "{ k:key s:v } ");
}

TEST_CASE("read_json: refuses lone surrogates, unknown escapes and control characters") {
    for (auto const* text : {R"("\ud800")", R"("\udc00")", R"("\ud800x")", R"("\ud800\n")", R"("\ud800\u0041")",
                             R"("\ud800\ud800")", R"("\x41")", R"("\u00g0")", "\"\n\"", "\"12345678\x01\"",
                             "\"abc\x01"
                             "defghijklmn\"",
                             "\"\x1f\""}) {
        CAPTURE(text);
        CHECK(is_refused(text));
    }
    CHECK(is_refused(std::string_view("\"\0\"", 3)));
}

TEST_CASE("read_json: text must be UTF-8 without overlong forms and surrogates") {
    CHECK(events_of("\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\xF4\x8F\xBF\xBF\"") ==
          "s:\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\xF4\x8F\xBF\xBF ");
    for (auto const* text :
         {"\"\x80\"", "\"\xC0\x80\"", "\"\xC1\xBF\"", "\"\xE0\x9F\xBF\"", "\"\xED\xA0\x80\"", "\"\xF0\x8F\xBF\xBF\"",
          "\"\xF4\x90\x80\x80\"", "\"\xF5\x80\x80\x80\"", "\"\xC3\"", "\"\xE2\x82\"", "\"\xFF\"", "\"1234567\xC3\""}) {
        CAPTURE(text);
        CHECK(is_refused(text));
    }
}

TEST_CASE("read_json: nesting is limited and never recursive") {
    CHECK_FALSE(is_refused(std::string(64, '[') + std::string(64, ']')));
    CHECK(is_refused(std::string(65, '[') + std::string(65, ']')));
    CHECK(events_of(std::string(100'000, '[')) == "error: is nested too deep at byte 64");
    std::string objects;
    for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
    CHECK(events_of(objects).starts_with("error: is nested too deep at byte 320"));
    Recorder recorder;
    CHECK(read_json(std::string(1024, '[') + std::string(1024, ']'), recorder, 1'000'000).has_value());
    CHECK_FALSE(read_json(std::string(1025, '[') + std::string(1025, ']'), recorder, 1'000'000).has_value());
}

TEST_CASE("read_json: an error names the byte") {
    CHECK(events_of("{\"a\": 1 \"b\": 2}") ==
          "error: is not JSON (unexpected string literal; expected '}') at byte 10");
    CHECK(events_of("{\"a\": 01}") == "error: is not JSON (unexpected number literal; expected '}') at byte 7");
    CHECK(events_of("{} x") == "error: is not JSON (invalid literal) at byte 3");
    CHECK(events_of("[\"a\xFF\"]") == "error: is not JSON (invalid string: ill-formed UTF-8 byte) at byte 3");
    CHECK(events_of("[1, 1e309]") == "error: has a number too large for a double at byte 8");
    CHECK(events_of("{\"a\": ") == "error: ends early at byte 6");
    CHECK(events_of("") == "error: ends early at byte 0");
}

TEST_CASE("read_json: a NUL is no end of the text, a byte order mark no beginning") {
    CHECK(events_of(std::string_view("1\0", 2)) == "error: has a NUL at byte 1");
    CHECK(events_of(std::string_view("{} \0x", 5)) == "error: has a NUL at byte 3");
    CHECK(events_of(std::string_view("[1,\0 2]", 7)) == "error: has a NUL at byte 3");
    CHECK(events_of(std::string_view("\0", 1)) == "error: has a NUL at byte 0");
    CHECK(events_of("\xEF\xBB\xBF{}") == "error: has a byte order mark at byte 0");
}

TEST_CASE("read_json: bounds a string, and text without strings and numbers, by max_json_token") {
    CHECK_FALSE(is_refused('"' + std::string(max_json_token - 2, 'a') + '"'));
    std::string const spaces(max_json_token - 8, ' ');
    CHECK_FALSE(is_refused("[1," + spaces + "\"a\"," + spaces + "2]" + spaces));
    for (auto const& text : {'"' + std::string(max_json_token, 'a') + '"', std::string(max_json_token, '\n') + "1",
                             "1" + std::string(max_json_token + 8, ' '), std::string(max_json_token + 1, '1')}) {
        Recorder recorder;
        auto const read = read_json(text, recorder);
        REQUIRE_FALSE(read);
        CHECK(read.error().code() == ErrorCode::capacity_exceeded);
        CHECK(read.error().place().empty());
    }
}

TEST_CASE("read_json: a string that is too long is named by its key") {
    std::string const filling(max_json_token, 'x');
    for (auto const& [text, key] :
         {std::pair{"{\"a\": 1, \"chat\" : \"", "chat"}, std::pair{"{\"a\\\"b\\\\\":\"", "a\\\"b\\\\"},
          std::pair{"{\"list\": [\"x\", \"", ""}, std::pair{"{\"list\": [\"", "list"}, std::pair{"[1, \"", ""}}) {
        Recorder recorder;
        auto const read = read_json(text + filling + "\"]}", recorder);
        REQUIRE_FALSE(read);
        CHECK(read.error().code() == ErrorCode::capacity_exceeded);
        CHECK(read.error().place() == key);
    }
}

TEST_CASE("read_json: a text that the handler ignores may be of any length, and is checked as any other") {
    std::string const filling(max_json_token + (max_json_token >> 4U), 'x');
    CHECK(events_around(filling).ends_with(" k:b s:c "));
    auto const byte = std::to_string(7 + filling.size());
    CHECK(events_around(filling + "\x01").ends_with(" at byte " + byte));
    CHECK(events_around(filling + "\xFF").ends_with(" at byte " + byte));
    CHECK(events_around(filling + "\\ud83dx").starts_with("error: is not JSON"));
    CHECK(events_around(filling + "\\ude00").starts_with("error: is not JSON"));
    CHECK(events_around(filling + "\\q").starts_with("error: is not JSON"));
    IgnoredText handler;
    auto const cut = read_json("{\"a\": \"" + filling, handler);
    REQUIRE_FALSE(cut);
    CHECK(cut.error().reason() == "ends early at byte " + byte);
}

TEST_CASE("read_json: whatever stands at the limit of a token is read whole" * doctest::test_suite("large")) {
    // A character, an escape, a pair of surrogates, a character of four bytes.
    for (std::string const piece : {"x", "\\n", "\\u00e9", "\\ud83d\\ude00", "\xF0\x9F\x98\x80", "\\\""}) {
        std::string value;
        while (value.size() < max_json_token + (max_json_token >> 4U)) value += piece;
        for (int i = 0; i < 3; ++i) CHECK(events_around(value.insert(0, "y")).ends_with(" k:b s:c "));
    }
}

TEST_CASE("read_json: a handler stops the reading with its own error") {
    Recorder recorder;
    recorder.refused_key = "b";
    recorder.error.at("b").because("is not wanted");
    auto const read = read_json(R"({"a": 1, "b": 2, "c": 3})", recorder);
    REQUIRE_FALSE(read);
    CHECK(read.error().code() == ErrorCode::invalid_field);
    CHECK(read.error().message() == "b: is not wanted");
    CHECK(recorder.events == "{ k:a i:1 k:b ");
}

TEST_CASE("JsonRefusals: refuses every value that a handler does not expect") {
    struct OnlyStrings : JsonRefusals {
        bool begin_object() { return true; }
        bool string(std::string_view) { return true; }
    };
    for (auto const* text : {"[]", "1", "1.5", "18446744073709551615", "true", "null", R"({"a": {}, "b": 1})"}) {
        CAPTURE(text);
        OnlyStrings handler;
        CHECK_FALSE(read_json(text, handler).has_value());
    }
    OnlyStrings handler;
    CHECK(read_json(R"({"a": "b"})", handler).has_value());
}
