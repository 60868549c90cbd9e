// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/agree_on.hpp>
#include <shardwise/comm/barrier.hpp>
#include <shardwise/comm/broadcast.hpp>
#include <shardwise/core/on_call.hpp>
#include <shardwise/session/check_stage_devices.hpp>
#include <shardwise/session/chosen_activations.hpp>
#include <shardwise/session/declared/serve_on_threads.hpp>
#include <shardwise/session/rank_communicator.hpp>
#include <shardwise/session/request_limits.hpp>
#include <shardwise/session/run_rank.hpp>

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Hands the first rank's requests to the others, which wait without a deadline: for a person, say.
class RequestBoard {
public:
    /// Nothing ends it for all ranks, now and later.
    void post(std::optional<GenerationRequest> request) {
        {
            std::lock_guard const lock(mutex_);
            request_ = std::move(request);
            ++posted_;
        }
        changed_.notify_all();
    }
    /// Request number `turn`, from 1 on; the next is posted when all ranks have taken it.
    [[nodiscard]] std::optional<GenerationRequest> take(std::int64_t turn) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return posted_ >= turn; });
        return request_;
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::optional<GenerationRequest> request_;
    std::int64_t posted_ = 0;
};

/// Ends a board with the scope that it stands in; null: it does nothing.
class BoardEnd {
public:
    explicit BoardEnd(RequestBoard* board) : board_(board) {}
    BoardEnd(BoardEnd const&) = delete;
    BoardEnd& operator=(BoardEnd const&) = delete;
    ~BoardEnd() {
        if (board_ != nullptr) board_->post(std::nullopt);
    }

private:
    RequestBoard* board_;
};

/// Generates for one request; refused requests are no error.
template <ReductionPolicy Policy, ComputeBackend Backend>
[[nodiscard]] Result<> serve_one(RunRank<Policy, Backend>& rank, HostCommunicator& world, GenerationRequest request,
                                 OnGeneration const& on_generation) {
    bool const is_first = world.rank() == 0;
    std::vector<GenerationRequest> const one{std::move(request)};
    // Only the first rank has texts, and only its group computes: the others hear from it whether there is anything to do.
    auto const is_legal = [&](Result<> const& own) -> Result<bool> {
        std::int32_t legal = own ? 1 : 0;
        auto const told = broadcast(world, TensorView<std::int32_t, 1, Host>(&legal, {1}), 0);
        if (!told) return told.error();
        if (legal == 0 && is_first) on_generation(own.error());
        return legal != 0;
    };
    auto goes_on = is_legal(rank.begin_texts(one));
    if (goes_on && *goes_on) goes_on = is_legal(rank.queue(one));
    if (!goes_on) return goes_on.error();
    if (!*goes_on) return {};
    RunReport report;
    auto const done = rank.generate(one, report);
    if (done && is_first) on_generation(std::move(report.generations[0]));
    return done;
}

/// What all ranks of a conversation share.
struct Conversation {
    Model const& model;
    StoredParameters const& parameters;
    ExecutorLimits const& limits;
    std::vector<StageBlocks> const& stages;
    RequestBoard& board;
    NextRequest const& next;
    OnGeneration const& on_generation;
};

template <ReductionPolicy Policy, ComputeBackend Backend>
[[nodiscard]] Result<> serve_rank(HostCommunicator& world, typename RankCommunicator<Backend>::Meeting* meeting,
                                  RunOptions const& options, Conversation const& of) {
    RunRank<Policy, Backend> rank(world, of.model, options, of.limits);
    auto done = agree_on(world, rank.open(meeting));
    if (done) done = agree_on(world, rank.load(of.parameters, of.stages));
    // Nobody is asked anything before all ranks are ready.
    if (done) done = agree_on(world, rank.begin());
    if (done) rank.keep_last();
    for (std::int64_t turn = 1; done; ++turn) {
        if (world.rank() == 0) of.board.post(of.next());
        auto request = of.board.take(turn);
        if (!request) return {};
        // The next request is not posted before all ranks have this one.
        done = barrier(world);
        if (done) done = serve_one(rank, world, *std::move(request), of.on_generation);
    }
    return rank.fail(done.error());
}

template <ComputeBackend Backend>
[[nodiscard]] Result<> serve_rank_on(HostCommunicator& world, typename RankCommunicator<Backend>::Meeting* meeting,
                                     RunOptions const& options, Conversation const& of) {
    if (options.is_deterministic) return serve_rank<Deterministic, Backend>(world, meeting, options, of);
    return serve_rank<Fast, Backend>(world, meeting, options, of);
}

/// One rank on the processor, whose stage is one of several beside those of devices.
SHARDWISE_ON_CALL
[[nodiscard]] Result<> serve_on_processor(HostCommunicator& world, RunOptions const& options, Conversation const& of);

#if SHARDWISE_HAS_BODY(RUN)
SHARDWISE_ON_CALL_BODY
Result<> serve_on_processor(HostCommunicator& world, RunOptions const& options, Conversation const& of) {
    return serve_rank_on<Host>(world, nullptr, options, of);
}
#endif

}  // namespace detail

/// serve_on_threads on one back end: the host, or the devices that the options name (with their kernels' headers included) and, where they
/// name it for a stage, the processor.
///
/// Errors  as serve_on_threads
template <ComputeBackend Backend>
[[nodiscard]] Result<> serve_on_backend(OpenCheckpoint& files, Model const& model, RunOptions const& options,
                                        NextRequest const& next, OnGeneration const& on_generation) {
    if (auto const checked = detail::check_stage_devices(options); !checked) return checked;
    if (model.program.has_encoder()) {
        return Error{ErrorCode::unsupported}
            .in(model.config.model_class.view())
            .because("encodes each prompt as a whole, so that no conversation goes on in it")
            .fix("give each prompt to a run of its own");
    }
    // Requests come one at a time: no other shares the cache.
    auto own = options;
    own.cache_tokens = 0;
    auto const stages = plan_stages(model, own);
    if (!stages) return stages.error();
    auto const parameters = StoredParameters::open(files, model);
    if (!parameters) return parameters.error();
    auto const limits =
        detail::conversation_limits(model.config, options, detail::chosen_activations<Backend>(model, options));
    detail::RequestBoard board;
    detail::Conversation const of{model, *parameters, limits, *stages, board, next, on_generation};
    typename detail::RankCommunicator<Backend>::Meeting meeting(static_cast<std::int32_t>(own.ranks()));
    return run_threads(static_cast<std::int32_t>(options.ranks()),
                       [&](Threads& thread) -> Result<> {
                           HostCommunicator world(std::move(thread));
                           // Nobody waits for a request of a first rank that has gone, also where a callback throws.
                           detail::BoardEnd const end(world.rank() == 0 ? &board : nullptr);
                           if (!options.devices.is_processor(world.rank()))
                               return detail::serve_rank_on<Backend>(world, &meeting, options, of);
                           auto beside = options;
                           beside.devices = {};
                           return detail::serve_on_processor(world, beside, of);
                       },
                       {.timeout = options.timeout});
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
