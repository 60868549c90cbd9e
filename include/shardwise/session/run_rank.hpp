#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/comm/agree_on.hpp>
#include <shardwise/comm/all_gather.hpp>
#include <shardwise/comm/broadcast.hpp>
#include <shardwise/comm/host_communicator.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/core/deadline.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/executor/predict_memory.hpp>
#include <shardwise/executor/rank_executor.hpp>
#include <shardwise/executor/stored_parameters.hpp>
#include <shardwise/session/run_options.hpp>
#include <shardwise/session/session.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace shardwise::inline v0_2_0 {

namespace detail {

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

/// What every rank held, put together on all of them.
[[nodiscard]] inline Result<std::vector<RunMemory>> gather_memory(HostCommunicator& world, RunMemory const& own) {
    static_assert(std::is_trivially_copyable_v<RunMemory>);
    auto const size = static_cast<std::int64_t>(sizeof(RunMemory));
    std::vector<RunMemory> all(static_cast<std::size_t>(world.size()));
    std::vector<std::int64_t> const counts(all.size(), size);
    auto const bytes = [](auto* data) { return reinterpret_cast<std::uint8_t const*>(data); };
    auto const done = all_gather(world, TensorView<std::uint8_t const, 1, Host>(bytes(&own), {size}),
                                 TensorView<std::uint8_t, 1, Host>(reinterpret_cast<std::uint8_t*>(all.data()),
                                                                   {size * static_cast<std::int64_t>(all.size())}),
                                 std::span<std::int64_t const>(counts));
    if (!done) return done.error();
    return all;
}

/// One rank of a run: what it holds, and the walk through the requests that all ranks take together.
template <ReductionPolicy Policy>
class RunRank {
    using Clock = std::chrono::steady_clock;
    using Executor = RankExecutor<Host, Policy>;
    using RankSession = Session<Host, Policy, HostCommunicator>;

public:
    RunRank(HostCommunicator& world, Model const& model, RunOptions const& options, ExecutorLimits const& limits)
        : world_(world),
          model_(model),
          options_(options),
          limits_(limits),
          context_(cores_of(world, options)),
          pin_(core_of(cores_of(world, options))),
          stream_(context_.make_stream()) {}

    [[nodiscard]] Result<> load(StoredParameters const& parameters, std::vector<StageBlocks> const& stages) {
        auto const stage = world_.rank() / options_.tp;
        if (options_.pp > 1) {
            auto group = world_.split(stage);
            if (!group) return group.error();
            group_.emplace(std::move(*group));
        }
        TensorPlace const place{options_.tp, world_.rank() % options_.tp};
        auto const& blocks = stages[static_cast<std::size_t>(stage)];
        auto const isa = stream_.isa();
        if (!isa) return isa.error();
        auto const formats = formats_of(parameters, options_.load);
        auto const predicted = predict_memory<Host, Policy>(model_, formats, place, limits_, *isa, {}, blocks);
        if (!predicted) return predicted.error();
        predicted_ = predicted->total();
        auto load = options_.load;
        if (!is_first()) load.observer = {};
        auto executor = Executor::create(context_, model_, parameters, place, limits_, {}, load, blocks);
        if (!executor) return executor.error();
        executor_.emplace(std::move(*executor));
        if (is_first() && options_.times != nullptr) executor_->measure(*options_.times);
        return {};
    }

    /// Makes the session and queues the requests; every rank does so alike.
    [[nodiscard]] Result<> begin(std::vector<GenerationRequest> const& requests) {
        StageRelay<HostCommunicator> relay;
        if (options_.pp > 1) {
            auto const last = static_cast<std::int32_t>(options_.ranks() - options_.tp);
            relay.links = {&world_, world_.rank() < options_.tp ? -1 : world_.rank() - options_.tp,
                           world_.rank() >= last ? -1 : world_.rank() + options_.tp};
            relay.teller = last;
            // Only rank 0 knows whether anybody looks.
            std::int32_t shares = options_.on_logits ? 1 : 0;
            auto const told = broadcast(world_, TensorView<std::int32_t, 1, Host>(&shares, {1}), 0);
            if (!told) return told;
            relay.shares_logits = shares != 0;
        }
        auto session = RankSession::create(context_, *executor_, limits_, group(), stream_, relay);
        if (!session) return session.error();
        session_.emplace(std::move(*session));
        for (auto const& request : requests) {
            if (auto const added = session_->add(request); !added) return added.error();
        }
        if (is_first() && options_.on_logits) session_->show_logits(options_.on_logits);
        return {};
    }

    /// Generates for all requests.
    [[nodiscard]] Result<> generate(std::vector<GenerationRequest> const& requests, RunReport& report) {
        auto const started = Clock::now();
        auto first_token = started;
        auto const deadline = Deadline::after(options_.limit);
        std::int64_t made = 0;
        std::vector<std::int32_t> ended_by_caller;
        auto const on_token = [&](std::int64_t request, std::int32_t token) {
            if (made++ == 0) first_token = Clock::now();
            if (is_first() && options_.on_token && !options_.on_token(request, token))
                ended_by_caller.push_back(static_cast<std::int32_t>(request));
            return true;
        };
        report.generations.resize(requests.size());
        while (session_->is_busy()) {
            auto const before = made;
            ended_by_caller.clear();
            auto ended = session_->step(deadline, on_token);
            if (!ended) return ended.error();
            for (auto& generation : *ended)
                report.generations[static_cast<std::size_t>(generation.request)] = std::move(generation);
            if (made == before) continue;
            // Rank 0's caller ends requests; all ranks end them behind the same step.
            ended_by_caller.resize(static_cast<std::size_t>(limits_.sequences), -1);
            if (world_.size() > 1) {
                TensorView<std::int32_t, 1, Host> const all(ended_by_caller.data(), {limits_.sequences});
                if (auto const told = broadcast(world_, all, 0); !told) return told;
            }
            for (auto const request : ended_by_caller) {
                if (request >= 0) (void)session_->cancel(request);
            }
        }
        if (made > 0) {
            report.prefill_seconds = std::chrono::duration<double>(first_token - started).count();
            report.decode_seconds = std::chrono::duration<double>(Clock::now() - first_token).count();
        }
        for (auto const& request : requests) report.prompt_tokens += static_cast<std::int64_t>(request.prompt.size());
        report.decode_tokens = std::max<std::int64_t>(made - static_cast<std::int64_t>(requests.size()), 0);
        auto const beside = session_bytes(limits_, model_.config.vocab_size);
        auto const staging = world_.staging_bytes() + (group_ ? group_->staging_bytes() : Bytes{0});
        auto memory = gather_memory(world_, {.weights = executor_->weight_bytes(),
                                             .cache = executor_->cache_bytes(),
                                             .activations = executor_->activation_bytes() + beside,
                                             .predicted = predicted_ + beside + staging,
                                             .peak = context_.memory().peak() + staging});
        if (!memory) return memory.error();
        report.ranks = std::move(*memory);
        return {};
    }

    /// Ends the groups that this rank is in with its error; the first one of all ranks.
    [[nodiscard]] Error fail(Error const& error) {
        auto const named = name_rank(error, world_.rank());
        // Who waits in the smaller group is to hear the reason, not that this rank left.
        if (group_) (void)group_->fail(named);
        return world_.fail(named).error();
    }

private:
    /// Its share of the cores of this machine.
    [[nodiscard]] static HostOptions cores_of(HostCommunicator const& world, RunOptions const& options) {
        auto const neighbours = options.local_ranks > 0 ? options.local_ranks : world.size();
        auto const threads = options.threads > 0 ? std::max(1, options.threads * neighbours / world.size()) : 0;
        return rank_options(threads, neighbours, world.rank() % neighbours);
    }
    [[nodiscard]] bool is_first() const { return world_.rank() == 0; }
    /// The tensor-parallel ranks of this rank's stage.
    [[nodiscard]] HostCommunicator& group() { return group_ ? *group_ : world_; }

    HostCommunicator& world_;
    Model const& model_;
    RunOptions const& options_;
    ExecutorLimits limits_;
    std::optional<HostCommunicator> group_;
    HostContext context_;
    // Behind the context, whose threads are not to stay on the same core.
    CorePin pin_;
    HostStream stream_;
    Bytes predicted_{};
    std::optional<Executor> executor_;
    std::optional<RankSession> session_;
};

template <ReductionPolicy Policy>
[[nodiscard]] Result<RunReport> run_rank(HostCommunicator& world, Model const& model,
                                         StoredParameters const& parameters,
                                         std::vector<GenerationRequest> const& requests, RunOptions const& options,
                                         std::vector<StageBlocks> const& stages) {
    auto const started = std::chrono::steady_clock::now();
    RunReport report;
    RunRank<Policy> rank(world, model, options, limits_for(requests, model.config, options));
    auto done = agree_on(world, rank.load(parameters, stages));
    if (done) done = agree_on(world, rank.begin(requests));
    report.load_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    if (done) done = rank.generate(requests, report);
    if (!done) return rank.fail(done.error());
    return Result<RunReport>(std::move(report));
}

/// As run_in_group, with the parameters opened.
[[nodiscard]] inline Result<RunReport> run_opened(HostCommunicator& world, Model const& model,
                                                  StoredParameters const& parameters,
                                                  std::vector<GenerationRequest> const& requests,
                                                  RunOptions const& options, std::vector<StageBlocks> const& stages) {
    return options.is_deterministic ? run_rank<Deterministic>(world, model, parameters, requests, options, stages)
                                    : run_rank<Fast>(world, model, parameters, requests, options, stages);
}

}  // namespace detail

/// Checks what can be said of a run before any rank starts; the blocks of each stage.
///
/// Errors  invalid_argument for impossible ranks, with those that are legal
[[nodiscard]] inline Result<std::vector<StageBlocks>> plan_stages(Model const& model, RunOptions const& options) {
    Error refused{ErrorCode::invalid_argument};
    if (options.tp < 1) return refused.in("tp").because("is less than one rank").got(options.tp).expected(1);
    if (options.pp < 1) return refused.in("pp").because("is less than one stage").got(options.pp).expected(1);
    if (options.pp > 1 && options.cache_tokens > 0) {
        // Stages whose layers see unequally far would admit sequences at different steps.
        return Error{ErrorCode::unsupported}
            .in("cache_tokens")
            .because("cannot be shared by the sequences of a pipeline yet")
            .fix("leave it 0: each sequence then has its whole context");
    }
    auto begins = options.stage_begins;
    // Checks the degrees too.
    auto const even = even_stages(model, options.tp, begins.empty() ? options.pp : 1);
    if (!even) return even.error();
    if (begins.empty()) begins = *even;
    bool is_legal = begins.size() == static_cast<std::size_t>(options.pp) + 1 && begins.front() == 0 &&
                    begins.back() == even->back() && std::is_sorted(begins.begin(), begins.end());
    auto stages = is_legal ? blocks_of_stages(model.program, begins, options.layer_homes) : std::vector<StageBlocks>{};
    for (auto const& stage : stages) is_legal = is_legal && stage.begin < stage.end;
    if (is_legal) return stages;
    return refused.in("stages")
        .because("are not one run of consecutive layers after another, one for each stage")
        .got(static_cast<std::int64_t>(begins.size()) - 1)
        .expected(options.pp);
}

/// Runs one rank of a group that runs a checkpoint together: every rank calls it with the same model, requests and
/// options, but that only rank 0 needs callbacks. All ranks get the report.
///
/// `source` and `model` are what find_model and read_checkpoint gave. `world` has options.ranks() ranks.
///
/// Errors  invalid_argument for impossible ranks or requests; those of loading, of the executor and of the ranks: of
///         the first rank that fails, with its number
[[nodiscard]] inline Result<RunReport> run_in_group(HostCommunicator& world, ModelSource const& source,
                                                    Model const& model, std::vector<GenerationRequest> const& requests,
                                                    RunOptions const& options = {}) {
    auto const begin = std::chrono::steady_clock::now();
    auto const stages = plan_stages(model, options);
    if (!stages) return stages.error();
    if (world.size() != options.ranks()) {
        return Error{ErrorCode::invalid_argument}
            .in("tp * pp")
            .because("is another number of ranks than the group has")
            .got(options.ranks())
            .expected(world.size());
    }
    auto const parameters = StoredParameters::open(source, model);
    auto const opened = parameters ? Result<>{} : Result<>{parameters.error()};
    if (auto const agreed = agree_on(world, opened); !agreed) return agreed.error();
    auto const headers = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    auto report = detail::run_opened(world, model, *parameters, requests, options, *stages);
    if (report) report->load_seconds += headers;
    return report;
}

}  // namespace shardwise::inline v0_2_0
