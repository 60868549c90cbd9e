// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/threads.hpp>
#include <shardwise/parallel/pipeline_parallel.hpp>
#include <shardwise/schedule/forward_only.hpp>
#include <shardwise/schedule/gpipe.hpp>
#include <shardwise/schedule/one_forward_one_backward.hpp>

#include <doctest/doctest.h>

#include "../parallel/pipeline_cases.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace shardwise;
using namespace shardwise::testing::pipelines;

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

TEST_CASE("PipelineParallel: every table gives the gradients of the whole model, twice in a row") {
    // Long messages too: they do not block each other.
    for (std::int32_t const stages : {1, 2, 3, 4}) {
        CAPTURE(stages);
        auto const done = run_threads(stages, [](Threads& comm) { return check_pipelines(comm); },
                                      {.timeout = std::chrono::seconds(10)});
        CHECK_MESSAGE(done, (done ? "" : done.error().message()));
    }
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

TEST_CASE("PipelineParallel: no piece of work is begun after the deadline, however long the group would wait") {
    auto const schedule = forward_only(2, 2);
    // One moment for both ranks: what the first finds too late, the second does.
    auto const deadline = Deadline::after(std::chrono::milliseconds(200));
    std::atomic<int> begun{0};
    auto const done = run_threads(2, [&](Threads& comm) -> Result<> {
        HostContext context({.threads = 1});
        auto stream = context.make_stream();
        auto pipeline = PipelineParallel<Host, Threads>::create(context, comm, schedule, {rows, width});
        if (!pipeline) return pipeline.error();
        struct Late {
            Chain chain;
            Deadline deadline;
            std::atomic<int>* begun;
            Result<> forward(PipelineSlot const& slot, TensorView<float const, 2, Host> in,
                             TensorView<float, 2, Host> out, HostStream& stream) {
                ++*begun;
                while (!deadline.has_passed()) std::this_thread::yield();
                return chain.forward(slot, in, out, stream);
            }
        };
        Late work{Chain{schedule, comm.rank()}, deadline, &begun};
        auto const ran = pipeline->run(work, stream, deadline);
        REQUIRE_FALSE(ran);
        CHECK(ran.error().code() == ErrorCode::deadline_exceeded);
        return ran;
    });
    CHECK_FALSE(done);
    CHECK(begun <= 1);
}

TEST_CASE("PipelineParallel: ranks that hold unlike tables are told so before anything moves") {
    // Each fits, and each message has the length that the other rank expects.
    auto swapped = one_forward_one_backward(2, 4);
    for (auto& rank : swapped.ranks) {
        for (auto& slot : rank) slot.micro_batch = 3 - slot.micro_batch;
    }
    auto const plain = one_forward_one_backward(2, 4);
    for (auto const& other : {gpipe_schedule(2, 4), swapped, one_forward_one_backward(2, 3)}) {
        std::vector<std::string> words(2);
        std::atomic<int> begun{0};
        auto const done = run_threads(2, [&](Threads& comm) -> Result<> {
            HostContext context({.threads = 1});
            auto stream = context.make_stream();
            auto const& schedule = comm.rank() == 0 ? plain : other;
            auto pipeline = PipelineParallel<Host, Threads>::create(context, comm, schedule, {rows, width});
            if (!pipeline) return pipeline.error();
            struct Counted : Chain {
                std::atomic<int>* begun;
                Result<> forward(PipelineSlot const& slot, TensorView<float const, 2, Host> in,
                                 TensorView<float, 2, Host> out, HostStream& stream) {
                    ++*begun;
                    return Chain::forward(slot, in, out, stream);
                }
            };
            Counted work{Chain{schedule, comm.rank()}, &begun};
            auto const ran = pipeline->run(work, stream, soon());
            if (!ran) words[static_cast<std::size_t>(comm.rank())] = ran.error().message();
            return ran;
        });
        CHECK_FALSE(done);
        CHECK(begun == 0);
        CAPTURE(words[0]);
        CHECK(words[0].find("rank 0 is at call 1, pipeline of 4 micro-batches, table ") != std::string::npos);
        CHECK(words[1] == words[0]);
    }
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
        std::swap(broken.ranks[1][0], broken.ranks[1][1]);
        auto const still = Pipeline::create(context, comm, broken, {rows, width});
        REQUIRE_FALSE(still);
        CHECK(still.error().message().find("standstill") != std::string::npos);
        // Passes that are sent and never taken, and would be what the next run receives.
        auto unread = forward_only(2, 4);
        unread.ranks[1].pop_back();
        auto const lacking = Pipeline::create(context, comm, unread, {rows, width});
        REQUIRE_FALSE(lacking);
        CHECK(lacking.error().message().find("passes once") != std::string::npos);
        auto const flat = Pipeline::create(context, comm, one_forward_one_backward(2, 4), {0, width});
        REQUIRE_FALSE(flat);
        CHECK(flat.error().message() == "pipeline: boundary: has less than one row (got 0, expected at least 1)");
        auto const narrow = Pipeline::create(context, comm, one_forward_one_backward(2, 4), {rows, -1});
        REQUIRE_FALSE(narrow);
        CHECK(narrow.error().message() == "pipeline: boundary: has a width of less than one (got -1, expected at least 1)");
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
