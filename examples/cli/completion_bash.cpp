// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"
#include "completion.hpp"
#include "completion_words.hpp"

namespace shardwise::cli {

namespace {

// Bash 3.2 (macOS) has neither mapfile nor compopt; names hold no blanks, files may.
constexpr std::string_view helpers =
    R"(# Completes shardwise's command lines in bash. Made by: shardwise completion bash

_shardwise_words() {
    local word
    for word in $1; do
        case $word in "$current"*) COMPREPLY+=("$word") ;; esac
    done
}

_shardwise_files() {
    local file
    compopt -o filenames 2>/dev/null
    while IFS= read -r file; do COMPREPLY+=("$file"); done < <(compgen -f -- "$current")
}

# A SPEC is several devices with counts: completes the last name of 4xA100-40GB+2x(8xH1.
_shardwise_devices() {
    local part=${current##*[+(]} word
    case $current in *[./]*) _shardwise_files ;; esac
    local stem=${current%"$part"}
    if [[ $part =~ ^[0-9]+x ]]; then
        stem+=${BASH_REMATCH[0]}
        part=${part#"${BASH_REMATCH[0]}"}
    fi
    compopt -o nospace 2>/dev/null
    case auto in "$current"*) COMPREPLY+=(auto) ;; esac
    for word in $1; do
        case $word in "$part"*) COMPREPLY+=("$stem$word") ;; esac
    done
}
)";

constexpr std::string_view head = R"(
_shardwise() {
    local current=$2 previous=$3 command= positionals=0 flags= position=1 word
    COMPREPLY=()
    # Bash takes --flag=word apart at the =.
    if [[ $current == = ]]; then
        current=
    elif [[ $previous == = ]]; then
        previous=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    while ((position < COMP_CWORD)); do
        word=${COMP_WORDS[position]}
        case $word in
            -*) [[ -n $command ]] && _shardwise_takes "$command" "$word" && position=$((position + 1)) ;;
            =) position=$((position + 1)) ;;
            *) if [[ -z $command ]]; then command=$word; else positionals=$((positionals + 1)); fi ;;
        esac
        [[ ${COMP_WORDS[position]} == = ]] && position=$((position + 1))
        position=$((position + 1))
    done
)";

/// The body of the case of an option's value.
[[nodiscard]] std::string action(Option const& option) {
    switch (option.kind) {
        case ValueKind::model:
            return R"(_shardwise_words "$models"; _shardwise_files)";
        case ValueKind::devices:
            return R"(_shardwise_devices "$devices")";
        case ValueKind::file:
            return "_shardwise_files";
        case ValueKind::text:
            break;
    }
    auto const words = words_of_option(option);
    return words.empty() ? ":" : "_shardwise_words \"" + joined(words) + "\"";
}

[[nodiscard]] std::string case_of(Command const& command) {
    std::string flags;
    std::string values;
    std::string positionals;
    command.for_each_option([&](Option const& option) {
        if (option.is_positional()) {
            positionals += "            " + action(option) + "\n";
            return;
        }
        flags += std::string(option.flag) + " ";
        if (!option.is_switch()) {
            values += "                " + std::string(option.flag) + ") " + action(option) + "; return ;;\n";
        }
    });
    std::string out = "        " + std::string(command.name) + ")\n";
    if (!values.empty()) out += "            case $previous in\n" + values + "            esac\n";
    out += "            flags=\"" + flags + "--help\"\n";
    if (!positionals.empty()) {
        out += "            if [[ $positionals == 0 && $current != -* ]]; then\n    " + positionals +
               "                return\n            fi\n";
    }
    return out + "            ;;\n";
}

/// The function that says whether a command's flag is followed by a word.
[[nodiscard]] std::string takes_function() {
    std::string out =
        "\n# Whether a flag of a command is followed by its word.\n_shardwise_takes() {\n    case \"$1 $2\" in\n";
    for (auto const& command : commands()) {
        std::string patterns;
        command.for_each_option([&](Option const& option) {
            if (option.is_positional() || option.is_switch()) return;
            patterns += (patterns.empty() ? "" : "|") + ("\"" + std::string(command.name) + " ") +
                        std::string(option.flag) + "\"";
        });
        if (!patterns.empty()) out += "        " + patterns + ") return 0 ;;\n";
    }
    return out + "    esac\n    return 1\n}\n";
}

}  // namespace

std::string bash_completion() {
    std::string out{helpers};
    out += takes_function();
    out += head;
    out += "    local models=\"" + model_words() + "\"\n";
    out += "    local devices=\"" + device_words() + "\"\n";
    std::string names;
    for (auto const& command : commands()) names += std::string(command.name) + " ";
    out += "    case $command in\n        '') _shardwise_words \"" + names + "--help --version\"; return ;;\n";
    for (auto const& command : commands()) out += case_of(command);
    return out + "    esac\n    _shardwise_words \"$flags\"\n}\n\ncomplete -F _shardwise shardwise\n";
}

}  // namespace shardwise::cli
