// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/list.hpp>
#include <shardwise/core/result.hpp>

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <type_traits>

using namespace shardwise;

namespace {

/// Counts its living instances.
struct Counted {
    static inline int living = 0;
    Counted() { ++living; }
    Counted(Counted const&) { ++living; }
    Counted(Counted&&) noexcept { ++living; }
    Counted& operator=(Counted const&) = default;
    ~Counted() { --living; }
};

struct NoDefault {
    explicit NoDefault(int number) : value(number) {}
    int value;
};

Result<std::string> text_or_error(bool fails) {
    if (fails) return Error{ErrorCode::unknown_name}.at("x").because("is not there");
    return std::string(100, 'a');
}

Result<> succeed_unless(bool fails) {
    if (fails) return Error{ErrorCode::unsupported};
    return {};
}

constexpr Result<List<int>> countdown(int from) {
    if (from < 0) return Error{ErrorCode::invalid_argument}.got(from);
    List<int> values;
    for (; from > 0; --from) values.push_back(from);
    return values;
}

}  // namespace

TEST_CASE("Result: holds a value or the error, and copies, moves and assigns either") {
    auto good = text_or_error(false);
    auto bad = text_or_error(true);
    REQUIRE(good);
    REQUIRE_FALSE(bad);
    auto copy = good;
    CHECK(*copy == *good);
    copy = bad;
    CHECK(copy.error().message() == bad.error().message());
    copy = good;
    CHECK(copy->size() == 100);
    bad = std::move(copy);
    CHECK(bad->size() == 100);
    CHECK(good.value().size() == 100);
}

TEST_CASE("Result: destroys what it holds exactly once") {
    {
        Result<Counted> a{Counted{}};
        Result<Counted> b = a;
        b = Error{ErrorCode::unsupported};
        CHECK(Counted::living == 1);
        b = a;
        CHECK(Counted::living == 2);
        a = std::move(b);
    }
    CHECK(Counted::living == 0);
}

TEST_CASE("Result: takes values that cannot be copied or made from nothing") {
    Result<std::unique_ptr<int>> owner = std::make_unique<int>(3);
    auto const moved = std::move(owner);
    CHECK(**moved == 3);
    CHECK_FALSE(std::is_copy_constructible_v<Result<std::unique_ptr<int>>>);
    Result<NoDefault> const made = NoDefault{4};
    CHECK(made->value == 4);
}

TEST_CASE("Result: without a value is success or an error") {
    CHECK(succeed_unless(false));
    auto failed = succeed_unless(true);
    REQUIRE_FALSE(failed);
    CHECK(failed.error().code() == ErrorCode::unsupported);
    failed = succeed_unless(false);
    CHECK(failed.has_value());
}

TEST_CASE("Result: works in constant expressions") {
    static_assert(countdown(3)->size() == 3);
    static_assert(countdown(-1).error().code() == ErrorCode::invalid_argument);
    constexpr auto size_of_a_copy = [] {
        auto const first = countdown(2);
        auto second = first;
        second = countdown(5);
        return second->size();
    }();
    static_assert(size_of_a_copy == 5);
}
