// flags: -fno-exceptions
// What engines take parts of compiles in programs without exceptions.
#include <shardwise/backend/host/products.hpp>
#include <shardwise/comm/all_reduce.hpp>
#include <shardwise/comm/shared_memory.hpp>
#include <shardwise/comm/threads.hpp>
#include <shardwise/kernels/attention.hpp>
#include <shardwise/kernels/rms_norm.hpp>
#include <shardwise/parallel/tensor_parallel.hpp>
#include <shardwise/shardwise.hpp>

using namespace shardwise;

[[nodiscard]] Result<> sum_over_ranks() {
    return run_threads(2, [](Threads& comm) {
        float value = 1.0F;
        return all_reduce(comm, TensorView<float, 1, Host>(&value, {1}));
    });
}
