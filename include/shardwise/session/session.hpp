// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/communicator.hpp>
#include <shardwise/core/deadline.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/trace_ring.hpp>
#include <shardwise/executor/rank_executor.hpp>
#include <shardwise/kernels/sample.hpp>
#include <shardwise/session/check_generation_request.hpp>
#include <shardwise/session/generation.hpp>
#include <shardwise/session/kept_sequence.hpp>
#include <shardwise/session/request_limits.hpp>
#include <shardwise/session/running_sequence.hpp>
#include <shardwise/session/stage_relay.hpp>
#include <shardwise/session/token_chooser.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Generates tokens for many requests at once: prompts are computed in chunks, sequences that are done give their pages of the cache
/// to those that wait, and every step is one pass through the model for all of them: one product by each weight.
///
/// A request begins when there is a slot and pages for all that it may become, in the order of requests: once begun it never waits.
///
/// All ranks of a group run the same session with the same requests: logits have the same bits on every rank and the generator
/// counts, so that all choose the same tokens without telling each other. What a sequence becomes does not depend on what runs
/// beside it where the executor's policy is Deterministic.
template <ComputeBackend Backend, ReductionPolicy Policy, Communicator C>
class Session {
public:
    using Executor = RankExecutor<Backend, Policy>;
    using Stream = typename Backend::Stream;

    /// `executor`, `comm` and `stream` outlive the session, which waits for the stream when it goes. `limits` are those that the
    /// executor was made with. A stage of a pipeline gives a relay.
    ///
    /// Errors  out_of_memory; unsupported for a model that scores no next token; missing_field for a decoder without a first token
    [[nodiscard]] static Result<Session> create(RankHome<Backend> const& rank, Executor& executor,
                                                ExecutorLimits const& limits, C& comm, Stream& stream,
                                                StageRelay<C> const& relay = {}) {
        if (auto const& made = executor.output(); !made.is_logits || made.rows != Rows::sequences) {
            return Error{ErrorCode::unsupported}
                .in(executor.model().config.model_class.view())
                .because("gives no scores of a next token, so that nothing can be generated")
                .fix("embed texts with it, or name a checkpoint with a language model's head");
        }
        if (executor.model().program.has_encoder() && executor.model().config.decoder_start < 0) {
            return Error{ErrorCode::missing_field}
                .in(executor.model().config.name.view())
                .at("decoder_start_token_id")
                .because("is not in the model's files, nor is bos_token_id: its decoder has no first token")
                .fix("name one in generation_config.json");
        }
        Session session(executor, limits, comm, stream);
        session.relay_ = relay;
        session.whole_tokens_ = whole_tokens(executor.model().program, executor.cache().capacity());
        auto const vocabulary = executor.model().config.vocab_size;
        auto chooser = TokenChooser<Backend>::create(rank, limits, vocabulary);
        if (!chooser) return chooser.error();
        session.chooser_.emplace(std::move(*chooser));
        return Result<Session>(std::move(session));
    }

    /// Queues a request; its number counts from 0.
    ///
    /// Errors  invalid_argument for an empty prompt, a prompt that leaves no token of the context, a negative number of tokens,
    ///         ids outside of the vocabulary, or sampling options outside of their range; out_of_memory for a request that the
    ///         cache cannot hold even alone
    [[nodiscard]] Result<std::int64_t> add(GenerationRequest request) {
        auto const& config = executor_->model().config;
        if (auto const checked = check_generation_request(request, limits_, config.vocab_size, has_encoder()); !checked)
            return checked.error();
        if (auto const needed = cached_tokens(request); !executor_->cache().could_hold(needed)) {
            return Error{ErrorCode::out_of_memory}
                .in("request")
                .at("tokens")
                .because("are more than the cache can hold, even alone")
                .got(needed)
                .at_most(limits_.cache_tokens)
                .fix("ask for fewer new tokens, or give the cache more tokens");
        }
        auto const number = next_request_++;
        waiting_.push_back({number, std::move(request)});
        return number;
    }

    /// Shares the executor's experts with other groups, which step when this one does: what `make_exchange` made, which outlives
    /// the session. A step without anything to compute joins theirs.
    void share_experts(ExpertParallel<Backend, C>& exchange) { exchange_ = &exchange; }

    /// Whether the last sequence that ended stays in the cache, for a prompt that begins with its tokens: a conversation's next
    /// turn. The next request to be admitted takes its place, whatever it is. Every rank is told alike.
    void keep_last(bool keeps) {
        // What a decoder has computed belongs to its source.
        keeps_last_ = keeps && !has_encoder();
        if (!keeps_last_) forget();
    }

    /// Gives back what is kept for a next request, the pages of the sequence that ended last; every rank calls it alike, between
    /// steps. Pages that this made free.
    std::int64_t give_back() {
        auto const before = executor_->cache().free_pages();
        forget();
        return executor_->cache().free_pages() - before;
    }

    /// Whom to show logits to, on the rank that wants them.
    void show_logits(OnLogits on_logits) { on_logits_ = std::move(on_logits); }

    /// Tells of every step from now on, and of what the executor does in it.
    void trace(Tracer const& tracer) {
        tracer_ = tracer;
        executor_->trace(tracer);
    }

    /// True while there is something to compute.
    [[nodiscard]] bool is_busy() const { return !waiting_.empty() || !running_.empty() || !cancelled_.empty(); }

    /// One pass through the model: a chunk of prompts and a token of every sequence that has begun. Ended sequences are handed
    /// out once, in the order in which they ended.
    ///
    /// Errors  those of the executor, of sampling, and of the collectives; deadline_exceeded
    [[nodiscard]] Result<std::vector<Generation>> step(Deadline deadline, OnToken const& on_token = {}) {
        admit();
        if (auto const done = encode_sources(deadline); !done) return done.error();
        auto ended = std::exchange(cancelled_, {});
        auto const plan = plan_step(ended);
        if (plan.parts.empty() && exchange_ == nullptr) return ended;
        auto const rows = static_cast<std::int64_t>(plan.parts.size());
        auto const logits = chooser_->logits(executor_->step_bucket(rows));
        tracer_([](TraceRing& ring) { ring.begin_step(); });
        if (auto const done =
                executor_->forward(plan.ids, plan.parts, logits, *comm_, exchange_, *stream_, relay_.links);
            !done)
            return done.error();
        tracer_([](TraceRing& ring) { ring.begin_operation("sample"); });
        if (auto const done = choose(plan, deadline); !done) return done.error();
        tracer_([&](TraceRing& ring) { ring.end_step(static_cast<std::int64_t>(plan.ids.size()), rows); });
        ++steps_;
        take_tokens(plan, on_token, ended);
        return ended;
    }

    /// Ends a request between two steps, on every rank of a group alike; it is handed out by the next step. False where it has
    /// ended already.
    [[nodiscard]] bool cancel(std::int64_t request, FinishReason reason = FinishReason::cancelled) {
        for (auto waiting = waiting_.begin(); waiting != waiting_.end(); ++waiting) {
            if (waiting->number != request) continue;
            cancelled_.push_back({request, {}, reason});
            waiting_.erase(waiting);
            return true;
        }
        for (std::size_t i = 0; i < running_.size(); ++i) {
            if (running_[i].number != request) continue;
            finish(i, reason, cancelled_);
            return true;
        }
        return false;
    }

    /// Runs until nothing is left; generations in the order of their requests.
    ///
    /// Errors  as step
    [[nodiscard]] Result<std::vector<Generation>> run(Deadline deadline, OnToken const& on_token = {}) {
        std::vector<Generation> all;
        while (is_busy()) {
            auto ended = step(deadline, on_token);
            if (!ended) return ended.error();
            for (auto& generation : *ended) all.push_back(std::move(generation));
        }
        std::sort(all.begin(), all.end(),
                  [](Generation const& a, Generation const& b) { return a.request < b.request; });
        return all;
    }

    /// Passes through the model so far.
    [[nodiscard]] std::int64_t steps() const { return steps_; }

private:
    using Waiting = detail::WaitingRequest;
    using Running = detail::RunningSequence;
    struct WaitForStream {
        void operator()(Stream* stream) const {
            (void)stream->synchronize(Deadline::after(std::chrono::hours(24 * 365)));
        }
    };
    struct StepPlan {
        std::vector<std::int32_t> ids;
        std::vector<SequencePart> parts;
        /// By part: the sequence, and whether its last token's logits choose a new one.
        std::vector<std::size_t> sequence;
        std::vector<bool> chooses;
    };

    Session(Executor& executor, ExecutorLimits const& limits, C& comm, Stream& stream)
        : executor_(&executor), limits_(limits), comm_(&comm), stream_(&stream), waits_(&stream) {
        for (auto slot = limits.sequences; slot-- > 0;) free_slots_.push_back(slot);
    }

    /// Tokens of a request that are in the cache at most: the last one that it makes is not.
    [[nodiscard]] std::int64_t cached_tokens(GenerationRequest const& request) const {
        auto const given = static_cast<std::int64_t>(request.prompt.size());
        auto const prompt = detail::decoder_prompt(given, has_encoder());
        auto const more = std::max<std::int64_t>(request.max_new_tokens, 1) - 1;
        // The decoder's tokens and those of its source have the same pages.
        return std::max(more < limits_.context - prompt ? prompt + more : limits_.context, given);
    }
    [[nodiscard]] bool has_encoder() const { return executor_->model().program.has_encoder(); }

    void admit() {
        while (!waiting_.empty()) {
            auto const& request = waiting_.front().request;
            auto const needed = cached_tokens(request);
            auto& cache = executor_->cache();
            auto known = kept_ ? kept_->known(request.prompt) : 0;
            if (known > 0 && !cache.reserve(kept_->slot, needed)) known = 0;
            if (known > 0) {
                free_slots_.push_back(std::exchange(kept_, std::nullopt)->slot);
            } else {
                forget();
                if (free_slots_.empty() || !cache.has_room(needed) || !cache.reserve(free_slots_.back(), needed))
                    return;
            }
            auto next = std::move(waiting_.front());
            waiting_.pop_front();
            Running sequence{next.number, free_slots_.back(), std::move(next.request), {}, known};
            if (has_encoder()) {
                auto const start = static_cast<std::int32_t>(executor_->model().config.decoder_start);
                sequence.source = std::exchange(sequence.request.prompt, {start});
            }
            sequence.tokens = sequence.request.prompt;
            free_slots_.pop_back();
            running_.push_back(std::move(sequence));
        }
    }
    /// Encodes the prompts of sequences that were admitted, as many in a step as fit.
    [[nodiscard]] Result<> encode_sources(Deadline deadline) {
        for (std::size_t next = 0; next < running_.size();) {
            std::vector<std::int32_t> ids;
            std::vector<SequencePart> parts;
            for (; next < running_.size(); ++next) {
                auto& source = running_[next].source;
                if (source.empty()) continue;
                auto const tokens = static_cast<std::int64_t>(source.size());
                if (static_cast<std::int64_t>(ids.size()) + tokens > limits_.step_tokens) break;
                parts.push_back({running_[next].slot, 0, tokens});
                ids.insert(ids.end(), source.begin(), source.end());
                source.clear();
            }
            if (parts.empty()) return {};
            tracer_([](TraceRing& ring) { ring.begin_step(); });
            if (auto const done = executor_->encode(ids, parts, *comm_, *stream_, relay_.links); !done) return done;
            if (auto const done = stream_->synchronize(deadline); !done) return done;
            tracer_([&](TraceRing& ring) {
                ring.end_step(static_cast<std::int64_t>(ids.size()), static_cast<std::int64_t>(parts.size()));
            });
            ++steps_;
        }
        return {};
    }
    void forget() {
        if (!kept_) return;
        executor_->cache().release(kept_->slot);
        free_slots_.push_back(kept_->slot);
        kept_.reset();
    }

    /// Sequences in order of admission: those that have begun need one token each, prompts take what is left of the step.
    [[nodiscard]] StepPlan plan_step(std::vector<Generation>& ended) {
        end_full(ended);
        StepPlan plan;
        auto tokens_left = limits_.step_tokens;
        auto const take = [&](std::size_t index, std::int64_t count) {
            auto& sequence = running_[index];
            auto const first = sequence.tokens.begin() + sequence.computed;
            plan.ids.insert(plan.ids.end(), first, first + count);
            plan.parts.push_back({sequence.slot, sequence.computed, count});
            plan.sequence.push_back(index);
            plan.chooses.push_back(sequence.computed + count == static_cast<std::int64_t>(sequence.tokens.size()));
            tokens_left -= count;
        };
        for (bool const is_decode : {true, false}) {
            for (std::size_t i = 0; i < running_.size(); ++i) {
                auto const left = static_cast<std::int64_t>(running_[i].tokens.size()) - running_[i].computed;
                if ((left == 1) != is_decode || tokens_left < 1) continue;
                take(i, std::min(left, tokens_left));
            }
        }
        return plan;
    }
    /// Ends sequences that may not have another token.
    void end_full(std::vector<Generation>& ended) {
        for (std::size_t i = 0; i < running_.size();) {
            auto const& sequence = running_[i];
            bool const is_full = static_cast<std::int64_t>(sequence.tokens.size()) > limits_.context;
            bool const is_done = sequence.made() >= sequence.request.max_new_tokens;
            if (is_full || is_done)
                finish(i, FinishReason::length, ended);
            else
                ++i;
        }
    }

    [[nodiscard]] Result<> choose(StepPlan const& plan, Deadline deadline) {
        auto& rows = rows_;
        rows.assign(plan.parts.size(), {});
        for (std::size_t i = 0; i < rows.size(); ++i) {
            auto const& sequence = running_[plan.sequence[i]];
            // A chunk inside a prompt chooses nothing that counts: greedily, whatever its request says.
            if (!plan.chooses[i]) continue;
            rows[i].options = sequence.request.sampling;
            rows[i].history = sequence.tokens;
            rows[i].sequence = sequence.request.random_stream.value_or(static_cast<std::uint64_t>(sequence.number));
            rows[i].step = static_cast<std::uint64_t>(sequence.made());
        }
        TokenChoice choice{rows, executor_->ends_model(), static_cast<bool>(on_logits_)};
        // Stages need not wait for each other while a prompt's chunks choose nothing.
        choice.is_told = std::find(plan.chooses.begin(), plan.chooses.end(), true) != plan.chooses.end();
        return chooser_->choose(choice, relay_, *stream_, deadline);
    }

    void take_tokens(StepPlan const& plan, OnToken const& on_token, std::vector<Generation>& ended) {
        std::vector<std::optional<FinishReason>> reasons(running_.size());
        for (std::size_t i = 0; i < plan.parts.size(); ++i) {
            auto& sequence = running_[plan.sequence[i]];
            sequence.computed += plan.parts[i].tokens;
            if (!plan.chooses[i]) continue;
            if (on_logits_) on_logits_(sequence.number, chooser_->row(i));
            auto const token = chooser_->token(i);
            auto const& stops = sequence.request.stop_tokens;
            auto& reason = reasons[plan.sequence[i]];
            if (std::find(stops.begin(), stops.end(), token) != stops.end()) {
                reason = FinishReason::stop_token;
                continue;
            }
            sequence.tokens.push_back(token);
            if (on_token && !on_token(sequence.number, token)) reason = FinishReason::cancelled;
            if (!reason && sequence.made() >= sequence.request.max_new_tokens) reason = FinishReason::length;
        }
        // From the last, so that numbers stay what they are; then in order.
        std::vector<Generation> last;
        for (auto i = reasons.size(); i-- > 0;) {
            if (reasons[i]) finish(i, *reasons[i], last);
        }
        ended.insert(ended.end(), std::make_move_iterator(last.rbegin()), std::make_move_iterator(last.rend()));
    }
    void finish(std::size_t index, FinishReason reason, std::vector<Generation>& ended) {
        auto& sequence = running_[index];
        auto const prompt = static_cast<std::ptrdiff_t>(sequence.request.prompt.size());
        ended.push_back({sequence.number, {sequence.tokens.begin() + prompt, sequence.tokens.end()}, reason});
        forget();
        sequence.tokens.resize(static_cast<std::size_t>(sequence.computed));
        kept_ = KeptSequence{sequence.slot, std::move(sequence.tokens), sequence.computed <= whole_tokens_};
        if (!keeps_last_) forget();
        running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(index));
    }

    Executor* executor_;
    ExecutorLimits limits_;
    C* comm_;
    Stream* stream_;
    StageRelay<C> relay_;
    ExpertParallel<Backend, C>* exchange_ = nullptr;
    std::optional<TokenChooser<Backend>> chooser_;
    std::vector<SamplingRow> rows_;
    std::deque<Waiting> waiting_;
    std::vector<Running> running_;
    std::vector<std::int64_t> free_slots_;
    /// Ended between two steps, not yet handed out.
    std::vector<Generation> cancelled_;
    std::optional<KeptSequence> kept_;
    std::int64_t whole_tokens_ = 0;
    bool keeps_last_ = false;
    OnLogits on_logits_;
    Tracer tracer_;
    std::int64_t next_request_ = 0;
    std::int64_t steps_ = 0;
    /// Goes first: what the stream still reads where a step's deadline has passed outlives it.
    std::unique_ptr<Stream, WaitForStream> waits_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
