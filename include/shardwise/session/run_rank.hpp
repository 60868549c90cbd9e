#pragma once

#include <shardwise/backend/host/host_rank.hpp>
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
#include <shardwise/session/expert_groups.hpp>
#include <shardwise/session/gather_memory.hpp>
#include <shardwise/session/largest_of_ranks.hpp>
#include <shardwise/session/run_options.hpp>
#include <shardwise/session/session.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
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

/// One rank of a run: what it holds, and the walk through the requests that all ranks take together.
template <ReductionPolicy Policy>
class RunRank {
    using Clock = std::chrono::steady_clock;
    using Executor = RankExecutor<Host, Policy>;
    using Exchange = ExpertParallel<Host, HostCommunicator>;
    using RankSession = Session<Host, Policy, HostCommunicator>;

public:
    RunRank(HostCommunicator& world, Model const& model, RunOptions const& options, ExecutorLimits const& limits)
        : world_(world), model_(model), options_(options), limits_(limits), host_(cores_of(world, options)) {}

    [[nodiscard]] Result<> load(StoredParameters const& parameters, std::vector<StageBlocks> const& stages) {
        if (options_.ep > 1) {
            auto team = world_.split(world_.rank() / (options_.tp * options_.pp));
            if (!team) return team.error();
            team_.emplace(std::move(*team));
            auto peers = world_.split(team_->rank());
            if (!peers) return peers.error();
            groups_.emplace(std::move(*peers), limits_.sequences);
        }
        auto const stage = team().rank() / options_.tp;
        if (options_.pp > 1) {
            auto group = team().split(stage);
            if (!group) return group.error();
            group_.emplace(std::move(*group));
        }
        TensorPlace const place{options_.tp, team().rank() % options_.tp};
        TensorPlace const experts{options_.ep, groups_ ? groups_->peers().rank() : 0};
        auto const& blocks = stages[static_cast<std::size_t>(stage)];
        auto const isa = host_.stream.isa();
        if (!isa) return isa.error();
        auto const formats = formats_of(parameters, options_.load);
        auto const predicted = predict_memory<Host, Policy>(model_, formats, place, limits_, *isa, experts, blocks);
        if (!predicted) return predicted.error();
        predicted_ = predicted->total();
        if (groups_) {
            auto const& config = model_.config;
            ExpertShape const shape{config.experts, config.experts_per_token, config.hidden_size, limits_.step_tokens};
            auto const rows = Exchange::bytes_for(shape, options_.ep, groups_->peers().rank());
            if (!rows) return rows.error();
            predicted_ += *rows;
        }
        auto load = options_.load;
        if (!is_first()) load.observer = {};
        if (options_.tp > 1) load.share_largest = largest_of_ranks(group());
        auto executor = Executor::create(host_.context, model_, parameters, place, limits_, experts, load, blocks);
        if (!executor) {
            // The others may wait for this rank's rows.
            if (options_.tp > 1) (void)group().fail(name_rank(executor.error(), world_.rank()));
            return executor.error();
        }
        executor_.emplace(std::move(*executor));
        if (groups_) {
            auto exchange = executor_->make_exchange(host_.context, groups_->peers());
            if (!exchange) return exchange.error();
            exchange_.emplace(std::move(*exchange));
        }
        first_block_ = blocks.begin;
        return {};
    }

    /// Makes the session and queues the requests; every rank does so alike.
    [[nodiscard]] Result<> begin(std::vector<GenerationRequest> const& requests) {
        if (is_first()) {
            auto texts = RequestTexts::create(options_.tokenizer, options_.on_text, requests);
            if (!texts) return texts.error();
            texts_ = std::move(*texts);
        }
        StageRelay<HostCommunicator> relay;
        if (options_.pp > 1) {
            auto const last = options_.tp * (options_.pp - 1);
            auto const rank = team().rank();
            relay.links = {&team(), rank < options_.tp ? -1 : rank - options_.tp,
                           rank >= last ? -1 : rank + options_.tp};
            relay.teller = last;
            // Only rank 0 knows whether anybody looks.
            std::array<std::int32_t, 2> wants{options_.on_logits ? 1 : 0, options_.times != nullptr ? 1 : 0};
            auto const told = broadcast(team(), TensorView<std::int32_t, 1, Host>(wants.data(), {2}), 0);
            if (!told) return told;
            relay.shares_logits = wants[0] != 0;
            gathers_times_ = wants[1] != 0;
        }
        if (is_first() && options_.times != nullptr) executor_->measure(*options_.times);
        if (gathers_times_ && !is_first()) executor_->measure(own_times_.emplace(model_.program), first_block_);
        auto session = RankSession::create(host_.context, *executor_, limits_, group(), host_.stream, relay);
        if (!session) return session.error();
        session_.emplace(std::move(*session));
        if (exchange_) session_->share_experts(*exchange_);
        for (std::size_t i = 0; i < requests.size(); ++i) {
            if (groups_ && !groups_->owns(static_cast<std::int64_t>(i))) continue;
            auto request = requests[i];
            // Random numbers do not depend on who computes.
            if (!request.random_stream) request.random_stream = i;
            if (auto const added = session_->add(std::move(request)); !added) return added.error();
        }
        if (is_first() && options_.on_logits) {
            session_->show_logits([this](std::int64_t own, std::span<float const> logits) {
                options_.on_logits(groups_ ? groups_->request_of(own) : own, logits);
            });
        }
        return {};
    }

    /// Generates for all requests.
    [[nodiscard]] Result<> generate(std::vector<GenerationRequest> const& requests, RunReport& report) {
        auto const started = Clock::now();
        auto first_token = started;
        auto const deadline = Deadline::after(options_.limit);
        std::int64_t made = 0;
        // Requests, times two, and one more where it was a stop string that ended it.
        std::vector<std::int32_t> ended_by_caller;
        auto const tell = [&](std::int64_t request, std::int32_t token) {
            if (made++ == 0) first_token = Clock::now();
            if (!is_first()) return;
            bool const goes_on = !options_.on_token || options_.on_token(request, token);
            bool const is_stop = !texts_.push(request, token);
            if (is_stop || !goes_on)
                ended_by_caller.push_back(static_cast<std::int32_t>(2 * request + (is_stop ? 1 : 0)));
        };
        auto const on_token = [&](std::int64_t own, std::int32_t token) {
            auto const request = groups_ ? groups_->request_of(own) : own;
            if (groups_) groups_->note(request, token);
            tell(request, token);
            return true;
        };
        report.generations.resize(requests.size());
        // Requests that may end in one step.
        auto const most = limits_.sequences * options_.ep;
        auto goes_on = groups_ ? groups_->share(session_->is_busy(), tell) : Result<bool>(session_->is_busy());
        while (goes_on && *goes_on) {
            auto const before = made;
            ended_by_caller.clear();
            auto ended = session_->step(deadline, on_token);
            if (!ended) return ended.error();
            for (auto& generation : *ended) {
                if (groups_) generation.request = groups_->request_of(generation.request);
                texts_.finish(generation);
                report.generations[static_cast<std::size_t>(generation.request)] = std::move(generation);
            }
            // The same tokens are known to all ranks from here on.
            if (groups_) goes_on = groups_->share(session_->is_busy(), tell);
            if (!goes_on) break;
            if (made != before) {
                // Rank 0's caller ends requests; all ranks end them behind the same step.
                ended_by_caller.resize(static_cast<std::size_t>(most), -1);
                if (world_.size() > 1) {
                    TensorView<std::int32_t, 1, Host> const all(ended_by_caller.data(), {most});
                    if (auto const told = broadcast(world_, all, 0); !told) return told;
                }
                for (auto const told : ended_by_caller) {
                    auto const request = told / 2;
                    if (told < 0 || (groups_ && !groups_->owns(request))) continue;
                    auto const reason = told % 2 == 0 ? FinishReason::cancelled : FinishReason::stop_string;
                    bool const is_running = session_->cancel(groups_ ? groups_->own_number(request) : request, reason);
                    // It may have ended with the same token.
                    if (!is_running && reason == FinishReason::stop_string)
                        report.generations[static_cast<std::size_t>(request)].reason = reason;
                }
            }
            if (!groups_) goes_on = session_->is_busy();
        }
        if (!goes_on) return goes_on.error();
        if (groups_) {
            if (auto const done = groups_->gather(report.generations); !done) return done;
        }
        for (auto& generation : report.generations) texts_.finish(generation);
        if (auto const done = gather_times(); !done) return done;
        if (made > 0) {
            report.prefill_seconds = std::chrono::duration<double>(first_token - started).count();
            report.decode_seconds = std::chrono::duration<double>(Clock::now() - first_token).count();
        }
        for (auto const& request : requests) report.prompt_tokens += static_cast<std::int64_t>(request.prompt.size());
        report.decode_tokens = std::max<std::int64_t>(made - static_cast<std::int64_t>(requests.size()), 0);
        auto const beside = session_bytes(limits_, model_.config.vocab_size);
        auto const rows = exchange_ ? exchange_->bytes() : Bytes{0};
        auto staging = world_.staging_bytes() + (group_ ? group_->staging_bytes() : Bytes{0});
        if (groups_) staging += team_->staging_bytes() + groups_->peers().staging_bytes();
        auto memory = gather_memory(world_, {.weights = executor_->weight_bytes(),
                                             .cache = executor_->cache_bytes(),
                                             .activations = executor_->activation_bytes() + rows + beside,
                                             .predicted = predicted_ + beside + staging,
                                             .peak = host_.context.memory().peak() + staging});
        if (!memory) return memory.error();
        report.ranks = std::move(*memory);
        return {};
    }

    /// Ends the groups that this rank is in with its error; the first one of all ranks.
    [[nodiscard]] Error fail(Error const& error) {
        auto const named = name_rank(error, world_.rank());
        // Who waits in the smaller group is to hear the reason, not that this rank left.
        if (group_) (void)group_->fail(named);
        if (groups_) (void)groups_->peers().fail(named);
        if (team_) (void)team_->fail(named);
        return world_.fail(named).error();
    }

private:
    /// Completes rank 0's times with those of the other stages' first ranks.
    [[nodiscard]] Result<> gather_times() {
        if (!gathers_times_) return {};
        bool const counts_own = own_times_ && team().rank() % options_.tp == 0;
        auto own = BlockTimes(model_.program).seconds();
        if (counts_own) own = own_times_->seconds();
        auto const size = static_cast<std::int64_t>(own.size());
        std::vector<double> all(own.size() * static_cast<std::size_t>(team().size()));
        std::vector<std::int64_t> const counts(static_cast<std::size_t>(team().size()), size);
        auto const done = all_gather(team(), TensorView<double const, 1, Host>(own.data(), {size}),
                                     TensorView<double, 1, Host>(all.data(), {static_cast<std::int64_t>(all.size())}),
                                     std::span<std::int64_t const>(counts));
        if (!done || !is_first()) return done;
        for (std::size_t begin = 0; begin < all.size(); begin += own.size())
            options_.times->add_seconds(std::span<double const>(all).subspan(begin, own.size()));
        return {};
    }
    /// Its share of the cores of this machine.
    [[nodiscard]] static HostOptions cores_of(HostCommunicator const& world, RunOptions const& options) {
        auto const neighbours = options.local_ranks > 0 ? options.local_ranks : world.size();
        auto const threads = options.threads > 0 ? std::max(1, options.threads * neighbours / world.size()) : 0;
        return rank_options(threads, neighbours, world.rank() % neighbours);
    }
    [[nodiscard]] bool is_first() const { return world_.rank() == 0; }
    /// The tensor-parallel ranks of this rank's stage.
    [[nodiscard]] HostCommunicator& group() { return group_ ? *group_ : team(); }
    /// The ranks of this rank's group, which has all of the model but other groups' experts.
    [[nodiscard]] HostCommunicator& team() { return team_ ? *team_ : world_; }

    HostCommunicator& world_;
    Model const& model_;
    RunOptions const& options_;
    ExecutorLimits limits_;
    std::optional<HostCommunicator> team_;
    std::optional<HostCommunicator> group_;
    std::optional<ExpertGroups> groups_;
    HostRank host_;
    Bytes predicted_{};
    std::optional<Executor> executor_;
    std::optional<Exchange> exchange_;
    std::optional<RankSession> session_;
    RequestTexts texts_;
    /// Of this rank's stage, where rank 0 wants to know and is another rank.
    std::optional<BlockTimes> own_times_;
    std::int64_t first_block_ = 0;
    bool gathers_times_ = false;
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
    if (auto const checked = check_expert_place({options.ep, 0}, model.config); !checked) return checked.error();
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
            .in("tp * pp * ep")
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
