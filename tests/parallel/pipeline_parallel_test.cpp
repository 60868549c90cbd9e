#include <shardwise/backend/host/products.hpp>
#include <shardwise/comm/threads.hpp>
#include <shardwise/parallel/pipeline_parallel.hpp>
#include <shardwise/schedule/forward_only.hpp>
#include <shardwise/schedule/gpipe.hpp>
#include <shardwise/schedule/interleaved.hpp>
#include <shardwise/schedule/makespan.hpp>
#include <shardwise/schedule/one_forward_one_backward.hpp>
#include <shardwise/schedule/zero_bubble.hpp>
#include <shardwise/schedule/zero_bubble_v.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace {

using namespace shardwise;

constexpr std::int64_t rows = 2;
constexpr std::int64_t width = 3;

Deadline soon() {
    return Deadline::after(std::chrono::seconds(20));
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
    std::vector<float> last_outputs{};
    std::int64_t kept = 0;
    std::int64_t most_kept = 0;

    static float weight(std::int64_t piece) { return piece % 2 == 0 ? 2.0F : -1.0F; }
    static float input(std::int64_t micro_batch, std::int64_t i) { return static_cast<float>(3 * micro_batch + i); }

    Result<> forward(PipelineSlot const& slot, TensorView<float const, 2, Host> in, TensorView<float, 2, Host> out,
                     HostStream&) {
        auto const piece = schedule.piece(rank, slot.chunk);
        CHECK(in.empty() == (piece == 0));
        CHECK(out.empty() == (piece + 1 == pieces));
        for (std::int64_t i = 0; i < rows * width; ++i) {
            auto const y = weight(piece) * (piece == 0 ? input(slot.micro_batch, i) : in.data()[i]) + 1.0F;
            if (out.empty())
                losses[static_cast<std::size_t>(slot.micro_batch)] += y;
            else
                out.data()[i] = y;
        }
        most_kept = std::max(most_kept, ++kept);
        return {};
    }
    Result<> backward(PipelineSlot const& slot, TensorView<float const, 2, Host> in,
                      TensorView<float const, 2, Host> gradients, TensorView<float, 2, Host> out, HostStream& stream) {
        auto const piece = schedule.piece(rank, slot.chunk);
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
        auto const piece = schedule.piece(rank, slot.chunk);
        for (std::int64_t i = 0; i < rows * width; ++i) {
            auto const x = piece == 0 ? input(slot.micro_batch, i) : in.data()[i];
            weight_gradients[static_cast<std::size_t>(piece)] += x * (gradients.empty() ? 1.0F : gradients.data()[i]);
        }
        --kept;
        return {};
    }
};

/// Forward only: no backward passes to call.
struct Pass {
    Chain chain;
    Result<> forward(PipelineSlot const& slot, TensorView<float const, 2, Host> in, TensorView<float, 2, Host> out,
                     HostStream& stream) {
        return chain.forward(slot, in, out, stream);
    }
};
static_assert(PipelineTrainer<Chain, float, Host>);
static_assert(PipelineWorker<Pass, float, Host> && !PipelineTrainer<Pass, float, Host>);

/// What the chain gives in one piece.
struct Expected {
    std::vector<float> losses;
    std::vector<float> weight_gradients;
    float input_gradient = 0.0F;
};
Expected expected(std::int64_t pieces, std::int64_t micro_batches) {
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

void check_training(PipelineSchedule const& schedule) {
    auto const pieces = schedule.stages * schedule.chunks;
    auto const whole = expected(pieces, schedule.micro_batches);
    auto const done = run_threads(static_cast<std::int32_t>(schedule.stages), [&](Threads& comm) -> Result<> {
        HostContext context({.threads = 1});
        auto stream = context.make_stream();
        auto pipeline = PipelineParallel<Host, Threads>::create(context, comm, schedule, {rows, width});
        if (!pipeline) return pipeline.error();
        Chain chain{schedule, comm.rank()};
        // Twice: nothing of the first run is left.
        for (int run = 0; run < 2; ++run) {
            chain = Chain{schedule, comm.rank()};
            if (auto const ran = pipeline->run(chain, stream, soon()); !ran) return ran;
        }
        for (std::int64_t piece = 0; piece < pieces; ++piece) {
            if (rank_of_piece(schedule, piece) != comm.rank()) continue;
            auto const index = static_cast<std::size_t>(piece);
            CHECK(chain.weight_gradients[index] == whole.weight_gradients[index]);
        }
        if (rank_of_piece(schedule, pieces - 1) == comm.rank()) CHECK(chain.losses == whole.losses);
        if (rank_of_piece(schedule, 0) == comm.rank()) {
            for (auto const gradient : chain.input_gradients) CHECK(gradient == whole.input_gradient);
        }
        CHECK(chain.most_kept == most_in_flight(schedule, comm.rank()));
        CHECK(context.memory().current() == pipeline->bytes());
        return {};
    });
    CHECK_MESSAGE(done, (done ? "" : done.error().message()));
}

TEST_CASE("PipelineParallel: every table gives the gradients of the whole model, twice in a row") {
    for (std::int64_t const stages : {1, 2, 4}) {
        CAPTURE(stages);
        check_training(gpipe_schedule(stages, 4));
        check_training(one_forward_one_backward(stages, 4));
        check_training(zero_bubble_schedule(stages, 4));
        check_training(zero_bubble_v_schedule(stages, 4));
        if (auto const table = interleaved_schedule(stages, 2, 4)) check_training(*table);
    }
    check_training(one_forward_one_backward(3, 1));
}

TEST_CASE("PipelineParallel: inference passes micro-batches through without keeping them") {
    for (std::int64_t const stages : {1, 2, 3}) {
        auto const schedule = forward_only(stages, 5);
        auto const whole = expected(stages, 5);
        auto const done = run_threads(static_cast<std::int32_t>(stages), [&](Threads& comm) -> Result<> {
            HostContext context({.threads = 1});
            auto stream = context.make_stream();
            auto pipeline = PipelineParallel<Host, Threads>::create(context, comm, schedule, {rows, width});
            if (!pipeline) return pipeline.error();
            CHECK(pipeline->places() == (comm.rank() == 0 ? 0 : 1));
            Pass pass{Chain{schedule, comm.rank()}};
            if (auto const ran = pipeline->run(pass, stream, soon()); !ran) return ran;
            if (comm.rank() + 1 == comm.size()) CHECK(pass.chain.losses == whole.losses);
            return {};
        });
        CHECK_MESSAGE(done, (done ? "" : done.error().message()));
    }
}

TEST_CASE("PipelineParallel: messages longer than a mailbox do not block each other") {
    // 1F1B sends both ways between neighbours at once: who sends waits for who sends the other way.
    auto const schedule = one_forward_one_backward(3, 6);
    constexpr std::int64_t wide = 256 * 1024;
    struct Copy {
        Result<> forward(PipelineSlot const& slot, TensorView<float const, 2, Host> in, TensorView<float, 2, Host> out,
                         HostStream&) const {
            for (std::int64_t i = 0; i < out.elements(); ++i)
                out.data()[i] = in.empty() ? static_cast<float>(slot.micro_batch) : in.data()[i];
            if (out.empty()) CHECK(in.data()[wide - 1] == static_cast<float>(slot.micro_batch));
            return {};
        }
        Result<> backward(PipelineSlot const& slot, TensorView<float const, 2, Host>,
                          TensorView<float const, 2, Host> gradients, TensorView<float, 2, Host> out,
                          HostStream&) const {
            for (std::int64_t i = 0; i < out.elements(); ++i)
                out.data()[i] = gradients.empty() ? static_cast<float>(-slot.micro_batch) : gradients.data()[i];
            if (out.empty()) CHECK(gradients.data()[wide - 1] == static_cast<float>(-slot.micro_batch));
            return {};
        }
        Result<> weights(PipelineSlot const&, TensorView<float const, 2, Host>, TensorView<float const, 2, Host>,
                         HostStream&) const {
            return {};
        }
    };
    auto const done =
        run_threads(3,
                    [&](Threads& comm) -> Result<> {
                        HostContext context({.threads = 1});
                        auto stream = context.make_stream();
                        auto pipeline = PipelineParallel<Host, Threads>::create(context, comm, schedule, {1, wide});
                        if (!pipeline) return pipeline.error();
                        Copy copy;
                        return pipeline->run(copy, stream, soon());
                    },
                    {.timeout = std::chrono::seconds(10)});
    CHECK_MESSAGE(done, (done ? "" : done.error().message()));
}

TEST_CASE("PipelineParallel: a worker's error ends the run of every rank, at once") {
    auto const schedule = one_forward_one_backward(4, 8);
    auto const begin = std::chrono::steady_clock::now();
    auto const done = run_threads(4, [&](Threads& comm) -> Result<> {
        HostContext context({.threads = 1});
        auto stream = context.make_stream();
        auto pipeline = PipelineParallel<Host, Threads>::create(context, comm, schedule, {rows, width});
        if (!pipeline) return pipeline.error();
        struct Failing {
            Chain chain;
            Result<> forward(PipelineSlot const& slot, TensorView<float const, 2, Host> in,
                             TensorView<float, 2, Host> out, HostStream& stream) {
                if (chain.rank == 2 && slot.micro_batch == 1)
                    return Error{ErrorCode::backend_failure}.in("layer 7").because("has no numbers");
                return chain.forward(slot, in, out, stream);
            }
            Result<> backward(PipelineSlot const& slot, TensorView<float const, 2, Host> in,
                              TensorView<float const, 2, Host> gradients, TensorView<float, 2, Host> out,
                              HostStream& stream) {
                return chain.backward(slot, in, gradients, out, stream);
            }
            Result<> weights(PipelineSlot const& slot, TensorView<float const, 2, Host> in,
                             TensorView<float const, 2, Host> gradients, HostStream& stream) {
                return chain.weights(slot, in, gradients, stream);
            }
        } work{Chain{schedule, comm.rank()}};
        auto const ran = pipeline->run(work, stream, soon());
        REQUIRE_FALSE(ran);
        CHECK(ran.error().message().find("layer 7") != std::string::npos);
        return ran;
    });
    CHECK_FALSE(done);
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(5));
}

TEST_CASE("PipelineParallel: tables that do not fit are refused") {
    auto const done = run_threads(2, [&](Threads& comm) -> Result<> {
        HostContext context({.threads = 1});
        auto stream = context.make_stream();
        using Pipeline = PipelineParallel<Host, Threads>;
        auto const other = Pipeline::create(context, comm, one_forward_one_backward(3, 4), {rows, width});
        REQUIRE_FALSE(other);
        CHECK(other.error().code() == ErrorCode::shape_mismatch);
        auto broken = one_forward_one_backward(2, 4);
        broken.ranks[1].pop_back();
        auto const still = Pipeline::create(context, comm, broken, {rows, width});
        REQUIRE_FALSE(still);
        CHECK(still.error().message().find("standstill") != std::string::npos);
        CHECK_FALSE(Pipeline::create(context, comm, one_forward_one_backward(2, 4), {0, width}));
        // A worker that cannot go back.
        auto pipeline = Pipeline::create(context, comm, one_forward_one_backward(2, 4), {rows, width});
        REQUIRE(pipeline);
        auto const schedule = forward_only(2, 4);
        Pass pass{Chain{schedule, comm.rank()}};
        auto const refused = pipeline->run(pass, stream, soon());
        REQUIRE_FALSE(refused);
        CHECK(refused.error().message().find("forward_only") != std::string::npos);
        return {};
    });
    CHECK(done);
}

}  // namespace
