// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/unfused.hpp>

#include <doctest/doctest.h>

#include <cstddef>

namespace {

SHARDWISE_UNFUSED_BEGIN

inline float product_plus(float a, float b, float c) {
    return a * b + c;
}
template <class T>
void add_products(T const* a, T const* b, T* sums, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) sums[i] += a[i] * b[i];
}
struct Line {
    double slope;
    double offset;

    [[nodiscard]] double at(double x) const { return slope * x + offset; }
};

SHARDWISE_UNFUSED_END

}  // namespace

TEST_CASE("SHARDWISE_UNFUSED: a product is rounded before something is added to it, on any processor") {
    // The square of 1 + 2^-12 lies half a unit above 1 + 2^-11, which it is rounded to; one operation would leave 2^-24.
    float volatile a = 1.0F + 0x1p-12F;
    float volatile c = -(1.0F + 0x1p-11F);
    CHECK(product_plus(a, a, c) == 0.0F);

    float many[16];
    float sums[16];
    for (auto& value : many) value = a;
    for (auto& value : sums) value = c;
    add_products(many, many, sums, 16);
    for (auto const sum : sums) CHECK(sum == 0.0F);

    double volatile wide = 1.0 + 0x1p-27;
    CHECK(Line{wide, -(1.0 + 0x1p-26)}.at(wide) == 0.0);
}
