// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/fixed_text.hpp>
#include <shardwise/core/memory_size.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/text.hpp>
#include <shardwise/json/value.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The first thing that is wrong with a description, and where descriptions say so.
struct DescriptionFault {
    std::string_view file;
    std::optional<Error> error;

    void set(ErrorCode code, std::string_view path, std::string_view reason, std::string_view advice = {}) {
        if (error) return;
        error.emplace(code);
        error->in(file).at(path).because(reason).fix(advice);
    }
};

/// Reads the members of one object into fields that keep their value where the member is absent. Reading goes on after
/// a fault, without effect: the first one counts. `finish` finds the members that nobody asked for.
class DescribedFields {
public:
    /// The object that `value` must be; `path` names it in errors ("devices[2].link").
    DescribedFields(JsonValue value, std::string path, DescriptionFault& fault)
        : value_(value), path_(std::move(path)), fault_(fault) {
        if (!value.is_object()) fault_.set(ErrorCode::invalid_field, path_, "must be an object");
    }

    [[nodiscard]] std::string path(std::string_view key) const {
        return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
    }
    void refuse(std::string_view key, std::string_view reason, std::string_view advice = {}) {
        fault_.set(ErrorCode::invalid_field, path(key), reason, advice);
    }
    void require(std::string_view key) {
        if (!value_.find(key)) fault_.set(ErrorCode::missing_field, path(key), "is missing");
    }

    /// The member itself, nothing where it is absent or a fault was found before.
    [[nodiscard]] std::optional<JsonValue> find(std::string_view key) {
        asked_.push_back(key);
        return fault_.error ? std::nullopt : value_.find(key);
    }
    /// A number of at least 0.
    void number(std::string_view key, double& out) {
        constexpr double most = 1e24;
        auto const found = find(key);
        if (!found) return;
        auto const real = found->real();
        if (!real) return refuse(key, "must be a number");
        if (!(*real >= 0.0 && *real <= most)) return refuse(key, "must lie between 0 and 1e24");
        out = *real;
    }
    /// A rate per second: below 1 is a slip of the unit, 0 says that it is not known.
    void rate(std::string_view key, double& out) {
        auto given = out;
        number(key, given);
        if (given > 0.0 && given < 1.0) return refuse(key, "must be 0 for unknown, or at least 1 per second");
        out = given;
    }
    void flag(std::string_view key, bool& out) {
        auto const found = find(key);
        if (!found) return;
        auto const is_set = found->boolean();
        if (!is_set) return refuse(key, "must be true or false");
        out = *is_set;
    }
    void integer(std::string_view key, std::int32_t& out, std::int32_t least, std::int32_t most) {
        auto const found = find(key);
        if (!found) return;
        auto const number = found->integer();
        if (!number) return refuse(key, "must be an integer");
        if (*number < least || *number > most) {
            return refuse(key, "must lie between " + std::to_string(least) + " and " + std::to_string(most));
        }
        out = static_cast<std::int32_t>(*number);
    }
    /// Bytes, as an integer or as text with a unit.
    void memory(std::string_view key, Bytes& out, Bytes most) {
        auto const found = find(key);
        if (!found) return;
        std::optional<std::int64_t> count = found->integer();
        if (auto const text = found->string()) {
            auto const size = parse_memory_size(*text);
            if (!size) return refuse(key, "must be bytes as an integer, or text like \"80GiB\"");
            count = size->count();
        }
        if (!count) return refuse(key, "must be bytes as an integer, or text like \"80GiB\"");
        if (*count < 0 || *count > most.count()) return refuse(key, "must lie between 0 B and " + to_text(most));
        out = Bytes{*count};
    }
    template <std::size_t N>
    void text(std::string_view key, FixedText<N>& out) {
        auto const found = find(key);
        if (!found) return;
        auto const text = found->string();
        if (!text) return refuse(key, "must be a string");
        if (text->size() > N) return refuse(key, "must not be longer than " + std::to_string(N) + " bytes");
        if (escaped(*text) != *text) return refuse(key, "has characters that cannot be printed");
        out = *text;
    }
    /// One of the values of an enumeration, by its name.
    template <class Enum>
    void word(std::string_view key, Enum& out, std::span<Enum const> known) {
        auto const found = find(key);
        if (!found) return;
        auto const word = found->string();
        if (!word) return refuse(key, "must be a string");
        ClosestName closest(*word);
        std::string names;
        for (auto const value : known) {
            if (name_of(value) == *word) {
                out = value;
                return;
            }
            closest.offer(name_of(value));
            names += (names.empty() ? "" : ", ") + std::string(name_of(value));
        }
        auto const meant = did_you_mean(closest.best());
        refuse(key, "\"" + std::string(*word) + "\" is none of " + names, meant.view());
    }
    /// Text for people, which is not kept.
    void note() {
        auto const found = find("note");
        if (found && !found->is_string()) refuse("note", "must be a string");
    }

    /// Refuses a member that no call named, with the name that was meant.
    void finish() {
        if (fault_.error) return;
        for (auto const member : value_) {
            ClosestName closest(member.key());
            bool is_known = false;
            for (auto const name : asked_) {
                is_known = is_known || name == member.key();
                closest.offer(name);
            }
            if (is_known) continue;
            auto const meant = did_you_mean(closest.best());
            return fault_.set(ErrorCode::unknown_name, path(member.key()), "is no field of a description",
                              meant.view());
        }
    }

private:
    JsonValue value_;
    std::string path_;
    DescriptionFault& fault_;
    std::vector<std::string_view> asked_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
