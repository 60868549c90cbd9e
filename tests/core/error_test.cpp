// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/error.hpp>
#include <shardwise/core/result.hpp>

#include <doctest/doctest.h>

#include <memory>
#include <string>

namespace {

using namespace shardwise;

constexpr Result<int> half(int number) {
    if (number % 2 != 0) return Error{ErrorCode::invalid_argument}.at("number").because("is odd").got(number);
    return number / 2;
}

static_assert(half(4).value() == 2);
static_assert(half(3).error().code() == ErrorCode::invalid_argument);

TEST_CASE("Error: the message names the culprit, what is wrong with numbers, and what to do") {
    auto const error = Error{ErrorCode::malformed_file}.in("model.safetensors").at("header").because("is longer than the file")
                           .got(120).expected(100).fix("download the file again");
    CHECK(error.message() ==
          "model.safetensors: header: is longer than the file (got 120, expected 100); download the file again");
}

TEST_CASE("Error: the message says what the number is to the one that was found") {
    auto const refused = [] { return Error{ErrorCode::invalid_argument}.at("n").because("is wrong").got(7); };
    CHECK(refused().expected(5).message() == "n: is wrong (got 7, expected 5)");
    CHECK(refused().at_most(5).message() == "n: is wrong (got 7, expected at most 5)");
    CHECK(refused().at_least(9).message() == "n: is wrong (got 7, expected at least 9)");
    CHECK(refused().between(1, 5).message() == "n: is wrong (got 7, expected 1 to 5)");
    CHECK(refused().multiple_of(5).message() == "n: is wrong (got 7, expected a multiple of 5)");
    CHECK(refused().divisor_of(8).message() == "n: is wrong (got 7, expected a divisor of 8)");
    CHECK(Error{ErrorCode::capacity_exceeded}.at("n").because("is too many").at_most(5).message() ==
          "n: is too many (expected at most 5)");
}

TEST_CASE("Error: memory is shown with units, a layer by its number") {
    auto const error = Error{ErrorCode::out_of_memory}.layer(LayerId{17}).needs(Bytes{1814639083}).has(Bytes{440234147});
    CHECK(error.message() == "layer 17 needs 1.69 GiB but only 419.84 MiB are available");
    CHECK(error.needed() == Bytes{1814639083});
}

TEST_CASE("Error: a bare code still says something") { CHECK(Error{ErrorCode::backend_failure}.message() == "backend_failure"); }

TEST_CASE("Error: text that is too long is cut with an ellipsis") {
    auto const error = Error{ErrorCode::unknown_name}.at(std::string(500, 'x'));
    CHECK(error.place().size() == 120);
    CHECK(error.place().substr(117) == "...");
}

TEST_CASE("escaped: control characters, broken UTF-8 and C1 controls cannot reach a terminal") {
    CHECK(escaped("a\x1b[31mb") == "a\\x1b[31mb");
    CHECK(escaped(std::string_view{"nul\0!", 5}) == "nul\\x00!");
    CHECK(escaped("\xff\xc3\x28") == "\\xff\\xc3(");
    CHECK(escaped("\xc2\x9b" "31m") == "\\xc2\\x9b31m");
    CHECK(escaped("\xe2\x82\xac \xf0\x9f\x98\x80") == "\xe2\x82\xac \xf0\x9f\x98\x80");
    CHECK(escaped("\xe2\x82") == "\\xe2\\x82");
    // U+009B in three bytes, a surrogate, U+009B in four, what is beyond U+10FFFF; and the neighbours that are characters.
    CHECK(escaped("\xe0\x82\x9b") == "\\xe0\\x82\\x9b");
    CHECK(escaped("\xed\xa0\x80") == "\\xed\\xa0\\x80");
    CHECK(escaped("\xf0\x80\x82\x9b") == "\\xf0\\x80\\x82\\x9b");
    CHECK(escaped("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");
    for (std::string const text : {"\xe0\xa0\x80", "\xed\x9f\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"})
        CHECK(escaped(text) == text);
}

TEST_CASE("escaped: marks of direction are shown, so that no name looks like another") {
    CHECK(escaped("a\xE2\x80\xAE" "fdp.exe") == "a\\xe2\\x80\\xaefdp.exe");
    for (auto const* mark : {"\xE2\x80\x8E", "\xE2\x80\x8F", "\xE2\x80\xAA", "\xE2\x81\xA6", "\xE2\x81\xA9", "\xD8\x9C"}) {
        CHECK(escaped(mark).front() == '\\');
    }
    // Their neighbours: dashes and invisible operators; a joiner of emoji; an Arabic semicolon.
    for (auto const* plain : {"\xE2\x80\x90", "\xE2\x80\xAF", "\xE2\x81\xA4", "\xE2\x80\x8D", "\xD8\x9B"}) {
        CHECK(escaped(plain) == plain);
    }
}

TEST_CASE("Result: holds a move-only value") {
    Result<std::unique_ptr<int>> result{std::make_unique<int>(7)};
    REQUIRE(result.has_value());
    auto const value = *std::move(result);
    CHECK(*value == 7);
}

TEST_CASE("Result<>: is success until it holds an error") {
    Result<> const success;
    Result<> const failure = Error{ErrorCode::unsupported};
    CHECK(success.has_value());
    CHECK(!failure.has_value());
    CHECK(failure.error().code() == ErrorCode::unsupported);
}

}  // namespace
