// SPDX-License-Identifier: Apache-2.0
#include <shardwise/hardware/spec.hpp>
#include <shardwise/model/presets.hpp>
#include <shardwise/quant/scheme.hpp>

#include <doctest/doctest.h>

#include "program.hpp"
#include "terminal.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <string>
#include <vector>

using namespace shardwise;
using namespace shardwise::tests;

TEST_CASE("usage: --help and --version answer on stdout") {
    auto const help = run({"--help"});
    CHECK(help.status == 0);
    CHECK(help.out.find("estimate") != std::string::npos);
    CHECK(help.err.empty());
    auto const version = run({"--version"});
    CHECK(version.status == 0);
    CHECK(version.out.substr(0, 10) == "shardwise ");
}

TEST_CASE("usage: help and -V are --help and --version") {
    CHECK(run({"-V"}).out == run({"--version"}).out);
    CHECK(run({"help"}).out == run({"--help"}).out);
    for (std::string const name : {"map", "run", "list", "help", "man"}) {
        CAPTURE(name);
        auto const help = run({"help", name});
        CHECK(help.status == 0);
        CHECK(help.out == run({name, "--help"}).out);
    }
    auto const wrong = run({"help", "mapp"});
    CHECK(wrong.status == 2);
    CHECK(wrong.says("did you mean map?"));
}

TEST_CASE("list: every name is one that the program takes") {
    auto const names = [](std::string const& kind) {
        auto const text = run({"list", kind});
        REQUIRE(text.status == 0);
        Answer const json(run({"list", kind, "--json"}).out);
        CHECK(json.text("schema") == "shardwise.list/1");
        std::vector<std::string> listed;
        std::string lines;
        for (std::size_t i = 0; i < json.size("items"); ++i) {
            listed.push_back(json.text("items", i, "name"));
            lines += listed.back() + "\n";
        }
        CHECK(text.out == lines);
        return listed;
    };
    auto const models = names("models");
    CHECK(models.size() == model_presets.size());
    CHECK(run({"estimate", models.front()}).status == 0);
    CHECK(run({"estimate", models.back()}).status == 0);
    for (auto const& device : names("devices")) {
        CAPTURE(device);
        CHECK(parse_device_spec("1x" + device).has_value());
    }
    auto const families = names("architectures");
    CHECK(std::find(families.begin(), families.end(), "gpt_oss") != families.end());
    CHECK(families.size() >= 23);
    for (auto const& quant : names("quants")) {
        CAPTURE(quant);
        CHECK(parse_quant_scheme(quant).has_value());
    }
    CHECK(run({"list"}).status == 2);
    auto const wrong = run({"list", "modles"});
    CHECK(wrong.status == 2);
    CHECK(wrong.says("did you mean models?"));
}

TEST_CASE("usage: bars are ASCII on terminals that do not show UTF-8, and only there") {
    std::vector<std::string> const words{"map", "gpt2", "--devices", "1xRTX4090"};
    auto const shown = [&](char const* locale) {
        Terminal terminal(words, locale);
        auto const text = terminal.read_until("fits: ");
        CHECK(terminal.wait() == 0);
        return text;
    };
    auto const is_ascii = [](std::string const& text) {
        return std::all_of(text.begin(), text.end(), [](unsigned char letter) { return letter < 0x80; });
    };
    for (auto const* const locale : {"C", "POSIX", "de_DE.ISO-8859-1"}) {
        CAPTURE(locale);
        auto const text = shown(locale);
        CHECK(text.find("...") != std::string::npos);
        CHECK(is_ascii(text));
    }
    for (auto const* const locale : {"C.UTF-8", "en_US.utf8"}) {
        CAPTURE(locale);
        CHECK(shown(locale).find("\u00b7") != std::string::npos);
    }
    ::setenv("LC_ALL", "C", 1);
    CHECK(run(words).out.find("\u00b7") != std::string::npos);
    ::unsetenv("LC_ALL");
}

TEST_CASE("usage: the help of each command names every flag of the interface") {
    auto const estimate = run({"estimate", "--help"}).out;
    for (std::string const flag : {"--dtype", "--quant", "--kv-dtype", "--batch", "--context", "--sliding-window",
                                   "--mla", "--tp", "--pp", "--ep", "--dp", "--sequence-parallel", "--training",
                                   "--zero", "--offload", "--recompute", "--convention", "--json"}) {
        CAPTURE(flag);
        CHECK(estimate.find(flag) != std::string::npos);
    }
    auto const map = run({"map", "--help"}).out;
    for (std::string const flag :
         {"--tree", "--devices", "--max-memory", "--strategy", "--custom", "--objective", "--dialect", "--no-split",
          "--dtype", "--quant", "--fallback", "--offload-buffers", "--context", "--batch", "--max", "--json"}) {
        CAPTURE(flag);
        CHECK(map.find(flag) != std::string::npos);
    }
}

TEST_CASE("usage: wrong words exit 2 and name the nearest right one") {
    struct Wrong {
        std::vector<std::string> words;
        std::string says;
    };
    for (auto const& mistake : std::vector<Wrong>{
             {{}, "no command"},
             {{"estimat"}, "did you mean estimate?"},
             {{"estimate"}, "MODEL"},
             {{"estimate", "gpt2", "--contxt", "4"}, "did you mean --context?"},
             {{"estimate", "gpt2", "--dtype", "bf17"}, "did you mean bf16?"},
             {{"estimate", "gpt2", "--dtype", "nf4"}, "did you mean --quant nf4?"},
             {{"estimate", "gpt2", "--quant", "inf4"}, "did you mean int4?"},
             {{"estimate", "gpt2", "--batch", "0"}, "--batch: 0: is out of range"},
             {{"estimate", "gpt2", "--batch", "1e3"}, "is not a whole number"},
             {{"estimate", "gpt2", "--batch", "99999999999999999999"}, "is out of range"},
             {{"estimate", "gpt2", "--batch", "1", "--batch", "2"}, "--batch: was given more than once"},
             {{"estimate", "gpt2", "--tp", "13"}, "--tp: is more than the model has query heads"},
             {{"estimate", "gpt2", "--zero", "2"}, "add --training adam"},
             {{"estimate", "gpt2", "--training", "adm"}, "did you mean adam?"},
             {{"estimate", "gpt2", "--mla", "ful"}, "did you mean full?"},
             {{"map", "gpt2", "1xRTX4090"}, "did you mean --devices 1xRTX4090?"},
             {{"map", "gpt2"}, "--devices, --max-memory: neither was given"},
             {{"map", "--devices", "1xL4"}, "MODEL, --tree: neither was given"},
             {{"map", "gpt2", "--tree", "x", "--devices", "1xL4"}, "MODEL, --tree: exclude each other"},
             {{"map", "gpt2", "--devices", "1xL4", "--max-memory", "{}"},
              "--devices, --max-memory: exclude each other"},
             {{"map", "gpt2", "--devices", "1xL4", "--strategy", "optimum"}, "did you mean optimal?"},
             {{"map", "gpt2", "--devices", "1xL4", "--strategy", "custom"}, "add --custom FILE"},
             {{"map", "gpt2", "--devices", "1xL4", "--custom", "x"}, "add --strategy custom"},
             {{"map", "gpt2", "--devices", "1xL4", "--dialect", "transfomers"}, "did you mean transformers?"},
             {{"map", "gpt2", "--devices", "1xL4", "--dialect", "accelerate", "--strategy", "optimal"},
              "no such strategy"},
             {{"map", "gpt2", "--devices", "1xL4", "--dialect", "accelerate", "--max", "context"}, "--max"},
             {{"map", "gpt2", "--devices", "1xL4", "--objective", "lod"}, "did you mean load?"},
             {{"map", "gpt2", "--max-memory", "{\"0\":\"10X\"}"}, "--max-memory"},
             {{"map", "gpt2", "--max-memory", "{\"gpu0\":5}"}, "gpu0"},
             {{"map", "--tree", "x", "--devices", "1xL4", "--context", "5"}, "--context, --tree"},
             {{"map", "gpt2", "--devices", "1xL4", "--svg", ""}, "--svg: names no file"},
             {{"plan", "gpt2", "--devices", "1xL4", "--svg", ""}, "--svg: names no file"},
             {{"map", "gpt2", "--devices", "1xL4", "--svg", "-"}, "--svg: -: names no file"},
             {{"map", "gpt2", "--devices", "1xL4", "--svg"}, "--svg: needs a value"},
             {{"map", "gpt2", "--devices", "99999xT4"}, "at most 16384"},
             {{"map", "gpt2", "--max-memory", "{\"0\":"}, "--max-memory"},
             {{"completion"}, "SHELL: was not given"},
             {{"man", "map"}, "map: was not expected"},
             {{"frob", "gpt2", "more"}, "shardwise: frob: is not a command"},
             {{"estimate", "gpt2", "extra", "--more"}, "shardwise: extra: was not expected"},
         }) {
        auto const& [words, text] = mistake;
        std::string const says = text;
        auto const ran = run(words);
        CAPTURE(says);
        CAPTURE(ran.err);
        CHECK(ran.status == 2);
        CHECK(ran.out.empty());
        CHECK(ran.says(says));
        CHECK(ran.err.find('\n') == ran.err.size() - 1);
    }
}

TEST_CASE("usage: what is wrong with a file exits 1, whichever option names it") {
    TemporaryFolder const folder;
    auto const missing = folder.path() + "/none.json";
    auto const broken = folder.write("broken.json", "{");
    auto const other = folder.write("other.json", R"({"schema":"shardwise.other/1","devices":[]})");
    auto const wrong = folder.write("wrong.json", R"({"schema":"shardwise.hardware/1","devices":[{"preset":7}]})");
    for (auto const& words : std::vector<std::vector<std::string>>{
             {"map", "gpt2", "--devices", missing},
             {"map", "gpt2", "--devices", broken},
             {"map", "gpt2", "--devices", other},
             {"map", "gpt2", "--devices", wrong},
             {"plan", "gpt2", "--devices", broken},
             {"map", "gpt2", "--max-memory", "@" + missing},
             {"map", "gpt2", "--max-memory", "@" + broken},
             {"map", "gpt2", "--devices", "1xL4", "--profile", missing},
             {"map", "gpt2", "--devices", "1xL4", "--profile", broken},
             {"map", "gpt2", "--devices", "1xL4", "--strategy", "custom", "--custom", missing},
             {"map", "--tree", broken, "--devices", "1xL4"}}) {
        auto const ran = run(words);
        CAPTURE(words.back());
        CAPTURE(ran.err);
        CHECK(ran.status == 1);
        CHECK(ran.says(".json") != ran.says("--max-memory: "));
    }
}

TEST_CASE("usage: an unknown device exits 4 with the closest one") {
    auto const ran = run({"map", "gpt2", "--devices", "4xA100-40"});
    CHECK(ran.status == 4);
    CHECK(ran.says("did you mean A100-40GB?"));
}

TEST_CASE("usage: with --json an error is a document on stdout too, whatever is wrong") {
    for (auto const& words : std::vector<std::vector<std::string>>{{"estimate", "lama-3-70b", "--json"},
                                                                   {"--json", "estimate"},
                                                                   {"map", "--bogus", "--json"},
                                                                   {"frob", "--json"}}) {
        auto const ran = run(words);
        CAPTURE(ran.out);
        CHECK(ran.status != 0);
        Answer const answer(ran.out);
        CHECK(answer.text("schema") == "shardwise.error/1");
        CHECK_FALSE(answer.text("error", "code").empty());
        CHECK(ran.err == "shardwise: " + answer.text("error", "message") + "\n");
    }
    CHECK(Answer(run({"estimate", "lama-3-70b", "--json"}).out).text("error", "code") == "unknown_name");
}

TEST_CASE("usage: files that are no models are refused by name, and nothing blocks") {
    TemporaryFolder const folder;
    auto const fifo = folder.path() + "/fifo.json";
    REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
    auto const empty = folder.write("empty.json", "");
    auto const broken = folder.write("broken.gguf", "GGUF\x03");
    auto const none = folder.path() + "/none.json";
    for (auto const& path :
         {fifo, empty, broken, none, folder.path(), std::string("/dev/zero"), std::string("org/none")}) {
        auto const ran = run({"estimate", path});
        CAPTURE(ran.err);
        CHECK(ran.status == 1);
        CHECK(ran.says(path));
    }
    for (auto const& path : {fifo, empty, none, folder.path()}) {
        CHECK(run({"map", "--tree", path, "--devices", "1xL4"}).status == 1);
        CHECK(run({"map", "gpt2", "--devices", "1xL4", "--strategy", "custom", "--custom", path}).status == 1);
    }
}

TEST_CASE("usage: control characters of names are escaped") {
    auto const ran = run({"estimate", "a\x1b[31mb"});
    CHECK(ran.status == 1);
    CHECK(ran.err.find('\x1b') == std::string::npos);
}

TEST_CASE("usage: colours only where they are wanted: always beats NO_COLOR, which beats auto") {
    auto const has_color = [](Ran const& ran) { return ran.out.find('\x1b') != std::string::npos; };
    CHECK_FALSE(has_color(run({"estimate", "gpt2"})));
    CHECK(has_color(run({"estimate", "gpt2", "--color=always"})));
    CHECK(has_color(run({"estimate", "gpt2", "--color=always"}, {{"NO_COLOR", "1"}})));
    CHECK_FALSE(has_color(run({"estimate", "gpt2", "--color=auto"}, {{"NO_COLOR", "1"}})));
    CHECK_FALSE(has_color(run({"estimate", "gpt2", "--color", "never"})));
}

TEST_CASE("usage: output that cannot be written is a failure") {
    auto const command = "'" + std::string(SHARDWISE_PROGRAM) + "' estimate gpt2 > /dev/full 2> /dev/null";
    auto const status = std::system(command.c_str());
    CHECK(WEXITSTATUS(status) == 1);
}
