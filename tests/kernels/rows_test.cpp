#include <shardwise/kernels/activation.hpp>
#include <shardwise/kernels/embedding.hpp>
#include <shardwise/kernels/layer_norm.hpp>
#include <shardwise/kernels/rms_norm.hpp>
#include <shardwise/kernels/rope.hpp>
#include <shardwise/kernels/softmax.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <vector>

using namespace shardwise;

namespace {

constexpr double pi = 3.14159265358979323846;

/// Half of the distance between neighbours of T at 1: the rounding of one stored result.
template <class T>
constexpr double unit_roundoff = std::same_as<T, float>      ? 0x1p-24
                                 : std::same_as<T, Bfloat16> ? 0x1p-8
                                                             : 0x1p-11;

template <class T>
struct Matrix {
    std::int64_t rows;
    std::int64_t width;
    std::vector<T> values = std::vector<T>(static_cast<std::size_t>(rows * width));

    TensorView<T, 2, Host> view() { return {values.data(), {rows, width}}; }
    TensorView<T const, 2, Host> read() const { return {values.data(), {rows, width}}; }
    TensorView<T const, 1, Host> flat() const { return {values.data(), {rows * width}}; }
    double at(std::int64_t row, std::int64_t i) const {
        return static_cast<double>(static_cast<float>(values[static_cast<std::size_t>(row * width + i)]));
    }
};

template <class T>
Matrix<T> random_matrix(std::int64_t rows, std::int64_t width, unsigned seed, float spread = 2.0F) {
    Matrix<T> matrix{rows, width};
    std::mt19937 random(seed);
    std::normal_distribution<float> values(0.3F, spread);
    for (auto& value : matrix.values) value = T(values(random));
    return matrix;
}

/// Every element within `roundoffs` roundings of T of the reference, relative to its size and at least to `floor`.
template <class T>
void check_close(Matrix<T> const& out, std::function<double(std::int64_t, std::int64_t)> const& reference,
                 double roundoffs, double floor = 1e-3) {
    int wrong = 0;
    for (std::int64_t row = 0; row < out.rows; ++row) {
        for (std::int64_t i = 0; i < out.width; ++i) {
            auto const expected = reference(row, i);
            auto const allowed = (roundoffs * 0x1p-24 + 1.01 * unit_roundoff<T>)*std::max(std::abs(expected), floor);
            if (!(std::abs(out.at(row, i) - expected) <= allowed)) ++wrong;
        }
    }
    CHECK(wrong == 0);
}

struct Shape2 {
    std::int64_t rows;
    std::int64_t width;
};
constexpr Shape2 shapes[] = {{1, 1}, {3, 7}, {5, 64}, {2, 600}, {300, 33}};

}  // namespace

TEST_CASE_TEMPLATE("rms_norm: equals the definition in float64", T, float, Bfloat16, Float16) {
    HostContext context({.threads = 2});
    auto stream = context.make_stream();
    for (auto const [rows, width] : shapes) {
        for (float const offset : {0.0F, 1.0F}) {
            auto const in = random_matrix<T>(rows, width, 1);
            auto const weight = random_matrix<T>(1, width, 2);
            Matrix<T> out{rows, width};
            REQUIRE(rms_norm<T>(in.read(), weight.flat(), out.view(), 1e-5F, stream, offset));
            // float: the scale, the product with it, weight + offset, the product with that.
            check_close<T>(
                out,
                [&](std::int64_t row, std::int64_t i) {
                    double squares = 0.0;
                    for (std::int64_t k = 0; k < in.width; ++k) squares += in.at(row, k) * in.at(row, k);
                    auto const scale =
                        1.0 / std::sqrt(squares / static_cast<double>(in.width) + static_cast<double>(1e-5F));
                    return in.at(row, i) * scale * (weight.at(0, i) + static_cast<double>(offset));
                },
                4.0);
            auto aliased = in;
            REQUIRE(rms_norm<T>(aliased.read(), weight.flat(), aliased.view(), 1e-5F, stream, offset));
            CHECK(std::equal(out.values.begin(), out.values.end(), aliased.values.begin(),
                             [](T a, T b) { return static_cast<float>(a) == static_cast<float>(b); }));
        }
    }
}

TEST_CASE_TEMPLATE("layer_norm: equals the definition in float64, also far from zero and without a bias", T, float,
                   Bfloat16) {
    HostContext context({.threads = 2});
    auto stream = context.make_stream();
    for (auto const [rows, width] : shapes) {
        for (float const far : {0.0F, 1000.0F}) {
            auto in = random_matrix<T>(rows, width, 3);
            for (auto& value : in.values) value = T(static_cast<float>(value) + far);
            auto const weight = random_matrix<T>(1, width, 4);
            auto const bias = random_matrix<T>(1, width, 5);
            for (bool const has_bias : {false, true}) {
                Matrix<T> out{rows, width};
                auto const shift = has_bias ? bias.flat() : TensorView<T const, 1, Host>{};
                REQUIRE(layer_norm<T>(in.read(), weight.flat(), shift, out.view(), 1e-5F, stream));
                // The bias may cancel the rest: the floor is the size of its summands, at most about 10.
                check_close<T>(
                    out,
                    [&](std::int64_t row, std::int64_t i) {
                        double mean = 0.0;
                        for (std::int64_t k = 0; k < in.width; ++k)
                            mean += in.at(row, k) / static_cast<double>(in.width);
                        double variance = 0.0;
                        for (std::int64_t k = 0; k < in.width; ++k) {
                            variance += (in.at(row, k) - mean) * (in.at(row, k) - mean) / static_cast<double>(in.width);
                        }
                        return (in.at(row, i) - mean) / std::sqrt(variance + static_cast<double>(1e-5F)) *
                                   weight.at(0, i) +
                               (has_bias ? bias.at(0, i) : 0.0);
                    },
                    5.0, 20.0);
            }
        }
    }
}

TEST_CASE("activation: each kind equals its formula in float64, far out too") {
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    auto const sigmoid = [](double x) { return 1.0 / (1.0 + std::exp(-x)); };
    auto const reference = [&](double x, ActivationKind kind) {
        switch (kind) {
            case ActivationKind::silu:
                return x * sigmoid(x);
            case ActivationKind::gelu:
                return 0.5 * x * (1.0 + std::erf(x / std::sqrt(2.0)));
            case ActivationKind::gelu_tanh:
            case ActivationKind::gelu_new:
            case ActivationKind::gelu_fast:
                return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / pi) * (x + 0.044715 * x * x * x)));
            case ActivationKind::relu:
                return std::max(x, 0.0);
            case ActivationKind::tanh:
                return std::tanh(x);
            case ActivationKind::quick_gelu:
                return x * sigmoid(1.702 * x);
            case ActivationKind::sigmoid:
                return sigmoid(x);
            case ActivationKind::swiglu_clamped:
                return x * sigmoid(1.702 * x);
        }
        return x;
    };
    Matrix<float> in{1, 401};
    for (std::int64_t i = 0; i < 401; ++i) in.values[static_cast<std::size_t>(i)] = static_cast<float>(i - 200) * 0.1F;
    for (auto const kind : {ActivationKind::silu, ActivationKind::gelu, ActivationKind::gelu_tanh, ActivationKind::relu,
                            ActivationKind::tanh, ActivationKind::quick_gelu, ActivationKind::sigmoid}) {
        Matrix<float> out{1, 401};
        REQUIRE(activation<float>(in.read(), out.view(), kind, stream));
        // 1 + erf or 1 + tanh cancels for negative values: the error is relative to x, which is at most 20.
        check_close<float>(
            out, [&](std::int64_t row, std::int64_t i) { return reference(in.at(row, i), kind); }, 6.0, 20.0);
    }
    auto const up = random_matrix<float>(1, 401, 6, 9.0F);
    Matrix<float> out{1, 401};
    REQUIRE(gated_activation<float>(in.read(), up.read(), out.view(), ActivationKind::silu, stream));
    check_close<float>(
        out,
        [&](std::int64_t row, std::int64_t i) {
            return reference(in.at(row, i), ActivationKind::silu) * up.at(row, i);
        },
        8.0, 1.0);
    REQUIRE(gated_activation<float>(in.read(), up.read(), out.view(), ActivationKind::swiglu_clamped, stream));
    check_close<float>(
        out,
        [&](std::int64_t row, std::int64_t i) {
            auto const gate = std::min(in.at(row, i), 7.0);
            return gate * sigmoid(1.702 * gate) * (std::clamp(up.at(row, i), -7.0, 7.0) + 1.0);
        },
        8.0, 1.0);
}

TEST_CASE_TEMPLATE("softmax: rows sum to one, large values do not overflow, masked rows are zero", T, float, Bfloat16) {
    HostContext context({.threads = 2});
    auto stream = context.make_stream();
    for (auto const [rows, width] : shapes) {
        auto in = random_matrix<T>(rows, width, 7, 30.0F);
        auto const minus_infinity = T(-std::numeric_limits<float>::infinity());
        in.values[0] = minus_infinity;
        Matrix<T> out{rows, width};
        REQUIRE(softmax<T>(in.read(), out.view(), stream));
        check_close<T>(
            out,
            [&](std::int64_t row, std::int64_t i) {
                double largest = -std::numeric_limits<double>::infinity();
                for (std::int64_t k = 0; k < in.width; ++k) largest = std::max(largest, in.at(row, k));
                double sum = 0.0;
                for (std::int64_t k = 0; k < in.width; ++k) sum += std::exp(in.at(row, k) - largest);
                // The one row of one masked element.
                return std::isinf(largest) ? 0.0 : std::exp(in.at(row, i) - largest) / sum;
            },
            130.0, 1e-6);  // exp(x) of a float x near 100 is as uncertain as 100 roundings of x
    }
}

TEST_CASE("embedding: a table and the sum over its shards give the same rows; ids outside of a shard give zeros") {
    HostContext context({.threads = 2});
    auto stream = context.make_stream();
    auto const table = random_matrix<float>(50, 24, 8);
    std::vector<std::int32_t> ids{0, 49, 7, 7, 25, 24};
    TensorView<std::int32_t const, 1, Host> const id_view{ids.data(), {6}};
    Matrix<float> whole{6, 24};
    REQUIRE(embedding<float>(id_view, table.read(), whole.view(), stream));
    for (std::int64_t token = 0; token < 6; ++token) {
        for (std::int64_t i = 0; i < 24; ++i)
            CHECK(whole.at(token, i) == table.at(ids[static_cast<std::size_t>(token)], i));
    }
    Matrix<float> low{6, 24};
    Matrix<float> high{6, 24};
    REQUIRE(embedding<float>(id_view, table.read().rows(0, 25), low.view(), stream));
    REQUIRE(embedding<float>(id_view, table.read().rows(25, 25), high.view(), stream, 25));
    for (std::size_t i = 0; i < whole.values.size(); ++i) {
        CHECK(low.values[i] + high.values[i] == whole.values[i]);
        CHECK((low.values[i] == 0.0F || high.values[i] == 0.0F));
    }
}

TEST_CASE("rope: turns the pairs of either layout by position times frequency and leaves the rest of a head alone") {
    HostContext context({.threads = 2});
    auto stream = context.make_stream();
    constexpr std::int64_t head_dim = 10;
    constexpr std::int64_t pairs = 4;
    std::vector<float> const frequencies{1.0F, 0.1F, 0.01F, 0.001F};
    std::vector<std::int32_t> const positions{0, 1, 17, 131'071};
    auto const before = random_matrix<float>(4, 3 * head_dim, 9);
    for (auto const layout : {RopeLayout::half, RopeLayout::interleaved}) {
        auto after = before;
        REQUIRE(rope<float>(after.view(), {positions.data(), {4}}, {frequencies.data(), {pairs}}, head_dim, layout,
                            stream, 1.5F));
        check_close<float>(
            after,
            [&](std::int64_t token, std::int64_t i) {
                auto const within = i % head_dim;
                if (within >= 2 * pairs) return before.at(token, i);
                bool const is_half = layout == RopeLayout::half;
                auto const pair = is_half ? within % pairs : within / 2;
                bool const is_first = is_half ? within < pairs : within % 2 == 0;
                auto const partner = i + (is_first ? 1 : -1) * (is_half ? pairs : 1);
                auto const angle = positions[static_cast<std::size_t>(token)] *
                                   static_cast<double>(frequencies[static_cast<std::size_t>(pair)]);
                return 1.5 * (before.at(token, i) * std::cos(angle) +
                              (is_first ? -1.0 : 1.0) * before.at(token, partner) * std::sin(angle));
            },
            6.0, 10.0);
    }
}

TEST_CASE("kernels over rows refuse shapes that do not go together, and say which") {
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    auto const in = random_matrix<float>(2, 8, 10);
    Matrix<float> narrow{2, 7};
    Matrix<float> out{2, 8};
    auto const weight = random_matrix<float>(1, 7, 11);
    CHECK(rms_norm<float>(in.read(), weight.flat(), out.view(), 1e-5F, stream).error().message() ==
          "rms_norm: the parameters are not as wide as a row (got 7, expected 8)");
    CHECK(softmax<float>(in.read(), narrow.view(), stream).error().code() == ErrorCode::shape_mismatch);
    std::vector<std::int32_t> const ids{1};
    CHECK(embedding<float>({ids.data(), {1}}, in.read(), out.view(), stream).error().code() ==
          ErrorCode::shape_mismatch);
    std::vector<float> const frequencies(5, 1.0F);
    CHECK(rope<float>(out.view(), {ids.data(), {1}}, {frequencies.data(), {5}}, 8, RopeLayout::half, stream)
              .error()
              .message() == "rope: more elements turn than a head has (got 10, expected 8)");
}
