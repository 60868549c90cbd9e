// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "golden_lines.hpp"

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace shardwise_test {

template <class T>
std::string fnv1a(std::vector<T> const& values) {
    std::uint64_t value = 0xCBF29CE484222325U;
    auto const* const bytes = reinterpret_cast<unsigned char const*>(values.data());
    for (std::size_t i = 0; i < values.size() * sizeof(T); ++i) value = (value ^ bytes[i]) * 0x100000001B3U;
    char text[17];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
    return text;
}

/// tests/golden/quant/encoded.txt with the values that were encoded.
struct EncodedGolden {
    std::vector<std::vector<std::string>> lines;
    std::vector<float> edges;
    std::vector<float> sweep;

    /// The sweep as scripts/golden/quant_encode.py makes it, empty where its hash is another.
    static EncodedGolden read() {
        EncodedGolden golden{golden_lines("encoded.txt"), {}, {}};
        for (auto const& line : golden.lines) {
            if (line[0] == "edges") golden.edges = from_hex<float>(line[1]);
            if (line[0] != "sweep") continue;
            golden.sweep.resize(static_cast<std::size_t>(std::stoul(line[1])));
            std::uint32_t state = 1;
            for (std::size_t i = 0; i < golden.sweep.size(); ++i) {
                state = state * 1664525U + 1013904223U;
                auto const value = static_cast<double>(state >> 8U) - 8388608.0;
                golden.sweep[i] = static_cast<float>(std::ldexp(value, -21 + static_cast<int>(i / 64 % 24) - 16));
            }
            if (fnv1a(golden.sweep) != line[2]) golden.sweep.clear();
        }
        return golden;
    }
    [[nodiscard]] std::vector<std::string> line(std::string const& name) const {
        for (auto const& words : lines) {
            if (words[0] == name) return words;
        }
        return {};
    }
};

}  // namespace shardwise_test
