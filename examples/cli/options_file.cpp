// SPDX-License-Identifier: Apache-2.0
#include "options_file.hpp"

#include <shardwise/core/files/text_file.hpp>
#include <shardwise/core/text.hpp>
#include <shardwise/json/value.hpp>

#include "train_refusals.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace shardwise::cli {

namespace {

constexpr std::size_t max_bytes = std::size_t{1} << 20U;
/// What reads the file is no part of it.
constexpr std::string_view itself = "--config";

/// "--weight-decay" of "weight_decay".
[[nodiscard]] std::string flag_of(std::string_view key) {
    std::string flag{"--"};
    flag += key;
    std::replace(flag.begin(), flag.end(), '_', '-');
    return flag;
}
[[nodiscard]] bool is_called(Option const& option, std::string_view key) {
    return option.is_positional() ? equal_ignoring_case(option.flag, key) : option.flag == flag_of(key);
}

/// A string or a number as the command line would give it.
[[nodiscard]] std::optional<std::string> word_of(JsonValue const& value) {
    if (auto const text = value.string()) return std::string(*text);
    if (auto const whole = value.integer()) return std::to_string(*whole);
    auto const real = value.real();
    if (!real) return std::nullopt;
    std::array<char, 32> digits{};
    auto const end = std::to_chars(digits.data(), digits.data() + digits.size(), *real).ptr;
    return std::string(digits.data(), end);
}

/// Sets what an option's flag would set, unless the command line did.
[[nodiscard]] Result<> take(Option const& option, JsonValue const& value, std::string const& path,
                            Arguments& arguments) {
    // As a report of a run has what was not given.
    if (value.is_null()) return {};
    auto const bad = [&](std::string_view reason) {
        return Error{ErrorCode::invalid_field}.in(path).at(value.key()).because(reason);
    };
    if (option.is_switch()) {
        auto const is_on = value.boolean();
        if (!is_on) return bad("is neither true nor false");
        arguments.*option.is_set = arguments.*option.is_set || *is_on;
        return {};
    }
    std::vector<std::string> words;
    if (value.is_array() && (option.words != nullptr || option.is_list)) {
        for (auto const one : value) {
            auto const word = word_of(one);
            if (!word) return bad("has a member that is neither a text nor a number");
            words.push_back(*word);
        }
    } else {
        auto const word = word_of(value);
        if (!word) return bad("is neither a text nor a number");
        words.push_back(*word);
    }
    if (option.words != nullptr) {
        if ((arguments.*option.words).empty()) arguments.*option.words = std::move(words);
        return {};
    }
    auto& target = arguments.*option.word;
    if (target) return {};
    target.emplace();
    for (auto const& word : words) *target += (target->empty() ? "" : ",") + word;
    return {};
}

}  // namespace

Result<> take_options_file(std::string const& path, Command const& command, Arguments& arguments) {
    auto const text = read_text_file(path, max_bytes);
    if (!text) return text.error();
    auto const document = parse_json(*text);
    if (!document) return Error{document.error()}.in(path);
    if (!document->root().is_object())
        return Error{ErrorCode::malformed_file}
            .in(path)
            .because("is no object of options")
            .fix(R"(write it like {"lr": 0.001, "batch": 32})");
    std::vector<std::string_view> given;
    for (auto const member : document->root()) {
        auto const key = member.key();
        std::optional<Option> found;
        ClosestName closest(key.substr(0, 64));
        command.for_each_option([&](Option const& option) {
            if (option.flag == itself) return;
            if (is_called(option, key)) found = option;
            closest.offer(option.is_positional() ? option.flag : option.flag.substr(2));
        });
        if (!found && command.name == "train") {
            if (auto const known = untrained_flag(flag_of(key))) return Error{*known};
        }
        if (!found) {
            Error error{ErrorCode::unknown_name};
            error.in(path).at(key).because("is no option of " + std::string(command.name));
            auto const best = closest.best();
            return error.fix(best.empty() ? "see shardwise " + std::string(command.name) + " --help"
                                          : "did you mean " + std::string(best) + "?");
        }
        if (std::find(given.begin(), given.end(), found->flag) != given.end()) {
            return Error{ErrorCode::invalid_field}
                .in(path)
                .at(key)
                .because("is given twice: " + std::string(found->flag) + " has another name here, too")
                .fix("leave one of them out");
        }
        given.push_back(found->flag);
        if (auto const taken = take(*found, member, path, arguments); !taken) return taken;
    }
    return {};
}

}  // namespace shardwise::cli
