// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

/// What tests of the room train share: lines of golden data, and the inputs that its scripts used.
namespace shardwise::testing {

/// A line "words | words | ...", cut into its parts.
using GoldenLine = std::vector<std::vector<std::string>>;

/// The lines of tests/golden/train/NAME without the comment.
inline std::vector<GoldenLine> golden_lines(std::string const& name) {
    std::ifstream in(std::string(SHARDWISE_SOURCE_DIR) + "/tests/golden/train/" + name);
    std::vector<GoldenLine> lines;
    for (std::string line; std::getline(in, line);) {
        if (line.starts_with('#')) continue;
        std::istringstream words(line);
        GoldenLine parts(1);
        for (std::string word; words >> word;) {
            if (word == "|") {
                parts.emplace_back();
            } else {
                parts.back().push_back(word);
            }
        }
        lines.push_back(std::move(parts));
    }
    return lines;
}

inline double number_of(std::string const& word) {
    return std::strtod(word.c_str(), nullptr);
}
inline std::vector<double> numbers_of(std::vector<std::string> const& words) {
    std::vector<double> out;
    for (auto const& word : words) out.push_back(number_of(word));
    return out;
}

/// The inputs of scripts/golden/train_parts.py: multiples of 2^-24 in [-1/2, 1/2).
inline std::vector<float> input_numbers(std::int64_t first, std::int64_t count) {
    std::vector<float> out;
    for (auto i = first; i < first + count; ++i) {
        auto const hash = static_cast<std::uint32_t>(static_cast<std::uint64_t>(i) * 2654435761U + 12345U);
        out.push_back(static_cast<float>(hash >> 8U) / 16777216.0F - 0.5F);
    }
    return out;
}

}  // namespace shardwise::testing
