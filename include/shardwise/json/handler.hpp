// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/error.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Is told where objects and arrays begin and end.
template <class H>
concept HandlesNesting = requires(H& handler) {
    { handler.begin_object() } -> std::same_as<bool>;
    { handler.end_object() } -> std::same_as<bool>;
    { handler.begin_array() } -> std::same_as<bool>;
    { handler.end_array() } -> std::same_as<bool>;
};

/// Is told keys and string values; the text is valid during the call only.
template <class H>
concept HandlesText = requires(H& handler, std::string_view text) {
    { handler.key(text) } -> std::same_as<bool>;
    { handler.string(text) } -> std::same_as<bool>;
};

/// Is told numbers: an integer where it fits 64 signed bits, else `unsigned_integer`, else a real.
template <class H>
concept HandlesNumbers = requires(H& handler, std::int64_t integer, std::uint64_t large, double real) {
    { handler.integer(integer) } -> std::same_as<bool>;
    { handler.unsigned_integer(large) } -> std::same_as<bool>;
    { handler.real(real) } -> std::same_as<bool>;
};

/// Is told booleans and nulls.
template <class H>
concept HandlesConstants = requires(H& handler, bool flag) {
    { handler.boolean(flag) } -> std::same_as<bool>;
    { handler.null() } -> std::same_as<bool>;
};

/// Can say why it stopped the reading.
template <class H>
concept HasRefusal = requires(H const& handler) {
    { handler.refusal() } -> std::convertible_to<Error const&>;
};

/// Wants the digits of a real as they are written, beside its value.
template <class H>
concept ReadsDigits = requires(H& handler, double real, std::string_view digits) {
    { handler.real(real, digits) } -> std::same_as<bool>;
};

/// Wants to know, before each key, string and number, how many bytes of the text have been read.
template <class H>
concept FollowsProgress = requires(H& handler, std::size_t bytes) {
    { handler.consumed(bytes) } -> std::same_as<void>;
};

/// Says of the next key or string whether its text is of no interest: such a text may be longer than max_json_token, and is
/// then told cut off.
template <class H>
concept IgnoresText = requires(H const& handler) {
    { handler.ignores_text() } -> std::same_as<bool>;
};

/// Receives the events of `read_json`. Every event returns whether to go on; false ends the reading with `refusal()`.
template <class H>
concept JsonHandler = HandlesNesting<H> && HandlesText<H> && HandlesNumbers<H> && HandlesConstants<H> && HasRefusal<H>;

/// A base for handlers: refuses every event that the handler does not define, and keeps the reason.
///
/// Example  struct Names : JsonRefusals { bool begin_object() { return true; } bool key(std::string_view) {...} ... };
class JsonRefusals {
public:
    bool begin_object() { return refuse("is an object here"); }
    bool end_object() { return true; }
    bool begin_array() { return refuse("is an array here"); }
    bool end_array() { return true; }
    bool key(std::string_view) { return true; }
    bool string(std::string_view) { return refuse("is a string here"); }
    bool integer(std::int64_t) { return refuse("is a number here"); }
    bool unsigned_integer(std::uint64_t) { return refuse("is a number here"); }
    bool real(double) { return refuse("is a number here"); }
    bool boolean(bool) { return refuse("is true or false here"); }
    bool null() { return refuse("is null here"); }

    [[nodiscard]] Error const& refusal() const { return refusal_; }

    /// Stops the reading with this error; returns false, so that a handler can return it.
    bool refuse(Error const& error) {
        refusal_ = error;
        return false;
    }
    bool refuse(std::string_view reason) { return refuse(Error{ErrorCode::malformed_file}.because(reason)); }

private:
    Error refusal_{ErrorCode::malformed_file};
};

static_assert(JsonHandler<JsonRefusals>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
