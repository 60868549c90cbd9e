// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"
#include "completion.hpp"
#include "completion_words.hpp"

namespace shardwise::cli {

namespace {

constexpr std::string_view head = R"(#compdef shardwise
# Completes shardwise's command lines in zsh. Made by: shardwise completion zsh

# A SPEC is several devices with counts: completes the last name of 4xA100-40GB+2x(8xH1.
_shardwise_devices() {
    setopt localoptions extendedglob
    compadd -- auto
    [[ $PREFIX == *[./]* ]] && _files
    compset -P '*[+\(]'
    compset -P '[0-9]##x'
    compadd -S '' -- $shardwise_devices
}

_shardwise_models() {
    _alternative 'models:model:compadd -- $shardwise_models' 'files:file:_files'
}

_shardwise() {
    local curcontext=$curcontext state line
    local -a shardwise_models shardwise_devices commands
)";

constexpr std::string_view program_arguments =
    R"(    _arguments -C '(-h --help)'{-h,--help}'[print help]' '--version[print the version]' \
        '1: :->command' '*:: :->arguments'
)";

/// Text inside single quotes and [...] or after a colon of _arguments.
[[nodiscard]] std::string quoted(std::string_view text) {
    std::string out;
    for (auto const letter : marked(text, "\\[]:", "\\"))
        out += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
    return out;
}

[[nodiscard]] std::string action(Option const& option) {
    switch (option.kind) {
        case ValueKind::model:
            return "_shardwise_models";
        case ValueKind::devices:
            return "_shardwise_devices";
        case ValueKind::file:
            return "_files";
        case ValueKind::text:
            break;
    }
    auto const words = words_of_option(option);
    return words.empty() ? " " : "(" + joined(words) + ")";
}

[[nodiscard]] std::string argument(Option const& option) {
    if (option.is_positional()) return "'1:" + quoted(option.value) + ":" + action(option) + "'";
    auto const help = "[" + quoted(option.help) + "]";
    auto const flag = std::string(option.flag);
    if (option.is_switch()) return "'" + flag + help + "'";
    // A flag that may be given again is offered again.
    return std::string(option.words != nullptr ? "'*" : "'") + flag + "=" + help + ":" + quoted(option.value) + ":" +
           action(option) + "'";
}

}  // namespace

std::string zsh_completion() {
    std::string out{head};
    out += "    shardwise_models=(" + model_words() + ")\n    shardwise_devices=(" + device_words() + ")\n";
    out += "    commands=(\n";
    for (auto const& command : commands()) {
        out += "        '" + std::string(command.name) + ":" + quoted(command.summary) + "'\n";
    }
    out += "    )\n";
    out += program_arguments;
    out +=
        "    case $state in\n        command) _describe command commands ;;\n        arguments)\n"
        "            case $words[1] in\n";
    for (auto const& command : commands()) {
        out += "                " + std::string(command.name) + ")\n                    _arguments \\\n";
        command.for_each_option(
            [&](Option const& option) { out += "                        " + argument(option) + " \\\n"; });
        out += "                        '(-h --help)'{-h,--help}'[print help]'\n                    ;;\n";
    }
    out += "            esac ;;\n    esac\n}\n\n";
    // Autoloaded from a folder of fpath, or read by source.
    return out +
           "if [[ $funcstack[1] == _shardwise ]]; then\n    _shardwise \"$@\"\nelse\n    compdef _shardwise "
           "shardwise\nfi\n";
}

}  // namespace shardwise::cli
