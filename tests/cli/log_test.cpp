// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "program.hpp"
#include "skip.hpp"
#include "small_llama.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

using namespace shardwise;
using namespace shardwise::tests;

namespace {

/// The log's lines of one rank and level, without their time; a line of another form is kept as it is, after "?".
std::vector<std::string> lines_of(Ran const& ran, int rank, std::string const& level) {
    std::vector<std::string> all;
    std::istringstream text(ran.err);
    auto const head = "[rank" + std::to_string(rank) + "] ";
    for (std::string line; std::getline(text, line);) {
        if (line.rfind(head, 0) != 0) continue;
        char* end = nullptr;
        auto const seconds = std::strtod(line.c_str() + head.size(), &end);
        auto const rest = std::string(end);
        auto const mark = " " + level + ": ";
        if (seconds <= 0.0) all.push_back("?" + line);
        if (rest.rfind(mark, 0) == 0) all.push_back(rest.substr(mark.size()));
    }
    return all;
}

bool has(std::vector<std::string> const& lines, std::string const& text) {
    for (auto const& line : lines) {
        if (line.find(text) != std::string::npos) return true;
    }
    return false;
}

}  // namespace

TEST_CASE(
    "SHARDWISE_LOG: ranks that are threads, processes and MPI's say on stderr what lies where and why; tokens stay") {
    SmallLlama const model;
    std::vector<std::string> const words{
        "run", model.folder.path(), "--prompt-ids", "5,9", "--max-new-tokens", "3", "--threads", "2", "--json"};
    auto const with = [&](std::vector<std::string> const& more) {
        auto all = words;
        all.insert(all.end(), more.begin(), more.end());
        return all;
    };
    auto const check = [&](Ran const& ran) {
        CHECK_MESSAGE(ran.status == 0, ran.err);
        for (int rank = 0; rank < 2; ++rank) {
            auto const debug = lines_of(ran, rank, "debug");
            CHECK_MESSAGE(has(debug, "stage " + std::to_string(rank) + " of 2"), ran.err);
            // Two layers over two stages of even weight: one each.
            CHECK(has(debug,
                      "model.layers." + std::to_string(rank) + ": held where it computes: stages are of even weight"));
            CHECK_FALSE(has(debug, "model.layers." + std::to_string(1 - rank) + ":"));
            CHECK(has(lines_of(ran, rank, "info"), "loaded in "));
        }
    };
    auto const quiet = run(with({"--pp", "2"}));
    CHECK(quiet.err.empty());
    auto const threads = run(with({"--pp", "2"}), {{"SHARDWISE_LOG", "debug"}});
    check(threads);
    auto const ids = [](Ran const& ran) {
        Answer const answer(ran.out);
        std::vector<std::int64_t> all;
        for (std::size_t i = 0; i < answer.size("token_ids"); ++i) all.push_back(answer.integer("token_ids", i));
        return all;
    };
    CHECK(ids(threads) == ids(quiet));
    CHECK(ids(threads).size() == 3);
    check(run(with({"--pp", "2", "--ranks", "processes"}), {{"SHARDWISE_LOG", "debug"}}));
    auto const info = run(with({"--tp", "2"}), {{"SHARDWISE_LOG", "info"}});
    CHECK(lines_of(info, 1, "debug").empty());
    CHECK(has(lines_of(info, 1, "info"), "loaded in "));
    CHECK(run(words, {{"SHARDWISE_LOG", "error"}}).err.empty());
    CHECK(run(words, {{"SHARDWISE_LOG", ""}}).err.empty());

    auto const placed =
        run(with({"--strategy", "sequential", "--devices", "2xgpu:24GiB"}), {{"SHARDWISE_LOG", "debug"}});
    CHECK_MESSAGE(has(lines_of(placed, 0, "debug"), "the strategy sequential puts it there"), placed.err);

    std::vector<std::string> mpi{"mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", SHARDWISE_PROGRAM};
    auto const rest = with({"--pp", "2", "--ranks", "mpi"});
    mpi.insert(mpi.end(), rest.begin(), rest.end());
    auto const ran = run_command_line(mpi, {{"SHARDWISE_LOG", "debug"}});
    if (ran.says("is not built into") || ran.status == 127) SHARDWISE_SKIP("no MPI on this machine");
    check(ran);
}

TEST_CASE("SHARDWISE_LOG: a word that is no level is refused by name, by run and by embed") {
    SmallLlama const model;
    for (auto const& words : std::vector<std::vector<std::string>>{{"run", model.folder.path(), "--prompt-ids", "5"},
                                                                   {"embed", model.folder.path(), "--text", "a"}}) {
        auto const ran = run(words, {{"SHARDWISE_LOG", "verbose"}});
        CHECK(ran.status == 2);
        CHECK_MESSAGE(ran.says("SHARDWISE_LOG: verbose: is no level of a log; use error, warn, info or debug"),
                      ran.err);
    }
}

TEST_CASE("SHARDWISE_LOG: embed's ranks say what they hold") {
    SmallLlama const model;
    model.add_tokenizer();
    auto const ran = run({"embed", model.folder.path(), "--text", "ab", "--tp", "2"}, {{"SHARDWISE_LOG", "debug"}});
    CHECK_MESSAGE(ran.status == 0, ran.err);
    CHECK(has(lines_of(ran, 1, "debug"), "tensor-parallel rank 1 of 2"));
    CHECK(has(lines_of(ran, 0, "info"), "embedded 1 texts in 1 steps"));
}
