// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/check_views.hpp>

#include <doctest/doctest.h>

using namespace shardwise;

namespace {

struct Somewhere {};
template <class T, std::size_t dimensions>
using View = TensorView<T, dimensions, Somewhere>;

}  // namespace

TEST_CASE("check_views: elements without memory are refused, nothing needs no memory") {
    float values[6] = {};
    CHECK(check_views("f"));
    CHECK(check_views("f", View<float, 1>{}));
    CHECK(check_views("f", View<float, 2>{values, {2, 3}}, View<float const, 2>{nullptr, {0, 3}},
                      View<int, 1>{nullptr, {0}}, View<float, 3>{nullptr, {2, 0, 3}}));
    auto const refused = check_views("f", View<float, 1>{values, {6}}, View<float const, 2>{nullptr, {2, 3}});
    REQUIRE(!refused);
    CHECK(refused.error().code() == ErrorCode::invalid_argument);
    CHECK(refused.error().message() ==
          "f: a view: has elements but no memory (got 6); give a pointer to the elements, or no elements");
    static_assert(!check_views("f", View<float, 1>{nullptr, {1}}));
}
