// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>

#include "exit_code.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace shardwise::cli {

/// Writes data to stdout. A terminal gets no control characters but line ends, tabs and colours, and bars in ASCII where
/// it does not show UTF-8; a pipe or a file gets the text as it is.
void print_text(std::string_view text);
/// The same for what a model says: nothing in it is a colour of ours.
void print_model_text(std::string_view text);
/// Writes each warning as a line to stderr.
void print_warnings(std::vector<std::string> const& warnings);
/// One line on stderr and, with --json, the error document on stdout; gives the exit status.
[[nodiscard]] ExitCode report(Error const& error, Stage stage, bool is_json);
/// Finds out before long work that the file it ends with cannot be written.
///
/// Errors  file_unwritable; invalid_argument for an empty name
[[nodiscard]] Result<> check_output_path(std::string const& path);
/// Flushes stdout; false where what was printed did not reach its reader.
[[nodiscard]] bool flush_output();

enum class ColorMode { automatic, always, never };

/// How text for people looks here.
struct Style {
    bool has_color = false;
    /// Columns of the terminal.
    int width = 112;

    [[nodiscard]] std::string bold(std::string_view text) const { return paint("1", text); }
    [[nodiscard]] std::string dim(std::string_view text) const { return paint("2", text); }
    [[nodiscard]] std::string good(std::string_view text) const { return paint("32", text); }
    [[nodiscard]] std::string bad(std::string_view text) const { return paint("31", text); }
    [[nodiscard]] std::string paint(std::string_view code, std::string_view text) const;
};

/// Colours only on a terminal: NO_COLOR beats automatic, always beats NO_COLOR.
[[nodiscard]] Style style_of_stdout(ColorMode mode);

/// Whether the environment says that terminals show UTF-8, as POSIX orders the variables.
[[nodiscard]] bool is_utf8_environment();

/// True where lines on stderr may be drawn over: on a terminal, by the same rules as colours.
[[nodiscard]] bool may_animate(ColorMode mode);

}  // namespace shardwise::cli
