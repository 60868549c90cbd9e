// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/json/value.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Reads the members of a saved plan. The first problem is kept, with the file and the key ("ranks.3.device"); what is read
/// after it means nothing.
class PlanFields {
public:
    explicit PlanFields(std::string_view file) : file_(file) {}

    [[nodiscard]] std::string const& file() const { return file_; }
    [[nodiscard]] std::optional<Error> const& error() const { return error_; }
    void note(Error error) {
        if (!error_) error_ = std::move(error);
    }

    [[nodiscard]] Error refuse(std::string_view key, std::string_view why) const {
        return Error{ErrorCode::invalid_field}.in(file_).at(key).because(why).fix(advice);
    }
    [[nodiscard]] Error lacks(std::string_view key) const {
        return Error{ErrorCode::missing_field}.in(file_).at(key).because("is missing").fix(advice);
    }

    [[nodiscard]] bool is_object(JsonValue value, std::string_view key) {
        if (!value.is_object()) note(refuse(key, "is no JSON object"));
        return value.is_object();
    }
    [[nodiscard]] std::optional<JsonValue> object(JsonValue parent, std::string_view place, std::string_view key) {
        auto const found = member(parent, place, key);
        return found && is_object(*found, path(place, key)) ? found : std::nullopt;
    }
    [[nodiscard]] std::optional<JsonValue> array(JsonValue parent, std::string_view place, std::string_view key) {
        auto const found = member(parent, place, key);
        if (found && !found->is_array()) note(refuse(path(place, key), "is no list"));
        return found && found->is_array() ? found : std::nullopt;
    }

    /// A whole number in [least, most]; `least` where there is none.
    [[nodiscard]] std::int64_t whole(JsonValue parent, std::string_view place, std::string_view key, std::int64_t least,
                                     std::int64_t most) {
        auto const found = member(parent, place, key);
        if (!found) return least;
        auto const number = found->integer();
        if (!number) {
            note(refuse(path(place, key), "is no whole number"));
            return least;
        }
        if (*number >= least && *number <= most) return *number;
        auto error = refuse(path(place, key), "is out of range").got(*number);
        note(least == most ? error.expected(least) : error.between(least, most));
        return least;
    }
    /// A number that is finite and not negative.
    [[nodiscard]] double real(JsonValue parent, std::string_view place, std::string_view key) {
        auto const found = member(parent, place, key);
        if (!found) return 0.0;
        auto const number = found->real();
        if (number && std::isfinite(*number) && *number >= 0.0) return *number;
        note(refuse(path(place, key), "is no number from 0 on"));
        return 0.0;
    }
    [[nodiscard]] bool boolean(JsonValue parent, std::string_view place, std::string_view key) {
        auto const found = member(parent, place, key);
        if (!found) return false;
        if (!found->boolean()) note(refuse(path(place, key), "is neither true nor false"));
        return found->boolean().value_or(false);
    }
    [[nodiscard]] std::string text(JsonValue parent, std::string_view place, std::string_view key) {
        auto const found = member(parent, place, key);
        return found ? text_of(*found, path(place, key)) : std::string();
    }
    /// Empty where it is null or absent.
    [[nodiscard]] std::string optional_text(JsonValue parent, std::string_view place, std::string_view key) {
        auto const found = parent.find(key);
        return !found || found->is_null() ? std::string() : text_of(*found, path(place, key));
    }

private:
    static constexpr std::string_view advice = "see docs/reference/json.md, shardwise.plan/1; or write the plan again";
    /// The longest path that Linux takes (PATH_MAX).
    static constexpr std::size_t max_text = 4096;

    [[nodiscard]] static std::string path(std::string_view place, std::string_view key) {
        return place.empty() ? std::string(key) : std::string(place) + "." + std::string(key);
    }
    [[nodiscard]] std::optional<JsonValue> member(JsonValue parent, std::string_view place, std::string_view key) {
        auto const found = parent.find(key);
        if (!found) note(lacks(path(place, key)));
        return found;
    }
    [[nodiscard]] std::string text_of(JsonValue value, std::string_view key) {
        auto const word = value.string();
        if (!word) note(refuse(key, "is no string"));
        if (word && word->size() > max_text) note(refuse(key, "is too long"));
        if (word && word->find('\0') != std::string_view::npos) note(refuse(key, "has a zero byte"));
        return word && word->size() <= max_text ? std::string(*word) : std::string();
    }

    std::string file_;
    std::optional<Error> error_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
