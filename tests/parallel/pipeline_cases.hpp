// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/products.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/parallel/pipeline_parallel.hpp>
#include <shardwise/schedule/gpipe.hpp>
#include <shardwise/schedule/interleaved.hpp>
#include <shardwise/schedule/makespan.hpp>
#include <shardwise/schedule/one_forward_one_backward.hpp>
#include <shardwise/schedule/zero_bubble.hpp>
#include <shardwise/schedule/zero_bubble_v.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string_view>
#include <vector>

// What holds for a pipeline over every communicator: functions that return an error where something is wrong, for ranks in
// processes without a test framework.
namespace shardwise::testing::pipelines {

inline constexpr std::int64_t rows = 2;
inline constexpr std::int64_t width = 3;

inline Deadline soon() {
    return Deadline::after(std::chrono::seconds(20));
}

inline Error wrong(std::string_view what) {
    return Error{ErrorCode::backend_failure}.in("pipeline").at(what).because("is wrong");
}

/// Pieces y = w x + 1 of a made-up model, w a small number of its own: all values are whole numbers, so that every order of
/// summation gives the same. The loss is the sum of the last piece's outputs.
struct Chain {
    PipelineSchedule schedule;
    std::int64_t rank = 0;
    std::int64_t pieces = schedule.stages * schedule.chunks;
    /// Of the last piece, by micro-batch.
    std::vector<float> losses = std::vector<float>(static_cast<std::size_t>(schedule.micro_batches), 0.0F);
    /// Of the first piece's inputs, by micro-batch; of the weights, by piece.
    std::vector<float> input_gradients = losses;
    std::vector<float> weight_gradients = std::vector<float>(static_cast<std::size_t>(pieces), 0.0F);
    std::int64_t kept = 0;
    std::int64_t max_kept = 0;

    static float weight(std::int64_t piece) { return piece % 2 == 0 ? 2.0F : -1.0F; }
    static float input(std::int64_t micro_batch, std::int64_t i) { return static_cast<float>(3 * micro_batch + i); }

    Result<> forward(PipelineSlot const& slot, TensorView<float const, 2, Host> in, TensorView<float, 2, Host> out,
                     HostStream&) {
        auto const piece = schedule.virtual_stage(rank, slot.chunk);
        if (in.empty() != (piece == 0) || out.empty() != (piece + 1 == pieces)) return wrong("the ends of the model");
        for (std::int64_t i = 0; i < rows * width; ++i) {
            auto const y = weight(piece) * (piece == 0 ? input(slot.micro_batch, i) : in.data()[i]) + 1.0F;
            if (out.empty())
                losses[static_cast<std::size_t>(slot.micro_batch)] += y;
            else
                out.data()[i] = y;
        }
        max_kept = std::max(max_kept, ++kept);
        return {};
    }
    Result<> backward(PipelineSlot const& slot, TensorView<float const, 2, Host> in,
                      TensorView<float const, 2, Host> gradients, TensorView<float, 2, Host> out, HostStream& stream) {
        auto const piece = schedule.virtual_stage(rank, slot.chunk);
        for (std::int64_t i = 0; i < rows * width; ++i) {
            auto const gradient = weight(piece) * (gradients.empty() ? 1.0F : gradients.data()[i]);
            if (out.empty())
                input_gradients[static_cast<std::size_t>(slot.micro_batch)] += gradient;
            else
                out.data()[i] = gradient;
        }
        return schedule.is_split ? Result<>{} : weights(slot, in, gradients, stream);
    }
    Result<> weights(PipelineSlot const& slot, TensorView<float const, 2, Host> in,
                     TensorView<float const, 2, Host> gradients, HostStream&) {
        auto const piece = schedule.virtual_stage(rank, slot.chunk);
        for (std::int64_t i = 0; i < rows * width; ++i) {
            auto const x = piece == 0 ? input(slot.micro_batch, i) : in.data()[i];
            weight_gradients[static_cast<std::size_t>(piece)] += x * (gradients.empty() ? 1.0F : gradients.data()[i]);
        }
        --kept;
        return {};
    }
};

/// What the chain gives in one piece.
struct Expected {
    std::vector<float> losses;
    std::vector<float> weight_gradients;
    float input_gradient = 0.0F;
};
inline Expected expected(std::int64_t pieces, std::int64_t micro_batches) {
    Expected all{std::vector<float>(static_cast<std::size_t>(micro_batches), 0.0F),
                 std::vector<float>(static_cast<std::size_t>(pieces), 0.0F)};
    float through = 1.0F;
    for (std::int64_t piece = 0; piece < pieces; ++piece) through *= Chain::weight(piece);
    all.input_gradient = through * static_cast<float>(rows * width);
    for (std::int64_t m = 0; m < micro_batches; ++m) {
        for (std::int64_t i = 0; i < rows * width; ++i) {
            auto x = Chain::input(m, i);
            auto behind = through;
            for (std::int64_t piece = 0; piece < pieces; ++piece) {
                behind /= Chain::weight(piece);
                all.weight_gradients[static_cast<std::size_t>(piece)] += x * behind;
                x = Chain::weight(piece) * x + 1.0F;
            }
            all.losses[static_cast<std::size_t>(m)] += x;
        }
    }
    return all;
}

/// This rank's part of a training run over a table with as many stages as ranks, twice: gradients are those of the whole model.
template <class Comm>
Result<> check_training(Comm& comm, PipelineSchedule const& schedule) {
    auto const pieces = schedule.stages * schedule.chunks;
    auto const whole = expected(pieces, schedule.micro_batches);
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    auto pipeline = PipelineParallel<Host, Comm>::create(context, comm, schedule, {rows, width});
    if (!pipeline) return pipeline.error();
    Chain chain{schedule, comm.rank()};
    // Twice: nothing of the first run is left.
    for (int run = 0; run < 2; ++run) {
        chain = Chain{schedule, comm.rank()};
        if (auto const ran = pipeline->run(chain, stream, soon()); !ran) return ran;
    }
    for (std::int64_t piece = 0; piece < pieces; ++piece) {
        if (rank_of_virtual_stage(schedule, piece) != comm.rank()) continue;
        auto const index = static_cast<std::size_t>(piece);
        if (chain.weight_gradients[index] != whole.weight_gradients[index]) return wrong("a weight's gradient");
    }
    if (rank_of_virtual_stage(schedule, pieces - 1) == comm.rank() && chain.losses != whole.losses)
        return wrong("the loss");
    if (rank_of_virtual_stage(schedule, 0) == comm.rank()) {
        for (auto const gradient : chain.input_gradients) {
            if (gradient != whole.input_gradient) return wrong("an input's gradient");
        }
    }
    if (chain.max_kept != max_in_flight(schedule, comm.rank())) return wrong("the number of inputs kept");
    if (context.memory().current() != pipeline->bytes()) return wrong("the memory");
    return {};
}

/// Moves rows of a MiB as they are: micro-batch m forward, -m back.
struct LongRows {
    static constexpr std::int64_t width = 256 * 1024;

    static Result<> move(TensorView<float const, 2, Host> from, TensorView<float, 2, Host> to, float value) {
        for (std::int64_t i = 0; i < to.elements(); ++i) to.data()[i] = from.empty() ? value : from.data()[i];
        return to.empty() && !from.empty() && from.data()[width - 1] != value ? Result<>(wrong("a long message"))
                                                                              : Result<>{};
    }
    Result<> forward(PipelineSlot const& slot, TensorView<float const, 2, Host> in, TensorView<float, 2, Host> out,
                     HostStream&) const {
        return move(in, out, static_cast<float>(slot.micro_batch));
    }
    Result<> backward(PipelineSlot const& slot, TensorView<float const, 2, Host>,
                      TensorView<float const, 2, Host> gradients, TensorView<float, 2, Host> out, HostStream&) const {
        return move(gradients, out, static_cast<float>(-slot.micro_batch));
    }
    Result<> weights(PipelineSlot const&, TensorView<float const, 2, Host>, TensorView<float const, 2, Host>,
                     HostStream&) const {
        return {};
    }
};

/// 1F1B sends both ways between neighbours at once: who sends waits for who sends the other way.
template <class Comm>
Result<> check_long_messages(Comm& comm) {
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    auto const schedule = one_forward_one_backward(comm.size(), 2 * comm.size());
    auto pipeline = PipelineParallel<Host, Comm>::create(context, comm, schedule, {1, LongRows::width});
    if (!pipeline) return pipeline.error();
    LongRows rows_of_a_mebibyte;
    return pipeline->run(rows_of_a_mebibyte, stream, soon());
}

/// All ranks send many long messages to the next one before any receives: as many wait as was asked for.
template <KeepsUnread Comm>
Result<> check_unread(Comm& comm) {
    constexpr std::int64_t messages = 12;
    std::vector<float> data(300'000);
    auto const bytes = static_cast<std::int64_t>(data.size() * sizeof(float));
    comm.keep_unread(messages, bytes);
    auto const size = static_cast<std::int64_t>(data.size());
    for (std::int64_t i = 0; i < messages; ++i) {
        std::fill(data.begin(), data.end(), static_cast<float>(100 * comm.rank() + i));
        auto const sent =
            send(comm, TensorView<float const, 1, Host>(data.data(), {size}), (comm.rank() + 1) % comm.size());
        if (!sent) return sent;
    }
    auto const before = (comm.rank() + comm.size() - 1) % comm.size();
    for (std::int64_t i = 0; i < messages; ++i) {
        if (auto const got = receive(comm, TensorView<float, 1, Host>(data.data(), {size}), before); !got) return got;
        if (data.front() != static_cast<float>(100 * before + i) || data.back() != data.front())
            return wrong("a message");
    }
    return comm.finish_sends();
}

/// Tables of every kind over the ranks of this group.
template <class Comm>
Result<> check_pipelines(Comm& comm) {
    auto const stages = std::int64_t{comm.size()};
    for (auto const& table :
         {gpipe_schedule(stages, 4), one_forward_one_backward(stages, 4), zero_bubble_schedule(stages, 4),
          zero_bubble_v_schedule(stages, 4), one_forward_one_backward(stages, 1)}) {
        if (auto const done = check_training(comm, table); !done) return done;
    }
    if (auto const table = interleaved_schedule(stages, 2, 4)) {
        if (auto const done = check_training(comm, *table); !done) return done;
    }
    if constexpr (KeepsUnread<Comm>) {
        if (auto const done = check_unread(comm); !done) return done;
    }
    return check_long_messages(comm);
}

}  // namespace shardwise::testing::pipelines
