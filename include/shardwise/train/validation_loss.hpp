// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/agree_on.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/core/deadline.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/executor/training/training_pass.hpp>
#include <shardwise/train/batches.hpp>
#include <shardwise/train/token_mean.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The loss of all samples of a dataset, over all tokens that count: each rank computes some, and all get the sum. The same bits on any
/// ranks, as many sequences at a time as the pass takes. `samples` has batches of one, in order; all ranks call it.
///
/// Units   timeout: for the sequences that go forwards together
/// Order   waits for the stream
/// Errors  invalid_argument for other batches; as Batches::read, TrainingPass::forward and a collective; deadline_exceeded. What
///         fails on one rank ends the group.
template <Communicator C>
[[nodiscard]] Result<TokenMean> validation_loss(TrainingPass& pass, TrainingWeights const& weights, Batches& samples,
                                                C& comm, HostStream& stream, std::chrono::nanoseconds timeout) {
    auto const& options = samples.options();
    auto const context = options.context;
    auto const own = split_units(samples.samples(), comm.size(), comm.rank());
    auto const some = pass.limits().sequences;
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(some * context));
    std::vector<std::int32_t> targets(tokens.size());
    std::vector<float> losses(tokens.size());
    TokenMean mean;
    auto const add = [&](std::int64_t first, std::int64_t count) -> Result<> {
        using Ids = TensorView<std::int32_t, 2, Host>;
        for (std::int64_t i = 0; i < count; ++i) {
            auto const at = i * context;
            auto const read = samples.read(first + i, {0, 1}, Ids{tokens.data() + at, {1, context}},
                                           Ids{targets.data() + at, {1, context}});
            if (!read) return read;
        }
        TensorView<std::int32_t const, 2, Host> const in(tokens.data(), {count, context});
        auto done = pass.forward(weights, in, stream);
        for (std::int64_t i = 0; done && i < count; ++i) {
            auto const at = i * context;
            done = pass.losses(weights, i, {targets.data() + at, {context}}, {losses.data() + at, {context}}, stream);
        }
        // What is in the stream refers to this frame, also after an error.
        auto const ended = stream.synchronize(Deadline::after(timeout));
        if (!done) return done;
        if (!ended) return ended;
        auto const size = static_cast<std::size_t>(count * context);
        return mean.add({losses.data(), size}, {targets.data(), size});
    };
    Result<> done;
    if (options.batch != 1 || options.shuffles)
        done = Error{ErrorCode::invalid_argument}
                   .in("validation")
                   .at("samples")
                   .because("are not batches of one, in order");
    for (auto first = own.begin; done && first < own.end; first += some)
        done = add(first, std::min(some, own.end - first));
    if (!done) return end_group(comm, done.error());
    if (auto const summed = mean.sum_over_ranks(comm); !summed) return summed.error();
    return mean;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
