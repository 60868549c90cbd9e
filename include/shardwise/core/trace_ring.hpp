// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/core/stable_sort.hpp>
#include <shardwise/core/trace_event.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// False in a build with SHARDWISE_NO_TRACE: then nothing asks whether there is a trace.
#ifdef SHARDWISE_NO_TRACE
inline constexpr bool has_trace = false;
#else
inline constexpr bool has_trace = true;
#endif

/// The last events of one rank, in a ring of fixed size: the oldest give way and are counted. One thread writes to it.
///
/// Within a step each moment belongs to an operation, to communication, to a wait for weights, or to none of these ("other"): an
/// operation that talks to other ranks is cut in two around it. What communication waits for the others is told beside it, on
/// a track of its own.
///
/// Memory  capacity events, from the beginning
class TraceRing {
public:
    using Clock = std::chrono::steady_clock;

    /// `capacity` events are kept.
    ///
    /// Errors  invalid_argument for fewer than one or more than 2^28; out_of_memory
    [[nodiscard]] static Result<TraceRing> create(std::int64_t capacity) {
        constexpr std::int64_t most = std::int64_t{1} << 28;
        if (capacity < 1 || capacity > most) {
            return Error{ErrorCode::invalid_argument}
                .in("trace")
                .at("events")
                .because("are no number that a ring can hold")
                .got(capacity)
                .between(1, most);
        }
        TraceRing ring;
        if (!ring.take_memory(capacity)) return Error{ErrorCode::out_of_memory}.in("trace").fix("keep fewer events");
        return ring;
    }

    [[nodiscard]] static std::int64_t now() {
        return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
    }

    void add(TraceEvent const& event) {
        events_[static_cast<std::size_t>(added_ % capacity())] = event;
        ++added_;
    }

    void begin_step() {
        step_begin_ = last_ = now();
        is_in_step_ = true;
    }
    /// Ends the operation that is at work, too.
    void end_step(std::int64_t tokens, std::int64_t sequences) {
        auto const moment = now();
        close_stretch(moment, -1);
        begin_operation({});
        is_in_step_ = false;
        TraceEvent step{step_begin_, moment, TraceTrack::compute, tokens > sequences ? "prefill" : "decode", {}};
        step.tokens = tokens;
        step.sequences = sequences;
        add(step);
    }

    /// An operation takes over where the last event ended.
    void begin_operation(std::string_view name, std::string_view parameter = {}, std::int32_t layer = -1) {
        name_ = name;
        parameter_ = parameter;
        layer_ = layer;
    }
    void end_operation(std::int64_t bytes = -1) {
        close_stretch(now(), bytes);
        name_ = parameter_ = {};
        layer_ = -1;
    }
    /// What lies after the last event was a wait, unless it was shorter than one that is worth telling.
    void end_gap(std::string_view name) {
        auto const moment = now();
        if (moment - last_ < shortest_wait) return;
        add({last_, moment, TraceTrack::wait, name, {}});
        last_ = moment;
    }

    void begin_call() {
        call_begin_ = now();
        close_stretch(call_begin_, -1);
    }
    /// `name` is empty where nothing was exchanged.
    void end_call(std::string_view name, std::int64_t bytes, std::int32_t peer = -1, std::int64_t message = -1) {
        auto const moment = now();
        if (name.empty()) return;
        TraceEvent call{call_begin_, moment, TraceTrack::communication, name, parameter_};
        call.layer = layer_;
        call.peer = peer;
        call.message = message;
        call.bytes = bytes;
        add(call);
        last_ = moment;
    }
    /// A wait for other ranks, within a call, that began then and has ended.
    void end_wait(std::int64_t begin) {
        auto const moment = now();
        if (moment - begin < shortest_wait) return;
        TraceEvent wait{begin, moment, TraceTrack::wait, "wait", parameter_};
        wait.layer = layer_;
        add(wait);
    }

    /// The number of the next message to or from another rank.
    [[nodiscard]] std::int64_t next_message(std::int32_t peer, bool is_sent) {
        auto const place = 2 * static_cast<std::size_t>(peer) + (is_sent ? 1 : 0);
        if (messages_.size() <= place) messages_.resize(place + 1, 0);
        return messages_[place]++;
    }

    [[nodiscard]] std::int64_t capacity() const { return static_cast<std::int64_t>(events_.size()); }
    /// Events that gave way to later ones.
    [[nodiscard]] std::int64_t dropped() const { return std::max<std::int64_t>(added_ - capacity(), 0); }
    /// What is left, by its beginning; what holds others comes before them.
    [[nodiscard]] std::vector<TraceEvent> events() const {
        std::vector<TraceEvent> all(events_.begin(), events_.begin() + std::min(added_, capacity()));
        detail::stable_sort(all.begin(), all.end(), [](TraceEvent const& a, TraceEvent const& b) {
            return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
        });
        return all;
    }

    /// Waits below a microsecond are not told: a step of a collective that needs none takes 0.1 (bench_collectives).
    static constexpr std::int64_t shortest_wait = 1000;

private:
    /// False where the system gives no memory; a program without exceptions ends there, as std::vector does.
    [[nodiscard]] bool take_memory(std::int64_t capacity) {
#if defined(__cpp_exceptions)
        try {
            events_.resize(static_cast<std::size_t>(capacity));
        } catch (std::bad_alloc const&) {
            return false;
        }
#else
        events_.resize(static_cast<std::size_t>(capacity));
#endif
        return true;
    }
    /// Tells what the operation that is at work did up to here, or that a step was at none.
    void close_stretch(std::int64_t moment, std::int64_t bytes) {
        bool const is_other = name_.empty();
        if (is_other && (!is_in_step_ || moment - last_ < shortest_wait)) return;
        TraceEvent stretch{last_, moment, TraceTrack::compute, is_other ? "other" : name_, parameter_};
        stretch.layer = layer_;
        stretch.bytes = bytes;
        add(stretch);
        last_ = moment;
    }

    std::vector<TraceEvent> events_;
    std::int64_t added_ = 0;
    std::int64_t step_begin_ = 0;
    /// Where the last event ended.
    std::int64_t last_ = 0;
    std::int64_t call_begin_ = 0;
    bool is_in_step_ = false;
    std::string_view name_;
    std::string_view parameter_;
    std::int32_t layer_ = -1;
    std::vector<std::int64_t> messages_;
};

/// Where events go, and nothing where there is no trace: what code that is traced holds.
class Tracer {
public:
    constexpr Tracer() = default;
    /// Holds a reference. `first_rank` is what the ranks of a part of a group are counted from.
    constexpr explicit Tracer(TraceRing& ring, std::int32_t first_rank = 0) : ring_(&ring), first_rank_(first_rank) {}

    /// Calls tell(ring) where there is one.
    template <class Tell>
    void operator()(Tell const& tell) const {
        if constexpr (has_trace) {
            if (ring_ != nullptr) [[unlikely]]
                tell(*ring_);
        }
    }
    [[nodiscard]] bool is_on() const { return has_trace && ring_ != nullptr; }
    [[nodiscard]] std::int32_t first_rank() const { return first_rank_; }
    /// The same for a part of the group, whose ranks are counted from `first_rank`.
    [[nodiscard]] Tracer counted_from(std::int32_t first_rank) const {
        auto part = *this;
        part.first_rank_ = first_rank;
        return part;
    }

private:
    TraceRing* ring_ = nullptr;
    std::int32_t first_rank_ = 0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
