#pragma once

#include <shardwise/core/error.hpp>

#include <optional>
#include <utility>

namespace shardwise::inline v0 {

/// A value or the error that kept it from being made.
template <class T = void>
class [[nodiscard]] Result {
public:
    constexpr Result(T value) : value_(std::move(value)) {}
    constexpr Result(Error const& error) : error_(error) {}

    [[nodiscard]] constexpr bool has_value() const { return value_.has_value(); }
    [[nodiscard]] constexpr explicit operator bool() const { return has_value(); }

    /// The value; asking for it where there is none is a bug of the caller.
    [[nodiscard]] constexpr T& value() & { return *value_; }
    [[nodiscard]] constexpr T const& value() const& { return *value_; }
    [[nodiscard]] constexpr T&& value() && { return std::move(*value_); }
    [[nodiscard]] constexpr T& operator*() & { return *value_; }
    [[nodiscard]] constexpr T const& operator*() const& { return *value_; }
    [[nodiscard]] constexpr T&& operator*() && { return std::move(*value_); }
    [[nodiscard]] constexpr T* operator->() { return &*value_; }
    [[nodiscard]] constexpr T const* operator->() const { return &*value_; }

    /// The error; asking for it where there is a value is a bug of the caller.
    [[nodiscard]] constexpr Error const& error() const { return *error_; }

private:
    std::optional<T> value_;
    std::optional<Error> error_;
};

/// Success, or the error that prevented it.
template <>
class [[nodiscard]] Result<void> {
public:
    constexpr Result() = default;
    constexpr Result(Error const& error) : error_(error) {}

    [[nodiscard]] constexpr bool has_value() const { return !error_.has_value(); }
    [[nodiscard]] constexpr explicit operator bool() const { return has_value(); }
    [[nodiscard]] constexpr Error const& error() const { return *error_; }

private:
    std::optional<Error> error_;
};

}  // namespace shardwise::inline v0
