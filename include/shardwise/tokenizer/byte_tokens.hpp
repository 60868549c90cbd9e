// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/tokenizer/utf8.hpp>
#include <shardwise/tokenizer/vocabulary.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The printable character that stands for a byte in byte-level vocabularies.
///
/// Source  GPT-2, encoder.py, bytes_to_unicode
[[nodiscard]] constexpr char32_t character_of_byte(unsigned char byte) {
    auto const is_printable = [](unsigned value) {
        return (value >= 0x21 && value <= 0x7E) || (value >= 0xA1 && value <= 0xAC) || (value >= 0xAE && value <= 0xFF);
    };
    if (is_printable(byte)) return byte;
    char32_t next = 0x100;
    for (unsigned value = 0; value < byte; ++value) {
        if (!is_printable(value)) ++next;
    }
    return next;
}

namespace detail {

inline constexpr auto byte_characters = [] {
    std::array<char32_t, 256> table{};
    for (unsigned byte = 0; byte < 256; ++byte) table[byte] = character_of_byte(static_cast<unsigned char>(byte));
    return table;
}();

}  // namespace detail

/// The byte that a character stands for; nothing where it stands for none.
[[nodiscard]] constexpr std::optional<unsigned char> byte_of_character(char32_t character) {
    if (character > 0x143) return std::nullopt;
    if (character < 0x100) {
        if (detail::byte_characters[character] == character) return static_cast<unsigned char>(character);
        return std::nullopt;
    }
    for (unsigned byte = 0; byte < 256; ++byte) {
        if (detail::byte_characters[byte] == character) return static_cast<unsigned char>(byte);
    }
    return std::nullopt;
}

/// The characters of the bytes of a text.
[[nodiscard]] inline std::u32string byte_level(std::u32string_view text) {
    std::u32string out;
    out.reserve(text.size());
    std::string bytes;
    for (auto const code : text) {
        bytes.clear();
        append_utf8(bytes, code);
        for (auto const byte : bytes) out += detail::byte_characters[static_cast<unsigned char>(byte)];
    }
    return out;
}

/// The text of the token that stands for one byte: `<0x0A>`.
[[nodiscard]] inline std::string byte_token(unsigned char byte) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    return std::string("<0x") + digits[byte >> 4U] + digits[byte & 15U] + '>';
}

/// The byte that a token such as `<0x0A>` stands for; nothing for any other text.
[[nodiscard]] constexpr std::optional<unsigned char> byte_of_token(std::string_view text) {
    if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
    unsigned value = 0;
    for (auto const digit : text.substr(3, 2)) {
        bool const is_digit = digit >= '0' && digit <= '9';
        auto const letter = static_cast<char>(digit | 0x20);
        if (!is_digit && (letter < 'a' || letter > 'f')) return std::nullopt;
        value = value * 16 + static_cast<unsigned>(is_digit ? digit - '0' : letter - 'a' + 10);
    }
    return static_cast<unsigned char>(value);
}

/// Appends the byte tokens of a text; false, and nothing appended, where the vocabulary lacks one of them.
inline bool append_byte_tokens(std::vector<TokenId>& ids, std::string_view text, Vocabulary const& vocabulary) {
    auto const before = ids.size();
    for (auto const byte : text) {
        auto const id = vocabulary.find(byte_token(static_cast<unsigned char>(byte)));
        if (!id) {
            ids.resize(before);
            return false;
        }
        ids.push_back(*id);
    }
    return true;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
