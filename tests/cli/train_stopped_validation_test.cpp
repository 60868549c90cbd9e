// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "training_processes.hpp"

#include <chrono>
#include <csignal>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

using namespace shardwise;
using namespace shardwise::tests;

namespace {

using Words = std::vector<std::string>;

/// Held-out ids whose losses take seconds.
std::string long_validation(Training const& training) {
    std::string bytes;
    for (std::int64_t i = 0; i < 20'000; ++i) bytes += {static_cast<char>((5 * i + i * i / 13 + 2) % 61), '\0'};
    return training.folder.write("valid.u16", bytes);
}

/// A run that is ended in the midst of a validation, and goes on, against one that is not.
void check_stopped(Training const& training, Words const& flags, int signal, std::int64_t steps) {
    CAPTURE(flags);
    Words all{"--steps", std::to_string(steps), "--valid-every", "1", "--valid", long_validation(training)};
    all.insert(all.end(), flags.begin(), flags.end());
    auto const with_csv = [&](std::string const& name) {
        auto words = all;
        words.insert(words.end(), {"--csv", training.out(name + ".csv")});
        return words;
    };
    auto const expected = training.train("whole", with_csv("whole"));
    auto const stopped = run_with(training, "run", with_csv("run"), [&](pid_t process) {
        // The head of the file is there before the first step, which takes a moment, and its line after the validation.
        testing::comes_true(std::chrono::seconds(60), [&] { return !compared_lines(training.out("run.csv")).empty(); });
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        ::kill(process, signal);
    });
    CHECK_MESSAGE(stopped.status == 128 + signal, stopped.err);
    auto const checkpoint = training.out("run") + "/step-000001/trainer_state.json";
    // It was cut short.
    CHECK(read_text(checkpoint).find("\"owes_validation\": true") != std::string::npos);
    CHECK(compared_lines(training.out("run.csv")).size() == 2);
    auto const answer = training.train("run", with_csv("run"));
    check_same(answer, expected);
    CHECK(compared_lines(training.out("run.csv")) == compared_lines(training.out("whole.csv")));
    auto const last = "/step-00000" + std::to_string(steps) + "/trainer_state.json";
    CHECK(read_text(training.out("run") + last) == read_text(training.out("whole") + last));
}

}  // namespace

TEST_CASE(
    "train: a signal ends a validation, and the run that goes on does it first, with all that a whole run gives") {
    Training const training;
    check_stopped(training, {"--dp", "2"}, SIGTERM, 2);
}

TEST_CASE("train: a run that was ended in the validation after its last step does that and trains nothing") {
    Training const training;
    check_stopped(training, {"--tp", "2", "--ranks", "processes"}, SIGINT, 1);
}

TEST_SUITE("long") {
    TEST_CASE("train: a signal ends a validation over any ranks") {
        for (auto const& flags :
             {Words{}, Words{"--dp", "3", "--ranks", "processes"}, Words{"--dp", "2", "--zero", "3"},
              Words{"--pp", "2"}, Words{"--dp", "2", "--tp", "2", "--micro-batch", "1"}}) {
            Training const training;
            check_stopped(training, flags, SIGTERM, 2);
        }
    }
}
