// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/agree_on.hpp>
#include <shardwise/comm/all_gather.hpp>
#include <shardwise/comm/broadcast.hpp>
#include <shardwise/comm/host_communicator.hpp>
#include <shardwise/core/deadline.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/executor/block_times.hpp>
#include <shardwise/executor/check_kernels.hpp>
#include <shardwise/executor/check_product_activations.hpp>
#include <shardwise/executor/rank_executor.hpp>
#include <shardwise/executor/stored_parameters.hpp>
#include <shardwise/session/expert_groups.hpp>
#include <shardwise/session/gather_memory.hpp>
#include <shardwise/session/largest_of_ranks.hpp>
#include <shardwise/session/log_layout.hpp>
#include <shardwise/session/plan_stages.hpp>
#include <shardwise/session/predict_rank.hpp>
#include <shardwise/session/rank_communicator.hpp>
#include <shardwise/session/rank_machine.hpp>
#include <shardwise/session/rank_tracer.hpp>
#include <shardwise/session/request_limits.hpp>
#include <shardwise/session/request_texts.hpp>
#include <shardwise/session/run_options.hpp>
#include <shardwise/session/session.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// One rank of a run: what it holds, and the walk through the requests that all ranks take together.
template <ReductionPolicy Policy, ComputeBackend Backend = Host>
class RunRank {
    using Clock = std::chrono::steady_clock;
    using Executor = RankExecutor<Backend, Policy>;
    using Communicators = RankCommunicator<Backend>;
    using Exchange = ExpertParallel<Backend, typename Communicators::Type>;
    using RankSession = Session<Backend, Policy, typename Communicators::Type>;

public:
    using Meeting = typename Communicators::Meeting;

    RunRank(HostCommunicator& world, Model const& model, RunOptions const& options, ExecutorLimits const& limits)
        : world_(world), model_(model), options_(options), limits_(limits), machine_(cores_of(world, options)) {}

    /// Opens what the rank computes with, and finds the ranks that it works with; `meeting` where they are threads of this process.
    [[nodiscard]] Result<> open(Meeting* meeting) {
        if (auto const opened = agree_on(world_, machine_.open(options_, world_.rank())); !opened) return opened;
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
        return communicators_.open(options_, world_, group(), team(), machine_, meeting);
    }

    [[nodiscard]] Result<> load(StoredParameters const& parameters, std::vector<StageBlocks> const& stages) {
        if (auto const checked = check_activations<Backend>(model_, limits_.activations); !checked) return checked;
        RankShare const share(options_, world_.rank());
        auto const& blocks = stages[static_cast<std::size_t>(share.stage)];
        log_layout(model_, options_, blocks, world_.rank());
        auto const& isa = machine_.isa();
        if (!isa) return isa.error();
        auto const formats = formats_of(parameters, options_.load);
        auto const rounds = check_product_activations(model_, formats, limits_.product_activations);
        if (!rounds) return rounds.error();
        auto const predicted = predict_rank<Backend, Policy>(model_, formats, options_, limits_, *isa, share, blocks);
        if (!predicted) return predicted.error();
        predicted_ = *predicted;
        // A model whose kernels are not there is refused by that, not by its size.
        auto const linked = check_linked_kernels<Backend, Policy>(model_, parameters, share.place, limits_,
                                                                  share.experts, options_.load, blocks);
        // Shares and devices differ: others may wait for this rank in a collective.
        auto const refuse = [&](Error const& error) {
            if (options_.tp > 1) (void)group().fail(name_rank(error, world_.rank()));
            return error;
        };
        if (!linked) return refuse(linked.error());
        // What peers see is there already.
        bool const is_apart = communicators_.set_apart(predicted_.values, machine_);
        auto const fits = machine_.reserve(predicted_.own, is_apart ? predicted_.less_apart : Bytes{0});
        if (!fits) return refuse(fits.error());
        auto load = options_.load;
        load.has_checked_kernels = true;
        if (!is_first()) load.observer = {};
        if (options_.tp > 1) load.share_largest = largest_of_ranks(group());
        auto executor =
            Executor::create(machine_.home(), model_, parameters, share.place, limits_, share.experts, load, blocks);
        if (!executor) return refuse(executor.error());
        executor_.emplace(std::move(*executor));
        if (auto const told = communicators_.register_values(executor_->arena_layout()); !told) return told;
        if (groups_) {
            auto exchange = executor_->make_exchange(machine_.home(), communicators_.over(groups_->peers()));
            if (!exchange) return exchange.error();
            exchange_.emplace(std::move(*exchange));
        }
        first_block_ = blocks.begin;
        return {};
    }

    /// Makes the session; every rank does so alike.
    [[nodiscard]] Result<> begin() {
        StageRelay<typename Communicators::Type> relay;
        if (options_.pp > 1) {
            auto const rank = team().rank(), last = options_.tp * (options_.pp - 1);
            relay.links = {&communicators_.team(), rank < options_.tp ? -1 : rank - options_.tp,
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
        auto session =
            RankSession::create(machine_.home(), *executor_, limits_, communicators_.group(), machine_.stream(), relay);
        if (!session) return session.error();
        session_.emplace(std::move(*session));
        if (auto const done = tracer_.begin(world_, options_.trace_events); !done) return done;
        if (tracer_.is_on()) trace(tracer_.tracer());
        if (exchange_) session_->share_experts(*exchange_);
        if (is_first() && options_.on_logits)
            session_->show_logits([this](std::int64_t own, std::span<float const> logits) {
                options_.on_logits(earlier_ + index_of(own), logits);
            });
        return {};
    }

    /// Keeps what the last sequence has in the cache for a prompt that begins with it.
    void keep_last() { session_->keep_last(true); }

    /// Makes room for the requests' texts, on the first rank.
    [[nodiscard]] Result<> begin_texts(std::vector<GenerationRequest> const& requests) {
        if (!is_first()) return {};
        if (options_.on_text)
            on_text_ = [this](std::int64_t i, std::string_view text) { options_.on_text(earlier_ + i, text); };
        auto texts = RequestTexts::create(options_.tokenizer, on_text_, requests);
        if (!texts) return texts.error();
        texts_ = std::move(*texts);
        return {};
    }
    /// Queues the requests; every rank of a group does so, and is refused, alike.
    [[nodiscard]] Result<> queue(std::vector<GenerationRequest> const& requests) {
        for (std::size_t i = 0; i < requests.size(); ++i) {
            if (groups_ && !groups_->owns(static_cast<std::int64_t>(i))) continue;
            auto request = requests[i];
            // Random numbers do not depend on who computes.
            if (!request.random_stream) request.random_stream = static_cast<std::uint64_t>(earlier_) + i;
            if (auto const added = session_->add(std::move(request)); !added) return added.error();
            ++own_;
        }
        return {};
    }

    /// Generates for all requests, which have texts and are queued; requests may follow afterwards.
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
            bool const goes_on = !options_.on_token || options_.on_token(earlier_ + request, token);
            bool const is_stop = !texts_.push(request, token);
            if (is_stop || !goes_on)
                ended_by_caller.push_back(static_cast<std::int32_t>(2 * request + (is_stop ? 1 : 0)));
        };
        auto const on_token = [&](std::int64_t own, std::int32_t token) {
            auto const request = index_of(own);
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
                generation.request = index_of(generation.request);
                texts_.finish(generation);
                report.generations[static_cast<std::size_t>(generation.request)] = std::move(generation);
            }
            // The same tokens are known to all ranks from here on.
            if (groups_) goes_on = groups_->share(session_->is_busy(), tell);
            if (!goes_on) break;
            if (made != before) {
                // Rank 0's caller ends requests; all ranks end them after the same step.
                ended_by_caller.resize(static_cast<std::size_t>(most), -1);
                if (world_.size() > 1) {
                    TensorView<std::int32_t, 1, Host> const all(ended_by_caller.data(), {most});
                    if (auto const told = broadcast(world_, all, 0); !told) return told;
                }
                for (auto const told : ended_by_caller) {
                    auto const request = told / 2;
                    if (told < 0 || (groups_ && !groups_->owns(request))) continue;
                    auto const reason = told % 2 == 0 ? FinishReason::cancelled : FinishReason::stop_string;
                    bool const is_running = session_->cancel(number_of(request), reason);
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
        for (auto& generation : report.generations) {
            texts_.finish(generation);
            generation.request += earlier_;
        }
        earlier_ += static_cast<std::int64_t>(requests.size());
        earlier_own_ = own_;
        if (auto const done = gather_times(); !done) return done;
        if (made > 0) {
            report.prefill_seconds = std::chrono::duration<double>(first_token - started).count();
            report.decode_seconds = std::chrono::duration<double>(Clock::now() - first_token).count();
        }
        for (auto const& request : requests) report.prompt_tokens += static_cast<std::int64_t>(request.prompt.size());
        report.graphs = executor_->graphs();
        report.communicator = communicators_.kind();
        report.communicator_reason = communicators_.reason();
        report.decode_tokens = std::max<std::int64_t>(made - static_cast<std::int64_t>(requests.size()), 0);
        return {};
    }

    /// What this rank holds.
    [[nodiscard]] RunMemory own_memory() {
        auto const rows = exchange_ ? exchange_->bytes() : Bytes{0};
        auto staging = world_.staging_bytes() + (group_ ? group_->staging_bytes() : Bytes{0});
        if (groups_) staging += team_->staging_bytes() + groups_->peers().staging_bytes();
        // That lies in the host's memory.
        if (!HasHostMemory<Backend>) staging = Bytes{0};
        return {.weights = executor_->weight_bytes(),
                .cache = executor_->cache_bytes(),
                .activations = executor_->activation_bytes() + rows + predicted_.session,
                .predicted = predicted_.own + staging + communicators_.bytes(),
                .peak = machine_.memory().peak() + staging,
                .held = machine_.memory().current() + staging,
                .predicted_pinned = predicted_.pinned,
                .pinned = HasHostMemory<Backend> ? Bytes{0} : machine_.host().memory().current()};
    }
    /// What each rank held.
    [[nodiscard]] Result<> count_memory(RunReport& report) {
        auto memory = gather_memory(world_, {own_memory(), machine_.device_loss()});
        if (!memory) return memory.error();
        report.ranks = std::move(*memory);
        return {};
    }
    /// Gives rank 0 what every rank told of its steps; nothing is traced afterwards.
    [[nodiscard]] Result<> end_trace(RunReport& report) {
        if (tracer_.is_on()) trace({});
        return tracer_.end(world_, report.traces);
    }

    /// Ends the groups that this rank is in with its error; the first one of all ranks.
    [[nodiscard]] Error fail(Error const& error) {
        // Who waits in the smaller group is to hear the reason, not that this rank left; what came first there is the reason.
        auto const named = group().fail(name_rank(error, world_.rank())).error();
        communicators_.give_up();
        if (groups_) (void)groups_->peers().fail(named);
        if (team_) (void)team_->fail(named);
        return world_.fail(named).error();
    }

private:
    void trace(Tracer const& tracer) {
        auto const first = team_ ? world_.rank() - team_->rank() : 0;
        world_.trace(tracer);
        if (team_) team_->trace(tracer.counted_from(first));
        if (group_) group_->trace(tracer);
        if (groups_) groups_->peers().trace(tracer);
        session_->trace(tracer);
    }
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
        // The next requests' times are counted from here on.
        if (own_times_) own_times_.emplace(model_.program);
        if (!done || !is_first()) return done;
        for (std::size_t begin = 0; begin < all.size(); begin += own.size())
            options_.times->add_seconds(std::span<double const>(all).subspan(begin, own.size()));
        return {};
    }
    [[nodiscard]] bool is_first() const { return world_.rank() == 0; }
    /// The place of a request among those that are being computed, by its number in this group's session.
    [[nodiscard]] std::int64_t index_of(std::int64_t own) const {
        own -= earlier_own_;
        return groups_ ? groups_->request_of(own) : own;
    }
    /// The other way round.
    [[nodiscard]] std::int64_t number_of(std::int64_t index) const {
        return earlier_own_ + (groups_ ? groups_->own_number(index) : index);
    }
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
    RankMachine<Backend> machine_;
    Communicators communicators_;
    RankPrediction predicted_{};
    std::optional<Executor> executor_;
    std::optional<Exchange> exchange_;
    std::optional<RankSession> session_;
    /// Requests that are done, of all groups and of this one; what this one's session has had.
    std::int64_t earlier_ = 0;
    std::int64_t earlier_own_ = 0;
    std::int64_t own_ = 0;
    OnText on_text_;
    RequestTexts texts_;
    /// Of this rank's stage, where rank 0 wants to know and is another rank.
    std::optional<BlockTimes> own_times_;
    std::int64_t first_block_ = 0;
    bool gathers_times_ = false;
    RankTracer tracer_;
};

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
