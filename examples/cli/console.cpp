// SPDX-License-Identifier: Apache-2.0
#include "console.hpp"

#include <shardwise/json/writer.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utility>

namespace shardwise::cli {

bool is_utf8_environment() {
    for (auto const* const name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
        auto const* const value = std::getenv(name);
        if (value == nullptr || *value == '\0') continue;
        std::string locale(value);
        std::transform(locale.begin(), locale.end(), locale.begin(),
                       [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
        return locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
    }
    return false;
}

namespace {

/// The text with ASCII in the place of what bars are drawn with.
[[nodiscard]] std::string with_ascii_bars(std::string_view text) {
    constexpr std::array<std::pair<std::string_view, char>, 5> glyphs{
        {{"\u2588", '#'}, {"\u2593", '='}, {"\u2592", ':'}, {"\u2591", '-'}, {"\u00b7", '.'}}};
    std::string out;
    out.reserve(text.size());
    while (!text.empty()) {
        auto const glyph = std::find_if(glyphs.begin(), glyphs.end(), [&](auto const& entry) {
            return text.substr(0, entry.first.size()) == entry.first;
        });
        if (glyph == glyphs.end()) {
            out += text.front();
            text.remove_prefix(1);
        } else {
            out += glyph->second;
            text.remove_prefix(glyph->first.size());
        }
    }
    return out;
}

/// The length of a colour's sequence ("\x1b[1;31m") at the beginning of a text; 0 where there is none.
[[nodiscard]] std::size_t color_length(std::string_view text) {
    if (!text.starts_with("\x1b[")) return 0;
    auto const end = text.find_first_not_of("0123456789;", 2);
    return end != text.npos && text[end] == 'm' ? end + 1 : 0;
}

/// The text as a terminal gets it: all control characters but line ends and tabs, marks of direction and broken UTF-8 are
/// escapes. Colours stay where they are ours.
[[nodiscard]] std::string for_terminal(std::string_view text, bool has_our_colors) {
    std::string out;
    while (!text.empty()) {
        auto const end = std::min(text.find_first_of("\n\t\x1b"), text.size());
        out += escaped(text.substr(0, end));
        text.remove_prefix(end);
        if (text.empty()) break;
        auto const color = has_our_colors ? color_length(text) : 0;
        auto const size = color > 0 ? color : 1;
        out += color == 0 && text[0] == '\x1b' ? escaped(text.substr(0, 1)) : std::string(text.substr(0, size));
        text.remove_prefix(size);
    }
    return is_utf8_environment() ? out : with_ascii_bars(out);
}

void print(std::string_view text, bool has_our_colors) {
    if (::isatty(STDOUT_FILENO) != 1) {
        (void)std::fwrite(text.data(), 1, text.size(), stdout);
        return;
    }
    auto const shown = for_terminal(text, has_our_colors);
    (void)std::fwrite(shown.data(), 1, shown.size(), stdout);
}

}  // namespace

void print_text(std::string_view text) {
    print(text, true);
}

void print_model_text(std::string_view text) {
    print(text, false);
}

void print_warnings(std::vector<std::string> const& warnings) {
    for (auto const& warning : warnings) std::fprintf(stderr, "shardwise: warning: %s\n", escaped(warning).c_str());
}

ExitCode report(Error const& error, Stage stage, bool is_json) {
    auto const message = error.message();
    std::fprintf(stderr, "shardwise: %s\n", message.c_str());
    if (is_json) {
        JsonWriter json;
        json.begin_object().member("schema", "shardwise.error/1");
        json.key("error").begin_object().member("code", name_of(error.code())).member("message", message).end_object();
        json.end_object();
        print_text(json.text() + "\n");
    }
    return exit_code_of(error.code(), stage);
}

Result<> check_output_path(std::string const& path) {
    if (path.empty()) {
        return Error{ErrorCode::invalid_argument}.because("an empty name is no file's").fix("name the file to write");
    }
    auto folder = std::filesystem::path(path).parent_path();
    if (folder.empty()) folder = ".";
    if (::access(folder.c_str(), W_OK | X_OK) == 0) return {};
    return Error{ErrorCode::file_unwritable}
        .in(path)
        .because("lies in a folder that cannot be written to")
        .fix("name a file elsewhere");
}

bool flush_output() {
    return std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
}

std::string Style::paint(std::string_view code, std::string_view text) const {
    if (!has_color) return std::string(text);
    return "\x1b[" + std::string(code) + "m" + std::string(text) + "\x1b[0m";
}

namespace {

/// True where the environment wants plain text.
[[nodiscard]] bool is_plain_environment() {
    char const* const no_color = std::getenv("NO_COLOR");
    char const* const terminal = std::getenv("TERM");
    return (no_color != nullptr && *no_color != '\0') || (terminal != nullptr && std::string_view{terminal} == "dumb");
}

}  // namespace

bool may_animate(ColorMode mode) {
    bool const is_wanted = mode == ColorMode::always || (mode == ColorMode::automatic && !is_plain_environment());
    return is_wanted && ::isatty(STDERR_FILENO) == 1;
}

Style style_of_stdout(ColorMode mode) {
    Style style;
    bool const is_terminal = ::isatty(STDOUT_FILENO) == 1;
    style.has_color =
        mode == ColorMode::always || (mode == ColorMode::automatic && is_terminal && !is_plain_environment());
    winsize size{};
    if (is_terminal && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
        style.width = std::clamp<int>(size.ws_col, 60, 160);
    }
    return style;
}

}  // namespace shardwise::cli
