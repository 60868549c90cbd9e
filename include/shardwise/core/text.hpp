// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/fixed_text.hpp>
#include <shardwise/core/list.hpp>

#include <array>
#include <cstddef>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

[[nodiscard]] constexpr char to_lower(char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

/// True where two ASCII texts differ at most in case.
[[nodiscard]] constexpr bool equal_ignoring_case(std::string_view a, std::string_view b) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i) {
        if (to_lower(a[i]) != to_lower(b[i])) return false;
    }
    return true;
}

/// The Levenshtein distance of two texts, ignoring case.
[[nodiscard]] constexpr std::size_t edit_distance(std::string_view a, std::string_view b) {
    // clang 14 cannot fill a vector of a given size in constant expressions.
    List<std::size_t> row;
    for (std::size_t j = 0; j <= b.size(); ++j) row.push_back(j);
    for (std::size_t i = 0; i < a.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i + 1;
        for (std::size_t j = 0; j < b.size(); ++j) {
            auto const substituted = diagonal + (to_lower(a[i]) == to_lower(b[j]) ? 0 : 1);
            diagonal = row[j + 1];
            auto const shorter = (row[j] < row[j + 1] ? row[j] : row[j + 1]) + 1;
            row[j + 1] = substituted < shorter ? substituted : shorter;
        }
    }
    return row[b.size()];
}

/// Remembers the candidate closest to a wrong name, for "did you mean".
class ClosestName {
public:
    constexpr explicit ClosestName(std::string_view wanted) : wanted_(wanted) {}

    /// Offers a candidate; it must outlive this object.
    constexpr void offer(std::string_view candidate) {
        // Names that differ by more than half of their length are no help.
        bool const is_beginning = !wanted_.empty() && wanted_.size() < candidate.size() &&
                                  equal_ignoring_case(candidate.substr(0, wanted_.size()), wanted_);
        auto const distance = is_beginning ? 1 : edit_distance(wanted_, candidate);
        auto const limit = (wanted_.size() > candidate.size() ? wanted_.size() : candidate.size()) / 2;
        if (distance <= limit && (best_.empty() || distance < distance_)) {
            best_ = candidate;
            distance_ = distance;
        }
    }
    /// The best candidate, empty where none is near.
    [[nodiscard]] constexpr std::string_view best() const { return best_; }

private:
    std::string_view wanted_;
    std::string_view best_;
    std::size_t distance_ = 0;
};

/// "did you mean NAME?", or nothing for an empty name.
[[nodiscard]] constexpr FixedText<120> did_you_mean(std::string_view name) {
    if (name.empty()) return {};
    constexpr std::string_view before = "did you mean ";
    std::array<char, 119> text{};
    std::size_t size = 0;
    for (char const letter : before) text[size++] = letter;
    for (char const letter : name.substr(0, text.size() - before.size() - 1)) text[size++] = letter;
    text[size++] = '?';
    return std::string_view{text.data(), size};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
