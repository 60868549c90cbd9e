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
