// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "program.hpp"

#include <sys/stat.h>

using namespace shardwise;
using namespace shardwise::tests;

namespace {

struct Drawn {
    std::string file;
    std::vector<std::string> words;
};

}  // namespace

TEST_CASE("svg: the pictures of the documentation are those that the program draws") {
    TemporaryFolder const folder;
    for (auto const& [file, words] : std::vector<Drawn>{
             {"map.svg", {"map", "llama-3-70b", "--devices", "4xA100-40GB", "--context", "8192"}},
             {"hosts.svg",
              {"map", "mixtral-8x22b", "--devices", "2xA100-80GB+2xRTX4090+cpu:256GiB", "--context", "4096"}}}) {
        auto command = words;
        auto const path = folder.path() + "/" + file;
        command.insert(command.end(), {"--svg", path});
        auto const ran = run(command);
        CHECK(ran.status == 0);
        // Draw it again with --svg docs/pictures/... where it has changed for a good reason, and look at it.
        auto const& picture = file;
        CAPTURE(picture);
        CHECK(read_text(path) == read_text(std::string(SHARDWISE_SOURCE_DIR) + "/docs/pictures/" + file));
        CHECK(ran.out == run(words).out);
    }
}

TEST_CASE("svg: what does not fit is drawn too, and exits 3") {
    TemporaryFolder const folder;
    auto const path = folder.path() + "/map.svg";
    auto const ran = run({"map", "llama-3-70b", "--devices", "4xRTX4090", "--json", "--svg", path});
    CHECK(ran.status == 3);
    CHECK(Answer(ran.out).is_null("device_map"));
    auto const svg = read_text(path);
    CHECK(svg.find("does not fit") != std::string::npos);
    CHECK(svg.find("more would suffice") != std::string::npos);
    CHECK(svg.find("It would fit: ") != std::string::npos);
}

TEST_CASE("svg: each dialect and each strategy has its picture") {
    TemporaryFolder const folder;
    auto const path = folder.path() + "/map.svg";
    for (auto const* dialect : {"accelerate", "transformers"}) {
        CHECK(run({"map", "gpt2", "--max-memory", R"({"0":"100MiB","cpu":"200MiB"})", "--dialect", dialect, "--svg",
                   path})
                  .status == 0);
        CHECK(read_text(path).find("disk") != std::string::npos);
    }
    CHECK(run({"map", "gpt2", "--devices", "2xL4", "--strategy", "balanced", "--svg", path}).status == 0);
    CHECK(read_text(path).find("strategy balanced") != std::string::npos);
}

TEST_CASE("svg: a parallel plan is drawn with its stages and ranks") {
    TemporaryFolder const folder;
    auto const path = folder.path() + "/plan.svg";
    REQUIRE(run({"plan", "llama-3-8b", "--devices", "2x(2xL4)", "--svg", path}).status == 0);
    auto const svg = read_text(path);
    for (auto const* text : {"node 0", "node 1", "layers", ">L4<", "llama-3-8b"})
        CHECK(svg.find(text) != std::string::npos);
}

TEST_CASE("svg: a file that cannot be written is a failure, and an old one stays as it was") {
    TemporaryFolder const folder;
    auto const old = folder.write("old.svg", "old");
    for (auto const& path : {folder.path(), folder.path() + "/none/map.svg", old + "/map.svg"}) {
        auto const ran = run({"map", "gpt2", "--devices", "1xL4", "--json", "--svg", path});
        CAPTURE(ran.err);
        CHECK(ran.status == 1);
        CHECK(ran.says(path));
        CHECK(Answer(ran.out).text("schema") == "shardwise.error/1");
    }
    CHECK(read_text(old) == "old");
    REQUIRE(run({"map", "gpt2", "--devices", "1xL4", "--svg", old}).status == 0);
    CHECK(read_text(old).substr(0, 4) == "<svg");
    auto const piped = run({"map", "gpt2", "--devices", "1xL4", "--svg", "/dev/stdout"});
    CHECK(piped.out.find("</svg>") != std::string::npos);
}
