// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/all_reduce.hpp>
#include <shardwise/comm/shared_memory.hpp>
#include <shardwise/core/deadline.hpp>

#include <doctest/doctest.h>

#include "../comm/processes.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <new>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

/// Ranks of SharedMemory that are processes of their own.
namespace shardwise::testing::shared_memory {

using Body = std::function<Result<>(SharedMemory&)>;

/// What processes of a test tell each other.
class Stage {
public:
    Stage() {
        auto* const memory =
            mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        count_ = new (memory) std::atomic<int>(0);
    }
    Stage(Stage const&) = delete;
    Stage& operator=(Stage const&) = delete;
    ~Stage() { munmap(count_, sizeof(std::atomic<int>)); }

    void step() const { count_->fetch_add(1); }
    /// False where the others do not come so far.
    [[nodiscard]] bool await(int count) const {
        auto const deadline = Deadline::after(std::chrono::seconds(50));
        while (count_->load() < count && !deadline.has_passed())
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return count_->load() >= count;
    }

private:
    std::atomic<int>* count_;
};

inline std::string fresh_key() {
    static int number = 0;
    return "test-" + std::to_string(getpid()) + "-" + std::to_string(++number);
}

inline TensorView<float, 1, Host> view(std::vector<float>& values) {
    return {values.data(), {static_cast<std::int64_t>(values.size())}};
}

/// Every rank in a process of its own, each with its body.
inline std::vector<ProcessOutcome> run_ranks(std::vector<Body> const& bodies, SharedMemoryOptions const& options = {},
                                             std::function<void(std::vector<pid_t> const&)> const& meanwhile = {}) {
    auto const key = fresh_key();
    std::vector<std::function<Result<>()>> processes;
    for (std::size_t rank = 0; rank < bodies.size(); ++rank) {
        processes.emplace_back([&, rank, key]() -> Result<> {
            auto comm = SharedMemory::join(key, static_cast<std::int32_t>(rank),
                                           static_cast<std::int32_t>(bodies.size()), options);
            if (!comm) return comm.error();
            return bodies[rank](*comm);
        });
    }
    return run_processes(processes, meanwhile);
}

/// All-reduces for ever, until the group fails.
inline Result<> reduce_until_failure(SharedMemory& comm) {
    std::vector<float> data(100, 1.0F);
    while (true) {
        if (auto const done = all_reduce(comm, view(data)); !done) return done;
    }
}

/// Reduces some times, then does something fatal.
inline Body reduce_then(std::function<void()> const& fate) {
    return [fate](SharedMemory& comm) -> Result<> {
        std::vector<float> data(100, 1.0F);
        for (int turn = 0; turn < 50; ++turn) {
            if (auto const done = all_reduce(comm, view(data)); !done) return done;
        }
        fate();
        return {};
    };
}

inline void check_survivors(std::vector<ProcessOutcome> const& outcomes, std::size_t victim, std::string const& words,
                            std::chrono::nanoseconds limit) {
    for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
        if (rank == victim) continue;
        CAPTURE(rank);
        CAPTURE(outcomes[rank].message);
        REQUIRE(outcomes[rank].has_answered);
        CHECK_FALSE(outcomes[rank].succeeded);
        CHECK(outcomes[rank].code == ErrorCode::rank_lost);
        CHECK(outcomes[rank].message.find("rank " + std::to_string(victim) + ": " + words) != std::string::npos);
        CHECK(outcomes[rank].took < limit);
    }
}

inline bool leaves_nothing_behind() {
    for (auto const& entry : std::filesystem::directory_iterator("/dev/shm")) {
        if (entry.path().string().find("-test-" + std::to_string(getpid()) + "-") != std::string::npos) return false;
    }
    return true;
}

}  // namespace shardwise::testing::shared_memory
