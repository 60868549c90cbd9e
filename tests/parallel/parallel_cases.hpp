// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/source.hpp>
#include <shardwise/backend/host/products.hpp>
#include <shardwise/comm/threads.hpp>
#include <shardwise/parallel/policy.hpp>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <span>
#include <utility>
#include <vector>

/// What tests of parallel layers share: random matrices, the computation in float64 with the error that float sums may have,
/// and ranks that leave their results side by side.
namespace shardwise::testing {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

inline std::size_t index(std::int64_t i) {
    return static_cast<std::size_t>(i);
}

inline Floats random_floats(std::int64_t count, unsigned seed, float scale = 1.0F) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> values(-scale, scale);
    Floats out(index(count));
    for (auto& value : out) value = values(random);
    return out;
}

inline WeightSource f32_source(Floats const& values, std::int64_t outputs, std::int64_t inputs) {
    return {.format = WeightFormat::f32,
            .outputs = outputs,
            .inputs = inputs,
            .data = std::as_bytes(std::span<float const>(values)),
            .scales = {}};
}

inline TensorView<float, 2, Host> matrix(Floats& values, std::int64_t rows, std::int64_t columns) {
    return {values.data(), {rows, columns}};
}
inline TensorView<float const, 2, Host> matrix(Floats const& values, std::int64_t rows, std::int64_t columns) {
    return {values.data(), {rows, columns}};
}
template <class T>
TensorView<T, 1, Host> vector(std::vector<T>& values) {
    return {values.data(), {static_cast<std::int64_t>(values.size())}};
}
template <class T>
TensorView<T const, 1, Host> vector(std::vector<T> const& values) {
    return {values.data(), {static_cast<std::int64_t>(values.size())}};
}

/// A result in float64, and how far a float computation of it may be off: (terms + 2) roundings of the terms' magnitudes.
///
/// Source  Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 3.1
struct Exact {
    Doubles values;
    Doubles tolerance;

    /// The elements of `got` that are further off than they may be, times `slack` (for errors that inputs bring along).
    [[nodiscard]] int wrong(Floats const& got, double slack = 1.0) const {
        if (got.size() != values.size()) return static_cast<int>(values.size()) + 1;
        int count = 0;
        for (std::size_t i = 0; i < got.size(); ++i) {
            bool const is_near = std::abs(static_cast<double>(got[i]) - values[i]) <= slack * tolerance[i];
            if (!is_near) ++count;
        }
        return count;
    }
};

inline constexpr double unit_roundoff = 0x1p-24;

/// in * weight^T + bias in float64.
template <class In>
Exact exact_linear(std::vector<In> const& in, Doubles const& weight, std::int64_t rows, std::int64_t outputs,
                   std::int64_t inputs, Floats const& bias = {}) {
    Exact out{Doubles(index(rows * outputs)), Doubles(index(rows * outputs))};
    for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t column = 0; column < outputs; ++column) {
            double sum = bias.empty() ? 0.0 : static_cast<double>(bias[index(column)]);
            double size = std::abs(sum);
            for (std::int64_t k = 0; k < inputs; ++k) {
                auto const term = static_cast<double>(in[index(row * inputs + k)]) * weight[index(column * inputs + k)];
                sum += term;
                size += std::abs(term);
            }
            out.values[index(row * outputs + column)] = sum;
            out.tolerance[index(row * outputs + column)] = static_cast<double>(inputs + 2) * unit_roundoff * size;
        }
    }
    return out;
}

/// A weight's values as the references of its format decode them.
inline Doubles decoded(WeightSource const& source) {
    Doubles out;
    std::vector<float> chunk(index(detail::source_chunk));
    for (std::int64_t row = 0; row < source.outputs; ++row) {
        for (std::int64_t first = 0; first < source.inputs; first += detail::source_chunk) {
            auto const count = std::min(detail::source_chunk, source.inputs - first);
            detail::decode_source(source, row, first, count, chunk.data());
            for (std::int64_t i = 0; i < count; ++i) out.push_back(static_cast<double>(chunk[index(i)]));
        }
    }
    return out;
}

inline Doubles widened(Floats const& values) {
    return {values.begin(), values.end()};
}

inline bool is_bitwise_equal(Floats const& a, Floats const& b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

inline Result<> finish(HostStream& stream) {
    return stream.synchronize(Deadline::after(std::chrono::seconds(60)));
}

/// What one rank computes. A function object: each other type would make the test compile threads anew.
using RankBody = std::function<Result<Floats>(Threads&, HostContext&, HostStream&)>;

/// Runs the body on each rank and returns what all of them made.
inline Result<std::vector<Floats>> on_ranks(std::int32_t ranks, RankBody const& body,
                                            StreamMode mode = StreamMode::immediate) {
    std::vector<Floats> made(static_cast<std::size_t>(ranks));
    auto const done = run_threads(ranks, [&](Threads& comm) -> Result<> {
        HostContext context({.threads = 1, .streams = mode});
        auto stream = context.make_stream();
        auto out = body(comm, context, stream);
        if (!out) return out.error();
        made[static_cast<std::size_t>(comm.rank())] = std::move(*out);
        return {};
    });
    if (!done) return done.error();
    return made;
}

}  // namespace shardwise::testing
