// SPDX-License-Identifier: Apache-2.0
#include "man_page.hpp"

#include "commands.hpp"
#include "console.hpp"
#include "help.hpp"

#include <array>
#include <utility>

namespace shardwise::cli {

namespace {

using ManEntry = std::pair<std::string_view, std::string_view>;

constexpr std::array exit_statuses{
    ManEntry{"0", "Done."},
    ManEntry{
        "1",
        "A failure: a file that cannot be read or breaks its format, an unknown model, output that cannot be written."},
    ManEntry{"2", "Wrong usage."},
    ManEntry{"3", "The answer is that it does not fit."},
    ManEntry{"4", "A device that is named does not exist."},
};

constexpr std::array environment{
    ManEntry{"HF_HUB_CACHE, HF_HOME",
             "Where downloaded models lie: $HF_HUB_CACHE, else $HF_HOME/hub, else ~/.cache/huggingface/hub."},
    ManEntry{"NO_COLOR", "Neither colours nor progress bars, unless --color always asks for them."},
    ManEntry{"TERM", "The same where it is dumb."},
    ManEntry{"SHARDWISE_LOG",
             "What run and embed tell on the error output, each line with its rank and the seconds of the monotonic clock: "
             "error, warn, info or debug, which says what lies on which device, and why. Unset: nothing."},
};

constexpr std::array device_words{
    ManEntry{"4xA100-40GB", "Four of a known device. A wrong name is answered with the closest one."},
    ManEntry{"2xgpu:24GiB", "Two of an unknown kind with this memory."},
    ManEntry{"2xA100-80GB+2xRTX4090", "Several kinds; numbers are given from 0 as written."},
    ManEntry{"4x(8xH100-80GB)", "Four nodes of eight."},
    ManEntry{"+cpu:64GiB", "Host memory for what the accelerators do not hold."},
    ManEntry{"+disk", "Disk for the rest."},
};

/// Text as roff takes it: backslashes and dashes escaped, no line that begins a request.
[[nodiscard]] std::string roff_words(std::string_view text) {
    std::string out;
    bool is_at_start = true;
    for (auto const letter : text) {
        if (is_at_start && (letter == '.' || letter == '\'')) out += "\\&";
        is_at_start = letter == '\n';
        if (letter == '\\') {
            out += "\\e";
        } else if (letter == '-') {
            out += "\\-";
        } else if (letter == '~') {
            out += "\\(ti";
        } else if (letter == '\'') {
            out += "\\(aq";
        } else {
            out += letter;
        }
    }
    return out;
}

/// The same in lines of source that fit a screen.
[[nodiscard]] std::string roff(std::string_view text) {
    std::string out;
    for (auto const& line : filled(text, 72)) out += (out.empty() ? "" : "\n") + roff_words(line);
    return out;
}

[[nodiscard]] std::string bold(std::string_view text) {
    return "\\fB" + roff_words(text) + "\\fR";
}
[[nodiscard]] std::string italic(std::string_view text) {
    return "\\fI" + roff_words(text) + "\\fR";
}

[[nodiscard]] std::string tagged(std::string const& tag, std::string const& text) {
    return ".TP\n" + tag + "\n" + text + "\n";
}

template <std::size_t count>
[[nodiscard]] std::string terms(std::string_view heading, std::array<ManEntry, count> const& list) {
    std::string out = ".SH " + std::string(heading) + "\n";
    for (auto const& [term, meaning] : list) out += tagged(bold(term), roff(meaning));
    return out;
}

/// "text\n\nmore" with a paragraph macro between.
[[nodiscard]] std::string paragraphs(std::string_view text) {
    std::string out;
    while (true) {
        auto const end = text.find("\n\n");
        out += roff(text.substr(0, end)) + "\n";
        if (end == std::string_view::npos) return out;
        out += ".PP\n";
        text.remove_prefix(end + 2);
    }
}

[[nodiscard]] std::string command_section(Command const& command) {
    std::string out = ".SS shardwise " + std::string(command.name) + "\n";
    std::string usage = bold("shardwise " + std::string(command.name));
    bool has_flags = false;
    command.for_each_option([&](Option const& option) {
        if (option.is_positional()) {
            auto const word = italic(option.flag);
            usage += command.is_argument_optional ? " [" + word + "]" : " " + word;
        }
        has_flags = has_flags || !option.is_positional();
    });
    std::string summary{command.summary};
    summary[0] = static_cast<char>(summary[0] - 'a' + 'A');
    if (has_flags) usage += " [" + italic("OPTIONS") + "]";
    if (!command.trailing.empty()) usage += " [" + bold("--") + " " + italic(command.trailing) + "]";
    out += usage + "\n.PP\n" + roff(summary + ".") + "\n.PP\n" +
           paragraphs(command.description);
    command.for_each_option([&](Option const& option) {
        auto tag = option.is_positional() ? italic(option.flag) : bold(option.flag);
        if (!option.is_positional() && !option.is_switch()) tag += " " + italic(option.value);
        out += tagged(tag, roff(full_help(option)));
    });
    return out;
}

[[nodiscard]] std::string example_section() {
    std::string out = ".SH EXAMPLES\n";
    for (auto const& command : commands()) {
        for (auto const& example : command.examples) out += tagged(bold(example.line), roff(example.meaning));
    }
    return out;
}

}  // namespace

std::string man_page() {
    std::string out =
        ".\\\" Made by: shardwise man\n.TH SHARDWISE 1 \"\" \"" + version_text() + "\" \"User Commands\"\n.SH NAME\n" +
        "shardwise \\- does this model fit on these devices, and where does each part go?\n.SH SYNOPSIS\n" +
        bold("shardwise") + " " + italic("COMMAND") + " [" + italic("OPTIONS") + "]\n.br\n" + bold("shardwise") + " [" +
        italic("COMMAND") + "] " + bold("--help") + "\n.br\n" + bold("shardwise --version") + "\n.SH DESCRIPTION\n";
    out += paragraphs(
        "shardwise counts what a language model takes on each device and places its parts, exactly and without a GPU. "
        "With --json each command prints one document with a member schema; sizes in it are bytes and times seconds. "
        "An error is one line on the error output.");
    out += ".SH COMMANDS\n";
    for (auto const& command : commands()) out += command_section(command);
    out += terms("DEVICES", device_words) + ".PP\n" +
           paragraphs(
               "Parentheses mean something to shells: quote them. An existing .json file is read as a description "
               "of devices; auto, cuda:0,cuda:1 and UUIDs name devices of this machine.");
    out += terms("EXIT STATUS", exit_statuses);
    out += terms("ENVIRONMENT", environment);
    return out + example_section();
}

ExitCode run_man(Arguments const&) {
    print_text(man_page());
    return ExitCode::done;
}

}  // namespace shardwise::cli
