// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/core/text.hpp>

#include <charconv>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::cli {

/// A word that a flag takes and what it means.
template <class Meaning>
struct Choice {
    std::string_view word;
    Meaning meaning;
};

/// What the word of a flag means, in any case.
///
/// Errors  unknown_name with the closest word and all others
template <class Meaning>
[[nodiscard]] Result<Meaning> choose(std::string_view flag, std::string_view word,
                                     std::span<Choice<Meaning> const> choices) {
    ClosestName closest(word);
    std::string all;
    for (auto const& choice : choices) {
        if (equal_ignoring_case(choice.word, word)) return choice.meaning;
        closest.offer(choice.word);
        all += (all.empty() ? "" : ", ") + std::string(choice.word);
    }
    std::string advice = "use one of " + all;
    if (!closest.best().empty()) advice = "did you mean " + std::string(closest.best()) + "? " + advice;
    return Error{ErrorCode::unknown_name}.in(flag).at(word).because("is not one of its values").fix(advice);
}

/// The number of a flag within [least, most].
///
/// Errors  invalid_argument that names the flag, the word and the range
[[nodiscard]] inline Result<std::int64_t> read_number(std::string_view flag, std::string_view word, std::int64_t least,
                                                      std::int64_t most) {
    std::int64_t value = 0;
    auto const [end, problem] = std::from_chars(word.data(), word.data() + word.size(), value);
    auto const range = std::to_string(least) + " to " + std::to_string(most);
    Error error{ErrorCode::invalid_argument};
    error.in(flag).at(word.empty() ? std::string_view{"\"\""} : word).fix("write a whole number from " + range);
    if (problem == std::errc::result_out_of_range) return error.because("is out of range");
    if (problem != std::errc{} || end != word.data() + word.size()) return error.because("is not a whole number");
    if (value < least || value > most) return error.because("is out of range");
    return value;
}

/// Writes the number of a flag within [least, most], if it was given; `Count` holds `most`.
///
/// Errors  as read_number
template <class Count>
[[nodiscard]] Result<> read_count(std::string_view flag, std::optional<std::string> const& word, std::int64_t most,
                                  Count& target, std::int64_t least = 1) {
    if (!word) return {};
    auto const number = read_number(flag, *word, least, most);
    if (!number) return number.error();
    target = static_cast<Count>(*number);
    return {};
}

/// Writes the tokens of a flag within [least, most], if they were given: 8192, or with a binary unit 8k, 128K, 1M.
///
/// Errors  as read_number
template <class Count>
[[nodiscard]] Result<> read_tokens(std::string_view flag, std::optional<std::string> const& word, std::int64_t most,
                                   Count& target, std::int64_t least = 1) {
    if (!word) return {};
    auto digits = std::string_view{*word};
    auto const unit = digits.empty() ? '0' : to_lower(digits.back());
    std::int64_t const factor = unit == 'k' ? 1024 : unit == 'm' ? 1024 * 1024 : 1;
    if (factor > 1) {
        digits.remove_suffix(1);
        while (!digits.empty() && digits.back() == ' ') digits.remove_suffix(1);
        std::int64_t value = 0;
        auto const [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
        bool const is_whole = problem == std::errc{} && end == digits.data() + digits.size() && !digits.empty();
        if (is_whole && value <= most / factor && value * factor >= least) {
            target = static_cast<Count>(value * factor);
            return {};
        }
    }
    auto number = read_number(flag, *word, least, most);
    if (!number) {
        auto error = number.error();
        return error.fix("write a number of tokens like 8192 or 8k, from " + std::to_string(least) + " to " +
                         std::to_string(most));
    }
    target = static_cast<Count>(*number);
    return {};
}

/// Token ids with commas between: 1,2,3.
///
/// Errors  invalid_argument that names the flag and the word that is no id
[[nodiscard]] inline Result<std::vector<std::int32_t>> read_id_list(std::string_view flag, std::string_view list,
                                                                    std::int64_t most) {
    std::vector<std::int32_t> ids;
    while (true) {
        auto const comma = list.find(',');
        auto const id = read_number(flag, list.substr(0, comma), 0, most);
        if (!id) return id.error();
        ids.push_back(static_cast<std::int32_t>(*id));
        if (comma == std::string_view::npos) return ids;
        list.remove_prefix(comma + 1);
    }
}

}  // namespace shardwise::cli
