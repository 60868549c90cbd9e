// SPDX-License-Identifier: Apache-2.0
#include "text.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <utility>

namespace shardwise::cli {

std::string grouped(std::int64_t number) {
    auto digits = std::to_string(number);
    auto const first = digits[0] == '-' ? 1 : 0;
    for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > first; at -= 3)
        digits.insert(static_cast<std::size_t>(at), 1, ',');
    return digits;
}

std::string short_count(std::int64_t number) {
    constexpr std::string_view units[] = {"", " K", " M", " B", " T"};
    auto value = static_cast<double>(number);
    std::size_t unit = 0;
    while (value >= 1000.0 && unit + 1 < 5) value /= 1000.0, ++unit;
    return unit == 0 ? std::to_string(number) : decimals(value, 2) + std::string(units[unit]);
}

std::string decimals(double number, int digits) {
    char buffer[64];
    std::snprintf(buffer, sizeof buffer, "%.*f", digits, number);
    return buffer;
}

std::string duration(double seconds) {
    if (seconds >= 1.0) return decimals(seconds, 2) + " s";
    if (seconds >= 1e-3) return decimals(seconds * 1e3, 2) + " ms";
    return decimals(seconds * 1e6, 1) + " us";
}

std::string counted(std::int64_t count, std::string_view thing) {
    return grouped(count) + " " + std::string(thing) + (count == 1 ? "" : "s");
}

std::size_t columns(std::string_view text) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '\x1b') {
            while (i < text.size() && text[i] != 'm') ++i;
        } else if ((static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80U) {
            ++count;
        }
    }
    return count;
}

std::string padded(std::string_view text, std::size_t width) {
    auto const used = columns(text);
    return std::string(text) + std::string(used < width ? width - used : 0, ' ');
}

std::string aligned_right(std::string_view text, std::size_t width) {
    auto const used = columns(text);
    return std::string(used < width ? width - used : 0, ' ') + std::string(text);
}

std::string bar(std::vector<BarPart> const& parts, Bytes whole, int width, Style const& style) {
    std::string out;
    double sum = 0.0;
    int drawn = 0;
    for (auto const& part : parts) {
        sum += static_cast<double>(part.size.count());
        auto const share = whole > Bytes{} ? sum / static_cast<double>(whole.count()) : 0.0;
        int end = share >= 1.0 ? width : static_cast<int>(share * width + 0.5);
        // What is there is seen.
        if (part.size > Bytes{} && end == drawn && drawn < width && drawn == 0) end = 1;
        std::string stretch;
        for (; drawn < end; ++drawn) stretch += part.glyph;
        if (!stretch.empty()) out += style.paint(part.color, stretch);
    }
    std::string rest;
    for (; drawn < width; ++drawn) rest += "\u00b7";
    return out + style.dim(rest);
}

std::vector<std::string> wrapped(std::vector<std::string> const& items, std::size_t width) {
    std::vector<std::string> lines(1);
    for (std::size_t i = 0; i < items.size(); ++i) {
        auto const text = items[i] + (i + 1 < items.size() ? "," : "");
        if (!lines.back().empty() && columns(lines.back()) + 1 + columns(text) > width) lines.emplace_back();
        lines.back() += (lines.back().empty() ? "" : " ") + text;
    }
    return lines;
}

std::string Table::text(Style const& style, std::size_t left_columns) const {
    std::vector<std::size_t> widths;
    for (auto const& row : rows_) {
        for (std::size_t i = 0; i < row.size(); ++i) {
            if (i == widths.size()) widths.push_back(0);
            widths[i] = std::max(widths[i], columns(row[i]));
        }
    }
    std::string out;
    for (std::size_t r = 0; r < rows_.size(); ++r) {
        std::string line;
        for (std::size_t i = 0; i < rows_[r].size(); ++i) {
            if (i > 0) line += "  ";
            line += i < left_columns ? padded(rows_[r][i], widths[i]) : aligned_right(rows_[r][i], widths[i]);
        }
        while (!line.empty() && line.back() == ' ') line.pop_back();
        out += (r == 0 ? style.bold(line) : line) + "\n";
    }
    return out;
}

}  // namespace shardwise::cli
