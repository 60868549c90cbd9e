// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "program.hpp"
#include "shell.hpp"
#include "skip.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <sys/stat.h>

using namespace shardwise;
using namespace shardwise::tests;

namespace {

constexpr char const* demo = SHARDWISE_SOURCE_DIR "/share/shardwise/demo";
constexpr char const* release = SHARDWISE_SOURCE_DIR "/build/release/bin";

bool has_release() {
    struct stat status {};
    return ::stat((std::string(release) + "/shardwise").c_str(), &status) == 0;
}

/// The block of a document that comes next; `at` goes behind it.
std::string next_block(std::string const& text, std::size_t& at) {
    auto const begin = text.find("\n```\n", at);
    if (begin == std::string::npos) return {};
    auto const end = text.find("\n```", begin + 5);
    at = end + 4;
    return text.substr(begin + 5, end - begin - 4);
}

}  // namespace

TEST_CASE("demo: a MODEL for every command, of less than 5 MB, found above the program and beside an installed one") {
    std::uintmax_t bytes = 0;
    for (auto const& entry : std::filesystem::directory_iterator(demo)) bytes += entry.file_size();
    CHECK(bytes < 5'000'000);
    Answer const counted(run({"estimate", "demo", "--json"}).out);
    CHECK(counted.integer("model", "parameters") == 935'040);
    auto const tokens = run({"tokenize", "demo", "--text", "ROMEO."});
    CHECK_MESSAGE(tokens.status == 0, tokens.err);
    auto const said = run({"run", "demo", "--prompt", "ROMEO.", "--max-new-tokens", "12", "--json"});
    REQUIRE_MESSAGE(said.status == 0, said.err);
    CHECK(Answer(said.out).size("token_ids") > 0);
    CHECK(run({"run", demo, "--prompt", "ROMEO.", "--max-new-tokens", "12", "--json"}).status == 0);
    // As it is installed: PREFIX/bin and PREFIX/share.
    TemporaryFolder const prefix;
    std::filesystem::create_directories(prefix.path() + "/bin");
    std::filesystem::copy_file(SHARDWISE_PROGRAM, prefix.path() + "/bin/shardwise");
    auto const alone = run_command_line({prefix.path() + "/bin/shardwise", "estimate", "demo"});
    CHECK(alone.status == 1);
    CHECK(alone.says("demo: is not beside this program: it has no share/shardwise/demo"));
    std::filesystem::create_directories(prefix.path() + "/share/shardwise");
    std::filesystem::copy(demo, prefix.path() + "/share/shardwise/demo");
    CHECK(run_command_line({prefix.path() + "/bin/shardwise", "estimate", "demo"}).status == 0);
}

TEST_SUITE("long") {
    TEST_CASE("demo: the script makes its exact bytes again, on two ranks") {
        // Without the optimiser it takes hours.
        if (!has_release()) SHARDWISE_SKIP("build/release/bin/shardwise is not built");
        auto const ran =
            run_in_shell("SHARDWISE='" + std::string(release) +
                         "/shardwise' '" SHARDWISE_SOURCE_DIR "/scripts/make_demo_model.sh' --check --dp 2");
        CHECK_MESSAGE(ran.status == 0, ran.err);
        CHECK(ran.out.find("the same bytes") != std::string::npos);
    }

    TEST_CASE("README: its minute of training gives the picture and the text that it shows, on two ranks too") {
        auto const text = read_text(SHARDWISE_SOURCE_DIR "/README.md");
        auto at = text.find("<!-- long: a minute of training -->");
        REQUIRE(at != std::string::npos);
        auto const commands = next_block(text, at);
        auto const said = next_block(text, at);
        REQUIRE(commands.find("--steps 200") != std::string::npos);
        REQUIRE(!said.empty());
        if (!has_release()) SHARDWISE_SKIP("build/release/bin/shardwise is not built");
        auto const end = commands.find("\n") + 1;
        for (std::string const more : {"", " --dp 2 --zero 2"}) {
            TemporaryFolder const folder;
            std::filesystem::create_directory_symlink(SHARDWISE_SOURCE_DIR "/share", folder.path() + "/share");
            auto const start =
                "cd '" + folder.path() + "' && export SHARDWISE_ISA=avx2 PATH='" + release + "':$PATH && ";
            auto const trained = run_in_shell(start + commands.substr(0, end - 1) + more);
            REQUIRE_MESSAGE(trained.status == 0, trained.err);
            auto const command = commands.substr(end, commands.size() - end - 1);
            // In braces: what run_in_shell adds would send the report back to the text.
            CHECK(run_in_shell("{ " + start + command + " 2> '" + folder.path() + "/said'; }").out == said);
            CHECK(read_text(folder.path() + "/loss.svg") ==
                  read_text(SHARDWISE_SOURCE_DIR "/docs/pictures/training.svg"));
        }
    }

    TEST_CASE("train: over 200 steps losses stay by torch's float64 as torch's float32 does") {
        auto const* const python = std::getenv("SHARDWISE_PYTHON");
        if (python == nullptr) SHARDWISE_SKIP("SHARDWISE_PYTHON names no Python with torch and transformers");
        auto const run = std::string(python);
        if (run_in_shell(run + " -c 'import torch, transformers'").status != 0)
            SHARDWISE_SKIP("SHARDWISE_PYTHON has no torch or no transformers");
        auto const check = run + " " SHARDWISE_SOURCE_DIR "/scripts/check_curve.py ";
        auto const small = run_in_shell(check + SHARDWISE_PROGRAM + " --dp 2");
        CHECK_MESSAGE(small.status == 0, small.out);
        if (!has_release()) return;
        auto const whole = run_in_shell(check + release + "/shardwise --demo");
        CHECK_MESSAGE(whole.status == 0, whole.out);
    }
}
