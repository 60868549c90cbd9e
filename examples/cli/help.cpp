// SPDX-License-Identifier: Apache-2.0
#include "help.hpp"

#include <shardwise/core/text.hpp>
#include <shardwise/core/version.hpp>

#include "commands.hpp"
#include "console.hpp"
#include "text.hpp"

#include <algorithm>

namespace shardwise::cli {

namespace {

/// A term and what it means, the meanings aligned and wrapped.
struct Entry {
    std::string term;
    std::string meaning;
};

constexpr std::size_t max_term_columns = 26;

[[nodiscard]] std::string entries_text(std::vector<Entry> const& entries, std::size_t width) {
    std::size_t term_width = 0;
    for (auto const& entry : entries) {
        if (columns(entry.term) <= max_term_columns) term_width = std::max(term_width, columns(entry.term));
    }
    auto const indent = term_width + 4;
    std::string out;
    for (auto const& entry : entries) {
        bool const is_wide = columns(entry.term) > term_width;
        out += "  " + (is_wide ? entry.term + "\n" + std::string(indent, ' ') : padded(entry.term, term_width) + "  ");
        bool is_first = true;
        for (auto const& line : filled(entry.meaning, width - indent)) {
            out += (is_first ? "" : std::string(indent, ' ')) + line + "\n";
            is_first = false;
        }
    }
    return out;
}

[[nodiscard]] std::string term_of(Option const& option) {
    std::string text{option.flag};
    if (!option.is_positional() && !option.is_switch()) text += " " + std::string(option.value);
    return text;
}

[[nodiscard]] std::string paragraph(std::string_view text, std::size_t width) {
    std::string out;
    for (auto const& line : filled(text, width)) out += line + "\n";
    return out;
}

}  // namespace

std::string version_text() {
    return "shardwise " + std::to_string(library_version.major_number) + "." +
           std::to_string(library_version.minor_number) + "." + std::to_string(library_version.patch_number);
}

std::vector<std::string> filled(std::string_view text, std::size_t width) {
    std::vector<std::string> lines{""};
    while (!text.empty()) {
        auto const end = std::min(text.find(' '), text.size());
        auto const word = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        auto& line = lines.back();
        if (line.empty()) {
            line = word;
        } else if (columns(line) + 1 + columns(word) <= width) {
            line += " " + std::string(word);
        } else {
            lines.emplace_back(word);
        }
    }
    return lines;
}

std::string program_help(std::size_t width) {
    std::string out = paragraph("shardwise: does this model fit on these devices, and where does each part go?", width);
    out += "\nUsage: shardwise COMMAND [OPTIONS]\n\nCommands:\n";
    std::vector<Entry> entries;
    for (auto const& command : commands()) entries.push_back({std::string(command.name), std::string(command.summary)});
    out += entries_text(entries, width);
    out += "\nOptions:\n" + entries_text({{"-h, --help", "print this help; after a command, the help of that command"},
                                          {"-V, --version", "print the version"}},
                                         width);
    out += "\n" + paragraph(exit_status_text, width);
    return out;
}

std::string command_help(Command const& command, std::size_t width) {
    std::string usage = "Usage: shardwise " + std::string(command.name);
    bool has_flags = false;
    bool has_json = false;
    command.for_each_option([&](Option const& option) {
        if (option.is_positional())
            usage +=
                command.is_argument_optional ? " [" + std::string(option.flag) + "]" : " " + std::string(option.flag);
        has_flags = has_flags || !option.is_positional();
        has_json = has_json || option.is_set == &Arguments::json;
    });
    if (has_flags) usage += " [OPTIONS]";
    if (!command.trailing.empty()) usage += " [-- " + std::string(command.trailing) + "]";
    std::string out = paragraph("shardwise " + std::string(command.name) + ": " + std::string(command.summary), width);
    out += "\n" + usage + "\n";
    std::string_view heading;
    std::vector<Entry> entries;
    auto const flush = [&] {
        if (!entries.empty()) out += "\n" + std::string(heading) + ":\n" + entries_text(entries, width);
        entries.clear();
    };
    for (auto const& group : command.groups) {
        if (group.name != heading) flush();
        heading = group.name;
        for (auto const& option : group.options) entries.push_back({term_of(option), full_help(option)});
    }
    flush();
    if (!command.examples.empty()) out += "\nExamples:\n";
    for (auto const& example : command.examples) {
        out += "  " + std::string(example.line) + "\n      " + std::string(example.meaning) + "\n";
    }
    out += "\n" + paragraph((has_json ? "Sizes in JSON are bytes. " : "") + std::string(exit_status_text), width);
    return out;
}

ExitCode run_help(Arguments const& arguments) {
    auto const width = static_cast<std::size_t>(style_of_stdout(ColorMode::never).width);
    if (!arguments.topic) {
        print_text(program_help(width));
        return ExitCode::done;
    }
    auto const* const command = find_command(*arguments.topic);
    if (command == nullptr) {
        ClosestName closest(*arguments.topic);
        for (auto const& known : commands()) closest.offer(known.name);
        auto const best = closest.best();
        return report(Error{ErrorCode::unknown_name}
                          .in(*arguments.topic)
                          .because("is not a command")
                          .fix(best.empty() ? "see shardwise --help" : "did you mean " + std::string(best) + "?"),
                      Stage::arguments, arguments.json);
    }
    print_text(command_help(*command, width));
    return ExitCode::done;
}

}  // namespace shardwise::cli
