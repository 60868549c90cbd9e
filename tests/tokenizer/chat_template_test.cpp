// SPDX-License-Identifier: Apache-2.0
#include <shardwise/tokenizer/chat_template.hpp>

#include <doctest/doctest.h>

#include <chat_cases.hpp>
#include <cstddef>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

using namespace shardwise;

namespace {

/// Holds every template of a golden file to its cases; how many texts were compared.
std::size_t compare_file(std::string const& name) {
    std::ifstream file(std::string(SHARDWISE_SOURCE_DIR) + "/tests/golden/chat/" + name);
    REQUIRE_MESSAGE(file.good(), name);
    std::size_t count = 0;
    std::optional<JsonDocument> shared;
    for (std::string line; std::getline(file, line);) {
        auto document = parse_json(line);
        REQUIRE_MESSAGE(document, document.error().message());
        auto const root = document->root();
        auto const text = root.find("template");
        if (!text) {
            shared = *std::move(document);
            continue;
        }
        CAPTURE(std::string(*text->string()));
        auto const layout = ChatTemplate::parse(*text->string());
        auto const compare = [&](JsonValue const& context, JsonValue const& wanted) {
            auto const mismatch = testing::chat_mismatch(layout ? &*layout : nullptr,
                                                         layout ? nullptr : &layout.error(), context, wanted);
            CHECK(mismatch == "");
            ++count;
        };
        if (auto const cases = root.find("cases")) {
            for (auto const each : *cases) compare(*each.find("context"), each);
        } else {
            compare(*shared->root().find("context"), root);
        }
    }
    return count;
}

std::string rendered(std::string_view text, ChatTemplateLimits limits = {}) {
    auto const layout = ChatTemplate::parse(text);
    if (!layout) return std::string(name_of(layout.error().code())) + ": " + layout.error().message();
    std::vector<ChatMessage> const messages{{ChatRole::user, "Hi"}};
    auto const made = layout->render({.messages = messages}, limits);
    return made ? *made : std::string(name_of(made.error().code())) + ": " + made.error().message();
}

std::string repeated(std::string_view text, int count) {
    std::string out;
    for (int i = 0; i < count; ++i) out += text;
    return out;
}

}  // namespace

TEST_CASE("ChatTemplate: published templates give what transformers' apply_chat_template gives, to the byte") {
    CHECK(compare_file("published.jsonl") == 80);
}

TEST_CASE("ChatTemplate: each part of the language gives what Jinja gives") {
    CHECK(compare_file("features.jsonl") >= 200);
}

TEST_CASE("ChatTemplate: random templates give what Jinja gives") {
    CHECK(compare_file("random.jsonl") == 320);
}

TEST_CASE("ChatTemplate: a faulty template is refused with its line") {
    CHECK(rendered("a\nb\n{% if x %}") == "malformed_file: chat_template: line 3: ends before endif");
    CHECK(rendered("\n{{ a b }}") == "malformed_file: chat_template: line 2: expected }} after an expression");
    CHECK(rendered("{% include 'x' %}") == "unsupported: chat_template: line 1: has the tag include");
    CHECK(rendered("\n\n{{ 1 | nothing }}") == "unsupported: chat_template: line 3: uses the filter nothing");
    CHECK(rendered("\n{{ gone.x }}") == "invalid_field: chat_template: line 2: 'gone' is undefined");
    CHECK(rendered("{{ messages[0].nothing.x }}") ==
          "invalid_field: chat_template: line 1: 'dict object' has no attribute 'nothing'");
    CHECK(rendered("{{ strftime_now('%Y') }}") ==
          "unsupported: chat_template: line 1: asks for the date, and none is given");
    CHECK(rendered("{{ 9223372036854775807 + 1 }}").starts_with("unsupported"));
    CHECK(rendered(std::string(std::size_t{2} << 20U, 'x')).starts_with("capacity_exceeded"));
}

TEST_CASE("ChatTemplate: a template's own refusal is told in its words") {
    CHECK(rendered("{{ raise_exception('Roles must alternate') }}") ==
          "invalid_argument: chat_template: line 1: the model's chat template refuses the conversation: Roles must "
          "alternate");
}

TEST_CASE("ChatTemplate: a hostile template ends at a limit") {
    ChatTemplateLimits const small{.steps = 20'000, .bytes = 1'000'000, .depth = 100};
    for (std::string const& text : {
             std::string("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"),
             std::string(
                 "{% set n = namespace(x='ab') %}{% for i in range(99) %}{% set n.x = n.x ~ n.x %}{% endfor %}"),
             std::string("{% set n = namespace(x=[1]) %}{% for i in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}"),
             std::string("{% set n = namespace(x=[]) %}{% for i in range(9999) %}{% set n.x = [n.x] %}{% endfor %}"),
             std::string("{% set n = namespace(x=[]) %}{% for i in range(40) %}{% set n.x = [n.x, n.x] %}{% endfor "
                         "%}{{ n.x }}"),
             std::string("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"),
             std::string("{% for i in range(9999) %}{{ 'x' * 999999 }}{% endfor %}"),
             std::string("{{ 'x' * 9223372036854775807 }}"),
             std::string("{{ ('x' * 500000).replace('', 'y' * 500000) }}"),
             std::string("{{ ('a' * 300000 ~ 'b') in 'a' * 600000 }}"),
             "{% macro m() %}{% if 0 %}" + repeated("{{ caller }}", 9'000) +
                 "{% endif %}{% endmacro %}{% for i in range(99999) %}{{ m() }}{% endfor %}",
             "{% for i in range(99999) %}" + repeated("x", 5'000) + "{% endfor %}",
             std::string("{{ range(99999) | reverse | list | sort }}"),
         }) {
        CAPTURE(text);
        CHECK(rendered(text, small).starts_with("capacity_exceeded"));
    }
    // Namespaces that hold each other, and themselves, are released.
    CHECK(rendered(
              "{% set a = namespace() %}{% for i in range(9) %}{% set a.x = namespace(y=a) %}{% endfor %}{{ a.x.y is "
              "defined }}") == "True");
}

TEST_CASE("ChatTemplate: deep nesting is refused before it is followed") {
    for (std::string const& text :
         {"{{ " + repeated("(", 50'000) + "1" + repeated(")", 50'000) + " }}", "{{ " + repeated("[", 50'000) + " }}",
          "{{ " + repeated("not ", 50'000) + "1 }}", "{{ " + repeated("-", 50'000) + "1 }}",
          "{{ 1" + repeated(" + 1", 50'000) + " }}", "{{ a" + repeated(".b", 50'000) + " }}",
          "{{ a" + repeated("[0", 50'000) + " }}", "{{ 1" + repeated(" if 1 else 1", 50'000) + " }}",
          "{{ a" + repeated("|d(1", 50'000) + " }}", repeated("{% if 1 %}", 50'000),
          repeated("{% for i in x %}", 50'000), "{% if 1 %}" + repeated("{% elif 1 %}", 50'000) + "{% endif"}) {
        CAPTURE(text.substr(0, 20));
        CHECK(!ChatTemplate::parse(text));
    }
    CHECK(rendered("{{ 1" + repeated(" ~ 1", 5'000) + " }}") == repeated("1", 5'001));
}

TEST_CASE("ChatTemplate: text that is no UTF-8 counts as U+FFFD") {
    auto const layout = ChatTemplate::parse("{{ messages[0].content }}{{ messages[0].content | length }}");
    REQUIRE(layout);
    std::vector<ChatMessage> const messages{{ChatRole::user, "a\xFF"}};
    auto const text = layout->render({.messages = messages});
    REQUIRE(text);
    CHECK(*text ==
          "a\xEF\xBF\xBD"
          "2");
}
