// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"
#include "completion.hpp"
#include "completion_words.hpp"

namespace shardwise::cli {

namespace {

[[nodiscard]] std::string quoted(std::string_view text) {
    return "'" + marked(text, "\\'", "\\") + "'";
}

[[nodiscard]] std::string device_function() {
    return R"(# Completes shardwise's command lines in fish. Made by: shardwise completion fish

# A SPEC is several devices with counts: completes the last name of 4xA100-40GB+2x(8xH1.
function __shardwise_devices
    set -l current (string replace -r '^--[a-z-]+=' '' -- (commandline -ct))
    set -l stem (string match -r '^(?:.*[+(])?(?:[0-9]+x)?' -- $current)
    echo auto
    string match -q '*[./]*' -- $current; and __fish_complete_path $current
    for name in )" +
           device_words() + R"(
        echo $stem$name
    end
end

)";
}

/// How the word of an option is completed: the switches of fish's complete.
[[nodiscard]] std::string value_switches(Option const& option) {
    switch (option.kind) {
        case ValueKind::model:
            return " -F -a " + quoted(model_words());
        case ValueKind::devices:
            return " -x -a '(__shardwise_devices)'";
        case ValueKind::file:
            return " -r -F";
        case ValueKind::text:
            break;
    }
    auto const words = words_of_option(option);
    return words.empty() ? " -x" : " -x -a " + quoted(joined(words));
}

}  // namespace

std::string fish_completion() {
    auto out = device_function();
    out += "complete -c shardwise -f\n";
    out += "complete -c shardwise -s h -l help -d 'print help'\n";
    out += "complete -c shardwise -n __fish_use_subcommand -l version -d 'print the version'\n";
    for (auto const& command : commands()) {
        out += "complete -c shardwise -n __fish_use_subcommand -a " + std::string(command.name) + " -d " +
               quoted(command.summary) + "\n";
    }
    for (auto const& command : commands()) {
        auto const start = "complete -c shardwise -n '__fish_seen_subcommand_from " + std::string(command.name) + "'";
        command.for_each_option([&](Option const& option) {
            out += start;
            if (option.is_positional()) {
                // A positional has no flag that could require a word.
                auto const words = words_of_option(option);
                out += option.kind == ValueKind::text ? " -a " + quoted(joined(words)) : value_switches(option);
                out += "\n";
                return;
            }
            out += " -l " + std::string(option.flag.substr(2));
            if (!option.is_switch()) out += value_switches(option);
            out += " -d " + quoted(option.help) + "\n";
        });
    }
    return out;
}

}  // namespace shardwise::cli
