// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/core/fixed_text.hpp>
#include <shardwise/core/ids.hpp>
#include <shardwise/core/utf8.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What went wrong. Each has a section in docs/reference/errors.md.
enum class ErrorCode : std::uint8_t {
    invalid_argument,   // a value that a caller gave is outside its range
    unknown_name,       // a model, dtype, strategy, device, ... that does not exist
    file_not_found,     // nothing is there
    file_unreadable,    // it is there, but the system does not give it
    malformed_file,     // its bytes break the format
    unsupported,        // valid, but not something this version handles
    missing_field,      // a field without a default is absent
    invalid_field,      // a field has the wrong type or an impossible value
    size_overflow,      // a product of sizes leaves 63 bits
    unsafe_path,        // a path that leaves the folder it belongs to
    not_covered,        // a device map leaves parameters without a device
    out_of_memory,      // a plan does not fit
    no_such_device,     // a device that is named but does not exist
    capacity_exceeded,  // more of something than a fixed limit allows
    shape_mismatch,     // two shapes that must agree do not
    backend_failure,    // a vendor call failed
    deadline_exceeded,  // something did not happen in time
    rank_lost,          // a rank of a group died, stopped or left
    collective_mismatch,  // the ranks of a group do not ask for the same
    file_unwritable,    // the system does not let it be written
};

[[nodiscard]] constexpr std::string_view name_of(ErrorCode code) {
    switch (code) {
        case ErrorCode::invalid_argument: return "invalid_argument";
        case ErrorCode::unknown_name: return "unknown_name";
        case ErrorCode::file_not_found: return "file_not_found";
        case ErrorCode::file_unreadable: return "file_unreadable";
        case ErrorCode::malformed_file: return "malformed_file";
        case ErrorCode::unsupported: return "unsupported";
        case ErrorCode::missing_field: return "missing_field";
        case ErrorCode::invalid_field: return "invalid_field";
        case ErrorCode::size_overflow: return "size_overflow";
        case ErrorCode::unsafe_path: return "unsafe_path";
        case ErrorCode::not_covered: return "not_covered";
        case ErrorCode::out_of_memory: return "out_of_memory";
        case ErrorCode::no_such_device: return "no_such_device";
        case ErrorCode::capacity_exceeded: return "capacity_exceeded";
        case ErrorCode::shape_mismatch: return "shape_mismatch";
        case ErrorCode::backend_failure: return "backend_failure";
        case ErrorCode::deadline_exceeded: return "deadline_exceeded";
        case ErrorCode::rank_lost: return "rank_lost";
        case ErrorCode::collective_mismatch: return "collective_mismatch";
        case ErrorCode::file_unwritable: return "file_unwritable";
    }
    return "unknown";
}

/// An expected failure: a code and fixed-capacity fields, a literal type, so that error paths work in constant expressions.
///
/// Example  return Error{ErrorCode::malformed_file}.in(path).at("data_offsets").because("the range ends before it begins")
///                 .fix("download the file again");
class Error {
public:
    static constexpr std::int64_t unset = INT64_MIN;

    constexpr explicit Error(ErrorCode code) : code_(code) {}

    /// The file, flag or object at fault.
    constexpr Error& in(std::string_view subject) { return subject_.assign(subject), *this; }
    /// The field, tensor or module within it.
    constexpr Error& at(std::string_view place) { return place_.assign(place), *this; }
    /// The layer at fault.
    constexpr Error& layer(LayerId layer) { return layer_ = layer, *this; }
    /// What is wrong, in the present tense.
    constexpr Error& because(std::string_view reason) { return reason_.assign(reason), *this; }
    /// The number that was found.
    constexpr Error& got(std::int64_t number) { return got_ = number, *this; }
    /// The number that was wanted, this one and no other.
    constexpr Error& expected(std::int64_t number) { return bound(Bound::exactly, number); }
    /// What bounds the number.
    constexpr Error& at_most(std::int64_t number) { return bound(Bound::at_most, number); }
    constexpr Error& at_least(std::int64_t number) { return bound(Bound::at_least, number); }
    constexpr Error& between(std::int64_t least, std::int64_t most) { return least_ = least, bound(Bound::between, most); }
    constexpr Error& multiple_of(std::int64_t number) { return bound(Bound::multiple_of, number); }
    constexpr Error& divisor_of(std::int64_t number) { return bound(Bound::divisor_of, number); }
    /// The memory that is needed.
    constexpr Error& needs(Bytes bytes) { return needs_ = bytes.count(), *this; }
    /// The memory that there is.
    constexpr Error& has(Bytes bytes) { return has_ = bytes.count(), *this; }
    /// What to do about it.
    constexpr Error& fix(std::string_view advice) { return advice_.assign(advice), *this; }

    [[nodiscard]] constexpr ErrorCode code() const { return code_; }
    [[nodiscard]] constexpr std::string_view subject() const { return subject_.view(); }
    [[nodiscard]] constexpr std::string_view place() const { return place_.view(); }
    [[nodiscard]] constexpr std::string_view reason() const { return reason_.view(); }
    [[nodiscard]] constexpr std::string_view advice() const { return advice_.view(); }
    [[nodiscard]] constexpr Bytes needed() const { return Bytes{needs_ == unset ? 0 : needs_}; }
    [[nodiscard]] constexpr Bytes available() const { return Bytes{has_ == unset ? 0 : has_}; }

    /// One line: what is wrong with numbers and units; what to do. Control characters from outside are escaped.
    [[nodiscard]] std::string message() const;

private:
    /// What the expected number is to the one that was found.
    enum class Bound : std::uint8_t { exactly, at_most, at_least, between, multiple_of, divisor_of };

    constexpr Error& bound(Bound kind, std::int64_t number) { return bound_ = kind, expected_ = number, *this; }
    [[nodiscard]] std::string expectation() const;

    ErrorCode code_;
    Bound bound_ = Bound::exactly;
    FixedText<160> subject_;
    FixedText<120> place_;
    FixedText<200> reason_;
    /// Holds a list of all families.
    FixedText<640> advice_;
    LayerId layer_;
    std::int64_t got_ = unset;
    std::int64_t expected_ = unset;
    std::int64_t least_ = unset;
    std::int64_t needs_ = unset;
    std::int64_t has_ = unset;
};

/// Whether a character of three bytes changes the direction of the text around it: U+200E, U+200F, U+202A to U+202E,
/// U+2066 to U+2069; or U+061C of two bytes. Such a character makes a name look like another.
///
/// Source  https://www.unicode.org/reports/tr9/ (explicit directional embeddings, overrides, isolates and marks)
[[nodiscard]] constexpr bool is_direction_mark(std::string_view character) {
    if (character == "\xD8\x9C") return true;
    if (character.size() != 3 || character[0] != '\xE2') return false;
    auto const last = static_cast<unsigned char>(character[2]);
    if (character[1] == '\x80') return last == 0x8E || last == 0x8F || (last >= 0xAA && last <= 0xAE);
    return character[1] == '\x81' && last >= 0xA6 && last <= 0xA9;
}

/// Text as it is safe to print: control characters, marks of direction and broken UTF-8 become escapes.
[[nodiscard]] inline std::string escaped(std::string_view text) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string out;
    out.reserve(text.size());
    auto const byte_at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    for (std::size_t i = 0; i < text.size();) {
        auto const byte = byte_at(i);
        auto const length = utf8_length(text.substr(i));
        // U+0080..U+009F are control characters that terminals obey.
        bool const c1_control = length == 2 && byte == 0xC2 && byte_at(i + 1) < 0xA0;
        bool const is_mark = length > 1 && is_direction_mark(text.substr(i, length));
        if (length == 0 || c1_control || is_mark || byte < 0x20 || byte == 0x7F) {
            for (std::size_t k = 0; k < (is_mark ? length : 1); ++k, ++i) {
                out += "\\x";
                out += digits[byte_at(i) >> 4U];
                out += digits[byte_at(i) & 15U];
            }
            continue;
        }
        out.append(text, i, length);
        i += length;
    }
    return out;
}

/// A size as people read it: "1.69 GiB", "512 B".
[[nodiscard]] inline std::string to_text(Bytes bytes) {
    constexpr std::string_view units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    bool const negative = bytes.count() < 0;
    auto value = static_cast<double>(negative ? -bytes.count() : bytes.count());
    std::size_t unit = 0;
    while (value >= 1024.0 && unit + 1 < 6) value /= 1024.0, ++unit;
    std::string out = negative ? "-" : "";
    if (unit == 0) return out + std::to_string(static_cast<std::int64_t>(value)) + " B";
    auto const hundredths = static_cast<std::int64_t>(value * 100.0 + 0.5);
    out += std::to_string(hundredths / 100) + "." + std::to_string(hundredths / 10 % 10) + std::to_string(hundredths % 10);
    return out + " " + std::string(units[unit]);
}

inline std::string Error::expectation() const {
    auto const number = std::to_string(expected_);
    switch (bound_) {
        case Bound::exactly: return "expected " + number;
        case Bound::at_most: return "expected at most " + number;
        case Bound::at_least: return "expected at least " + number;
        case Bound::between: return "expected " + std::to_string(least_) + " to " + number;
        case Bound::multiple_of: return "expected a multiple of " + number;
        case Bound::divisor_of: return "expected a divisor of " + number;
    }
    return {};
}

inline std::string Error::message() const {
    std::string out;
    auto const part = [&out](std::string_view text, std::string_view separator) {
        if (text.empty()) return;
        if (!out.empty()) out += separator;
        out += escaped(text);
    };
    part(subject_.view(), "");
    part(place_.view(), ": ");
    if (layer_.value() >= 0) part("layer " + std::to_string(layer_.value()), ": ");
    if (needs_ != unset) {
        bool const bare = out.empty();
        out += (bare ? "needs " : " needs ") + to_text(Bytes{needs_});
        if (has_ != unset) out += " but only " + to_text(Bytes{has_}) + " are available";
    }
    part(reason_.view(), ": ");
    if (out.empty()) out = std::string(name_of(code_));
    if (got_ != unset && expected_ != unset) {
        out += " (got " + std::to_string(got_) + ", " + expectation() + ")";
    } else if (got_ != unset) {
        out += " (got " + std::to_string(got_) + ")";
    } else if (expected_ != unset) {
        out += " (" + expectation() + ")";
    }
    part(advice_.view(), "; ");
    return out;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
