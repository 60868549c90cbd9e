// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/assert.hpp>
#include <shardwise/tokenizer/jinja/value_text.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja {

enum class TextCase : std::uint8_t { upper, lower, capital, title };

/// str.upper, lower, capitalize or title.
///
/// Errors  unsupported for letters beyond ASCII whose other case this interpreter does not know
[[nodiscard]] inline JinjaValue change_case(JinjaRunState& run, std::string_view text, TextCase to) {
    if (!run.take(text.size())) return {};
    std::optional<std::string> out;
    if (to == TextCase::upper) {
        out = upper_text(text);
    } else if (to == TextCase::lower) {
        out = lower_text(text);
    } else {
        SHARDWISE_ASSERT(to == TextCase::capital || to == TextCase::title);
        out = lower_text(text);
        // The lower case of other letters may be longer, and their title case is another one.
        bool const is_plain =
            std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
        auto const first = text.empty() ? std::string_view{} : text.substr(0, length_at(text, 0));
        auto const head = upper_text(first);
        if (out && to == TextCase::capital) {
            if (!head || lower_text(first) != std::string(out->substr(0, lower_text(first)->size()))) out.reset();
            if (out) out->replace(0, lower_text(first)->size(), *head);
        } else if (out && !is_plain) {
            out.reset();
        } else if (out) {
            bool follows_letter = false;
            for (auto& letter : *out) {
                bool const is_letter = letter >= 'a' && letter <= 'z';
                if (is_letter && !follows_letter) letter = static_cast<char>(letter - 32);
                follows_letter = is_letter;
            }
        }
    }
    if (!out) return run.unsupported("changes the case of letters beyond ASCII: " + std::string(text.substr(0, 40)));
    return run.make_string(*std::move(out));
}

/// str.replace; all of them where `count` is negative.
[[nodiscard]] inline JinjaValue replace_text(JinjaRunState& run, std::string_view text, std::string_view old,
                                             std::string_view by, std::int64_t count) {
    if (!run.search_text(text.size(), old.size())) return {};
    std::string out;
    std::size_t at = 0;
    while (count != 0 && at <= text.size()) {
        auto const found = text.find(old, at);
        if (found == std::string_view::npos) break;
        if (!run.take(by.size())) return {};
        out.append(text, at, found - at).append(by);
        at = found + old.size();
        --count;
        if (!old.empty()) continue;
        // The empty text stands before each code point and at the end.
        if (at == text.size()) return run.make_string(std::move(out));
        auto const length = length_at(text, at);
        out.append(text, at, length);
        at += length;
    }
    return run.make_string(std::move(out.append(text.substr(std::min(at, text.size())))));
}

enum class TextPad : std::uint8_t { left, right, both };

/// str.rjust, ljust or center.
[[nodiscard]] inline JinjaValue pad_text(JinjaRunState& run, std::string_view text, std::int64_t width,
                                         std::string_view fill, TextPad side) {
    auto const count = static_cast<std::int64_t>(count_code_points(text));
    if (count_code_points(fill) != 1) return run.wrong("pads by what is not one character");
    if (width > 1'000'000) return run.unsupported("pads to more than 1000000 characters");
    auto const missing = width > count ? width - count : 0;
    // As CPython: the odd one goes left where the width is odd too.
    auto const left = [&]() -> std::int64_t {
        switch (side) {
            case TextPad::left:
                return missing;
            case TextPad::right:
                return 0;
            case TextPad::both:
                break;
        }
        return missing / 2 + (missing & width & 1);
    }();
    std::string out;
    for (std::int64_t i = 0; i < left; ++i) out += fill;
    out += text;
    for (std::int64_t i = left; i < missing; ++i) out += fill;
    return run.make_string(std::move(out));
}

/// The parts of str.split without a separator: words between white space, at most `most` cuts.
[[nodiscard]] inline std::vector<JinjaValue> split_words(std::string_view text, std::int64_t most, bool from_end) {
    std::vector<JinjaValue> parts;
    auto rest = strip_text(text, from_end ? StripSide::right : StripSide::left);
    while (!rest.empty()) {
        if (most >= 0 && static_cast<std::int64_t>(parts.size()) == most) {
            // What is left is one part; white space at its far end stays.
            parts.emplace_back(std::string(rest));
            break;
        }
        std::size_t first = 0;
        std::size_t end = rest.size();
        auto const is_space = [&](std::size_t at) {
            return is_python_space(utf8_code_point(rest.substr(at), length_at(rest, at)));
        };
        if (from_end) {
            first = end;
            while (first > 0 && !is_space(before_end(rest, first))) first = before_end(rest, first);
        } else {
            end = 0;
            while (end < rest.size() && !is_space(end)) end += length_at(rest, end);
        }
        parts.emplace_back(std::string(rest.substr(first, end - first)));
        rest = from_end ? strip_text(rest.substr(0, first), StripSide::right)
                        : strip_text(rest.substr(end), StripSide::left);
    }
    if (from_end) std::reverse(parts.begin(), parts.end());
    return parts;
}

/// str.split or rsplit without a separator.
[[nodiscard]] inline JinjaValue split_at_blanks(JinjaRunState& run, std::string_view text, std::int64_t most,
                                                bool from_end) {
    if (!run.search_text(text.size() * 2, 1)) return {};
    return run.make_list(split_words(text, most, from_end));
}

/// str.split or rsplit.
[[nodiscard]] inline JinjaValue split_text(JinjaRunState& run, std::string_view text, std::string_view separator,
                                           std::int64_t most, bool from_end) {
    if (!run.search_text(text.size() * 2, separator.size())) return {};
    if (separator.empty()) return run.wrong("splits by an empty text");
    std::vector<JinjaValue> parts;
    auto rest = text;
    for (; most != 0; --most) {
        auto const at = from_end ? rest.rfind(separator) : rest.find(separator);
        if (at == std::string_view::npos) break;
        auto const after = rest.substr(at + separator.size());
        if (!run.take(sizeof(JinjaValue))) return {};
        parts.emplace_back(std::string(from_end ? after : rest.substr(0, at)));
        rest = from_end ? rest.substr(0, at) : after;
    }
    parts.emplace_back(std::string(rest));
    if (from_end) std::reverse(parts.begin(), parts.end());
    return run.make_list(std::move(parts));
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja
