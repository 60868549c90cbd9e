// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>

#include <doctest/doctest.h>

#include "row_matrices.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

/// Gradients in float64 with what float32 may differ from them by, and torch's.
namespace shardwise::testing {

/// The unit roundoff of float, with what the squares of roundings may add.
inline constexpr double rounding = 1.01 * 0x1p-24;

/// Values in [-2, 2), multiples of 2^-14: the same as `values` of scripts/golden/backward.py.
[[nodiscard]] inline Matrix<float> numbered_matrix(std::int64_t rows, std::int64_t width, std::uint32_t seed,
                                                   float factor = 1.0F) {
    Matrix<float> matrix{rows, width};
    for (std::size_t i = 0; i < matrix.values.size(); ++i) {
        auto mixed = seed * 1'000'003U + static_cast<std::uint32_t>(i) * 7'919U + 12'345U;
        mixed ^= mixed >> 16U;
        mixed *= 0x45D9F3BU;
        mixed ^= mixed >> 16U;
        matrix.values[i] = factor * static_cast<float>(static_cast<int>(mixed & 0xFFFFU) - 32'768) / 16'384.0F;
    }
    return matrix;
}

[[nodiscard]] inline TensorView<float, 1, Host> vector_of(Matrix<float>& matrix) {
    return {matrix.values.data(), {static_cast<std::int64_t>(matrix.values.size())}};
}

/// Exact values and by how much a result may differ from each.
struct Expected {
    std::int64_t width = 0;
    std::vector<double> values;
    std::vector<double> allowed;

    Expected() = default;
    Expected(std::int64_t rows, std::int64_t columns)
        : width(columns),
          values(static_cast<std::size_t>(rows * columns)),
          allowed(static_cast<std::size_t>(rows * columns)) {}
    [[nodiscard]] std::size_t at(std::int64_t row, std::int64_t i) const {
        return static_cast<std::size_t>(row * width + i);
    }
    void add(std::int64_t row, std::int64_t i, double value, double error) {
        values[at(row, i)] += value;
        allowed[at(row, i)] += error;
    }
};

/// Results within their bounds; with `before` they were added to it, which rounds once more.
inline void check_bounds(Matrix<float> const& got, Expected const& expected, Matrix<float> const* before = nullptr) {
    REQUIRE(got.values.size() == expected.values.size());
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < got.values.size(); ++i) {
        auto value = expected.values[i];
        auto allowed = expected.allowed[i] + 0x1p-121;
        if (before != nullptr) {
            value += static_cast<double>(before->values[i]);
            allowed += rounding * std::abs(value);
        }
        if (std::abs(static_cast<double>(got.values[i]) - value) <= allowed) continue;
        if (wrong++ == 0) MESSAGE("element ", i, ": ", got.values[i], " for ", value, " within ", allowed);
    }
    CHECK(wrong == 0);
}

[[nodiscard]] inline bool are_same_bits(Matrix<float> const& a, Matrix<float> const& b) {
    return a.values.size() == b.values.size() &&
           std::memcmp(a.values.data(), b.values.data(), a.values.size() * sizeof(float)) == 0;
}

/// Calls run(stream) with each instruction set and 1, 2 and 3 threads; `results()` are the matrices that it makes, whose bits must not
/// depend on the threads.
template <class Run, class Results>
void for_levels_and_threads(Run const& run, Results const& results) {
    for (auto const level : levels()) {
        CAPTURE(name_of(level));
        std::vector<Matrix<float>> first;
        for (int const threads : {1, 2, 3}) {
            CAPTURE(threads);
            HostContext context({.threads = threads, .isa = level});
            auto stream = context.make_stream();
            run(stream);
            REQUIRE(stream.synchronize(Deadline::after(std::chrono::seconds(60))));
            auto const made = results();
            if (first.empty()) first = made;
            for (std::size_t i = 0; i < made.size(); ++i) CHECK(are_same_bits(first[i], made[i]));
        }
    }
}

/// The gradients that torch has in float64, by name: scripts/golden/backward.py.
[[nodiscard]] inline std::vector<double> torch_gradient(std::string const& name) {
    static std::map<std::string, std::vector<double>> const all = [] {
        std::map<std::string, std::vector<double>> found;
        std::ifstream file(SHARDWISE_SOURCE_DIR "/tests/golden/backward.txt");
        for (std::string line; std::getline(file, line);) {
            if (line.empty() || line[0] == '#') continue;
            std::istringstream words(line);
            std::string key;
            words >> key;
            auto& values = found[key];
            for (std::string word; words >> word;) values.push_back(std::stod(word));
        }
        return found;
    }();
    auto const it = all.find(name);
    REQUIRE_MESSAGE(it != all.end(), name);
    return it->second;
}

/// The float64 values of a test are torch's: to some units of float64, of the size of what is summed.
inline void check_torch(Expected const& expected, std::string const& name, double size = 50.0) {
    CAPTURE(name);
    auto const theirs = torch_gradient(name);
    REQUIRE(theirs.size() == expected.values.size());
    double most = 0.0;
    for (std::size_t i = 0; i < theirs.size(); ++i) most = std::max(most, std::abs(theirs[i] - expected.values[i]));
    CHECK(most <= 100.0 * 0x1p-53 * size);
}

}  // namespace shardwise::testing
