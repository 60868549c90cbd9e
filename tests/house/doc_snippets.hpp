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

inline constexpr std::string_view plain_main = "int main() {";

/// Whether join_programs takes a program: its main is a plain one, and it opens no namespace of the library, which cannot be
/// within another.
inline bool can_join(std::string_view program) {
    return program.find(plain_main) != std::string_view::npos && !program.starts_with("namespace shardwise") &&
           program.find("\nnamespace shardwise") == std::string_view::npos;
}

/// One program of several: each in a namespace of its own, after all their includes; it runs the one that its argument numbers.
/// Headers are parsed, and templates that they share are instantiated, once.
inline std::string join_programs(std::vector<std::string> const& programs) {
    std::string includes = "#include <string>\n";
    std::string bodies;
    std::string cases;
    for (std::size_t i = 0; i < programs.size(); ++i) {
        std::string body;
        for (std::string const& line : split_lines(programs[i]))
            (line.starts_with("#include") ? includes : body) += line + "\n";
        std::string const name = "program_" + std::to_string(i);
        body.replace(body.find(plain_main), plain_main.size(), "int run() {");
        // Only ::main returns 0 by itself.
        body.insert(body.rfind("}\n"), "return 0;\n");
        bodies += "namespace " + name + " {\n" + body + "}\n";
        cases += "    if (number == \"" + std::to_string(i) + "\") return " + name + "::run();\n";
    }
    return includes + bodies + "int main(int, char** argv) {\n    std::string const number = argv[1];\n" + cases +
           "    return 1;\n}\n";
}

}  // namespace house
