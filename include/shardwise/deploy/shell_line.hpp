// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <span>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A word as a POSIX shell reads it back: as it is where nothing in it means anything to a shell, else in single quotes.
[[nodiscard]] inline std::string shell_word(std::string_view word) {
    constexpr std::string_view plain =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+:,./-";
    // "=" is plain but in the first word, where a shell would assign.
    bool const is_plain = !word.empty() && word.find_first_not_of(std::string(plain) + "=") == std::string_view::npos;
    if (is_plain) return std::string(word);
    std::string out = "'";
    for (char const letter : word) {
        if (letter == '\'')
            out += "'\\''";
        else
            out += letter;
    }
    return out + "'";
}

/// A command line that a shell splits into these words.
[[nodiscard]] inline std::string shell_line(std::span<std::string const> words) {
    std::string line;
    for (auto const& word : words) line += (line.empty() ? "" : " ") + shell_word(word);
    return line;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
