// SPDX-License-Identifier: Apache-2.0
// Mistakes in kernels, planted, and what the emulator makes of each.
#include <doctest/doctest.h>

#include "compared_orders.hpp"

#include <array>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

// Not of this file alone: a compiler that sees all uses of a variable knows better than to read it.
namespace planted {

using shardwise::testing::Emulator;

constexpr int threads = 8;
constexpr int warp = 4;

template <class T>
__device__ T& block_value() {
    __shared__ T value;
    return value;
}

/// What the first thread of each block finds in shared memory, before it writes something there for the next.
template <class T>
__global__ void read_first(T* seen, T* halves) {
    __shared__ T sums[3];
    if (threadIdx.x == 0) {
        seen[blockIdx.x] = sums[2];
        halves[blockIdx.x] = block_value<T>();
    }
    __shared__ std::int32_t later[2];
    __syncthreads();
    sums[threadIdx.x % 3] = T(1);
    block_value<T>() = T(2);
    later[threadIdx.x % 2] = 1;
    __syncthreads();
    if (threadIdx.x == 1 && later[0] + later[1] == 2) seen[blockIdx.x] += sums[0] - T(1);
}

/// Each thread takes what its neighbour has put into shared memory. The mistake: without a barrier between.
__global__ inline void pass_on(float* out, bool waits) {
    __shared__ float values[threads];
    auto const thread = static_cast<int>(threadIdx.x);
    values[thread] = static_cast<float>(thread);
    if (waits) __syncthreads();
    out[thread] = values[(thread + 1) % threads];
}

/// Threads leave before a barrier that the others wait at, or before a shuffle with them.
__global__ inline void leave_early(float* out, int leaving, bool shuffles) {
    auto const thread = static_cast<int>(threadIdx.x);
    if (thread == leaving) return;
    if (shuffles)
        out[thread] = Emulator::current().shuffle_xor(out[thread], 1);
    else
        __syncthreads();
}

/// What a process of its own that does `body` dies of, and what it says then; 0: it ends by itself.
struct Death {
    int signal = 0;
    std::string said;
};
inline Death death_by(std::function<void()> const& body) {
    std::array<int, 2> ends{};
    REQUIRE(pipe(ends.data()) == 0);
    auto const child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        for (auto const signal : {SIGABRT, SIGSEGV, SIGBUS}) std::signal(signal, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        body();
        _exit(0);
    }
    close(ends[1]);
    Death death;
    std::array<char, 256> part{};
    for (ssize_t count = 0; (count = read(ends[0], part.data(), part.size())) > 0;)
        death.said.append(part.data(), static_cast<std::size_t>(count));
    close(ends[0]);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    if (WIFSIGNALED(status)) death.signal = WTERMSIG(status);
    return death;
}

}  // namespace planted

TEST_SUITE_BEGIN("fibers");

TEST_CASE("Emulator: a block finds no number in shared memory, whatever the block before has left there") {
    using namespace planted;
    std::vector<float> seen(40, 0.0F);
    std::vector<float> halves(40, 0.0F);
    Emulator::run(40, threads, warp, [&] { read_first(seen.data(), halves.data()); });
    for (auto const value : seen) CHECK(std::isnan(value));
    for (auto const value : halves) CHECK(std::isnan(value));
    std::vector<std::int64_t> words(40, 0);
    std::vector<std::int64_t> others(40, 0);
    Emulator::run(40, threads, warp, [&] { read_first(words.data(), others.data()); });
    for (auto const value : words) CHECK(value == -1);
    for (auto const value : others) CHECK(value == -1);
}

TEST_CASE("Emulator: threads that leave before a barrier or a shuffle end the program, whoever they are") {
    using namespace planted;
    for (int const leaving : {0, 3, 7}) {
        for (bool const shuffles : {false, true}) {
            auto const death = death_by([&] {
                std::vector<float> out(threads);
                Emulator::run(1, threads, warp, [&] { leave_early(out.data(), leaving, shuffles); });
            });
            CHECK(death.signal == SIGABRT);
            CHECK(death.said.find("wait at a barrier that others never come to") != std::string::npos);
        }
    }
    CHECK(death_by([] { Emulator::run(1, threads, warp, [] { leave_early(nullptr, -1, false); }); }).signal == 0);
}

TEST_CASE("ComparedOrders: a kernel without a barrier that it needs has other bits in another order of its threads") {
    using namespace planted;
    for (bool const waits : {false, true}) {
        auto const death = death_by([&] {
            shardwise::testing::FakeMemory memory;
            auto* const out = static_cast<float*>(memory.allocate(threads * sizeof(float)));
            shardwise::testing::ComparedOrders orders;
            orders.run(
                "pass_on", nullptr, memory, [] { return true; }, 1, threads, warp, [&] { pass_on(out, waits); });
            for (int i = 0; i < threads; ++i)
                if (out[i] != static_cast<float>((i + 1) % threads)) _exit(1);
            memory.release(out);
        });
        CHECK(death.signal == (waits ? 0 : SIGABRT));
        CHECK((death.said == "emulator: pass_on has other bits with its threads backwards\n") == !waits);
    }
}

TEST_CASE("FakeMemory: what a kernel reads or writes past either end of memory ends the program") {
    using namespace planted;
    auto const touch = [](std::size_t bytes, std::ptrdiff_t at, bool writes) {
        return death_by([=] {
            shardwise::testing::FakeMemory memory;
            auto* const first = static_cast<volatile unsigned char*>(memory.allocate(bytes));
            unsigned char seen = 0;
            Emulator::run(1, 1, 1, [&] {
                if (writes) first[at] = 1;
                if (!writes) seen = first[at];
            });
            memory.release(const_cast<unsigned char*>(first));
        });
    };
    for (std::size_t const bytes : {std::size_t{1}, std::size_t{256}, std::size_t{5000}, std::size_t{8192}}) {
        CAPTURE(bytes);
        auto const end = static_cast<std::ptrdiff_t>(bytes);
        CHECK(touch(bytes, 0, true).signal == 0);
        CHECK(touch(bytes, end - 1, true).signal == 0);
        // Up to the alignment of what would follow, what is written is seen when the memory goes.
        CHECK(touch(bytes, end, true).signal == (bytes % 256 == 0 ? SIGSEGV : SIGABRT));
        CHECK(touch(bytes, -1, true).signal == (bytes == 8192 ? SIGSEGV : SIGABRT));
        CHECK(touch(bytes, (end + 255) / 256 * 256, false).signal == SIGSEGV);
        CHECK(touch(bytes, -4096, false).signal == SIGSEGV);
    }
}

TEST_SUITE_END();
