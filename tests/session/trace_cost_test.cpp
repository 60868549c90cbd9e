// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "formula_llama.hpp"
#include "skip.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <sys/wait.h>

namespace {

using namespace shardwise::testing;

/// What a command prints, as a number; negative: its exit status.
long long number_of(std::string const& command) {
    auto* const pipe = ::popen(command.c_str(), "r");
    REQUIRE(pipe != nullptr);
    long long number = -1;
    if (std::fscanf(pipe, "%lld", &number) != 1) number = -1;
    auto const status = ::pclose(pipe);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? number : -static_cast<long long>(WEXITSTATUS(status));
}

/// The instructions of a run of count_instructions, by the kernel, else by valgrind; -77 where neither counts.
long long count_by_any(std::string const& run) {
    auto const count = number_of(run);
    if (count != -77 || std::system("command -v valgrind > /dev/null 2>&1") != 0) return count;
    // "==12== I   refs:      1,234": the digits alone.
    return number_of("valgrind --tool=cachegrind --cache-sim=no --cachegrind-out-file=/dev/null " + run +
                     " uncounted 2>&1 | sed -n 's/.*I *refs: *//p' | tr -d ,");
}

}  // namespace

TEST_SUITE("long") {
    TEST_CASE("A trace that is off costs less than 0.1 % of a token's instructions against a build without it") {
        if (std::system("command -v c++ > /dev/null 2>&1") != 0) SHARDWISE_SKIP("no compiler c++ on this machine");
        FormulaLlama const llama(R"("hidden_size":64,"intermediate_size":160,"num_attention_heads":4,)"
                                 R"("num_key_value_heads":2,"max_position_embeddings":512)");
        std::string const root = SHARDWISE_SOURCE_DIR;
        std::array<double, 2> per_token{};
        for (std::size_t i = 0; i < 2; ++i) {
            auto const program = llama.folder / ("count" + std::to_string(i));
            auto const flags = std::string(i == 0 ? "" : " -DSHARDWISE_NO_TRACE");
            REQUIRE(std::system(("c++ -std=c++20 -O2 -DNDEBUG" + flags + " -I" + root + "/include " + root +
                                 "/tests/session/trace_cost/count_instructions.cpp -pthread -o " + program)
                                    .c_str()) == 0);
            auto const count = [&](int tokens) {
                return count_by_any(program + " " + llama.folder.path() + " " + std::to_string(tokens) + " 0");
            };
            auto const few = count(50);
            auto const many = count(450);
            if (few == -77) SHARDWISE_SKIP("neither this kernel nor valgrind counts instructions here");
            REQUIRE(few > 0);
            REQUIRE(many > few);
            // Loading is in both.
            per_token[i] = static_cast<double>(many - few) / 400.0;
        }
        MESSAGE("instructions per token: ", per_token[0], " with, ", per_token[1], " without");
        CHECK(per_token[0] <= 1.001 * per_token[1]);
    }
}
