// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/process_mark.hpp>
#include <shardwise/comm/call_trace.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/comm/detail/call_mismatch.hpp>
#include <shardwise/comm/detail/counts_mismatch.hpp>
#include <shardwise/comm/detail/message_group.hpp>
#include <shardwise/comm/detail/message_heads.hpp>
#include <shardwise/comm/detail/message_wire.hpp>
#include <shardwise/comm/detail/rank_names.hpp>
#include <shardwise/core/result.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What a group is told when it is made.
struct MessageOptions {
    /// How long a call waits for the other ranks.
    std::chrono::nanoseconds timeout = std::chrono::seconds(30);
    /// Compares what the ranks ask for before data moves.
    bool checks_calls = true;
};

/// One rank of a group that only passes messages, over a wire that starts them and waits for them.
///
/// No caller's memory is ever given to the wire: a message that comes late finds memory that the wire keeps.
template <MessageWire Wire>
class MessageRank {
    using Message = typename Wire::Message;

public:
    MessageRank(std::shared_ptr<Wire> wire, MessageGroup group, MessageOptions const& options)
        : wire_(std::move(wire)), group_(std::move(group)), options_(options) {
        for (std::int32_t peer = 0; peer < size(); ++peer) {
            if (peer != rank()) notices_.push_back(start_receive(peer, Lane::notices, sizeof(Notice)));
        }
    }
    MessageRank(MessageRank&&) noexcept = default;
    MessageRank& operator=(MessageRank&&) noexcept = delete;
    /// The rank leaves: who still waits for it is told so. In a fork nobody leaves: the process that joined is the rank.
    ~MessageRank() {
        if (!wire_) return;
        if (!process_.is_here()) {
            // It has no threads that could end, and the connections are those of that process: they are left as they are.
            (void)new std::tuple(std::move(wire_), std::move(sent_), std::move(notices_));
            return;
        }
        if (!failure()) {
            wire_->wait(std::span<Message>(sent_), options_.timeout, [] { return false; });
            // MPI sends while both sides call it: a rank that still computes takes the notice when it leaves, too. A process that
            // ends before is no orderly end to mpirun.
            notify({}, options_.timeout);
        }
        wire_->keep(std::move(sent_));
        wire_->keep(std::move(notices_));
    }

    [[nodiscard]] std::int32_t rank() const { return group_.rank; }
    [[nodiscard]] std::int32_t size() const { return static_cast<std::int32_t>(group_.members.size()); }
    /// What errors of the group call its ranks.
    [[nodiscard]] RankNames rank_names() const { return RankNames(group_.members); }
    [[nodiscard]] Traffic& traffic() { return traffic_; }
    void took(std::int64_t messages, std::int64_t bytes) { traffic_.take(call_.call.kind, messages, bytes); }

    /// Has waits leave the core to others at once from now on, or not; nothing where the wire waits in its own way.
    void wait_gently(bool is_gentle) {
        if constexpr (requires { wire_->wait_gently(is_gentle); }) wire_->wait_gently(is_gentle);
    }

    /// Begins a collective: tells all ranks what this one asks for, and compares. A barrier and a split always wait for all,
    /// another call only where calls are compared. Of counts by which elements are distributed it names one that differs.
    ///
    /// Errors  the group's first error; collective_mismatch; rank_lost; deadline_exceeded with the missing ranks
    [[nodiscard]] Result<> agree(CollectiveCall const& call, std::span<std::int64_t const> counts = {}) {
        traffic_.begin(call.kind);
        call_ = {call, call_.number + 1};
        if (failure()) return *failure();
        bool const waits_for_all = call.kind == CollectiveKind::barrier || call.kind == CollectiveKind::split;
        if (!options_.checks_calls && !waits_for_all) return {};
        std::vector<NumberedCall> calls(group_.members.size(), call_);
        if (auto const shown = show_all(&call_, calls.data(), sizeof call_); !shown) return shown;
        if (!options_.checks_calls) return {};
        for (std::int32_t peer = 1; peer < size(); ++peer) {
            if (calls[index(peer)] == calls[0]) continue;
            if (counts.size() != calls.size() || !differ_in_counts_alone(calls))
                return fail(call_mismatch(rank_names(), 0, calls[0], peer, calls[index(peer)]));
            std::vector<std::int64_t> all(counts.size() * counts.size());
            std::copy(counts.begin(), counts.end(), all.begin() + rank() * size());
            if (auto const shown = show_all(counts.data(), all.data(), counts.size_bytes()); !shown) return shown;
            return fail(counts_mismatch(rank_names(), calls, all));
        }
        return {};
    }

    /// Moves messages between pairs of ranks, all at once.
    ///
    /// Errors  as agree
    [[nodiscard]] Result<> exchange(std::span<Outgoing const> out, std::span<Incoming const> in) {
        if (failure()) return *failure();
        for (std::size_t offset = 0;; offset += piece_bytes) {
            std::vector<Message> messages;
            std::vector<std::pair<std::size_t, std::byte*>> targets;
            auto const micro_batch_of = [&](std::size_t bytes) { return std::min(piece_bytes, bytes - offset); };
            for (auto const& each : in) {
                if (each.bytes <= offset) continue;
                targets.emplace_back(messages.size(), each.data + offset);
                messages.push_back(start_receive(each.from, Lane::collectives, micro_batch_of(each.bytes)));
            }
            for (auto const& each : out) {
                if (each.bytes <= offset) continue;
                messages.push_back(
                    start_send(each.to, Lane::collectives, each.data + offset, micro_batch_of(each.bytes)));
            }
            if (messages.empty()) return {};
            if (auto const done = finish(messages, to_text(call_.call)); !done) return done;
            for (auto const& [i, target] : targets) {
                auto const bytes = messages[i].bytes();
                std::memcpy(target, bytes.data(), bytes.size());
            }
        }
    }

    /// Sends `count` elements to one rank; returns when they are in memory of the group's, of which there is as much as
    /// keep_unread says: a send for which there is none waits until the oldest message is received.
    ///
    /// Errors  as agree
    [[nodiscard]] Result<> send_bytes(std::int32_t to, Dtype dtype, std::byte const* data, std::int64_t count,
                                      std::size_t element_bytes) {
        traffic_.begin(CollectiveKind::send);
        if (failure()) return *failure();
        LetterHead const letter{count, dtype};
        auto const start = [&](std::byte const* from, std::size_t bytes) -> Result<> {
            if (auto const has_room = wait_until_unread(max_unread_ - 1); !has_room) return has_room;
            sent_.push_back(start_send(to, Lane::letters, from, bytes));
            return {};
        };
        if (options_.checks_calls) {
            auto const started = start(reinterpret_cast<std::byte const*>(&letter), sizeof letter);
            if (!started) return started;
        }
        auto const total = static_cast<std::size_t>(count) * element_bytes;
        for (std::size_t offset = 0; offset < total; offset += piece_bytes) {
            auto const started = start(data + offset, std::min(piece_bytes, total - offset));
            if (!started) return started;
        }
        return {};
    }
    /// Lets as many messages of as many bytes wait for their receivers before a send waits; never fewer than before.
    void keep_unread(std::int64_t messages, std::int64_t bytes) {
        auto const pieces = 1 + (static_cast<std::size_t>(bytes) + piece_bytes - 1) / piece_bytes;
        max_unread_ = std::max(max_unread_, static_cast<std::size_t>(messages) * pieces);
    }
    /// Waits until all that this rank sent is received.
    ///
    /// Errors  as agree
    [[nodiscard]] Result<> finish_sends() { return failure() ? Result<>(*failure()) : wait_until_unread(0); }

    /// Receives what `from` sends: as many elements of the same type.
    ///
    /// Errors  as agree; collective_mismatch where the sender sends something else
    [[nodiscard]] Result<> receive_bytes(std::int32_t from, Dtype dtype, std::byte* data, std::int64_t count,
                                         std::size_t element_bytes) {
        traffic_.begin(CollectiveKind::receive);
        traffic_.take(CollectiveKind::receive, 1, count * static_cast<std::int64_t>(element_bytes));
        if (failure()) return *failure();
        auto const receive = [&](void* to, std::size_t bytes) -> Result<> {
            std::vector<Message> messages;
            messages.push_back(start_receive(from, Lane::letters, bytes));
            if (auto const done = finish(messages, "receive"); !done) return done;
            std::memcpy(to, messages[0].bytes().data(), bytes);
            return {};
        };
        if (options_.checks_calls) {
            LetterHead letter;
            if (auto const done = receive(&letter, sizeof letter); !done) return done;
            if (letter.dtype != dtype || letter.count != count)
                return fail(letter_mismatch(rank_names(), from, letter.dtype, letter.count, rank(), dtype, count));
        }
        auto const total = static_cast<std::size_t>(count) * element_bytes;
        for (std::size_t offset = 0; offset < total; offset += piece_bytes) {
            if (auto const done = receive(data + offset, std::min(piece_bytes, total - offset)); !done) return done;
        }
        return {};
    }

    /// Makes every later call of this rank return `error`, unless another error came first, and tells the other ranks.
    Result<> fail(Error const& error) {
        if (failure()) return *failure();
        error_ = error;
        notify(error, std::chrono::milliseconds(100));
        wire_->give_up(error);
        return error;
    }

    /// The group of the ranks that give one color, numbered by their rank here.
    ///
    /// Errors  as agree
    [[nodiscard]] Result<MessageGroup> members_of(std::int32_t color) {
        if (auto const agreed = agree({CollectiveKind::split}); !agreed) return agreed.error();
        struct Wish {
            std::int32_t color;
            std::uint32_t channel;
        };
        Wish const own{color, wire_->next_channel};
        std::vector<Wish> wishes(group_.members.size(), own);
        if (auto const shown = show_all(&own, wishes.data(), sizeof own); !shown) return shown.error();
        MessageGroup part;
        for (std::int32_t peer = 0; peer < size(); ++peer) {
            // Above every number that any of these ranks has used: no pair of ranks meets a channel twice.
            part.channel = std::max(part.channel, wishes[index(peer)].channel);
            if (wishes[index(peer)].color != color) continue;
            if (peer == rank()) part.rank = static_cast<std::int32_t>(part.members.size());
            part.members.push_back(group_.members[index(peer)]);
        }
        wire_->next_channel = part.channel + 1;
        return part;
    }

protected:
    [[nodiscard]] std::shared_ptr<Wire> const& wire() const { return wire_; }
    [[nodiscard]] MessageOptions const& options() const { return options_; }

private:
    /// The error that ended the group, or all groups of its wire.
    [[nodiscard]] std::optional<Error> const& failure() const { return error_ ? error_ : wire_->ended_by; }

    using Lane = MessageLane;
    using Notice = MessageNotice;

    /// Longer messages are cut, so that both sides hold little beside them.
    static constexpr std::size_t piece_bytes = std::size_t{1} << 20U;

    /// Gives `bytes` of this rank to all others, and puts theirs at their places in `all`.
    [[nodiscard]] Result<> show_all(void const* own, void* all, std::size_t bytes) {
        std::vector<Outgoing> out;
        std::vector<Incoming> in;
        for (std::int32_t peer = 0; peer < size(); ++peer) {
            if (peer == rank()) continue;
            out.push_back({peer, static_cast<std::byte const*>(own), bytes});
            in.push_back({peer, static_cast<std::byte*>(all) + index(peer) * bytes, bytes});
        }
        return exchange(out, in);
    }
    [[nodiscard]] static std::size_t index(std::int32_t rank) { return static_cast<std::size_t>(rank); }
    [[nodiscard]] std::uint32_t lane_number(Lane lane) const {
        return group_.channel * static_cast<std::uint32_t>(Lane::count) + static_cast<std::uint32_t>(lane);
    }
    [[nodiscard]] Message start_send(std::int32_t to, Lane lane, std::byte const* data, std::size_t bytes) {
        return wire_->start_send(group_.members[index(to)], lane_number(lane),
                                 std::vector<std::byte>(data, data + bytes));
    }
    [[nodiscard]] Message start_receive(std::int32_t from, Lane lane, std::size_t bytes) {
        return wire_->start_receive(group_.members[index(from)], lane_number(lane), bytes);
    }
    [[nodiscard]] std::int32_t rank_of(Message const& message) const {
        auto const found = std::find(group_.members.begin(), group_.members.end(), message.peer());
        return static_cast<std::int32_t>(found - group_.members.begin());
    }

    /// Waits, the oldest first, until no more than `most` pieces of messages wait for their receivers.
    [[nodiscard]] Result<> wait_until_unread(std::size_t most) {
        if (sent_.size() <= most) return {};
        std::erase_if(sent_, [this](Message& each) { return wire_->has_come(each); });
        while (sent_.size() > most) {
            std::vector<Message> oldest;
            oldest.push_back(std::move(sent_.front()));
            sent_.erase(sent_.begin());
            if (auto const done = finish(oldest, "send"); !done) return done;
        }
        return {};
    }

    void notify(std::optional<Error> const& error, std::chrono::nanoseconds limit) {
        auto const notice = error ? Notice::of(*error) : Notice{};
        std::vector<Message> messages;
        for (std::int32_t peer = 0; peer < size(); ++peer) {
            if (peer != rank())
                messages.push_back(
                    start_send(peer, Lane::notices, reinterpret_cast<std::byte const*>(&notice), sizeof notice));
        }
        wire_->wait(std::span<Message>(messages), limit, [] { return false; });
        wire_->keep(std::move(messages));
    }
    /// The first error that another rank told of.
    [[nodiscard]] std::optional<Error> told() {
        for (auto& message : notices_) {
            if (!wire_->has_come(message)) continue;
            Notice notice;
            std::memcpy(&notice, message.bytes().data(), sizeof notice);
            if (notice.has_failed != 0) return notice.error();
        }
        return std::nullopt;
    }
    /// True where the sender of a message has left the group: what it sent before is here or will not come.
    [[nodiscard]] bool has_left(std::int32_t peer) {
        for (auto& message : notices_) {
            if (message.peer() == peer) return wire_->has_come(message);
        }
        return false;
    }

    /// Waits until all messages are done, or says why they never will be.
    [[nodiscard]] Result<> finish(std::vector<Message>& messages, std::string_view what) {
        WaitTrace const traced(traffic_.tracer());
        std::optional<Error> failure;
        // Since when the sender of a message is known to have left: its last words may still be on their way.
        std::vector<std::optional<std::chrono::steady_clock::time_point>> left_at(messages.size());
        auto const stop = [&] {
            failure = told();
            for (std::size_t i = 0; !failure && i < messages.size(); ++i) {
                if (messages[i].state() != MessageState::pending || !has_left(messages[i].peer())) continue;
                auto const now = std::chrono::steady_clock::now();
                if (!left_at[i]) left_at[i] = now;
                if (now - *left_at[i] > std::chrono::milliseconds(100)) failure = left(messages[i], what);
            }
            return failure.has_value();
        };
        wire_->wait(std::span<Message>(messages), options_.timeout, stop);
        bool is_done = true;
        for (auto const& each : messages) is_done = is_done && each.state() == MessageState::done;
        if (is_done) return {};
        if (auto const first = told()) failure = first;
        auto const result = fail(failure ? *failure : loss(messages, what));
        wire_->keep(std::move(messages));
        messages.clear();
        return result;
    }

    [[nodiscard]] Error left(Message const& message, std::string_view what) const {
        return Error{ErrorCode::rank_lost}
            .in(rank_names().name(rank_of(message)))
            .because("left the group before call " + std::to_string(call_.number) + ", " + std::string(what))
            .fix("look at its own error and make a new group");
    }
    /// Which ranks were not heard from, and why.
    [[nodiscard]] Error loss(std::vector<Message> const& messages, std::string_view what) {
        auto const call = " before call " + std::to_string(call_.number) + ", " + std::string(what);
        for (auto const& each : messages) {
            auto const name = rank_names().name(rank_of(each));
            if (each.state() == MessageState::broken) {
                return Error{ErrorCode::rank_lost}
                    .in(name)
                    .because(std::string(each.reason()) + call)
                    .fix("look at its own error and at the network, and make a new group");
            }
            if (each.state() == MessageState::pending && has_left(each.peer())) return left(each, what);
        }
        std::vector<std::int32_t> missing;
        for (auto const& each : messages) {
            if (each.state() == MessageState::pending) missing.push_back(rank_of(each));
        }
        std::sort(missing.begin(), missing.end());
        missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
        return Error{ErrorCode::deadline_exceeded}
            .in(what)
            .because("was not joined in time at call " + std::to_string(call_.number) + " by rank " +
                     rank_names().list(missing))
            .fix("look at what these ranks do; raise the timeout only where they really need that long");
    }

    std::shared_ptr<Wire> wire_;
    MessageGroup group_;
    MessageOptions options_;
    NumberedCall call_{};
    std::optional<Error> error_;
    /// Pieces of messages that wait for their receivers, and how many may.
    std::vector<Message> sent_;
    std::size_t max_unread_ = 16;
    /// What each other rank says when it leaves or fails.
    std::vector<Message> notices_;
    Traffic traffic_;
    ProcessMark process_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
