// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

/// Text and shapes of an SVG document. All coordinates are whole user units.
namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Advance widths of the characters from ' ' to '~' in thousandths of the font size: those of DejaVu Sans, the widest of the
/// fonts that the pictures may meet, so that text which fits here fits everywhere.
inline constexpr std::array<std::uint16_t, 95> glyph_widths{
    318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361,  318, 337, 636, 636, 636,
    636, 636, 636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531, 1000, 684, 686, 698, 770, 632,
    575, 775, 752, 295, 295, 656, 557, 863, 748, 787, 603, 787, 695, 635,  611, 732, 684, 989, 685,
    611, 685, 390, 337, 390, 838, 500, 500, 613, 635, 550, 635, 615, 352,  635, 634, 278, 278, 579,
    278, 974, 634, 612, 635, 635, 411, 521, 392, 634, 592, 818, 592, 592,  525, 636, 337, 636, 838};

/// The length of the well-formed UTF-8 character that begins here; 0 where none does, or one that XML 1.0 has no room for.
[[nodiscard]] inline std::size_t xml_character(std::string_view text) {
    auto const byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])); };
    auto const first = byte(0);
    if (first < 0x80) return first >= 0x20 && first != 0x7F ? 1 : 0;
    std::size_t const length = first >= 0xC2 && first < 0xE0   ? 2
                               : first >= 0xE0 && first < 0xF0 ? 3
                               : first >= 0xF0 && first < 0xF5 ? 4
                                                               : 0;
    if (length == 0 || text.size() < length) return 0;
    auto code = first & (0xFFU >> (length + 1));
    for (std::size_t i = 1; i < length; ++i) {
        if ((byte(i) & 0xC0U) != 0x80U) return 0;
        code = code << 6U | (byte(i) & 0x3FU);
    }
    constexpr std::array<std::uint32_t, 5> least{0, 0, 0x80, 0x800, 0x10000};
    bool const is_control = code < 0xA0;
    bool const is_direction =
        (code >= 0x200B && code <= 0x200F) || (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
    bool const is_noncharacter = (code & 0xFFFEU) == 0xFFFEU;
    bool const is_surrogate = code >= 0xD800 && code < 0xE000;
    if (code < least[length] || code > 0x10FFFF || is_control || is_direction || is_surrogate || is_noncharacter)
        return 0;
    return length;
}

/// Calls `visit(character)` for each character; what XML cannot hold, or what would turn the text around, comes as U+FFFD.
template <class Visitor>
void for_each_character(std::string_view text, Visitor&& visit) {
    while (!text.empty()) {
        auto const length = xml_character(text);
        visit(length == 0 ? std::string_view{"\xEF\xBF\xBD"} : text.substr(0, length));
        text.remove_prefix(length == 0 ? 1 : length);
    }
}

/// Text as element content or inside double quotes.
[[nodiscard]] inline std::string xml_text(std::string_view text) {
    std::string out;
    for_each_character(text, [&](std::string_view character) {
        switch (character[0]) {
            case '&':
                out += "&amp;";
                break;
            case '<':
                out += "&lt;";
                break;
            case '>':
                out += "&gt;";
                break;
            case '"':
                out += "&quot;";
                break;
            case '\'':
                out += "&#39;";
                break;
            default:
                out += character;
        }
    });
    return out;
}

/// A size and weight of text.
struct Font {
    int size = 11;
    bool is_bold = false;
};

[[nodiscard]] inline int character_width(std::string_view character) {
    auto const first = static_cast<unsigned char>(character[0]);
    if (first < 0x80) return glyph_widths[static_cast<std::size_t>(first - ' ')];
    // It may be a full-width character.
    return 1000;
}

/// At most so many units wide; bold letters are up to a quarter wider.
[[nodiscard]] inline int text_width(std::string_view text, Font font) {
    std::int64_t width = 0;
    for_each_character(text, [&](std::string_view character) { width += character_width(character); });
    width = width * font.size * (font.is_bold ? 6 : 5) / 5;
    return static_cast<int>((width + 999) / 1000);
}

/// The text, or as much of its beginning as fits into `room` with an ellipsis.
[[nodiscard]] inline std::string fitted(std::string_view text, Font font, int room) {
    if (text.size() <= 4096 && text_width(text, font) <= room) return std::string(text);
    auto const left = (room - text_width("\xE2\x80\xA6", font)) * 1000;
    std::string out;
    std::int64_t width = 0;
    bool is_full = false;
    for_each_character(text.substr(0, 4096), [&](std::string_view character) {
        width += character_width(character) * font.size * (font.is_bold ? 6 : 5) / 5 + 1;
        is_full = is_full || width > left;
        if (!is_full) out += character;
    });
    return left <= 0 ? std::string() : out + "\xE2\x80\xA6";
}

/// Where text begins at its x.
enum class Anchor : std::uint8_t { start, middle, end };

/// Collects the elements of an SVG document.
class SvgCanvas {
public:
    /// A rectangle with round corners; `look` holds its other attributes.
    void rectangle(int x, int y, int width, int height, int radius, std::string_view look) {
        out_ += "<rect" + place(x, y) + number("width", width) + number("height", height);
        if (radius > 0) out_ += number("rx", radius);
        out_ += " " + std::string(look) + "/>\n";
    }
    void line(int x1, int y1, int x2, int y2, std::string_view look = "class=\"wire\"") {
        out_ += "<line" + number("x1", x1) + number("y1", y1) + number("x2", x2) + number("y2", y2) + " " +
                std::string(look) + "/>\n";
    }
    /// Text on the baseline `y`, cut to `room`. `look` holds its class.
    void text(int x, int y, std::string_view words, Font font, int room, std::string_view look = "class=\"ink\"",
              Anchor anchor = Anchor::start) {
        auto const shown = fitted(words, font, room);
        if (shown.empty()) return;
        out_ += "<text" + place(x, y) + number("font-size", font.size);
        if (font.is_bold) out_ += " font-weight=\"bold\"";
        if (anchor == Anchor::middle) out_ += " text-anchor=\"middle\"";
        if (anchor == Anchor::end) out_ += " text-anchor=\"end\"";
        out_ += " " + std::string(look) + ">" + xml_text(shown) + "</text>\n";
    }
    /// A group that shows `words` where the pointer rests on it.
    void open_group(std::string_view words) { out_ += "<g>\n<title>" + xml_text(words) + "</title>\n"; }
    void close_group() { out_ += "</g>\n"; }

    [[nodiscard]] std::string const& elements() const { return out_; }

private:
    static std::string number(std::string_view name, int value) {
        return " " + std::string(name) + "=\"" + std::to_string(value) + "\"";
    }
    static std::string place(int x, int y) { return number("x", x) + number("y", y); }

    std::string out_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
