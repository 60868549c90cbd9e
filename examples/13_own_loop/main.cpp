// SPDX-License-Identifier: Apache-2.0
// A training loop of one's own: a layer and a loss that this library has never seen. Gradients are averaged over two ranks in buckets, as
// torch's DistributedDataParallel does; each rank has the optimizer's state of its share of the weights (ZeRO 1).
#include <shardwise/comm/threads.hpp>
#include <shardwise/train/adamw.hpp>
#include <shardwise/train/gradient_buckets.hpp>
#include <shardwise/train/sharded_optimizer.hpp>

#include <chrono>
#include <cmath>
#include <cstdio>

using namespace shardwise;

namespace {

constexpr int rows = 64;
constexpr int steps = 300;

/// y = slopes[0] x below 0, and slopes[1] x above it, plus a bias.
struct Bend {
    float slopes[2] = {0.0F, 0.0F};
    float bias[1] = {0.0F};
    float slope_gradients[2] = {0.0F, 0.0F};
    float bias_gradient[1] = {0.0F};

    [[nodiscard]] float forward(float x) const { return slopes[x < 0.0F ? 0 : 1] * x + bias[0]; }
    void backward(float x, float gradient) {
        slope_gradients[x < 0.0F ? 0 : 1] += gradient * x;
        bias_gradient[0] += gradient;
    }
};

/// log(cosh(error)), whose gradient is tanh(error).
[[nodiscard]] float loss_of(float error) {
    return std::log(std::cosh(error));
}

Result<> train(Threads& comm) {
    HostContext context;
    auto stream = context.make_stream();
    Bend layer;
    auto buckets = GradientBuckets<Threads>::create(
        comm, context, {{"slopes", 2, {layer.slope_gradients, {2}}}, {"bias", 1, {layer.bias_gradient, {1}}}});
    if (!buckets) return buckets.error();
    auto optimizer = ShardedOptimizer<AdamW>::create(context, {.weight_decay = 0.0},
                                                     {{"slopes", {layer.slopes, {2}}}, {"bias", {layer.bias, {1}}}},
                                                     {comm.size(), comm.rank()});
    if (!optimizer) return optimizer.error();
    for (int step = 0; step < steps; ++step) {
        auto const deadline = Deadline::after(std::chrono::seconds(60));
        if (auto const begun = buckets->begin(); !begun) return begun;
        layer.slope_gradients[0] = layer.slope_gradients[1] = layer.bias_gradient[0] = 0.0F;
        float loss = 0.0F;
        // Each rank takes its own rows.
        for (int row = comm.rank(); row < rows; row += comm.size()) {
            auto const x = static_cast<float>(row) / 8.0F - 4.0F;
            auto const error = layer.forward(x) - (x < 0.0F ? -0.5F * x : 2.0F * x) - 1.0F;
            auto const share = static_cast<float>(comm.size()) / static_cast<float>(rows);
            loss += share * loss_of(error);
            layer.backward(x, share * std::tanh(error));
        }
        // In the order in which a backward pass ends them: what is complete is exchanged while others are computed.
        for (std::int32_t const parameter : {1, 0}) {
            if (auto const sent = buckets->ready(parameter, stream); !sent) return sent;
        }
        if (auto const averaged = buckets->finish(stream, deadline); !averaged) return averaged;
        List<TensorView<float const, 1, Host>> const gradients{{layer.slope_gradients, {2}},
                                                               {layer.bias_gradient, {1}}};
        if (auto const done = optimizer->step({.number = step + 1, .learning_rate = 0.03}, gradients, stream); !done)
            return done;
        if (auto const gathered = optimizer->gather(comm, stream); !gathered) return gathered;
        if (auto const done = stream.synchronize(deadline); !done) return done;
        if (comm.rank() == 0 && step % (steps - 1) == 0)
            std::printf("step %d: loss of rank 0 %.2f\n", step, static_cast<double>(loss));
    }
    if (comm.rank() == 0)
        std::printf("y = %.2f x below 0, %.2f x above, plus %.2f\n", static_cast<double>(layer.slopes[0]),
                    static_cast<double>(layer.slopes[1]), static_cast<double>(layer.bias[0]));
    return {};
}

}  // namespace

int main() {
    auto const done = run_threads(2, train);
    if (!done) return std::puts(done.error().message().c_str()), 1;
}
