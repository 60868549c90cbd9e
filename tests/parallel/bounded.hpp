// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "parallel_cases.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

/// Running error analysis: a value in float64 and how far a float computation of it may be off, in any order of its sums.
///
/// Source  Higham, Accuracy and Stability of Numerical Algorithms, 2002, sections 3.1 and 3.3
namespace shardwise::testing {

struct Bounded {
    double value = 0.0;
    double error = 0.0;

    Bounded() = default;
    Bounded(double exact) : value(exact) {}  // NOLINT: floats come in as they are
    Bounded(double exact, double bound) : value(exact), error(bound) {}
};
using Bounds = std::vector<Bounded>;

/// What a float below the normal ones may be off.
inline constexpr double underflow = 0x1p-126;

inline Bounded operator+(Bounded a, Bounded b) {
    auto const sum = a.value + b.value;
    return {sum, a.error + b.error + unit_roundoff * std::abs(sum)};
}
inline Bounded operator*(Bounded a, Bounded b) {
    auto const product = a.value * b.value;
    return {product, std::abs(a.value) * b.error + std::abs(b.value) * a.error + a.error * b.error +
                         unit_roundoff * std::abs(product) + underflow};
}
/// The library's exponential is within two units in the last place.
inline Bounded exponential(Bounded a) {
    auto const value = std::exp(a.value);
    return {value, value * (std::expm1(a.error) + 4.0 * unit_roundoff) + underflow};
}
inline Bounded reciprocal(Bounded a) {
    auto const value = 1.0 / a.value;
    return {value, std::abs(value) * (a.error / (std::abs(a.value) - a.error) + unit_roundoff)};
}

/// A sum in any order: as many roundings as terms, each of the terms' magnitudes.
class AnyOrderSum {
public:
    void add(Bounded term) {
        value_ += term.value;
        error_ += term.error;
        size_ += std::abs(term.value) + term.error;
        terms_ += 1.0;
    }
    [[nodiscard]] Bounded sum() const { return {value_, error_ + terms_ * unit_roundoff * size_}; }

private:
    double value_ = 0.0;
    double error_ = 0.0;
    double size_ = 0.0;
    double terms_ = 0.0;
};

inline Bounds bounded(Floats const& values) {
    Bounds out;
    for (auto const value : values) out.emplace_back(static_cast<double>(value));
    return out;
}

inline Bounds bounded_linear(Bounds const& in, Floats const& weight, std::int64_t inputs) {
    auto const rows = static_cast<std::int64_t>(in.size()) / inputs;
    auto const outputs = static_cast<std::int64_t>(weight.size()) / inputs;
    Bounds out(index(rows * outputs));
    for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t column = 0; column < outputs; ++column) {
            AnyOrderSum sum;
            for (std::int64_t k = 0; k < inputs; ++k) {
                sum.add(in[index(row * inputs + k)] * Bounded(static_cast<double>(weight[index(column * inputs + k)])));
            }
            out[index(row * outputs + column)] = sum.sum();
        }
    }
    return out;
}

inline Bounds bounded_add(Bounds const& a, Bounds const& b) {
    Bounds out;
    for (std::size_t i = 0; i < a.size(); ++i) out.push_back(a[i] + b[i]);
    return out;
}

inline Bounds bounded_rms_norm(Bounds const& in, Floats const& weight, double epsilon) {
    auto const width = weight.size();
    Bounds out(in.size());
    for (std::size_t first = 0; first < in.size(); first += width) {
        AnyOrderSum squares;
        for (std::size_t i = 0; i < width; ++i) squares.add(in[first + i] * in[first + i]);
        auto const mean = squares.sum() * Bounded(1.0 / static_cast<double>(width)) + Bounded(epsilon);
        auto const root = std::sqrt(mean.value);
        Bounded const scale{1.0 / root, (0.5 * mean.error / mean.value + 2.0 * unit_roundoff) / root};
        for (std::size_t i = 0; i < width; ++i)
            out[first + i] = in[first + i] * scale * Bounded(static_cast<double>(weight[i]));
    }
    return out;
}

inline Bounded bounded_silu(Bounded x) {
    return x * reciprocal(Bounded(1.0) + exponential({-x.value, x.error}));
}

/// Turns pairs (i, i + half) of each head.
inline void bounded_rope(Bounds& values, std::int64_t width, std::int64_t first, std::int64_t heads,
                         std::int64_t head_dim, std::int64_t first_position, Floats const& frequencies) {
    auto const rows = static_cast<std::int64_t>(values.size()) / width;
    auto const half = head_dim / 2;
    for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t pair = 0; pair < half; ++pair) {
            auto const angle =
                static_cast<double>(first_position + row) * static_cast<double>(frequencies[index(pair)]);
            Bounded const cosine{std::cos(angle), 2.0 * unit_roundoff};
            Bounded const sine{std::sin(angle), 2.0 * unit_roundoff};
            Bounded const minus_sine{-sine.value, sine.error};
            for (std::int64_t head = 0; head < heads; ++head) {
                auto& a = values[index(row * width + first + head * head_dim + pair)];
                auto& b = values[index(row * width + first + head * head_dim + pair + half)];
                auto const turned = a * cosine + b * minus_sine;
                b = b * cosine + a * sine;
                a = turned;
            }
        }
    }
}

/// Causal attention of all rows of [queries, keys, values] over each other.
inline Bounds bounded_attention(Bounds const& qkv, std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim) {
    auto const width = (heads + 2 * kv_heads) * head_dim;
    auto const rows = static_cast<std::int64_t>(qkv.size()) / width;
    Bounds out(index(rows * heads * head_dim));
    Bounded const scale{1.0 / std::sqrt(static_cast<double>(head_dim)), unit_roundoff};
    for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t head = 0; head < heads; ++head) {
            auto const key_column = (heads + head / (heads / kv_heads)) * head_dim;
            auto const value_column = key_column + kv_heads * head_dim;
            Bounds scores;
            double largest = -1e300;
            for (std::int64_t key = 0; key <= row; ++key) {
                AnyOrderSum score;
                for (std::int64_t i = 0; i < head_dim; ++i) {
                    score.add(qkv[index(row * width + head * head_dim + i)] * qkv[index(key * width + key_column + i)]);
                }
                scores.push_back(score.sum() * scale);
                largest = std::max(largest, scores.back().value);
            }
            AnyOrderSum total;
            for (auto& score : scores) {
                // Rounding of the difference to the largest score, which another order of parts may take apart again.
                score = exponential(score + Bounded(-largest, 2.0 * unit_roundoff * std::abs(largest)));
                total.add(score);
            }
            for (std::int64_t i = 0; i < head_dim; ++i) {
                AnyOrderSum value;
                for (std::int64_t key = 0; key <= row; ++key)
                    value.add(scores[index(key)] * qkv[index(key * width + value_column + i)]);
                out[index((row * heads + head) * head_dim + i)] = value.sum() * reciprocal(total.sum());
            }
        }
    }
    return out;
}

/// The elements of `got` that are further off than they may be.
inline int wrong(Bounds const& expected, Floats const& got) {
    if (got.size() != expected.size()) return static_cast<int>(expected.size()) + 1;
    int count = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
        bool const is_near = std::abs(static_cast<double>(got[i]) - expected[i].value) <= expected[i].error;
        if (!is_near) ++count;
    }
    return count;
}

}  // namespace shardwise::testing
