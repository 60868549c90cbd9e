// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <functional>
#include <new>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace shardwise::testing {

/// What one forked rank came to.
struct ProcessOutcome {
    int status = -1;
    bool has_answered = false;
    bool succeeded = false;
    ErrorCode code{};
    std::string message;
    /// From the start of all ranks to this rank's answer.
    std::chrono::nanoseconds took{};
};

/// Runs each body in a process of its own. A process that has not answered within `limit` is killed. `meanwhile` gets the
/// process numbers while they run.
inline std::vector<ProcessOutcome> run_processes(std::vector<std::function<Result<>()>> const& bodies,
                                                 std::function<void(std::vector<pid_t> const&)> const& meanwhile = {},
                                                 std::chrono::seconds limit = std::chrono::seconds(60)) {
    struct Answer {
        volatile bool has_answered;
        bool succeeded;
        ErrorCode code;
        std::size_t size;
        char message[1000];
        std::chrono::steady_clock::time_point moment;
    };
    auto const bytes = sizeof(Answer) * bodies.size();
    auto* const answers =
        static_cast<Answer*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    auto const begin = std::chrono::steady_clock::now();
    std::vector<pid_t> processes;
    for (std::size_t rank = 0; rank < bodies.size(); ++rank) {
        auto const process = fork();
        if (process == 0) {
            auto const result = bodies[rank]();
            auto& answer = *new (&answers[rank]) Answer{};
            answer.succeeded = result.has_value();
            if (!result) {
                answer.code = result.error().code();
                auto const text = result.error().message();
                answer.size = std::min(text.size(), sizeof answer.message);
                std::memcpy(answer.message, text.data(), answer.size);
            }
            answer.moment = std::chrono::steady_clock::now();
            answer.has_answered = true;
            _exit(0);
        }
        processes.push_back(process);
    }
    if (meanwhile) meanwhile(processes);
    std::vector<ProcessOutcome> outcomes(bodies.size());
    for (std::size_t rank = 0; rank < bodies.size(); ++rank) {
        auto& outcome = outcomes[rank];
        while (waitpid(processes[rank], &outcome.status, WNOHANG) == 0) {
            if (std::chrono::steady_clock::now() - begin > limit) kill(processes[rank], SIGKILL);
            std::this_thread::sleep_for(std::chrono::microseconds(200));
        }
        auto const& answer = answers[rank];
        outcome.has_answered = answer.has_answered;
        if (!outcome.has_answered) continue;
        outcome.succeeded = answer.succeeded;
        outcome.code = answer.code;
        outcome.message.assign(answer.message, answer.size);
        outcome.took = answer.moment - begin;
    }
    munmap(answers, bytes);
    return outcomes;
}

inline void check_all_succeed(std::vector<ProcessOutcome> const& outcomes) {
    for (auto const& outcome : outcomes) {
        CHECK_MESSAGE(outcome.has_answered, outcome.status);
        CHECK_MESSAGE(outcome.succeeded, outcome.message);
    }
}

}  // namespace shardwise::testing
