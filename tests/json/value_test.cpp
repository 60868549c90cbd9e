// SPDX-License-Identifier: Apache-2.0
#include <shardwise/json/value.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace shardwise;

TEST_CASE("parse_json: gives members by key, in the order of the text, with exact numbers") {
    auto const document =
        parse_json(R"({"b": {"x": [1, 2.5, "t\u00e9xt", true, null]}, "a": 18446744073709551615, "": -3})");
    REQUIRE(document);
    auto const root = document->root();
    CHECK(root.is_object());
    CHECK(root.size() == 3);
    std::string keys;
    for (auto const member : root) keys += std::string(member.key()) + ";";
    CHECK(keys == "b;a;;");

    auto const list = root.find("b")->find("x");
    REQUIRE(list);
    CHECK(list->size() == 5);
    auto item = list->begin();
    CHECK((*item).integer() == 1);
    CHECK((*item).real() == 1.0);
    CHECK((*++item).real() == 2.5);
    CHECK_FALSE((*item).integer());
    CHECK((*++item).string() == "t\xC3\xA9xt");
    CHECK((*++item).boolean() == true);
    CHECK_FALSE((*item).integer());
    CHECK((*++item).is_null());

    CHECK(root.find("a")->kind() == JsonKind::unsigned_integer);
    CHECK_FALSE(root.find("a")->integer());
    CHECK(root.find("a")->real() == 18446744073709551616.0);
    CHECK(root.find("")->integer() == -3);
    CHECK_FALSE(root.find("c"));
    CHECK_FALSE(list->find("a"));
}

TEST_CASE("parse_json: a scalar is a document, an empty object has no members") {
    CHECK(parse_json("7")->root().integer() == 7);
    CHECK(parse_json("{}")->root().empty());
    CHECK(parse_json("\"x\"")->root().empty());
    CHECK(parse_json("[[], {}]")->root().size() == 2);
}

TEST_CASE("parse_json: stays usable when the document is moved") {
    auto parsed = parse_json(R"({"k": "v"})");
    REQUIRE(parsed);
    auto const document = *std::move(parsed);
    CHECK(document.root().find("k")->string() == "v");
}

TEST_CASE("parse_json: duplicate keys are refused in any one object, not across objects") {
    CHECK(parse_json(R"([{"a": 1}, {"a": 2}])").has_value());
    CHECK(parse_json(R"({"a": {"a": 1}})").has_value());
    for (auto const* text : {R"({"a": 1, "a": 1})", R"({"x": {"a": 1, "b": 2, "a": 3}})", R"({"": 1, "": 2})",
                             R"({"a": 1, "\u0061": 2})", R"([{"k": {}, "z": [1, {"q": 1}], "k": {}}])"}) {
        CAPTURE(text);
        auto const document = parse_json(text);
        REQUIRE_FALSE(document);
        CHECK(document.error().code() == ErrorCode::malformed_file);
        CHECK(document.error().reason() == "occurs twice in one object");
    }
    CHECK(parse_json(R"({"a": 1, "a": 1})").error().place() == "a");
}

TEST_CASE("parse_json: growth is limited in values, text and depth") {
    CHECK(parse_json("[1,2,3]", {.values = 4}).has_value());
    CHECK(parse_json("[1,2,3]", {.values = 3}).error().code() == ErrorCode::capacity_exceeded);
    CHECK(parse_json(R"({"ab": "cd"})", {.text = 4}).has_value());
    CHECK(parse_json(R"({"ab": "cd"})", {.text = 3}).error().code() == ErrorCode::capacity_exceeded);
    CHECK(parse_json("[[1]]", {.depth = 2}).has_value());
    CHECK_FALSE(parse_json("[[1]]", {.depth = 1}).has_value());

    std::string many = "[";
    for (int i = 0; i < 600'000; ++i) many += "1,";
    many += "1]";
    CHECK(parse_json(many).error().code() == ErrorCode::capacity_exceeded);
}
