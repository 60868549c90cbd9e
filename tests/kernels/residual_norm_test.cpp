// SPDX-License-Identifier: Apache-2.0
#include <shardwise/kernels/add.hpp>
#include <shardwise/kernels/residual_norm.hpp>
#include <shardwise/kernels/rms_norm.hpp>

#include <doctest/doctest.h>

#include "row_matrices.hpp"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

using namespace shardwise;
using namespace shardwise::testing;

TEST_CASE_TEMPLATE("residual_norm: adds the parts in rank order and normalises, as one step after another does", T,
                   float, Bfloat16) {
    for (auto const level : levels()) {
        CAPTURE(name_of(level));
        HostContext context({.threads = 2, .isa = level});
        auto stream = context.make_stream();
        for (auto const [rows, width] : shapes) {
            std::vector<Matrix<T>> addends;
            for (unsigned rank = 0; rank < 3; ++rank) addends.push_back(random_matrix<T>(rows, width, 30 + rank));
            std::vector<T const*> const parts{addends[0].values.data(), addends[1].values.data(),
                                              addends[2].values.data()};
            auto const before = random_matrix<T>(rows, width, 40);
            auto const weight = random_matrix<T>(1, width, 41);
            auto residual = before;
            Matrix<T> out{rows, width};
            REQUIRE(residual_norm<T>(parts, residual.view(), weight.flat(), out.view(), 1e-5F, stream, 1.0F));
            // The sum of four values that are at most about 10 each.
            check_close<T>(
                residual,
                [&](std::int64_t row, std::int64_t i) {
                    return before.at(row, i) + addends[0].at(row, i) + addends[1].at(row, i) + addends[2].at(row, i);
                },
                4.0, 10.0);
            Matrix<T> normal{rows, width};
            REQUIRE(rms_norm<T>(residual.read(), weight.flat(), normal.view(), 1e-5F, stream, 1.0F));
            int wrong = 0;
            for (std::size_t i = 0; i < out.values.size(); ++i) {
                wrong += static_cast<float>(out.values[i]) == static_cast<float>(normal.values[i]) ? 0 : 1;
                if constexpr (std::same_as<T, float>) {
                    auto const sum = (addends[0].values[i] + addends[1].values[i]) + addends[2].values[i];
                    wrong += residual.values[i] == before.values[i] + sum ? 0 : 1;
                }
            }
            CHECK(wrong == 0);
            auto single = before;
            REQUIRE(residual_norm<T>(addends[0].read(), single.view(), weight.flat(), out.view(), 1e-5F, stream));
            check_close<T>(
                single, [&](std::int64_t row, std::int64_t i) { return before.at(row, i) + addends[0].at(row, i); },
                1.0, 10.0);
            // The executor's steps: where the addend lay is what the norm makes.
            auto bound = before;
            auto over = addends[0];
            REQUIRE(detail::residual_norm_bound<T>(addends[0].read(), bound.view(), weight.flat(), over.view(), 1e-5F,
                                                   stream));
            REQUIRE(
                detail::residual_norm_bound<T>(over.read(), bound.view(), weight.flat(), over.view(), 1e-5F, stream));
            auto again = before;
            REQUIRE(add<T>(again.read(), addends[0].read(), again.view(), stream));
            REQUIRE(rms_norm<T>(again.read(), weight.flat(), normal.view(), 1e-5F, stream));
            REQUIRE(add<T>(again.read(), normal.read(), again.view(), stream));
            REQUIRE(rms_norm<T>(again.read(), weight.flat(), normal.view(), 1e-5F, stream));
            auto const size = over.values.size() * sizeof(T);
            CHECK(std::memcmp(over.values.data(), normal.values.data(), size) == 0);
            CHECK(std::memcmp(bound.values.data(), again.values.data(), size) == 0);
        }
    }
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    Matrix<T> values{2, 4};
    auto const weight = random_matrix<T>(1, 4, 42);
    CHECK(residual_norm<T>(std::span<T const* const>{}, values.view(), weight.flat(), values.view(), 1e-5F, stream)
              .error()
              .message() == "residual_norm: parts: there is nothing to add");
    std::vector<T const*> const many(65, values.values.data());
    CHECK(residual_norm<T>(many, values.view(), weight.flat(), values.view(), 1e-5F, stream).error().code() ==
          ErrorCode::capacity_exceeded);
    CHECK(residual_norm<T>(values.read().columns(0, 3), values.view().columns(0, 3), weight.flat().part(0, 3),
                           values.view().columns(0, 3), 1e-5F, stream)
              .error()
              .code() == ErrorCode::shape_mismatch);
}
