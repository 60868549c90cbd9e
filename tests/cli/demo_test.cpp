// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "program.hpp"
#include "shell.hpp"
#include "skip.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <sys/stat.h>

using namespace shardwise;
using namespace shardwise::tests;

namespace {

constexpr char const* demo = SHARDWISE_SOURCE_DIR "/share/shardwise/demo";

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
        std::string const program = SHARDWISE_SOURCE_DIR "/build/release/bin/shardwise";
        struct stat status {};
        // Without the optimiser it takes hours.
        if (::stat(program.c_str(), &status) != 0) SHARDWISE_SKIP("build/release/bin/shardwise is not built");
        auto const ran = run_in_shell("SHARDWISE='" + program +
                                      "' '" SHARDWISE_SOURCE_DIR "/scripts/make_demo_model.sh' --check --dp 2");
        CHECK_MESSAGE(ran.status == 0, ran.err);
        CHECK(ran.out.find("the same bytes") != std::string::npos);
    }
}
