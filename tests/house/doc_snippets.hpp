// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "text_file.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace house {

/// A tested block of a document: a program (`<!-- test: name -->` before a cpp block) or a command line
/// (`<!-- run: shardwise ... -->`), with the block of output that follows, where there is one.
struct Snippet {
    std::size_t line = 0;
    std::string name;
    std::string command;
    std::string code;
    std::string output;
    bool has_output = false;
};

/// The tested blocks of a document and what is wrong with its marks.
struct Snippets {
    std::vector<Snippet> list;
    std::vector<std::string> problems;
};

/// The text of `<!-- key: text -->`, empty for any other line.
inline std::string mark_text(std::string_view line, std::string_view key) {
    line = trim(line);
    std::string const open = "<!-- " + std::string{key} + ": ";
    if (!line.starts_with(open) || !line.ends_with("-->")) return {};
    return std::string{trim(line.substr(open.size(), line.size() - open.size() - 3))};
}

inline Snippets find_snippets(std::string_view document) {
    Snippets found;
    std::vector<std::string> const lines = split_lines(document);
    std::size_t at = 0;

    auto const is_mark = [&](std::string_view line) {
        return !mark_text(line, "test").empty() || !mark_text(line, "run").empty();
    };
    // Takes the next fenced block before the next mark or heading; a cpp block never counts as output.
    auto const take_block = [&](bool want_cpp, std::string& into) {
        std::size_t next = at;
        while (next < lines.size() && !trim(lines[next]).starts_with("```")) {
            if (is_mark(lines[next]) || lines[next].starts_with("#")) return false;
            ++next;
        }
        if (next == lines.size()) return false;
        bool const is_cpp = trim(trim(lines[next]).substr(3)) == "cpp";
        if (is_cpp != want_cpp) return false;
        for (++next; next < lines.size() && !trim(lines[next]).starts_with("```"); ++next) into += lines[next] + "\n";
        at = next + 1;
        return true;
    };

    while (at < lines.size()) {
        Snippet snippet;
        snippet.line = at + 1;
        snippet.name = mark_text(lines[at], "test");
        snippet.command = mark_text(lines[at], "run");
        bool inside_block = false;
        if (trim(lines[at]).starts_with("```")) inside_block = true;
        ++at;
        if (inside_block) {
            while (at < lines.size() && !trim(lines[at]).starts_with("```")) ++at;
            ++at;
            continue;
        }
        if (snippet.name.empty() && snippet.command.empty()) continue;
        if (snippet.command.empty() && !take_block(true, snippet.code)) {
            found.problems.push_back("line " + std::to_string(snippet.line) + ": no cpp block follows this mark");
            continue;
        }
        snippet.has_output = take_block(false, snippet.output);
        if (!snippet.command.empty() && !snippet.has_output) {
            found.problems.push_back("line " + std::to_string(snippet.line) + ": no block of output follows this mark");
            continue;
        }
        found.list.push_back(std::move(snippet));
    }
    return found;
}

/// A whole program of a snippet: as it stands when it has a main, else its includes and a main around the rest.
inline std::string make_program(std::string_view code) {
    if (code.find("int main(") != std::string_view::npos) return std::string{code};
    std::string includes;
    std::string body;
    for (std::string const& line : split_lines(code))
        (trim(line).starts_with("#include") ? includes : body) += line + "\n";
    return includes + "int main() {\n" + body + "}\n";
}

}  // namespace house
