// SPDX-License-Identifier: Apache-2.0
// Mistakes in kernels, planted, and what the emulator makes of each.
#include "emulator.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
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
    sums[threadIdx.x % 3] = T(1);
    block_value<T>() = T(2);
    later[threadIdx.x % 2] = 1;
    __syncthreads();
    if (threadIdx.x == 1 && later[0] + later[1] == 2) seen[blockIdx.x] += sums[0] - T(1);
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

TEST_SUITE_END();
