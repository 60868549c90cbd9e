// SPDX-License-Identifier: Apache-2.0
#include "arguments.hpp"

#include <shardwise/core/text.hpp>
#include <shardwise/hardware/spec.hpp>

#include <CLI/CLI.hpp>

#include "commands.hpp"
#include "console.hpp"
#include "help.hpp"
#include "train_refusals.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::cli {

namespace {

void add_option(CLI::App& app, Option const& option, Arguments& arguments) {
    auto const flag = std::string(option.flag);
    if (option.is_switch()) {
        app.add_flag(flag, arguments.*option.is_set);
        return;
    }
    if (option.words != nullptr) {
        app.add_option(flag, arguments.*option.words)->allow_extra_args(option.takes_several);
        return;
    }
    // Words are kept as they were given.
    auto& target = arguments.*option.word;
    auto* added = app.add_option_function<std::string>(flag, [&target](std::string const& word) { target = word; });
    if (option.is_list) added->join(',');
}

/// The flag or command that was probably meant.
[[nodiscard]] std::string closest_name(CLI::App const& app, std::string word) {
    auto const equals = word.find('=');
    if (equals != std::string::npos) word.resize(equals);
    std::vector<std::string> names;
    if (!word.empty() && word[0] == '-') {
        for (auto const* option : app.get_options()) {
            for (auto const& name : option->get_lnames()) names.push_back("--" + name);
        }
    } else {
        for (auto const* command : app.get_subcommands({})) names.push_back(command->get_name());
    }
    ClosestName closest(word);
    for (auto const& name : names) closest.offer(name);
    return std::string(closest.best());
}

[[nodiscard]] Error usage_error(CLI::ParseError const& problem, CLI::App const& root, CLI::App const* command) {
    Error error{ErrorCode::invalid_argument};
    std::string const help =
        "see shardwise " + (command == nullptr ? std::string() : command->get_name() + " ") + "--help";
    if (dynamic_cast<CLI::ExtrasError const*>(&problem) != nullptr) {
        auto const extras = root.remaining(true);
        auto const first = extras.empty() ? std::string() : extras.front();
        if (command != nullptr && command->get_name() == "train") {
            if (auto const known = untrained_flag(first)) return *known;
        }
        auto const closest = closest_name(command == nullptr ? root : *command, first);
        // What follows the first may be right after what was meant.
        if (command != nullptr && command->get_option_no_throw("--devices") != nullptr && parse_device_spec(first))
            return error.in(first).because("was not expected").fix("did you mean --devices " + first + "? " + help);
        error.in(first).because(command == nullptr && first.substr(0, 1) != "-" ? "is not a command"
                                                                                : "was not expected");
        return error.fix(closest.empty() ? help : "did you mean " + closest + "? " + help);
    }
    if (dynamic_cast<CLI::ArgumentMismatch const*>(&problem) != nullptr) {
        std::string const text = problem.what();
        error.in(text.substr(0, text.find(':')));
        bool const is_repeated =
            text.find("received") != std::string::npos || text.find("At Most") != std::string::npos;
        return error.because(is_repeated ? "was given more than once" : "needs a value").fix(help);
    }
    return error.because(problem.what()).fix(help);
}

/// A list or a switch that was given twice: a list's words are joined, so that "[1,2]", which CLI11 parts, is one.
[[nodiscard]] std::optional<Error> repeated_flag(CLI::App const& command, int argc, char const* const* argv) {
    std::optional<Error> found;
    find_command(command.get_name())->for_each_option([&](Option const& option) {
        bool const may_repeat = option.words != nullptr && !option.takes_several;
        if (option.is_positional() || may_repeat) return;
        auto const count = std::count_if(
            argv, argv + argc, [&](std::string_view word) { return word.substr(0, word.find('=')) == option.flag; });
        if (count < 2) return;
        auto const help = "see shardwise " + command.get_name() + " --help";
        Error error{ErrorCode::invalid_argument};
        found = error.in(option.flag).because("was given more than once").fix(help);
    });
    return found;
}

}  // namespace

std::optional<ExitCode> read_arguments(int argc, char const* const* argv, Arguments& arguments) {
    CLI::App app{"", "shardwise"};
    app.set_version_flag("-V,--version", version_text());
    app.require_subcommand(0, 1);
    for (auto const& command : commands()) {
        auto* added = app.add_subcommand(std::string(command.name));
        command.for_each_option([&](Option const& option) { add_option(*added, option, arguments); });
    }
    // Wrong flags keep --json from being read; its error document is wanted all the same.
    for (int i = 1; i < argc && std::string_view{argv[i]} != "--"; ++i)
        arguments.json = arguments.json || std::string_view{argv[i]} == "--json";

    // What stands after "--" is not ours to read.
    auto const* const trailing_command = argc > 1 ? find_command(argv[1]) : nullptr;
    if (trailing_command != nullptr && !trailing_command->trailing.empty()) {
        auto const* const end = argv + argc;
        auto const* const dashes = std::find(argv + 1, end, std::string_view{"--"});
        if (dashes != end) {
            argc = static_cast<int>(dashes - argv);
            arguments.command_line.assign(dashes + 1, end);
            if (arguments.command_line.empty()) {
                return report(Error{ErrorCode::invalid_argument}
                                  .in("--")
                                  .because("is followed by no command")
                                  .fix("write -- and the command to run"),
                              Stage::arguments, arguments.json);
            }
        }
    }

    auto const chosen = [&]() -> CLI::App const* {
        auto const parsed = app.get_subcommands();
        return parsed.empty() ? nullptr : parsed.front();
    };
    try {
        app.parse(argc, argv);
    } catch (CLI::CallForHelp const&) {
        auto const width = static_cast<std::size_t>(style_of_stdout(ColorMode::never).width);
        print_text(chosen() == nullptr ? program_help(width)
                                       : command_help(*find_command(chosen()->get_name()), width));
        return ExitCode::done;
    } catch (CLI::CallForVersion const&) {
        print_text(version_text() + "\n");
        return ExitCode::done;
    } catch (CLI::ParseError const& problem) {
        return report(usage_error(problem, app, chosen()), Stage::arguments, arguments.json);
    }
    if (chosen() == nullptr) {
        std::string names;
        for (auto const& command : commands()) names += (names.empty() ? "" : ", ") + std::string(command.name);
        return report(Error{ErrorCode::invalid_argument}
                          .because("no command")
                          .fix("write shardwise and one of " + names + "; see shardwise --help"),
                      Stage::arguments, arguments.json);
    }
    if (auto const repeated = repeated_flag(*chosen(), argc, argv))
        return report(*repeated, Stage::arguments, arguments.json);
    arguments.command = chosen()->get_name();
    return std::nullopt;
}

}  // namespace shardwise::cli
