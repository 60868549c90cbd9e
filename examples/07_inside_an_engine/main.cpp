// SPDX-License-Identifier: Apache-2.0
// One kernel and one collective inside somebody else's engine: raw pointers in, raw pointers out. The engine keeps its own
// threads and its own memory.
#include <shardwise/comm/all_reduce.hpp>
#include <shardwise/comm/threads.hpp>
#include <shardwise/kernels/rms_norm.hpp>

#include <array>
#include <cstdio>
#include <thread>
#include <vector>

namespace engine {

// Two workers, each with its partial sums of the same two rows.
constexpr int workers = 2;
constexpr int rows = 2;
constexpr int width = 4;
std::array<std::vector<float>, workers> partial_sums{{
    {1, 2, 3, 4, 0, 0, 8, 0},
    {1, 0, 1, 0, 4, 4, 0, 4},
}};
std::vector<float> const norm_weight{1, 1, 1, 2};

/// What a worker does at the end of a layer: sum over the workers, then normalise.
shardwise::Result<> finish_layer(shardwise::Threads& comm, float* values) {
    using namespace shardwise;
    TensorView<float, 1, Host> const flat(values, {rows * width});
    if (auto const summed = all_reduce(comm, flat); !summed) return summed;

    // A stream without a pool of threads computes at once, in the thread that asks.
    HostStream stream;
    TensorView<float, 2, Host> const matrix(values, {rows, width});
    TensorView<float const, 1, Host> const weight(norm_weight.data(), {width});
    return rms_norm<float>(matrix, weight, matrix, 1e-6F, stream);
}

}  // namespace engine

int main() {
    using namespace shardwise;

    auto const group = ThreadsGroup::create(engine::workers, {.timeout = std::chrono::seconds(5)});
    if (!group) return std::puts(group.error().message().c_str()), 1;

    std::array<Result<>, engine::workers> results;
    std::vector<std::thread> threads;
    for (int worker = 0; worker < engine::workers; ++worker) {
        threads.emplace_back([&, worker] {
            auto const index = static_cast<std::size_t>(worker);
            auto comm = group->join(worker);
            results[index] = comm ? engine::finish_layer(*comm, engine::partial_sums[index].data())
                                  : Result<>(comm.error());
        });
    }
    for (auto& thread : threads) thread.join();
    for (auto const& result : results) {
        if (!result) return std::puts(result.error().message().c_str()), 1;
    }

    auto const* const values = engine::partial_sums[0].data();
    for (int row = 0; row < engine::rows; ++row) {
        for (int i = 0; i < engine::width; ++i) std::printf("%7.4f", static_cast<double>(values[row * engine::width + i]));
        std::puts("");
    }
    std::puts(engine::partial_sums[0] == engine::partial_sums[1] ? "both workers hold the same bits" : "they differ");

    // A worker that asks for something else than the others is named; nobody waits for it in vain.
    auto const strict = ThreadsGroup::create(2, {.timeout = std::chrono::seconds(5)});
    std::thread other([&] {
        std::array<float, 3> values3{};
        auto comm = strict->join(1);
        (void)all_reduce(*comm, TensorView<float, 1, Host>(values3.data(), {3}));
    });
    std::array<float, 4> values4{};
    auto comm = strict->join(0);
    auto const refused = all_reduce(*comm, TensorView<float, 1, Host>(values4.data(), {4}));
    other.join();
    std::puts(refused ? "no difference was noticed" : refused.error().message().c_str());
}
