#pragma once

#include <shardwise/backend/host/host_rank.hpp>
#include <shardwise/comm/barrier.hpp>
#include <shardwise/comm/broadcast.hpp>
#include <shardwise/session/largest_of_ranks.hpp>
#include <shardwise/session/run_on_threads.hpp>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline v0_2_0 {

/// Gives the next request; nothing ends the serving. It may take as long as it likes.
using NextRequest = std::function<std::optional<GenerationRequest>()>;
/// Gets what became of a request, before the next one is asked for.
using OnGeneration = std::function<void(Result<Generation> const&)>;

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

template <ReductionPolicy Policy>
class RankServer {
public:
    RankServer(HostCommunicator& comm, RunOptions const& options, RequestBoard& board)
        : comm_(comm), options_(options), board_(board) {}

    [[nodiscard]] Result<> run(Model const& model, StoredParameters const& parameters, ExecutorLimits const& limits,
                               NextRequest const& next, OnGeneration const& on_generation) {
        HostRank host(rank_options(options_.threads, comm_.size(), comm_.rank()));
        auto load = options_.load;
        if (comm_.rank() != 0) load.observer = {};
        if (comm_.size() > 1) load.share_largest = largest_of_ranks(comm_);
        auto executor = RankExecutor<Host, Policy>::create(host.context, model, parameters,
                                                           {comm_.size(), comm_.rank()}, limits, {}, load);
        if (!executor) return executor.error();
        auto session =
            Session<Host, Policy, HostCommunicator>::create(host.context, *executor, limits, comm_, host.stream);
        if (!session) return session.error();
        session->keep_last(true);
        // Nobody is asked anything before all ranks are ready.
        if (auto const ready = barrier(comm_); !ready) return ready;
        for (std::int64_t turn = 1;; ++turn) {
            if (comm_.rank() == 0) board_.post(next());
            auto request = board_.take(turn);
            if (!request) return {};
            // The next request is not posted before all ranks have this one.
            if (auto const taken = barrier(comm_); !taken) return taken;
            auto const generated = serve(*session, *std::move(request));
            bool const is_refused = !generated && generated.error().code() == ErrorCode::invalid_argument;
            if (comm_.rank() == 0 && (generated || is_refused)) on_generation(generated);
            if (!generated && !is_refused) return generated.error();
        }
    }

private:
    [[nodiscard]] Result<Generation> serve(Session<Host, Policy, HostCommunicator>& session,
                                           GenerationRequest request) {
        std::int64_t shown = 0;
        OnText on_text;
        if (options_.on_text)
            on_text = [this, &shown](std::int64_t, std::string_view text) { options_.on_text(shown, text); };
        // Refused on all ranks alike: they share the options.
        auto texts = RequestTexts::create(options_.tokenizer, on_text, {request});
        if (!texts) return texts.error();
        auto const number = session.add(std::move(request));
        if (!number) return number.error();
        auto const deadline = Deadline::after(options_.limit);
        // Only rank 0 has a caller; all ranks end the request behind the same step.
        constexpr std::int32_t by_caller = 1;
        constexpr std::int32_t by_stop = 2;
        std::int32_t is_over = 0;
        shown = *number;
        auto const on_token = [&](std::int64_t id, std::int32_t token) {
            if (comm_.rank() != 0) return true;
            if (options_.on_token && !options_.on_token(id, token)) is_over = by_caller;
            if (!texts->push(0, token)) is_over = by_stop;
            return true;
        };
        Generation last;
        while (session.is_busy()) {
            auto ended = session.step(deadline, on_token);
            if (!ended) return ended.error();
            for (auto& generation : *ended) last = std::move(generation);
            auto const told = broadcast(comm_, TensorView<std::int32_t, 1, Host>(&is_over, {1}), 0);
            if (!told) return told.error();
            if (is_over != 0) (void)session.cancel(*number);
        }
        if (is_over != 0) last.reason = is_over == by_stop ? FinishReason::stop_string : FinishReason::cancelled;
        last.request = 0;
        if (comm_.rank() == 0) texts->finish(last);
        last.request = *number;
        return last;
    }

    HostCommunicator& comm_;
    RunOptions const& options_;
    RequestBoard& board_;
};

}  // namespace detail

/// Loads a checkpoint over ranks that are threads of this process and generates for one request after another, each
/// with the tokens that it gives from scratch; what its prompt has in common with the last one and its answer is not computed
/// again. `options.context` is the room that each has; `next`, `on_generation` and the other callbacks are
/// called on the caller's thread.
///
/// Errors  invalid_argument for impossible ranks; those of loading, of the executor and of the ranks. A request that is
///         refused is no error: `on_generation` gets why.
[[nodiscard]] inline Result<> serve_on_threads(ModelSource const& source, Model const& model, RunOptions const& options,
                                               NextRequest const& next, OnGeneration const& on_generation) {
    auto const parameters = StoredParameters::open(source, model);
    if (!parameters) return parameters.error();
    auto context = options.context;
    if (model.config.max_positions > 0) context = std::min(context, model.config.max_positions);
    ExecutorLimits const limits{1, context, std::max<std::int64_t>(std::min(options.step_tokens, context), 1), 0,
                                options.kv_dtype};
    detail::RequestBoard board;
    return run_threads(
        options.tp,
        [&](Threads& thread) -> Result<> {
            HostCommunicator comm(std::move(thread));
            // Nobody waits for a request of a first rank that has gone, also where a callback throws.
            detail::BoardEnd const end(comm.rank() == 0 ? &board : nullptr);
            auto const serve = [&](auto server) { return server.run(model, *parameters, limits, next, on_generation); };
            return options.is_deterministic ? serve(detail::RankServer<Deterministic>(comm, options, board))
                                            : serve(detail::RankServer<Fast>(comm, options, board));
        },
        {.timeout = options.timeout});
}

}  // namespace shardwise::inline v0_2_0
