// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/core/text.hpp>
#include <shardwise/deploy/deploy_request.hpp>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

[[nodiscard]] constexpr bool is_digit(char letter) {
    return letter >= '0' && letter <= '9';
}

/// True for names like HF_TOKEN and apiKey: a word between underscores says so. MAX_TOKENS is none.
[[nodiscard]] inline bool is_secret_name(std::string_view name) {
    constexpr std::array<std::string_view, 11> words{"token",    "secret", "secrets",    "password",    "passwd", "key",
                                                     "apikey", "pass", "passphrase", "credential", "credentials"};
    while (true) {
        auto const end = name.find('_');
        auto const word = name.substr(0, end);
        for (auto const secret : words) {
            if (equal_ignoring_case(word, secret)) return true;
        }
        if (end == std::string_view::npos) return false;
        name.remove_prefix(end + 1);
    }
}

/// True for what services give out as tokens, for user names in addresses, and for long words of letters and digits.
[[nodiscard]] inline bool is_secret_value(std::string_view value) {
    constexpr std::array<std::string_view, 14> starts{"hf_",  "sk-",   "ghp_", "gho_", "ghs_",  "github_pat_", "glpat-",
                                                      "xox", "AKIA", "ASIA", "eyJ",  "nvapi-", "AIza",     "Bearer "};
    for (auto const start : starts) {
        if (value.size() > start.size() && value.substr(0, start.size()) == start) return true;
    }
    if (value.find("://") != std::string_view::npos && value.find('@') != std::string_view::npos) return true;
    if (value.find("PRIVATE KEY") != std::string_view::npos) return true;
    constexpr std::size_t least = 20;
    if (value.size() < least || value.front() == '/') return false;
    bool has_digit = false;
    bool has_letter = false;
    for (char const letter : value) {
        bool const is_letter = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
        if (is_digit(letter)) has_digit = true;
        if (is_letter) has_letter = true;
        bool const is_sign = letter == '_' || letter == '-' || letter == '+' || letter == '/' || letter == '=';
        if (!is_letter && !is_digit(letter) && !is_sign) return false;
    }
    return has_digit && has_letter;
}

/// True for values that say nothing worth hiding: numbers and switches.
[[nodiscard]] inline bool is_plain_value(std::string_view value) {
    for (std::string_view const word : {"", "true", "false", "yes", "no", "on", "off"}) {
        if (equal_ignoring_case(word, value)) return true;
    }
    return value.size() < 6 && value.find_first_not_of("0123456789.") == std::string_view::npos;
}

}  // namespace detail

/// True for a variable whose value must not be written anywhere.
[[nodiscard]] inline bool looks_like_secret(std::string_view name, std::string_view value) {
    if (equal_ignoring_case(name, "HF_TOKEN")) return true;
    if (detail::is_secret_value(value)) return true;
    return detail::is_secret_name(name) && !detail::is_plain_value(value);
}

/// Reads "NAME" or "NAME=value".
///
/// Errors  invalid_argument for a name that is none, and for a value that looks like a token: the message never holds a
///         value
[[nodiscard]] inline Result<EnvironmentEntry> parse_environment(std::string_view text) {
    auto const end = text.find('=');
    auto const name = text.substr(0, end);
    Error error{ErrorCode::invalid_argument};
    error.in("--env");
    bool is_name = !name.empty() && !detail::is_digit(name.front());
    for (char const letter : name) {
        auto const low = to_lower(letter);
        is_name = is_name && ((low >= 'a' && low <= 'z') || detail::is_digit(letter) || letter == '_');
    }
    // A word without "=" may be the secret itself.
    if (!is_name || (end == std::string_view::npos && detail::is_secret_value(name)))
        return error.because("is given what is no variable's name").fix("write --env NAME or --env NAME=value");
    if (end == std::string_view::npos) return EnvironmentEntry{std::string(name), std::nullopt};
    auto const value = text.substr(end + 1);
    if (looks_like_secret(name, value)) {
        return error.at(name)
            .because("has a value that looks like a secret, which everybody could read in the list of processes")
            .fix("export it and write --env " + std::string(name));
    }
    if (value.find('\0') != std::string_view::npos || value.find('\n') != std::string_view::npos)
        return error.at(name).because("has a value of several lines").fix("export it and write --env " + std::string(name));
    return EnvironmentEntry{std::string(name), std::string(value)};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
