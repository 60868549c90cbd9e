// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace shardwise_test {

/// The lines of a file of tests/golden/quant, split at spaces, without comments.
inline std::vector<std::vector<std::string>> golden_lines(std::string const& name) {
    std::ifstream file(std::string(SHARDWISE_SOURCE_DIR) + "/tests/golden/quant/" + name);
    std::vector<std::vector<std::string>> lines;
    for (std::string line; std::getline(file, line);) {
        if (line.empty() || line[0] == '#') continue;
        std::istringstream words(line);
        lines.emplace_back();
        for (std::string word; words >> word;) lines.back().push_back(word);
    }
    return lines;
}

/// The numbers whose little-endian bytes a hexadecimal text gives.
template <class T>
std::vector<T> from_hex(std::string const& text) {
    auto const digit = [](char c) { return static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10); };
    std::vector<std::uint8_t> bytes(text.size() / 2);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = static_cast<std::uint8_t>(16 * digit(text[2 * i]) + digit(text[2 * i + 1]));
    }
    std::vector<T> out(bytes.size() / sizeof(T));
    if (!out.empty()) std::memcpy(out.data(), bytes.data(), out.size() * sizeof(T));
    return out;
}

/// How many elements differ in their bits; all of them where the lengths differ.
inline std::size_t count_differences(std::vector<float> const& a, std::vector<float> const& b) {
    if (a.size() != b.size()) return a.size() + b.size() + 1;
    std::size_t count = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        if (std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i])) ++count;
    }
    return count;
}

}  // namespace shardwise_test
