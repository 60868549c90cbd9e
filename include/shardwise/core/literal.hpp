// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstddef>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A parameter for texts that stand in tables: takes a string literal, or any other text that outlives the table.
///
/// std::string_view alone would do, but finds the end of a literal by a function call for each character, which costs an
/// including program 1 ms for every ten rows of a constexpr table with g++ -O0.
class Literal {
public:
    constexpr Literal() = default;
    constexpr Literal(char const* text) : view_(text, __builtin_strlen(text)) {}  // NOLINT: implicit on purpose
    constexpr Literal(std::string_view text) : view_(text) {}                     // NOLINT: implicit on purpose
    constexpr operator std::string_view() const { return view_; }                 // NOLINT: implicit on purpose

private:
    std::string_view view_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
