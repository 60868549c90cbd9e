// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "program.hpp"

#include <string>
#include <string_view>
#include <tuple>

using namespace shardwise::tests;

namespace {

constexpr auto small_config =
    R"({"model_type":"llama","architectures":["LlamaForCausalLM"],"vocab_size":61,"hidden_size":24,)"
    R"("intermediate_size":40,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2})";

/// A folder with a config.json; command lines find the program as $0 and the folder as $1.
struct Shell {
    TemporaryFolder folder;

    Shell() { (void)folder.write("config.json", small_config); }
    [[nodiscard]] Ran operator()(std::string const& line) const {
        return run_command_line({"/bin/bash", "-c", line, SHARDWISE_PROGRAM, folder.path()});
    }
};

}  // namespace

TEST_CASE("MODEL - is a config.json on standard input, for every command that counts a model") {
    Shell const shell;
    for (std::string const command :
         {"estimate", "map --devices 1xL4", "plan --devices 2xL4", "map --max-memory '{\"0\": \"10GB\"}' --strategy auto"}) {
        CAPTURE(command);
        auto const space = command.find(' ');
        auto const line = [&](std::string const& model, std::string const& rest) {
            auto const flags = space == std::string::npos ? "" : command.substr(space);
            return "\"$0\" " + command.substr(0, space) + " " + model + flags + " --json " + rest;
        };
        // Name and place aside, all is as for the file.
        auto const nameless = [](std::string text, std::string const& name) {
            for (auto at = text.find(name); at != std::string::npos; at = text.find(name)) text.replace(at, name.size(), "N");
            // Where a plan's model is; what came by standard input is nowhere.
            auto const source = text.find("\"source\": ");
            if (source == std::string::npos) return text;
            auto const end = text.find('\n', source);
            if (name == "standard input") CHECK(text.substr(source, end - source) == "\"source\": null,");
            return text.erase(source, end - source);
        };
        auto const named = shell(line("\"$1\"/config.json", ""));
        REQUIRE_MESSAGE(named.status == 0, named.err);
        auto const wanted = nameless(named.out, "config.json");
        for (auto const& [model, rest, name] :
             {std::tuple{"-", "< \"$1\"/config.json", "standard input"},
              std::tuple{"/dev/stdin", "< \"$1\"/config.json", "standard input"},
              std::tuple{"/dev/fd/0", "< \"$1\"/config.json", "standard input"}}) {
            auto const given = shell(line(model, rest));
            CHECK_MESSAGE(given.status == 0, given.err);
            CHECK(nameless(given.out, name) == wanted);
        }
        auto const piped = shell("cat \"$1\"/config.json | " + line("-", ""));
        CHECK(nameless(piped.out, "standard input") == wanted);
        // A substituted process is a pipe with a name.
        CHECK(shell(line("<(cat \"$1\"/config.json)", "")).status == 0);
        CHECK(shell("mkfifo \"$1\"/pipe.json; cat \"$1\"/config.json > \"$1\"/pipe.json & " +
                    line("\"$1\"/pipe.json", "") + "; rm \"$1\"/pipe.json")
                  .status == 0);
    }
}

TEST_CASE("MODEL -: what is no config.json is refused by name") {
    Shell const shell;
    auto const refused = [&](std::string const& line, std::string_view what) {
        auto const ran = shell(line);
        CHECK(ran.status == 1);
        CHECK_MESSAGE(ran.says(what), ran.err);
        CHECK(ran.out.empty());
    };
    refused("\"$0\" estimate - < /dev/null", "standard input: is empty; give a config.json");
    refused("printf 'GGUF\\003\\000\\000\\000' | \"$0\" estimate -", "standard input: gives a GGUF file");
    refused("printf '\\010\\000\\000\\000\\000\\000\\000\\000{}      ' | \"$0\" map - --devices 1xL4",
            "standard input: gives a safetensors file");
    refused("yes | \"$0\" estimate -", "standard input: gives more bytes than a config.json may have");
    refused("\"$0\" estimate - < /", "standard input: is a folder, not a file");
    refused("\"$0\" estimate - <&-", "standard input: is closed");
    refused("echo '[1]' | \"$0\" plan - --devices 1xL4", "standard input: a configuration is a JSON object");
    refused("echo '{\"model_type\":\"lama\"}' | \"$0\" estimate -", "did you mean llama?");
}

TEST_CASE("MODEL -: commands that need weights or a tokenizer refuse it without waiting for what it gives") {
    Shell const shell;
    // A pipe that nobody writes into and nobody closes.
    std::string const silent = "mkfifo \"$1\"/silent; exec 3<>\"$1\"/silent; rm \"$1\"/silent; ";
    for (std::string const model : {"-", "/dev/stdin"}) {
        for (std::string const command : {"run MODEL --prompt a", "embed MODEL --text a"}) {
            auto line = command;
            line.replace(line.find("MODEL"), 5, model);
            auto const ran = shell(silent + "\"$0\" " + line + " <&3");
            CHECK(ran.status != 0);
            CHECK_MESSAGE(ran.says("standard input: gives a config.json, which has no weights to run; name a folder"), ran.err);
        }
        auto const ran = shell(silent + "\"$0\" tokenize " + model + " --text a <&3");
        CHECK(ran.status != 0);
        CHECK_MESSAGE(ran.says("standard input: gives a config.json, which has no tokenizer"), ran.err);
    }
    // Files have the same status.
    CHECK(shell("\"$0\" run - --prompt a < \"$1\"/config.json").status ==
          shell("\"$0\" run \"$1\"/config.json --prompt a").status);
}
