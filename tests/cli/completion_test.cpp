// SPDX-License-Identifier: Apache-2.0
#include <shardwise/hardware/presets.hpp>
#include <shardwise/model/presets.hpp>

#include <doctest/doctest.h>

#include "shell.hpp"
#include "skip.hpp"

#include <algorithm>

using namespace shardwise;
using namespace shardwise::tests;

namespace {

/// A command line up to the cursor, and what it is completed with.
struct Completed {
    std::vector<std::string> words;
    std::vector<std::string> offers;
};

[[nodiscard]] bool holds(std::vector<std::string> const& offers, std::string const& word) {
    return std::find(offers.begin(), offers.end(), word) != offers.end();
}

/// Calls the function that bash calls, with the words that bash gives it.
class Bash {
public:
    Bash() : script_(folder_.write("shardwise.bash", run({"completion", "bash"}).out)) {
        driver_ = folder_.write("driver.bash", R"(. "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_shardwise shardwise "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}" 2>/dev/null
printf '%s\n' "${COMPREPLY[@]}"
)");
    }

    [[nodiscard]] std::vector<std::string> offers(std::vector<std::string> const& words) const {
        std::string command =
            "cd '" + folder_.path() + "' && bash --norc '" + driver_ + "' '" + script_ + "' shardwise";
        for (auto const& word : words) command += " '" + word + "'";
        return lines_of(run_in_shell(command).out);
    }
    [[nodiscard]] TemporaryFolder const& folder() const { return folder_; }
    [[nodiscard]] std::string const& script() const { return script_; }

private:
    TemporaryFolder folder_;
    std::string script_;
    std::string driver_;
};

}  // namespace

TEST_CASE("completion: bash completes commands, flags, choices and names") {
    Bash const bash;
    REQUIRE(run_in_shell("bash -n '" + bash.script() + "'").out.empty());
    for (auto const& expected : std::vector<Completed>{
             {{"estim"}, {"estimate"}},
             {{"map", "llama-3-70"}, {"llama-3-70b"}},
             {{"map", "gpt2", "--obj"}, {"--objective"}},
             {{"map", "gpt2", "--strategy", "bal"}, {"balanced", "balanced_low_0"}},
             {{"map", "--strategy", "op"}, {"optimal"}},
             {{"map", "gpt2", "--strategy", "=", "seq"}, {"sequential"}},
             {{"map", "gpt2", "--dialect", "="}, {"shardwise", "accelerate", "transformers", "transformers-5.0"}},
             {{"map", "gpt2", "--devices", "4xA100-4"}, {"4xA100-40GB"}},
             {{"map", "gpt2", "--devices", "au"}, {"auto"}},
             {{"map", "gpt2", "--devices", "2x(8xH100-80GB)+RTX309"}, {"2x(8xH100-80GB)+RTX3090"}},
             {{"estimate", "--batch", "4", "smollm2-135"}, {"smollm2-135m"}},
             {{"completion", "f"}, {"fish"}},
         }) {
        CAPTURE(expected.words.back());
        auto const offers = bash.offers(expected.words);
        for (auto const& offer : expected.offers) CHECK(holds(offers, offer));
        CHECK(offers.size() == expected.offers.size());
    }
}

TEST_CASE("completion: bash offers every model, every device, every flag, and files where a file is taken") {
    Bash const bash;
    auto const models = bash.offers({"map", ""});
    for (auto const& preset : model_presets) CHECK(holds(models, std::string(preset.name)));
    auto const devices = bash.offers({"map", "gpt2", "--devices", ""});
    for (auto const& preset : device_presets) CHECK(holds(devices, std::string(preset.device.name.view())));
    auto const flags = bash.offers({"map", "gpt2", ""});
    for (auto const* flag : {"--devices", "--max-memory", "--no-split", "--json", "--help"}) CHECK(holds(flags, flag));
    CHECK_FALSE(holds(flags, "gpt2"));
    (void)bash.folder().write("a tree.json", "{}");
    CHECK(bash.offers({"map", "gpt2", "--devices", "./a t"}) == std::vector<std::string>{"./a tree.json"});
    CHECK(bash.offers({"map", "--tree", "a t"}) == std::vector<std::string>{"a tree.json"});
    CHECK(bash.offers({"estimate", "a t"}) == std::vector<std::string>{"a tree.json"});
    CHECK(bash.offers({"map", "gpt2", "--batch", ""}) == std::vector<std::string>{""});
}

TEST_CASE("completion: zsh completes what is typed, in a terminal of its own") {
    if (!is_installed("zsh")) {
        shardwise::testing::note_absent_tool("zsh");
        return;
    }
    TemporaryFolder const folder;
    auto const script = folder.write("_shardwise", run({"completion", "zsh"}).out);
    REQUIRE(run_in_shell("zsh -n '" + script + "'").out.empty());
    // Types each line and a tab; what the shell then runs is printed.
    auto const driver = folder.write("driver.zsh", R"(zmodload zsh/zpty || exit 77
zpty shell 'TERM=dumb zsh -f -i'
zpty -w shell "PROMPT= RPROMPT=; autoload -Uz compinit; compinit -u -D; source ${(q)1}; shardwise() { print -r -- \"ran:\$*:\" }; bindkey '^I' complete-word; unsetopt list_beep auto_list; print READY"
while zpty -r shell line; do [[ $line == *READY* && $line != *print* ]] && break; done
while IFS= read -r typed; do
    zpty -w shell "$typed"$'\t'
    while zpty -r shell line; do [[ $line == *ran:* ]] && break; done
    print -r -- "${${line#*ran:}%:*}"
done < $2
zpty -d shell
)");
    auto const typed = folder.write("typed", R"(shardwise estim
shardwise map --strategy=op
shardwise map --obj
shardwise map gpt2 --devices 4xA100-4
shardwise map gpt2 --devices aut
shardwise map gpt2 --devices 4xA100-40GB+2xRTX309
shardwise estimate smollm2-135
shardwise completion f
)");
    auto const ran = run_in_shell("timeout 60 zsh -f '" + driver + "' '" + script + "' '" + typed + "'");
    CHECK(lines_of(ran.out) == std::vector<std::string>{"estimate", "map --strategy=optimal", "map --objective",
                                                        "map gpt2 --devices 4xA100-40GB", "map gpt2 --devices auto",
                                                        "map gpt2 --devices 4xA100-40GB+2xRTX3090",
                                                        "estimate smollm2-135m", "completion fish"});
}

TEST_CASE("completion: fish completes what is typed") {
    if (!is_installed("fish")) {
        shardwise::testing::note_absent_tool("fish");
        return;
    }
    TemporaryFolder const folder;
    auto const script = folder.write("shardwise.fish", run({"completion", "fish"}).out);
    for (auto const& [typed, offer] : std::vector<std::pair<std::string, std::string>>{
             {"estim", "estimate"},
             {"map --strategy op", "optimal"},
             {"map --strategy=op", "--strategy=optimal"},
             {"map gpt2 --obj", "--objective"},
             {"map gpt2 --devices 4xA100-4", "4xA100-40GB"},
             {"map gpt2 --devices au", "auto"},
             {"map gpt2 --devices=4xA100-40GB+2xRTX309", "--devices=4xA100-40GB+2xRTX3090"},
             {"estimate smollm2-135", "smollm2-135m"},
             {"completion f", "fish"}}) {
        auto const& line = typed;
        CAPTURE(line);
        auto const ran =
            run_in_shell("cd '" + folder.path() + "' && HOME='" + folder.path() +
                         "' fish --no-config -c 'source shardwise.fish; complete -C \"shardwise " + typed + "\"'");
        auto const lines = lines_of(ran.out);
        REQUIRE(lines.size() == 1);
        CHECK(lines.front().substr(0, lines.front().find('\t')) == offer);
    }
}

TEST_CASE("completion: a shell that it does not know is wrong usage") {
    auto const ran = run({"completion", "bsh"});
    CHECK(ran.status == 2);
    CHECK(ran.says("did you mean bash?"));
    CHECK(run({"completion"}).status == 2);
}
