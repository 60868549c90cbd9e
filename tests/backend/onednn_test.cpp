// SPDX-License-Identifier: Apache-2.0
#include <shardwise/backend/host/onednn.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <oneapi/dnnl/dnnl.h>
#include <random>
#include <vector>

namespace {

using namespace shardwise;

TEST_CASE("onednn_gemm: equals float64 within the bound of a sum, transposed or not, added or not, rows apart") {
    std::mt19937 random(7);
    std::uniform_real_distribution<float> values(-1.0F, 1.0F);
    HostStream stream;
    for (auto const& [m, n, k] :
         {std::array<std::int64_t, 3>{1, 1, 1}, {3, 17, 33}, {16, 5, 70}, {2, 3, 0}, {0, 4, 4}}) {
        for (bool const is_a_transposed : {false, true}) {
            for (bool const is_b_transposed : {false, true}) {
                for (bool const accumulates : {false, true}) {
                    auto const a_rows = is_a_transposed ? k : m;
                    auto const a_columns = is_a_transposed ? m : k;
                    auto const b_rows = is_b_transposed ? n : k;
                    auto const b_columns = is_b_transposed ? k : n;
                    std::vector<float> a(static_cast<std::size_t>(a_rows * (a_columns + 3)) + 1);
                    std::vector<float> b(static_cast<std::size_t>(b_rows * (b_columns + 1)) + 1);
                    std::vector<float> out(static_cast<std::size_t>(m * (n + 2)) + 1);
                    for (auto* all : {&a, &b, &out}) {
                        for (auto& value : *all) value = values(random);
                    }
                    auto const before = out;
                    TensorView<float const, 2, Host> const left(a.data(), {a_rows, a_columns}, a_columns + 3);
                    TensorView<float const, 2, Host> const right(b.data(), {b_rows, b_columns}, b_columns + 1);
                    TensorView<float, 2, Host> const made(out.data(), {m, n}, n + 2);
                    REQUIRE(onednn_gemm(left, right, made, {is_a_transposed, is_b_transposed, accumulates}, stream));
                    REQUIRE(stream.synchronize(Deadline::after(std::chrono::seconds(10))));
                    for (std::int64_t i = 0; i < m; ++i) {
                        for (std::int64_t j = 0; j < n; ++j) {
                            auto const start = before[static_cast<std::size_t>(i * (n + 2) + j)];
                            double sum = accumulates ? static_cast<double>(start) : 0.0;
                            double magnitude = std::abs(sum);
                            for (std::int64_t x = 0; x < k; ++x) {
                                auto const product =
                                    static_cast<double>(is_a_transposed ? left.row(x)[i] : left.row(i)[x]) *
                                    static_cast<double>(is_b_transposed ? right.row(j)[x] : right.row(x)[j]);
                                sum += product;
                                magnitude += std::abs(product);
                            }
                            auto const bound = static_cast<double>(k + 2) * 0x1p-24 * magnitude;
                            CHECK(std::abs(static_cast<double>(made.row(i)[j]) - sum) <= bound);
                        }
                        // What lies between the rows stays.
                        CHECK(made.row(i)[n] == before[static_cast<std::size_t>(i * (n + 2) + n)]);
                    }
                }
            }
        }
    }
}

TEST_CASE("onednn_gemm: a view of one row may say any distance to the next") {
    std::vector<float> const a{1, 2, 3};
    std::vector<float> const b{1, 10, 100};
    for (std::int64_t const distance : {0, 1, -3, 1000}) {
        TensorView<float const, 2, Host> const row(a.data(), {1, 3}, distance);
        TensorView<float const, 2, Host> const other(b.data(), {1, 3}, distance);
        HostStream stream;
        float dot = 0.0F;
        REQUIRE(onednn_gemm(row, other, {&dot, {1, 1}, distance}, {.is_b_transposed = true}, stream));
        std::vector<float> scaled(3);
        REQUIRE(onednn_gemm({b.data() + 1, {1, 1}, distance}, row, {scaled.data(), {1, 3}, distance}, {}, stream));
        std::vector<float> outer(9);
        REQUIRE(onednn_gemm(row, other, {outer.data(), {3, 3}}, {.is_a_transposed = true}, stream));
        auto const done = stream.synchronize(Deadline::after(std::chrono::seconds(10)));
        CHECK_MESSAGE(done, (done ? "" : done.error().message()));
        CHECK(dot == 321.0F);
        CHECK(scaled == std::vector<float>{10, 20, 30});
        CHECK(outer[7] == 30.0F);
    }
}

TEST_CASE("onednn_gemm: shapes that do not go together are refused with the numbers") {
    std::vector<float> memory(64);
    HostStream stream;
    TensorView<float const, 2, Host> const a(memory.data(), {2, 3});
    TensorView<float const, 2, Host> const b(memory.data(), {4, 5});
    TensorView<float, 2, Host> const out(memory.data() + 32, {2, 5});
    auto const refused = onednn_gemm(a, b, out, {}, stream);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().message().find("inner extents") != std::string::npos);
    auto const rounded = onednn_gemm(a, a, out, {.is_b_transposed = true, .rounds_to_bf16 = true}, stream);
    REQUIRE_FALSE(rounded);
    CHECK(rounded.error().message().find("rounds_to_bf16") != std::string::npos);
}

}  // namespace
