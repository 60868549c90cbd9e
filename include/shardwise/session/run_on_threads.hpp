#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/comm/threads.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/core/deadline.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/executor/predict_memory.hpp>
#include <shardwise/executor/rank_executor.hpp>
#include <shardwise/executor/stored_parameters.hpp>
#include <shardwise/session/session.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace shardwise::inline v0_2_0 {

/// How a model is run in this process.
struct RunOptions {
    /// Tensor-parallel ranks, each a thread.
    std::int32_t tp = 1;
    /// Threads of all ranks together; 0: as many as the machine has cores.
    int threads = 0;
    /// The same bits for any number of ranks.
    bool is_deterministic = false;
    /// Sequences at a time.
    std::int64_t sequences = 1;
    /// Tokens of the longest sequence; 0: what the longest request needs, at most the model's positions.
    std::int64_t context = 0;
    /// Tokens that one step computes at most.
    std::int64_t step_tokens = 512;
    /// Tokens that the caches of all sequences hold together; 0: each its whole context.
    std::int64_t cache_tokens = 0;
    /// What keys and values are kept in: f32, bf16 or i8.
    Dtype kv_dtype = Dtype::f32;
    /// How long ranks wait for each other.
    std::chrono::nanoseconds timeout = std::chrono::minutes(5);
    /// How long all of it may take.
    std::chrono::nanoseconds limit = std::chrono::hours(24);
    /// The form in which weights are held. Its observer hears of the first rank's loading, on that rank's thread.
    LoadOptions load{};
    OnToken on_token{};
    OnLogits on_logits{};
    /// Where the times of the first rank's blocks go; null: they are not measured.
    BlockTimes* times = nullptr;
};

/// What one rank held.
struct RunMemory {
    Bytes weights{};
    Bytes cache{};
    Bytes activations{};
    /// What it was to hold at most, said before anything was loaded.
    Bytes predicted{};
    /// The most that it held at once: what the counting allocator saw, and its share of the group's staging memory.
    Bytes peak{};
};

struct RunReport {
    /// In the order of the requests.
    std::vector<Generation> generations;
    std::vector<RunMemory> ranks;
    double load_seconds = 0.0;
    /// Until the first token, and from there to the last.
    double prefill_seconds = 0.0;
    double decode_seconds = 0.0;
    std::int64_t prompt_tokens = 0;
    /// Those after the first of each request.
    std::int64_t decode_tokens = 0;
};

namespace detail {

/// Requests that the caller ended. The first rank publishes them in the step whose token it was shown; all ranks end them behind
/// the next step, whose collectives no rank finishes before the first has published.
class SharedCancellations {
public:
    void publish(std::int64_t step, std::int64_t request, std::int64_t kept_tokens) {
        std::lock_guard const lock(mutex_);
        all_.push_back({step, request, kept_tokens});
    }
    /// Calls visit(request) for those published in one step.
    template <class Visit>
    void visit_step(std::int64_t step, Visit const& visit) {
        std::lock_guard const lock(mutex_);
        for (auto const& one : all_) {
            if (one.step == step) visit(one.request);
        }
    }
    /// How many tokens of a request count; nothing where it was not ended.
    [[nodiscard]] std::optional<std::int64_t> kept(std::int64_t request) {
        std::lock_guard const lock(mutex_);
        for (auto const& one : all_) {
            if (one.request == request) return one.kept_tokens;
        }
        return std::nullopt;
    }

private:
    struct One {
        std::int64_t step;
        std::int64_t request;
        std::int64_t kept_tokens;
    };
    std::mutex mutex_;
    std::vector<One> all_;
};

/// The room that requests need.
[[nodiscard]] inline ExecutorLimits limits_for(std::vector<GenerationRequest> const& requests,
                                               ModelConfig const& config, RunOptions const& options) {
    constexpr auto most = std::numeric_limits<std::int64_t>::max();
    std::int64_t longest = 1;
    for (auto const& request : requests) {
        auto const prompt = static_cast<std::int64_t>(request.prompt.size());
        auto const whole = checked_add(prompt, std::max<std::int64_t>(request.max_new_tokens, 0));
        longest = std::max(longest, whole ? *whole : most);
    }
    auto context = options.context > 0 ? options.context : longest;
    if (options.context <= 0 && config.max_positions > 0) context = std::min(context, config.max_positions);
    auto const sequences = std::clamp<std::int64_t>(
        options.sequences, 1, std::max<std::int64_t>(static_cast<std::int64_t>(requests.size()), 1));
    auto const room = checked_multiply(sequences, context);
    auto const step = std::clamp(options.step_tokens, std::int64_t{1}, std::max(room ? *room : most, std::int64_t{1}));
    return {sequences, context, step, options.cache_tokens, options.kv_dtype};
}

template <ReductionPolicy Policy>
[[nodiscard]] Result<> run_rank(Threads& comm, Model const& model, StoredParameters const& parameters,
                                std::vector<GenerationRequest> const& requests, ExecutorLimits const& limits,
                                RunOptions const& options, SharedCancellations& cancelled, RunReport& report) {
    using Clock = std::chrono::steady_clock;
    auto const seconds = [](Clock::time_point from) {
        return std::chrono::duration<double>(Clock::now() - from).count();
    };
    auto const begin = Clock::now();
    auto const own = rank_options(options.threads, comm.size(), comm.rank());
    HostContext context(own);
    CorePin const pin(core_of(own));
    auto stream = context.make_stream();
    TensorPlace const place{comm.size(), comm.rank()};
    auto const isa = stream.isa();
    if (!isa) return isa.error();
    auto const predicted =
        predict_memory<Host, Policy>(model, formats_of(parameters, options.load), place, limits, *isa);
    if (!predicted) return predicted.error();
    auto load = options.load;
    if (comm.rank() != 0) load.observer = {};
    auto executor = RankExecutor<Host, Policy>::create(context, model, parameters, place, limits, {}, load);
    if (!executor) return executor.error();
    auto session = Session<Host, Policy, Threads>::create(context, *executor, limits, comm, stream);
    if (!session) return session.error();
    for (auto const& request : requests) {
        if (auto const added = session->add(request); !added) return added.error();
    }
    bool const is_first = comm.rank() == 0;
    if (is_first) report.load_seconds = seconds(begin);

    auto first_token = Clock::time_point{};
    auto const started = Clock::now();
    auto const deadline = Deadline::after(options.limit);
    std::vector<std::int64_t> shown(requests.size(), 0);
    std::int64_t made = 0;
    std::int64_t step = 0;
    auto const on_token = [&](std::int64_t request, std::int32_t token) {
        if (made++ == 0) first_token = Clock::now();
        if (!is_first || !options.on_token || cancelled.kept(request)) return true;
        auto& count = shown[static_cast<std::size_t>(request)];
        ++count;
        if (!options.on_token(request, token)) cancelled.publish(step, request, count);
        return true;
    };
    if (is_first && options.on_logits) session->show_logits(options.on_logits);
    if (is_first && options.times != nullptr) executor->measure(*options.times);
    std::vector<Generation> generations(requests.size());
    for (; session->is_busy(); ++step) {
        auto ended = session->step(deadline, on_token);
        if (!ended) return ended.error();
        for (auto& generation : *ended)
            generations[static_cast<std::size_t>(generation.request)] = std::move(generation);
        cancelled.visit_step(step - 1, [&](std::int64_t request) { (void)session->cancel(request); });
    }
    auto const beside = session_bytes(limits, model.config.vocab_size);
    report.ranks[static_cast<std::size_t>(comm.rank())] = {
        .weights = executor->weight_bytes(),
        .cache = executor->cache_bytes(),
        .activations = executor->activation_bytes() + beside,
        .predicted = predicted->total() + beside + comm.staging_bytes(),
        .peak = context.memory().peak() + comm.staging_bytes()};
    if (!is_first) return {};
    if (made > 0) {
        report.prefill_seconds = std::chrono::duration<double>(first_token - started).count();
        report.decode_seconds = seconds(first_token);
    }
    for (auto& generation : generations) {
        auto const kept = cancelled.kept(generation.request);
        if (!kept) continue;
        generation.tokens.resize(std::min(generation.tokens.size(), static_cast<std::size_t>(*kept)));
        generation.reason = FinishReason::cancelled;
    }
    for (auto const& request : requests) report.prompt_tokens += static_cast<std::int64_t>(request.prompt.size());
    report.decode_tokens = std::max<std::int64_t>(made - static_cast<std::int64_t>(requests.size()), 0);
    report.generations = std::move(generations);
    return {};
}

}  // namespace detail

/// Loads a checkpoint over ranks that are threads of this process and generates for all requests.
///
/// `source` and `model` are what find_model and read_checkpoint gave. Callbacks are called on one thread.
///
/// Errors  invalid_argument for impossible ranks or requests; those of loading, of the executor and of the ranks
[[nodiscard]] inline Result<RunReport> run_on_threads(ModelSource const& source, Model const& model,
                                                      std::vector<GenerationRequest> const& requests,
                                                      RunOptions const& options = {}) {
    if (options.tp < 1) {
        return Error{ErrorCode::invalid_argument}.in("tp").because("is less than one rank").got(options.tp).expected(1);
    }
    auto const begin = std::chrono::steady_clock::now();
    auto const parameters = StoredParameters::open(source, model);
    if (!parameters) return parameters.error();
    auto const limits = detail::limits_for(requests, model.config, options);
    RunReport report;
    detail::SharedCancellations cancelled;
    report.ranks.resize(static_cast<std::size_t>(options.tp));
    auto const headers = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    auto const done = run_threads(options.tp,
                                  [&](Threads& comm) {
                                      return options.is_deterministic
                                                 ? detail::run_rank<Deterministic>(comm, model, *parameters, requests,
                                                                                   limits, options, cancelled, report)
                                                 : detail::run_rank<Fast>(comm, model, *parameters, requests, limits,
                                                                          options, cancelled, report);
                                  },
                                  {.timeout = options.timeout});
    if (!done) return done.error();
    report.load_seconds += headers;
    return report;
}

}  // namespace shardwise::inline v0_2_0
