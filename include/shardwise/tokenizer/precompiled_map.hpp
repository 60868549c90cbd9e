// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/tokenizer/unicode.hpp>
#include <shardwise/tokenizer/utf8.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// SentencePiece's table of characters and what they become: a trie over their bytes as a double array, and the texts that its leaves
/// point to.
///
/// Source  sentencepiece, src/normalizer.cc; tokenizers 0.22, normalizers/precompiled.rs, and spm_precompiled 0.1, src/lib.rs, for
///         what a character is and which of several entries counts
class PrecompiledMap {
public:
    /// A table as files hold it.
    ///
    /// Errors  malformed_file
    [[nodiscard]] static Result<PrecompiledMap> read(std::string_view bytes) {
        auto const number = [&](std::size_t at) {
            std::uint32_t value = 0;
            for (std::size_t i = 4; i-- > 0;) value = value << 8U | static_cast<unsigned char>(bytes[at + i]);
            return value;
        };
        auto const size = bytes.size() < 4 ? std::size_t{0} : std::size_t{number(0)};
        if (size < 4 || size % 4 != 0 || size > bytes.size() - 4) {
            return Error{ErrorCode::malformed_file}
                .in("precompiled_charsmap")
                .because("does not begin with the size of its trie");
        }
        PrecompiledMap map;
        for (std::size_t at = 4; at < size + 4; at += 4) map.units_.push_back(number(at));
        map.texts_ = bytes.substr(size + 4);
        return map;
    }

    /// A text in which every character that the table has became what it says.
    ///
    /// Errors  unsupported for marks of which it is not known whether they stand alone
    [[nodiscard]] Result<std::u32string> apply(std::u32string_view text) const {
        std::u32string out;
        for (std::size_t at = 0; at < text.size();) {
            auto const end = end_of_cluster(text, at);
            auto const whole = to_utf8(text.substr(at, end - at));
            if (end - at > 1 && whole.size() < joined_bytes) {
                if (is_unlike(text.substr(at, end - at))) {
                    return Error{ErrorCode::unsupported}
                        .in("precompiled_charsmap")
                        .because("meets a mark of which it is not known whether it stands alone");
                }
                if (auto const found = find(whole)) {
                    out += to_code_points(*found);
                    at = end;
                    continue;
                }
            }
            for (; at < end; ++at) {
                if (auto const found = find(to_utf8(text.substr(at, 1))))
                    out += to_code_points(*found);
                else
                    out += text[at];
            }
        }
        return out;
    }

private:
    /// Characters of fewer bytes are looked up with their marks.
    static constexpr std::size_t joined_bytes = 6;

    /// Those that stay with the character before them: Extend, ZWJ and SpacingMark of UAX 29.
    [[nodiscard]] static bool joins_before(char32_t code) {
        if (is_accent(code) || code == 0x200C || code == 0x200D || code == 0x0E33 || code == 0x0EB3) return true;
        return code == 0xFF9E || code == 0xFF9F || (code >= 0x1F3FB && code <= 0x1F3FF) ||
               (code >= 0xE0020 && code <= 0xE007F);
    }
    /// Those that stay with the character after them (Prepend).
    [[nodiscard]] static bool joins_after(char32_t code) {
        return (code >= 0x0600 && code <= 0x0605) || code == 0x06DD || code == 0x070F || code == 0x0890 ||
               code == 0x0891 || code == 0x08E2 || code == 0x0D4E || code == 0x110BD || code == 0x110CD ||
               code == 0x111C2 || code == 0x111C3 || code == 0x1193F || code == 0x11941 || code == 0x11A3A ||
               (code >= 0x11A84 && code <= 0x11A89) || code == 0x11D46 || code == 0x11F02;
    }
    [[nodiscard]] static bool is_control(char32_t code) {
        return is_in(code,
                     categories({UnicodeCategory::Cc, UnicodeCategory::Cf, UnicodeCategory::Zl, UnicodeCategory::Zp}));
    }
    /// True of marks with a width of their own among which some stand alone.
    [[nodiscard]] static bool is_unlike(std::u32string_view cluster) {
        for (auto const code : cluster.substr(1)) {
            bool const stands_alone = (code >= 0x102B && code <= 0x109D) || (code >= 0x1A61 && code <= 0x1A64) ||
                                      code == 0xAA7B || code == 0xAA7D || code == 0x11720 || code == 0x11721;
            if (stands_alone && is_in(code, categories({UnicodeCategory::Mc}))) return true;
        }
        return false;
    }
    [[nodiscard]] static std::size_t end_of_cluster(std::u32string_view text, std::size_t at) {
        auto end = at + 1;
        if (text[at] == U'\r' && end < text.size() && text[end] == U'\n') return end + 1;
        while (joins_after(text[end - 1]) && end < text.size() && (joins_after(text[end]) || !is_control(text[end])))
            ++end;
        if (is_control(text[end - 1]) && !joins_after(text[end - 1])) return end;
        while (end < text.size() && joins_before(text[end])) ++end;
        return end;
    }

    /// What the shortest entry that `key` begins with becomes.
    [[nodiscard]] std::optional<std::string_view> find(std::string_view key) const {
        auto const unit = [&](std::size_t at) { return at < units_.size() ? units_[at] : 0U; };
        auto const offset = [](std::uint32_t value) {
            return std::size_t{value >> 10U} << ((value & (1U << 9U)) >> 6U);
        };
        auto at = offset(unit(0));
        for (auto const letter : key) {
            auto const byte = static_cast<unsigned char>(letter);
            if (byte == 0) return std::nullopt;
            at ^= byte;
            auto const value = unit(at);
            if ((value & (1U << 31U | 0xFFU)) != byte) return std::nullopt;
            at ^= offset(value);
            if ((value >> 8U & 1U) == 0) continue;
            auto const first = std::size_t{unit(at) & 0x7FFFFFFFU};
            if (first >= texts_.size()) return std::string_view{};
            auto const end = texts_.find('\0', first);
            return std::string_view(texts_).substr(first, end - first);
        }
        return std::nullopt;
    }

    std::vector<std::uint32_t> units_;
    std::string texts_;
};

namespace detail {

/// The bytes that base64 writes; nothing where a letter is none of its own.
///
/// Source  RFC 4648, section 4
[[nodiscard]] inline std::optional<std::string> read_base64(std::string_view text) {
    constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    while (text.ends_with('=')) text.remove_suffix(1);
    std::string out;
    std::uint32_t bits = 0;
    unsigned count = 0;
    for (auto const letter : text) {
        auto const value = letters.find(letter);
        if (value == letters.npos) return std::nullopt;
        bits = bits << 6U | static_cast<std::uint32_t>(value);
        count += 6;
        if (count < 8) continue;
        count -= 8;
        out += static_cast<char>(bits >> count & 0xFFU);
    }
    return out;
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
