// SPDX-License-Identifier: Apache-2.0
#include <shardwise/kernels/backward/layer_norm.hpp>
#include <shardwise/kernels/backward/rms_norm.hpp>

#include <doctest/doctest.h>

#include "gradients.hpp"

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

constexpr float epsilon = 1e-5F;

struct Norm {
    std::int64_t rows, width;
    bool is_centred;
    float offset;
    float factor = 1.0F;
    Matrix<float> in = numbered_matrix(rows, width, 11, factor);
    Matrix<float> weight = numbered_matrix(1, width, 12);
    Matrix<float> out_gradient = numbered_matrix(rows, width, 13);
    Expected in_gradient{rows, width}, weight_gradient{1, width}, bias_gradient{1, width};

    void fill(double eps = static_cast<double>(epsilon)) {
        auto const n = static_cast<double>(width);
        for (std::int64_t row = 0; row < rows; ++row) {
            double mean = 0.0, variance = 0.0;
            for (std::int64_t i = 0; i < width && is_centred; ++i) mean += in.at(row, i) / n;
            for (std::int64_t i = 0; i < width; ++i) variance += (in.at(row, i) - mean) * (in.at(row, i) - mean) / n;
            auto const inverse = 1.0 / std::sqrt(variance + eps);
            auto const normal = [&](std::int64_t i) { return (in.at(row, i) - mean) * inverse; };
            auto const gradient = [&](std::int64_t i) {
                return out_gradient.at(row, i) * (weight.at(0, i) + static_cast<double>(offset));
            };
            double lost = 0.0, lost_size = 0.0, share = 0.0, share_size = 0.0;
            for (std::int64_t i = 0; i < width; ++i) {
                lost += is_centred ? gradient(i) / n : 0.0;
                lost_size += is_centred ? std::abs(gradient(i)) / n : 0.0;
                share += gradient(i) * normal(i) / n;
                share_size += std::abs(gradient(i) * normal(i)) / n;
            }
            for (std::int64_t i = 0; i < width; ++i) {
                auto const inner = gradient(i) - lost - normal(i) * share;
                // weight + offset and the product round g, of which both means are made; a rounding of each mean, three of the
                // normal value, one of its product, of the two sums, of the scale and of the product with it.
                auto const error = 2.0 * std::abs(gradient(i)) + 2.0 * lost_size + std::abs(lost) +
                                   std::abs(gradient(i) - lost) + 5.0 * std::abs(normal(i) * share) +
                                   2.0 * std::abs(normal(i)) * share_size + 3.0 * std::abs(inner);
                in_gradient.add(row, i, inverse * inner, rounding * inverse * error);
                weight_gradient.add(0, i, out_gradient.at(row, i) * normal(i), 0.0);
                bias_gradient.add(0, i, out_gradient.at(row, i), 0.0);
            }
        }
        // Sums in double, rounded once.
        for (auto* const sum : {&weight_gradient, &bias_gradient}) {
            for (std::size_t i = 0; i < sum->values.size(); ++i)
                sum->allowed[i] = rounding * std::abs(sum->values[i]) + 1e-12 * static_cast<double>(rows);
        }
    }
};

struct Made {
    Matrix<float> in, weight, bias;
};

void run(Norm const& norm, Made& made, bool is_added, float eps, HostStream& stream) {
    std::vector<double> workspace(static_cast<std::size_t>(norm_backward_workspace(norm.rows)));
    TensorView<double, 1, Host> const scales{workspace.data(), {norm_backward_workspace(norm.rows)}};
    if (norm.is_centred) {
        REQUIRE(layer_norm_backward(norm.in.read(), norm.weight.flat(), norm.out_gradient.read(), made.in.view(),
                                    is_added, vector_of(made.weight), vector_of(made.bias), is_added, scales, eps,
                                    stream, norm.offset));
    } else {
        REQUIRE(rms_norm_backward(norm.in.read(), norm.weight.flat(), norm.out_gradient.read(), made.in.view(),
                                  is_added, vector_of(made.weight), is_added, scales, eps, stream, norm.offset));
    }
}

}  // namespace

TEST_CASE("norm_backward: gradients within their roundings of float64's, which are torch's, on any threads") {
    for (bool const is_centred : {false, true}) {
        for (float const offset : {0.0F, 1.0F}) {
            for (auto const& shape : {Shape2{3, 10}, Shape2{1, 1}, Shape2{40, 16}, Shape2{301, 257}}) {
                auto const rows = shape.rows;
                auto const width = shape.width;
                CAPTURE(is_centred);
                CAPTURE(rows);
                Norm norm{rows, width, is_centred, offset};
                norm.fill();
                if (rows == 3) {
                    std::string const name = is_centred ? "layer_norm" : offset > 0.0F ? "rms_norm_offset" : "rms_norm";
                    if (!is_centred || offset == 0.0F) {
                        check_torch(norm.in_gradient, name + ".in");
                        check_torch(norm.weight_gradient, name + ".weight");
                        if (is_centred) check_torch(norm.bias_gradient, name + ".bias");
                    }
                }
                Made const before{numbered_matrix(rows, width, 14), numbered_matrix(1, width, 15),
                                  numbered_matrix(1, width, 16)};
                for (bool const is_added : {false, true}) {
                    auto made = before;
                    for_levels_and_threads(
                        [&](HostStream& stream) {
                            made = before;
                            run(norm, made, is_added, epsilon, stream);
                            check_bounds(made.in, norm.in_gradient, is_added ? &before.in : nullptr);
                            check_bounds(made.weight, norm.weight_gradient, is_added ? &before.weight : nullptr);
                            if (is_centred)
                                check_bounds(made.bias, norm.bias_gradient, is_added ? &before.bias : nullptr);
                        },
                        [&] {
                            return std::vector{made.in, made.weight, made.bias};
                        });
                }
            }
        }
    }
}

TEST_CASE("norm_backward: rows so small that no float holds their scale have gradients all the same") {
    for (bool const is_centred : {false, true}) {
        Norm norm{2, 33, is_centred, 0.0F, 0x1p-130F};
        // So that the gradient, of which the scale is a part, is a float.
        for (auto& value : norm.out_gradient.values) value *= 0x1p-60F;
        norm.fill(0.0);
        Made made{numbered_matrix(2, 33, 14), numbered_matrix(1, 33, 15), numbered_matrix(1, 33, 16)};
        for_levels_and_threads(
            [&](HostStream& stream) {
                run(norm, made, false, 0.0F, stream);
                check_bounds(made.in, norm.in_gradient);
            },
            [&] {
                return std::vector{made.in, made.weight};
            });
    }
}

TEST_CASE("norm_backward: what is not asked for is not made, what does not fit is refused by its name") {
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    Norm norm{4, 6, true, 0.0F};
    norm.fill();
    std::vector<double> workspace(8);
    TensorView<double, 1, Host> const scales{workspace.data(), {8}};
    Matrix<float> weight{1, 6};
    REQUIRE(layer_norm_backward(norm.in.read(), norm.weight.flat(), norm.out_gradient.read(), {}, false,
                                vector_of(weight), {}, false, scales, epsilon, stream));
    check_bounds(weight, norm.weight_gradient);
    auto const message = [&](TensorView<float const, 2, Host> out_gradient, TensorView<double, 1, Host> some) {
        auto const refused = rms_norm_backward(norm.in.read(), norm.weight.flat(), out_gradient, {}, false,
                                               vector_of(weight), false, some, epsilon, stream);
        REQUIRE_FALSE(refused);
        return refused.error().message();
    };
    CHECK(message(norm.out_gradient.read().rows(0, 3), scales).find("out_gradient") != std::string::npos);
    CHECK(message(norm.out_gradient.read(), scales.part(0, 7)).find("workspace") != std::string::npos);
}
