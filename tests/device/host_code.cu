// SPDX-License-Identifier: Apache-2.0
// Host code of the library as nvcc, hipcc and g++ with HIP on the CPU see it: engines include our headers in their .cu files, too.
#include <shardwise/comm/all_reduce.hpp>
#include <shardwise/comm/shared_memory.hpp>
#include <shardwise/comm/threads.hpp>
#include <shardwise/hardware/system/processor.hpp>
#include <shardwise/kernels/attention.hpp>
#include <shardwise/kernels/rms_norm.hpp>
#include <shardwise/parallel/tensor_parallel.hpp>
#include <shardwise/shardwise.hpp>

#include "cuda_mapping_signatures.hpp"
#include "host_code.hpp"
#include "nccl_signatures.hpp"

#include <chrono>
#include <span>
#include <vector>

namespace shardwise::testing {

Result<HostCode> run_host_code() {
    HostCode found;
    auto const model = describe(presets::llama_3_70b);
    if (!model) return model.error();
    auto const plan = DeviceMap<Optimal>{}.plan(*model, presets::four_a100_40gb, {.context = 8192, .utilization = 1.0});
    if (!plan) return plan.error();
    found.load = plan->certificate->value;
    found.lower_bound = plan->certificate->lower_bound;
    auto const& first = plan->devices[0];
    found.has_same_devices = first.id == DeviceId::gpu(0) && first.capacity == Bytes{std::int64_t{40} << 30U};

    std::vector<float> const values{1, 2, 3, 4, 5, 6};
    WeightSource weight;
    weight.outputs = 2;
    weight.inputs = 3;
    weight.data = std::as_bytes(std::span(values));
    auto const done = run_threads(2, [&](Threads& comm) -> Result<> {
        auto sum = static_cast<float>(comm.rank() + 1);
        auto const summed = all_reduce(comm, TensorView<float, 1, Host>(&sum, {1}));
        if (!summed) return summed;
        HostContext context({.threads = 1});
        auto stream = context.make_stream();
        TensorParallel<Host> const group(context, comm);
        auto const layer = group.row_linear(weight, group.ffn_pieces(3, weight));
        if (!layer) return layer.error();
        std::vector<float> const token{1, 10, 100};
        auto const own = layer->own_inputs();
        std::vector<float> out(2);
        auto const ran =
            layer->forward({token.data() + own.begin, {1, own.size()}}, {out.data(), {1, 2}}, {}, comm, stream);
        if (!ran) return ran;
        if (auto const waited = stream.synchronize(Deadline::after(std::chrono::seconds(60))); !waited) return waited;
        if (comm.rank() == 0) {
            found.sum = sum;
            found.out = out[1];
        }
        return {};
    });
    if (!done) return done.error();
    return found;
}

}  // namespace shardwise::testing
