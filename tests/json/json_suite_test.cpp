// SPDX-License-Identifier: Apache-2.0
#include <shardwise/json/value.hpp>
#include <shardwise/json/writer.hpp>

#include <doctest/doctest.h>

#include "base64.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// JSONTestSuite's texts, and ours whose keys stand twice (scripts/golden/json_suite.py).
namespace {

using namespace shardwise;
using testing::from_base64;

struct Case {
    std::string name;
    std::string text;
    /// What Python reads, as JSON; empty where it refuses the text.
    std::string python;

    [[nodiscard]] bool is_kind(std::string_view prefix) const { return name.starts_with(prefix); }
};

void for_each_case(std::function<void(Case const&)> const& look) {
    std::ifstream file(SHARDWISE_SOURCE_DIR "/tests/golden/json_suite.jsonl");
    std::string line;
    REQUIRE(std::getline(file, line));  // where they are from
    while (std::getline(file, line)) {
        auto const row = parse_json(line);
        REQUIRE(row);
        auto const string = [&](char const* key) {
            auto const found = row->root().find(key);
            return found ? std::string(*found->string()) : std::string();
        };
        Case one{string("name"), from_base64(string("text")), string("python")};
        if (auto const count = row->root().find("count")) {
            auto const part = from_base64(string("part"));
            for (std::int64_t i = 0; i < *count->integer(); ++i) one.text += part;
        }
        CAPTURE(one.name);
        look(one);
    }
}

constexpr JsonLimits lenient{.depth = 1024, .may_repeat_keys = true};

/// A value as one text, which find and the lists' order decide: of a key that stands twice, the member that counts.
void write_value(JsonValue value, JsonWriter& json) {
    switch (value.kind()) {
        case JsonKind::null: json.value(nullptr); break;
        case JsonKind::boolean: json.value(*value.boolean()); break;
        case JsonKind::integer: json.value(*value.integer()); break;
        case JsonKind::unsigned_integer:
        case JsonKind::real: json.value(*value.real()); break;
        case JsonKind::string: json.value(*value.string()); break;
        case JsonKind::array:
            json.begin_array();
            for (auto const one : value) write_value(one, json);
            json.end_array();
            break;
        case JsonKind::object: {
            json.begin_object();
            std::vector<std::string> keys;
            for (auto const one : value) keys.emplace_back(one.key());
            std::sort(keys.begin(), keys.end());
            keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
            for (auto const& key : keys) write_value(*value.find(key), json.key(key));
            json.end_object();
            break;
        }
    }
}
std::string text_of(JsonDocument const& document) {
    JsonWriter json;
    write_value(document.root(), json);
    return json.text();
}

/// What is accepted of the texts that RFC 8259 leaves open. Numbers beyond 64 bits and those that a double rounds to zero are
/// rounded, 500 nested lists are read where a reader allows that depth. Refused: numbers that no double holds, what is
/// not UTF-8 or begins with a byte order mark, and escapes of one half of a surrogate pair.
constexpr std::array<std::string_view, 6> accepted_open{"i_number_double_huge_neg_exp",
                                                        "i_number_real_underflow",
                                                        "i_number_too_big_neg_int",
                                                        "i_number_too_big_pos_int",
                                                        "i_number_very_big_negative_int",
                                                        "i_structure_500_nested_arrays"};

}  // namespace

TEST_CASE("JSONTestSuite: every text that must be read is read as Python reads it, every other is refused") {
    std::size_t right = 0, wrong = 0, open = 0;
    for_each_case([&](Case const& one) {
        auto const document = parse_json(one.text, lenient);
        if (one.is_kind("y_")) {
            ++right;
            REQUIRE_MESSAGE(document, (document ? "" : document.error().message()));
            auto const wanted = parse_json(one.python, lenient);
            REQUIRE(wanted);
            CHECK(text_of(*document) == text_of(*wanted));
        } else if (one.is_kind("n_")) {
            ++wrong;
            REQUIRE_FALSE(document);
            CHECK(document.error().code() == ErrorCode::malformed_file);
            CHECK_FALSE(document.error().reason().empty());
        } else if (one.is_kind("i_")) {
            ++open;
            bool const is_accepted = std::find(accepted_open.begin(), accepted_open.end(), one.name) != accepted_open.end();
            CHECK(document.has_value() == is_accepted);
            // What we read, Python reads as the same value.
            if (!document || one.python.empty()) return;
            auto const wanted = parse_json(one.python, lenient);
            REQUIRE(wanted);
            CHECK(text_of(*document) == text_of(*wanted));
        }
    });
    CHECK(right == 95);
    CHECK(wrong == 188);
    CHECK(open == 35);
}

TEST_CASE("keys that stand twice: the last counts, as in Python, and only what depends on it is refused") {
    std::size_t count = 0;
    for_each_case([&](Case const& one) {
        if (!one.is_kind("repeated_")) return;
        ++count;
        auto const document = parse_json(one.text, lenient);
        REQUIRE_MESSAGE(document, (document ? "" : document.error().message()));
        CHECK(text_of(*document) == text_of(*parse_json(one.python)));
        bool const is_repeated = one.name != "repeated_not_in_one_object";
        CHECK(parse_json(one.text).has_value() != is_repeated);
        CHECK(document->repeats_note().empty() != is_repeated);
        // All members were walked.
        CHECK(document->check_repeats().has_value() != is_repeated);
    });
    CHECK(count == 15);

    auto const problem = [](std::string_view text, auto const& look) {
        auto const document = parse_json(text, lenient);
        REQUIRE(document);
        look(document->root());
        auto const checked = document->check_repeats();
        return checked ? std::string() : std::string(checked.error().place());
    };
    auto const nothing = [](JsonValue) {};
    auto const find = [](auto... keys) {
        return [=](JsonValue root) {
            std::optional<JsonValue> at = root;
            ((at = at ? at->find(keys) : at), ...);
        };
    };
    CHECK(problem(R"({"a":1,"a":2,"b":3})", nothing) == "");
    CHECK(problem(R"({"a":1,"a":2,"b":3})", find("b")) == "");
    CHECK(problem(R"({"a":1,"a":2,"b":3})", find("c")) == "");
    CHECK(problem(R"({"a":1,"a":2,"b":3})", find("a")) == "a");
    CHECK(problem(R"({"a":1,"a":1,"b":3})", find("a")) == "");
    CHECK(problem(R"({"a":{"x":1},"a":{"x":2},"b":3})", find("a")) == "a");
    CHECK(problem(R"({"b":{"x":1,"x":2},"a":3})", find("a")) == "");
    CHECK(problem(R"({"b":{"x":1,"x":2},"a":3})", find("b")) == "");
    CHECK(problem(R"({"b":{"x":1,"x":2},"a":3})", find("b", "x")) == "x");
    CHECK(problem(R"({"b":{"x":1,"x":2},"a":3})", find("b", "y")) == "");
    // Whoever walks or counts members depends on their number too.
    auto const walk = [](JsonValue root) {
        for (auto const member : root) (void)member;
    };
    CHECK(problem(R"({"a":1,"a":1})", walk) == "a");
    CHECK(problem(R"({"a":1,"a":1})", [](JsonValue root) { (void)root.size(); }) == "a");
    CHECK(problem(R"({"a":1,"a":1})", [](JsonValue root) { (void)root.empty(); }) == "");
    CHECK(problem(R"({"c":[{"a":1,"a":1}]})", walk) == "");

    CHECK(parse_json(R"({"x\u001b":1,"x\u001b":2})", lenient)->repeats_note() ==
          "the key \"x\\x1b\" occurs twice in one object, which changes nothing that is read");
    CHECK(parse_json(R"({"x":1,"x":2,"y":{"z":1,"z":2}})", lenient)->repeats_note().find("(and 1 more)") != std::string::npos);
}
