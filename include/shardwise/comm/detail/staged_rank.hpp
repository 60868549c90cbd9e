// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/call_trace.hpp>
#include <shardwise/comm/detail/call_mismatch.hpp>
#include <shardwise/comm/detail/counts_mismatch.hpp>
#include <shardwise/comm/detail/group_region.hpp>
#include <shardwise/comm/detail/pause.hpp>
#include <shardwise/comm/detail/published_call.hpp>
#include <shardwise/comm/detail/rank_names.hpp>
#include <shardwise/comm/detail/staging_ring.hpp>
#include <shardwise/comm/detail/staging_store.hpp>
#include <shardwise/comm/detail/step_protocol.hpp>
#include <shardwise/comm/traffic.hpp>
#include <shardwise/core/bytes.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/core/deadline.hpp>
#include <shardwise/core/result.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What a group is told when it is made.
struct StagedOptions {
    /// How long a call waits for the other ranks.
    std::chrono::nanoseconds timeout = std::chrono::seconds(30);
    /// Compares what the ranks ask for before data moves.
    bool checks_calls = true;
};

/// One rank of a group whose ranks see one piece of memory, be they threads or processes.
///
/// All collectives are made of steps (step_protocol.hpp): each rank writes at most a chunk into staging memory that the
/// group owns and waits for the others; then everyone reads everyone. A caller's memory is never read by another rank.
///
/// `Watch` says which ranks are dead, watch(rank) -> std::string, empty while it lives; and which are stopped.
///
/// Memory  in lines of its own: each step writes to it, and two threads that use neighbours in an array take 0.09 microseconds
///         for 8 bytes instead of 0.065 where these share a line
template <class Watch>
class alignas(line_pair_bytes) StagedRank {
public:
    StagedRank(GroupRegion& region, std::int32_t rank, StagedOptions const& options, Watch watch, RankNames names = {})
        : region_(&region),
          rank_(rank),
          options_(options),
          watch_(std::move(watch)),
          step_(region.slot(rank).steps[0].arrived.load(std::memory_order_relaxed)),
          is_crowded_(outnumbers_cores(region.ranks)),
          names_(std::move(names)) {}

    [[nodiscard]] std::int32_t rank() const { return rank_; }
    [[nodiscard]] std::int32_t size() const { return region_->ranks; }
    /// From now on a wait leaves the core to others at once, or does not.
    void wait_gently(bool is_gentle) { is_gentle_ = is_gentle; }
    /// What errors of the group call its ranks.
    [[nodiscard]] RankNames const& rank_names() const { return names_; }
    [[nodiscard]] std::size_t chunk_bytes() const { return region_->chunk_bytes; }
    /// This rank's share of the memory that the group stages its data in.
    [[nodiscard]] Bytes staging_bytes() const {
        auto const all = static_cast<std::int64_t>(GroupRegion::bytes(region_->ranks, region_->chunk_bytes));
        return Bytes{ceil_divide(all, region_->ranks)};
    }

    /// Announces the next collective; its first step compares it with the others'. The counts by which elements are distributed stay
    /// the caller's; it names one that differs.
    void begin(CollectiveCall const& call, std::span<std::int64_t const> counts = {}) {
        call_ = {call, call_.number + 1};
        counts_ = counts;
        is_compared_ = !options_.checks_calls;
        traffic_.begin(call.kind);
    }

    /// Where this rank writes the `bytes` that it publishes in the coming step; all ranks ask for the same, at most
    /// chunk_bytes(). What `theirs` showed before is no longer to be read once it is written over: of two ranks it may lie there.
    [[nodiscard]] std::byte* mine(std::size_t bytes) {
        is_short_ = bytes <= PublishedStep::max_bytes;
        if (is_short_) return region_->slot(rank_).steps[StepProtocol::half_to_write(step_)].bytes;
        if (StepProtocol::swaps(size())) return region_->staging(StepProtocol::area_to_write(rank_, size(), step_));
        auto const short_bytes = GroupRegion::short_size(region_->chunk_bytes);
        if (bytes <= short_bytes) {
            place_ = StepProtocol::half_to_write(step_) * short_bytes;
        } else {
            place_ = 2 * short_bytes + ring_.claim(GroupRegion::round_up(bytes),
                                                   GroupRegion::ring_size(region_->ranks, region_->chunk_bytes));
        }
        return region_->staging(rank_) + place_;
    }
    /// Where this rank writes up to lent_bytes() of which each of the others reads a part after the next step and puts its answer
    /// into its place; after the step after it the answers are there. Only for more than two ranks, all at the same time.
    ///
    /// Errors  as step
    [[nodiscard]] Result<std::byte*> lend() {
        if (!ring_.is_clear()) {
            if (auto const stepped = step(); !stepped) return stepped.error();
            ring_.clear();
        }
        return lent(rank_);
    }
    /// What a rank has lent.
    [[nodiscard]] std::byte* lent(std::int32_t rank) const {
        return region_->staging(rank) + 2 * GroupRegion::short_size(region_->chunk_bytes);
    }
    [[nodiscard]] std::size_t lent_bytes() const {
        return StepProtocol::swaps(size()) ? 0 : GroupRegion::ring_size(size(), region_->chunk_bytes);
    }
    /// Around a call of many bytes: more than two ranks write in the way that was lately the fastest for calls of this size.
    /// Two hand the lines over in turns, which is always faster than past the caches.
    void begin_stores(std::size_t bytes) {
        if (!StepProtocol::swaps(size())) stores_.begin(bytes);
    }
    void end_stores() {
        if (!StepProtocol::swaps(size())) stores_.end();
    }
    /// Copies into `mine`. Once the group has failed, a rank's memory may be in use by a late one: nothing is written then.
    void put(std::byte* to, void const* from, std::size_t bytes) const {
        if (bytes == 0 || is_poisoned()) return;
        if (stores_.is_past_caches()) return store_past_caches(to, static_cast<std::byte const*>(from), bytes);
        std::memcpy(to, from, bytes);
    }
    /// Counts what the call took from the others: its waits for messages and their bytes.
    void took(std::int64_t messages, std::int64_t bytes) { traffic_.take(call_.call.kind, messages, bytes); }
    [[nodiscard]] Traffic& traffic() { return traffic_; }
    /// What another rank published in the step that was finished last. A rank's own may have been written over already.
    [[nodiscard]] std::byte const* theirs(std::int32_t rank) const {
        if (is_short_) return published(rank).bytes;
        return region_->staging(StepProtocol::area_to_read(rank, size(), step_)) + place_;
    }

    /// Publishes what was written to `mine` and waits for all other ranks' step.
    ///
    /// Errors  the group's first error; collective_mismatch; rank_lost; deadline_exceeded with the missing ranks
    [[nodiscard]] Result<> step() {
        if (is_poisoned()) return *poisoned();
        auto& own = region_->slot(rank_).steps[StepProtocol::half_to_write(step_)];
        own.call = PublishedCall(call_);
        own.core.store(current_core(), std::memory_order_relaxed);
        ++step_;
        StepProtocol::publish(own.arrived, step_);
        WaitTrace const traced(traffic_.tracer());
        Waiter waiter(is_crowded_, options_.timeout, true, is_gentle_);
        for (std::int32_t peer = 0; peer < size(); ++peer) {
            while (peer != rank_ && !has_arrived(peer)) {
                if (!waiter.rest([&] { return awaits_own_core(peer); })) continue;
                if (auto const trouble = look_around(waiter)) return fail(*trouble);
            }
        }
        if (is_compared_) return {};
        is_compared_ = true;
        return compare_calls();
    }

    /// Sends `count` elements to one rank; returns when all of them are in the group's memory.
    ///
    /// Errors  as step
    [[nodiscard]] Result<> send_bytes(std::int32_t to, Dtype dtype, std::byte const* data, std::int64_t count,
                                      std::size_t element_bytes) {
        traffic_.begin(CollectiveKind::send);
        auto& mailbox = region_->mailbox(rank_, to);
        return mail(count, element_bytes, [&](std::size_t offset, std::size_t bytes) -> Result<> {
            auto const written = mailbox.written.load(std::memory_order_relaxed);
            auto const may_write = [&] { return MailProtocol::may_write(mailbox.read, written); };
            if (auto const waited = wait_for(to, "send", may_write); !waited) return waited;
            if (offset == 0) {
                mailbox.dtype[MailProtocol::half(written)] = dtype;
                mailbox.count[MailProtocol::half(written)] = count;
            }
            if (bytes > 0) std::memcpy(region_->letter(rank_, to, MailProtocol::half(written)), data + offset, bytes);
            MailProtocol::pass_on(mailbox.written, written);
            return {};
        });
    }

    /// Receives what `from` sends: as many elements of the same type.
    ///
    /// Errors  as step; collective_mismatch where the sender sends something else
    [[nodiscard]] Result<> receive_bytes(std::int32_t from, Dtype dtype, std::byte* data, std::int64_t count,
                                         std::size_t element_bytes) {
        traffic_.begin(CollectiveKind::receive);
        traffic_.take(CollectiveKind::receive, 1, count * static_cast<std::int64_t>(element_bytes));
        auto& mailbox = region_->mailbox(from, rank_);
        return mail(count, element_bytes, [&](std::size_t offset, std::size_t bytes) -> Result<> {
            auto const read = mailbox.read.load(std::memory_order_relaxed);
            auto const has_letter = [&] { return MailProtocol::has_letter(mailbox.written, read); };
            if (auto const waited = wait_for(from, "receive", has_letter); !waited) return waited;
            auto const sent_dtype = mailbox.dtype[MailProtocol::half(read)];
            auto const sent_count = mailbox.count[MailProtocol::half(read)];
            if (offset == 0 && options_.checks_calls && (sent_dtype != dtype || sent_count != count)) {
                return fail(letter_mismatch(names_, from, sent_dtype, sent_count, rank_, dtype, count));
            }
            if (bytes > 0) std::memcpy(data + offset, region_->letter(from, rank_, MailProtocol::half(read)), bytes);
            MailProtocol::pass_on(mailbox.read, read);
            return {};
        });
    }

    /// Makes every later call of every rank return `error`, unless another error came first; returns the first one.
    Result<> fail(Error const& error) const {
        auto expected = Poison::none;
        if (region_->poison.compare_exchange_strong(expected, Poison::writing, std::memory_order_acq_rel)) {
            region_->first_error = error;
            region_->poison.store(Poison::written, std::memory_order_release);
        }
        return *poisoned();
    }

    /// The error that ended the group, if one did.
    [[nodiscard]] std::optional<Error> poisoned() const {
        auto poison = region_->poison.load(std::memory_order_acquire);
        if (poison == Poison::none) return std::nullopt;
        // Whoever writes the error is a few instructions from done, unless it died there.
        auto const deadline = Deadline::after(std::chrono::milliseconds(100));
        while (poison != Poison::written && !deadline.has_passed()) {
            std::this_thread::yield();
            poison = region_->poison.load(std::memory_order_acquire);
        }
        if (poison == Poison::written) return region_->first_error;
        return Error{ErrorCode::rank_lost}.in("group").because(
            "failed, and the rank that failed died before it could say why");
    }

    /// The first of these ranks that has died, if one has.
    [[nodiscard]] std::optional<Error> dead_one(std::span<std::int32_t const> ranks) const {
        for (auto const peer : ranks) {
            if (auto const death = watch_(peer); !death.empty()) return death_of(peer, death);
        }
        return std::nullopt;
    }

    void join() const { region_->slot(rank_).presence.store(Presence::joined, std::memory_order_release); }
    void leave() const { region_->slot(rank_).presence.store(Presence::left, std::memory_order_release); }

private:
    [[nodiscard]] bool is_poisoned() const { return region_->poison.load(std::memory_order_acquire) != Poison::none; }
    [[nodiscard]] bool has_arrived(std::int32_t peer) const {
        return StepProtocol::has_published(published(peer).arrived, step_);
    }
    [[nodiscard]] std::vector<std::int32_t> missing() const {
        std::vector<std::int32_t> out;
        for (std::int32_t peer = 0; peer < size(); ++peer)
            if (!has_arrived(peer)) out.push_back(peer);
        return out;
    }
    /// Where a rank publishes the step that this one is at.
    [[nodiscard]] PublishedStep const& published(std::int32_t rank) const {
        return region_->slot(rank).steps[StepProtocol::half_to_read(step_)];
    }
    /// Where a rank ran that has not arrived: at the step before.
    [[nodiscard]] std::int32_t core_of(std::int32_t rank) const {
        return region_->slot(rank).steps[StepProtocol::half_to_write(step_)].core.load(std::memory_order_relaxed);
    }

    /// Whether a rank that has not arrived, `first` or one after it, needs the core that this one waits on.
    [[nodiscard]] bool awaits_own_core(std::int32_t first) const {
        auto const core = current_core();
        for (auto peer = first; core >= 0 && peer < size(); ++peer) {
            if (core == core_of(peer) && !has_arrived(peer)) return true;
        }
        return false;
    }

    /// What keeps the step from ever finishing, if something does.
    [[nodiscard]] std::optional<Error> look_around(Waiter& waiter) const {
        // Where all have come, a later call has failed. This one ends as on the others, so that all meet the error in the same call.
        if (is_poisoned()) return missing().empty() ? std::nullopt : poisoned();
        if (!waiter.is_time_to_look()) return std::nullopt;
        for (std::int32_t peer = 0; peer < size(); ++peer)
            if (auto const lost = has_arrived(peer) ? std::nullopt : lost_rank(peer)) return lost;
        // Nothing is allocated while time is left: a step of decoding asks for no memory.
        if (!waiter.has_timed_out()) return std::nullopt;
        auto const late = missing();
        if (late.empty()) return std::nullopt;
        auto const note = [&](std::int32_t peer) { return watch_.is_stopped(peer) ? " (stopped: unresponsive)" : ""; };
        return Error{ErrorCode::deadline_exceeded}
            .in(to_text(call_.call))
            .because("was not joined in time at call " + std::to_string(call_.number) + " by rank " +
                     names_.list(late, note))
            .fix("look at what these ranks do; raise the timeout only where they really need that long");
    }

    [[nodiscard]] std::optional<Error> lost_rank(std::int32_t peer) const {
        bool const has_left = region_->slot(peer).presence.load(std::memory_order_acquire) == Presence::left;
        // It may have arrived between our look at its steps and our look at its presence.
        if (has_left && !has_arrived(peer)) return loss_of(peer, "left the group", "look at its own error");
        auto const death = watch_(peer);
        if (death.empty() || has_arrived(peer)) return std::nullopt;
        return death_of(peer, death);
    }
    [[nodiscard]] Error death_of(std::int32_t peer, std::string const& death) const {
        return loss_of(peer, death, "look at its output");
    }
    [[nodiscard]] Error loss_of(std::int32_t peer, std::string const& how, std::string const& look) const {
        return Error{ErrorCode::rank_lost}
            .in(names_.name(peer))
            .because(how + " before call " + std::to_string(call_.number) + ", " + to_text(call_.call))
            .fix(look + " and make a new group");
    }

    [[nodiscard]] Result<> compare_calls() {
        for (std::int32_t peer = 0; peer < size(); ++peer) {
            // What one published oneself is in another core's cache by now.
            if (peer == rank_) continue;
            auto const& theirs = published(peer);
            if (theirs.call == PublishedCall(call_)) continue;
            if (auto const named = compare_counts(); !named) return named;
            auto const low = std::min(peer, rank_);
            auto const high = std::max(peer, rank_);
            auto const other = theirs.call.near(call_.number);
            return fail(call_mismatch(names_, low, low == rank_ ? call_ : other, high, low == rank_ ? other : call_));
        }
        return {};
    }
    /// Fails with the count that differs, where calls differ in nothing else.
    [[nodiscard]] Result<> compare_counts() {
        if (counts_.size() != static_cast<std::size_t>(size())) return {};
        std::vector<NumberedCall> calls;
        for (std::int32_t peer = 0; peer < size(); ++peer)
            calls.push_back(peer == rank_ ? call_ : published(peer).call.near(call_.number));
        if (!differ_in_counts_alone(calls)) return {};
        auto const counts = counts_of_all(*this, counts_);
        return counts ? fail(counts_mismatch(names_, calls, *counts)) : counts.error();
    }

    /// Cuts a message into letters; also a message of nothing is one.
    template <class Letter>
    [[nodiscard]] Result<> mail(std::int64_t count, std::size_t element_bytes, Letter const& letter) {
        auto const total = static_cast<std::size_t>(count) * element_bytes;
        region_->slot(rank_).steps[0].core.store(current_core(), std::memory_order_relaxed);
        for (std::size_t offset = 0; offset < total || offset == 0; offset += region_->letter_bytes) {
            auto const bytes = std::min(region_->letter_bytes, total - offset);
            if (auto const done = letter(offset, bytes); !done) return done;
        }
        return {};
    }

    template <class Condition>
    [[nodiscard]] Result<> wait_for(std::int32_t peer, std::string_view what, Condition const& is_met) {
        if (is_poisoned()) return *poisoned();
        WaitTrace const traced(traffic_.tracer());
        Waiter waiter(is_crowded_, options_.timeout, true, is_gentle_);
        while (!is_met()) {
            auto const needs_own_core = [&] {
                auto const core = current_core();
                return core >= 0 && region_->slot(peer).steps[0].core.load(std::memory_order_relaxed) == core;
            };
            if (!waiter.rest(needs_own_core)) continue;
            if (is_poisoned() && !is_met()) return *poisoned();
            if (!waiter.is_time_to_look()) continue;
            auto const name = names_.name(peer);
            bool const has_left = region_->slot(peer).presence.load(std::memory_order_acquire) == Presence::left;
            auto const trouble = has_left ? std::string("left the group") : watch_(peer);
            if (!trouble.empty() && !is_met()) {
                return fail(Error{ErrorCode::rank_lost}
                                .in(name)
                                .because(trouble + " during a " + std::string(what))
                                .fix("look at its own error and make a new group"));
            }
            if (waiter.has_timed_out() && !is_met()) {
                return fail(
                    Error{ErrorCode::deadline_exceeded}
                        .in(what)
                        .at(name)
                        .because(watch_.is_stopped(peer) ? "is stopped: unresponsive" : "did not answer in time")
                        .fix("look at what that rank does; raise the timeout only where it really needs that long"));
            }
        }
        return {};
    }

    GroupRegion* region_;
    std::int32_t rank_;
    StagedOptions options_;
    Watch watch_;
    std::uint32_t step_;
    bool is_crowded_;
    bool is_gentle_ = false;
    StagingRing ring_;
    StoreChoice stores_;
    std::size_t place_ = 0;
    bool is_short_ = false;
    Traffic traffic_;
    NumberedCall call_{};
    std::span<std::int64_t const> counts_;
    bool is_compared_ = false;
    RankNames names_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
