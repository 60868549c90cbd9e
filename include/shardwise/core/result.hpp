// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/assert.hpp>
#include <shardwise/core/error.hpp>

#include <string>  // std::construct_at: <memory> has it too, and costs 130 ms
#include <type_traits>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A value or the error that kept it from being made. A union of our own: std::optional costs an including program
/// 5 ms for each T with g++ -O0.
template <class T = void>
class [[nodiscard]] Result {
public:
    constexpr Result(T value) : value_(std::move(value)), has_value_(true) {}
    constexpr Result(Error const& error) : error_(error), has_value_(false) {}
    constexpr Result(Result const& other) requires std::is_copy_constructible_v<T> : has_value_(other.has_value_) {
        if (has_value_)
            std::construct_at(&value_, other.value_);
        else
            std::construct_at(&error_, other.error_);
    }
    constexpr Result(Result&& other) noexcept : has_value_(other.has_value_) {
        if (has_value_)
            std::construct_at(&value_, std::move(other.value_));
        else
            std::construct_at(&error_, other.error_);
    }
    constexpr Result& operator=(Result other) noexcept {
        std::destroy_at(this);
        std::construct_at(this, std::move(other));
        return *this;
    }
    constexpr ~Result() {
        if (has_value_) std::destroy_at(&value_);
    }

    [[nodiscard]] constexpr bool has_value() const { return has_value_; }
    [[nodiscard]] constexpr explicit operator bool() const { return has_value_; }

    /// The value; asking for it where there is none is a bug of the caller, which SHARDWISE_ASSERT reports.
    [[nodiscard]] constexpr T& value() & { return check_value(), value_; }
    [[nodiscard]] constexpr T const& value() const& { return check_value(), value_; }
    [[nodiscard]] constexpr T&& value() && { return check_value(), std::move(value_); }
    [[nodiscard]] constexpr T& operator*() & { return check_value(), value_; }
    [[nodiscard]] constexpr T const& operator*() const& { return check_value(), value_; }
    [[nodiscard]] constexpr T&& operator*() && { return check_value(), std::move(value_); }
    [[nodiscard]] constexpr T* operator->() { return check_value(), &value_; }
    [[nodiscard]] constexpr T const* operator->() const { return check_value(), &value_; }
    /// The value, or `fallback` where there is none.
    [[nodiscard]] constexpr T value_or(T fallback) const& { return has_value_ ? value_ : std::move(fallback); }
    [[nodiscard]] constexpr T value_or(T fallback) && { return has_value_ ? std::move(value_) : std::move(fallback); }

    /// The error; asking for it where there is a value is a bug of the caller, which SHARDWISE_ASSERT reports.
    [[nodiscard]] constexpr Error const& error() const {
        SHARDWISE_ASSERT(!has_value_ && "this Result holds no error: ask has_value() first");
        return error_;
    }

private:
    constexpr void check_value() const {
        SHARDWISE_ASSERT(has_value_ && "this Result holds an error: ask has_value() first, or value_or()");
    }

    union {
        T value_;
        Error error_;
    };
    bool has_value_;
};

/// Success, or the error that prevented it.
template <>
class [[nodiscard]] Result<void> {
public:
    constexpr Result() : no_error_{} {}
    constexpr Result(Error const& error) : error_(error), has_value_(false) {}

    [[nodiscard]] constexpr bool has_value() const { return has_value_; }
    [[nodiscard]] constexpr explicit operator bool() const { return has_value_; }
    /// The error; asking for it where there is none is a bug of the caller, which SHARDWISE_ASSERT reports.
    [[nodiscard]] constexpr Error const& error() const {
        SHARDWISE_ASSERT(!has_value_ && "this Result holds no error: ask has_value() first");
        return error_;
    }

private:
    struct NoError {};
    union {
        NoError no_error_;
        Error error_;
    };
    bool has_value_ = true;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
