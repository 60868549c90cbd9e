// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include "marked_processes.hpp"
#include "training.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <sys/types.h>
#include <vector>

/// Runs of `shardwise train` whose ranks are processes.
namespace shardwise::tests {

/// The processes that one has started as its ranks, by their numbers: rank 0 is the first where the ranks may be started again.
inline std::vector<pid_t> ranks_of(pid_t process, std::size_t count) {
    std::vector<pid_t> out;
    // One guard is their parent.
    testing::comes_true(std::chrono::seconds(30), [&] {
        auto const guards = testing::children_of(process);
        out = guards.size() == 1 ? testing::children_of(guards[0]) : std::vector<pid_t>{};
        return out.size() == count;
    });
    return out;
}

inline void wait_for_lines(std::string const& csv, std::size_t lines) {
    testing::comes_true(std::chrono::seconds(60), [&] { return compared_lines(csv).size() >= lines; });
}

/// Checks that a run gave what another one did, as far as ranks and restarts have no part in it.
inline void check_same(Answer const& answer, Answer const& expected) {
    CHECK(answer.text("weights_hash") == expected.text("weights_hash"));
    for (auto const* const key : {"first", "last", "valid", "best_valid"})
        CHECK(answer.real("loss", key) == expected.real("loss", key));
    CHECK(answer.integer("tokens") == expected.integer("tokens"));
}

/// What runs of the cases of restarts have in common: long enough for a rank to be ended in their midst.
inline std::vector<std::string> long_run(std::string const& csv, std::vector<std::string> const& more) {
    std::vector<std::string> all{"--steps", "250", "--save-every", "25", "--keep", "3", "--csv", csv};
    all.insert(all.end(), more.begin(), more.end());
    return all;
}

inline Ran run_with(Training const& training, std::string const& name, std::vector<std::string> const& more,
                    std::function<void(pid_t)> const& meanwhile) {
    auto words = training.words(name, more);
    words.insert(words.begin(), SHARDWISE_PROGRAM);
    return run_command_line(words, {}, meanwhile);
}

}  // namespace shardwise::tests
