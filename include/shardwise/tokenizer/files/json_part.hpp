// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/json/value.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Keeps the first error of a reading.
class FirstError {
public:
    [[nodiscard]] bool has_error() const { return error_.has_value(); }
    [[nodiscard]] Error const& error() const { return *error_; }
    void note(Error const& error) {
        if (!error_) error_ = error;
    }

private:
    std::optional<Error> error_;
};

/// A value of tokenizer.json, where it stands, and where its errors go: what is missing or of another type is noted, and
/// the reading goes on with the default.
class JsonPart {
public:
    JsonPart(JsonValue value, std::string place, FirstError& errors)
        : value_(value), place_(std::move(place)), errors_(&errors) {}

    [[nodiscard]] JsonValue const& value() const { return value_; }
    [[nodiscard]] std::string const& place() const { return place_; }
    [[nodiscard]] FirstError& errors() const { return *errors_; }

    void refuse(ErrorCode code, std::string_view key, std::string_view reason) const {
        errors_->note(Error{code}.at(key.empty() ? place_ : place_ + "." + std::string(key)).because(reason));
    }
    /// Notes that something is valid, but not supported.
    void refuse_kind(std::string_view name) const {
        errors_->note(Error{ErrorCode::unsupported}
                          .at(place_)
                          .because("its type " + std::string(name) + " is not supported")
                          .fix("use a checkpoint with another tokenizer, or give token ids"));
    }

    /// A member that is there and not null.
    [[nodiscard]] std::optional<JsonPart> find(std::string_view key) const {
        auto const member = value_.find(key);
        if (!member || member->is_null()) return std::nullopt;
        return JsonPart(*member, place_ + "." + std::string(key), *errors_);
    }
    [[nodiscard]] JsonPart element(JsonValue value, std::size_t index) const {
        return {value, place_ + "[" + std::to_string(index) + "]", *errors_};
    }
    [[nodiscard]] std::string_view type() const { return text("type", "(none)"); }

    /// A member that is text; without a default it must be there. The view lives as long as the document.
    [[nodiscard]] std::string_view text(std::string_view key, std::optional<std::string_view> otherwise = {}) const {
        auto const member = value_.find(key);
        if (member && member->is_string()) return member->string().value_or("");
        if ((!member || member->is_null()) && otherwise) return *otherwise;
        refuse(member ? ErrorCode::invalid_field : ErrorCode::missing_field, key, "must be text");
        return {};
    }
    [[nodiscard]] bool flag(std::string_view key, bool otherwise) const {
        auto const member = value_.find(key);
        if (!member || member->is_null()) return otherwise;
        if (auto const flag = member->boolean()) return *flag;
        refuse(ErrorCode::invalid_field, key, "must be true or false");
        return otherwise;
    }
    [[nodiscard]] std::int64_t integer(std::string_view key, std::optional<std::int64_t> otherwise = {}) const {
        auto const member = value_.find(key);
        if (member) {
            if (auto const integer = member->integer()) return *integer;
        }
        if ((!member || member->is_null()) && otherwise) return *otherwise;
        refuse(member ? ErrorCode::invalid_field : ErrorCode::missing_field, key, "must be an integer");
        return 0;
    }

private:
    JsonValue value_;
    std::string place_;
    FirstError* errors_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
