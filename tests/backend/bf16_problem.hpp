// SPDX-License-Identifier: Apache-2.0
#pragma once

// Products of bf16 weights by one kernel, and the arithmetic of processors' products of bf16.

#include <shardwise/backend/host/products.hpp>
#include <shardwise/quant/half_types.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <vector>

namespace test {

using namespace shardwise;

using Floats = std::vector<float>;

/// What processors' products of bf16 make of a number below the smallest normal one.
inline float flushed(float value) {
    return std::abs(value) < std::numeric_limits<float>::min() ? std::copysign(0.0F, value) : value;
}
inline float multiply_add(float a, float b, float sum) {
    return flushed(std::fma(flushed(a), flushed(b), flushed(sum)));
}
inline float add(float a, float b) {
    return flushed(flushed(a) + flushed(b));
}

/// A product whose weights and activations no two places share.
struct Problem {
    std::int64_t rows;
    std::int64_t outputs;
    std::int64_t inputs;
    UnitRange range;
    std::vector<Bfloat16> weight;
    Floats in;

    Problem(std::int64_t rows_, std::int64_t outputs_, std::int64_t inputs_, UnitRange range_, std::mt19937& random,
            int exponents = 3)
        : rows(rows_), outputs(outputs_), inputs(inputs_), range(range_) {
        std::normal_distribution<float> normal;
        std::uniform_int_distribution<int> exponent(-exponents, exponents);
        auto const value = [&] { return std::ldexp(normal(random), exponent(random)); };
        // What lies outside of the range reaches no result.
        for (std::int64_t i = 0; i < outputs * inputs; ++i) {
            bool const is_within = i % inputs >= range.begin && i % inputs < range.end;
            weight.emplace_back(is_within ? value() : std::nanf(""));
        }
        for (std::int64_t i = 0; i < rows * range.size(); ++i) in.push_back(value());
    }
};

/// The product by a kernel, of which the calling thread makes all.
inline Floats product(detail::ProductKernel const& kernel, HostContext& context, Problem const& problem) {
    auto const weight = Host::hold_weight(context, {.format = WeightFormat::bf16,
                                                    .outputs = problem.outputs,
                                                    .inputs = problem.inputs,
                                                    .data = std::as_bytes(std::span(problem.weight)),
                                                    .scales = {}});
    REQUIRE(weight);
    auto const stride = detail::prepared_row_bytes(kernel, problem.range);
    std::vector<std::byte> prepared(static_cast<std::size_t>(problem.rows * stride));
    Floats out(static_cast<std::size_t>(problem.rows * problem.outputs), std::nanf(""));
    for (std::int64_t row = 0; row < problem.rows; ++row) {
        detail::prepare_range(kernel, problem.in.data() + row * problem.range.size(), problem.range,
                              prepared.data() + row * stride);
    }
    detail::run_product(kernel, {.weight = weight->packed(),
                                 .inputs = problem.range,
                                 .in = problem.in.data(),
                                 .in_stride = problem.range.size(),
                                 .prepared = prepared.data(),
                                 .prepared_stride = stride,
                                 .rows = problem.rows,
                                 .first_panel = 0,
                                 .last_panel = ceil_divide(problem.outputs, detail::panel_outputs),
                                 .out = out.data(),
                                 .out_stride = problem.outputs});
    return out;
}

}  // namespace test
