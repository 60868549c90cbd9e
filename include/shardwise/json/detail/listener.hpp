// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/error.hpp>
#include <shardwise/json/handler.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A handler of any type under one interface, so that a program has the parser once and not once a handler.
class JsonListener {
public:
    JsonListener() = default;
    JsonListener(JsonListener const&) = delete;
    JsonListener& operator=(JsonListener const&) = delete;
    virtual ~JsonListener() = default;

    virtual bool begin_object() = 0;
    virtual bool end_object() = 0;
    virtual bool begin_array() = 0;
    virtual bool end_array() = 0;
    virtual bool key(std::string_view text) = 0;
    virtual bool string(std::string_view text) = 0;
    virtual bool integer(std::int64_t value) = 0;
    virtual bool unsigned_integer(std::uint64_t value) = 0;
    virtual bool real(double value, std::string_view digits) = 0;
    virtual bool boolean(bool value) = 0;
    virtual bool null() = 0;
    virtual void consumed(std::size_t bytes) = 0;
    [[nodiscard]] virtual bool ignores_text() const = 0;
    [[nodiscard]] virtual Error const& refusal() const = 0;
};

template <JsonHandler Handler>
class HandlerListener final : public JsonListener {
public:
    explicit HandlerListener(Handler& handler) : handler_(handler) {}

    bool begin_object() override { return handler_.begin_object(); }
    bool end_object() override { return handler_.end_object(); }
    bool begin_array() override { return handler_.begin_array(); }
    bool end_array() override { return handler_.end_array(); }
    bool key(std::string_view text) override { return handler_.key(text); }
    bool string(std::string_view text) override { return handler_.string(text); }
    bool integer(std::int64_t value) override { return handler_.integer(value); }
    bool unsigned_integer(std::uint64_t value) override { return handler_.unsigned_integer(value); }
    bool real(double value, [[maybe_unused]] std::string_view digits) override {
        if constexpr (ReadsDigits<Handler>) {
            return handler_.real(value, digits);
        } else {
            return handler_.real(value);
        }
    }
    bool boolean(bool value) override { return handler_.boolean(value); }
    bool null() override { return handler_.null(); }
    void consumed([[maybe_unused]] std::size_t bytes) override {
        if constexpr (FollowsProgress<Handler>) handler_.consumed(bytes);
    }
    [[nodiscard]] bool ignores_text() const override {
        if constexpr (IgnoresText<Handler>) return handler_.ignores_text();
        return false;
    }
    [[nodiscard]] Error const& refusal() const override { return handler_.refusal(); }

private:
    Handler& handler_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
