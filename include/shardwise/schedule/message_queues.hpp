// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/schedule/messages.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Runs a table over ranks that send from a queue of limited length and receive only what they need next. Whether such a run
/// comes to a standstill does not depend on who is faster: every queue has one writer and one order.
class QueuedRun {
public:
    constexpr QueuedRun(PipelineSchedule const& schedule, std::int64_t length)
        : schedule_(schedule), length_(static_cast<std::size_t>(length)), trains_(is_training(schedule)) {
        for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
            ranks_.push_back({PipelineInbox(schedule, static_cast<std::int64_t>(rank))});
        }
    }

    [[nodiscard]] constexpr bool completes() {
        bool is_moving = true;
        std::size_t waiting = ranks_.size();
        while (is_moving && waiting > 0) {
            is_moving = false;
            waiting = 0;
            for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
                while (advance(rank)) is_moving = true;
                if (ranks_[rank].next < schedule_.ranks[rank].size()) ++waiting;
            }
        }
        return waiting == 0;
    }

private:
    struct Rank {
        PipelineInbox inbox{};
        std::size_t next = 0;
        /// Ranks that the messages waiting to be sent are for, the oldest first.
        List<std::int64_t> queue{};
        std::size_t sent = 0;
    };

    /// Takes the oldest message of a sender, where it is for this rank; otherwise the rank has to wait.
    constexpr Result<> receive(std::int64_t sender, std::int64_t receiver) {
        auto& from = ranks_[static_cast<std::size_t>(sender)];
        if (from.sent == from.queue.size() || from.queue[from.sent] != receiver)
            return Error{ErrorCode::deadline_exceeded}.in("message");
        ++from.sent;
        return {};
    }

    constexpr bool advance(std::size_t index) {
        auto& rank = ranks_[index];
        auto const& table = schedule_.ranks[index];
        if (rank.next == table.size()) return false;
        auto const number = static_cast<std::int64_t>(index);
        auto const& slot = table[rank.next];
        bool has_received = false;
        for (auto const& needed : {message_kept(schedule_, number, slot), message_needed(schedule_, number, slot)}) {
            if (!needed) continue;
            auto const place = rank.inbox.fetch(*needed, [&](std::int64_t sender, std::int64_t) {
                auto const received = receive(sender, number);
                has_received = has_received || received;
                return received;
            });
            if (!place) return has_received;
        }
        if (auto const made = message_made(schedule_, number, slot)) {
            auto const receiver = rank_of_virtual_stage(schedule_, made->virtual_stage);
            if (receiver == number) {
                (void)rank.inbox.keep(*made);
            } else {
                if (rank.queue.size() - rank.sent >= length_) return has_received;
                rank.queue.push_back(receiver);
            }
        }
        for (auto const& message : messages_done(schedule_, number, slot, trains_)) rank.inbox.release(message);
        ++rank.next;
        return true;
    }

    PipelineSchedule const& schedule_;
    std::size_t length_;
    bool trains_;
    List<Rank> ranks_{};
};

}  // namespace detail

/// The shortest queue of messages to be sent, at least `shortest`, with which a table never comes to a standstill, however
/// fast each rank is; nothing for a table that always does.
[[nodiscard]] constexpr Optional<std::int64_t> queue_needed(PipelineSchedule const& schedule,
                                                            std::int64_t shortest = 1) {
    auto const longest = 2 * schedule.chunks * schedule.micro_batches;
    for (auto length = shortest; length <= longest || length == shortest; ++length) {
        if (detail::QueuedRun(schedule, length).completes()) return length;
    }
    return std::nullopt;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
