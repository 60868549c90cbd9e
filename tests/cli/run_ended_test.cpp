// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "marked_processes.hpp"
#include "program.hpp"
#include "small_llama.hpp"

#include <chrono>
#include <csignal>
#include <string>
#include <sys/types.h>
#include <thread>
#include <vector>

using namespace shardwise;
using namespace shardwise::tests;

TEST_CASE("run: a process that dies is named, and the others end") {
    SmallLlama const model(R"("max_position_embeddings":100000)");
    model.add_tokenizer();
    auto const ran = run_command_line({SHARDWISE_PROGRAM, "run", model.folder.path(), "--prompt-ids", "5,9,2",
                                       "--max-new-tokens", "90000", "--ranks", "processes", "--tp", "3"},
                                      {}, [](pid_t process) {
                                          // One guard is their parent.
                                          std::vector<pid_t> others;
                                          for (int i = 0; others.size() < 2 && i < 3000; ++i) {
                                              std::this_thread::sleep_for(std::chrono::milliseconds(10));
                                              auto const guards = testing::children_of(process);
                                              if (guards.size() == 1) others = testing::children_of(guards[0]);
                                          }
                                          std::this_thread::sleep_for(std::chrono::milliseconds(500));
                                          // Where they are not found, nothing else would end it.
                                          kill(others.size() == 2 ? others[1] : process, SIGKILL);
                                      });
    CHECK(ran.status == 1);
    CHECK_MESSAGE(ran.says("rank 2: was ended by signal Killed"), ran.err);
    // The text so far, and what went wrong on a line of its own.
    CHECK(ran.out.size() > 1);
    CHECK(ran.out.ends_with("\n"));
}

TEST_CASE("run: an interrupt ends threads, processes and MPI ranks cleanly, with the tokens so far") {
    SmallLlama const model(R"("max_position_embeddings":100000)");
    std::vector<std::string> const words{
        SHARDWISE_PROGRAM, "run", model.folder.path(), "--prompt-ids", "5,9,2", "--max-new-tokens", "90000", "--json"};
    auto const interrupt = [](pid_t process) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1500));
        kill(process, SIGINT);
    };
    for (auto const* kind : {"threads", "processes"}) {
        CAPTURE(kind);
        auto all = words;
        for (auto const* more : {"--tp", "2", "--ranks", kind}) all.emplace_back(more);
        auto const ran = run_command_line(all, {}, interrupt);
        CHECK_MESSAGE(ran.status == 130, ran.err);
        CHECK(Answer(ran.out).text("finish") == "interrupt");
        auto const tokens = Answer(ran.out).size("token_ids");
        CHECK(tokens > 0);
        CHECK(tokens < 90000);
    }
}
