// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>

#include "console.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::cli {

/// "12,345,678".
[[nodiscard]] std::string grouped(std::int64_t number);
/// "70.55 B" for parameters.
[[nodiscard]] std::string short_count(std::int64_t number);
/// A number with this many decimals.
[[nodiscard]] std::string decimals(double number, int digits);
/// Seconds as people read them: "12.3 ms".
[[nodiscard]] std::string duration(double seconds);
/// "1 device", "2 devices".
[[nodiscard]] std::string counted(std::int64_t count, std::string_view thing);

/// How many columns a text takes on a terminal: characters, colours left out.
[[nodiscard]] std::size_t columns(std::string_view text);
/// Fills up with blanks on the right, or on the left.
[[nodiscard]] std::string padded(std::string_view text, std::size_t width);
[[nodiscard]] std::string aligned_right(std::string_view text, std::size_t width);

/// A stretch of a bar.
struct BarPart {
    Bytes size{};
    std::string_view glyph;
    std::string_view color;
};

/// Columns of the bar of one device among many.
constexpr int device_bar_width = 24;

/// A bar of `width` columns for `whole`: parts in order, each rounded so that their sum is right, the rest as dots. What
/// overflows is cut.
[[nodiscard]] std::string bar(std::vector<BarPart> const& parts, Bytes whole, int width, Style const& style);

/// Breaks a list at its commas into lines of at most `width` columns.
[[nodiscard]] std::vector<std::string> wrapped(std::vector<std::string> const& items, std::size_t width);

/// A table with aligned columns; the first is aligned left, others right.
class Table {
public:
    explicit Table(std::vector<std::string> head) : rows_{std::move(head)} {}

    void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
    /// The rows; the head is bold.
    [[nodiscard]] std::string text(Style const& style, std::size_t left_columns = 1) const;

private:
    std::vector<std::vector<std::string>> rows_;
};

}  // namespace shardwise::cli
