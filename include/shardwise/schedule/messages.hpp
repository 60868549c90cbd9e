// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/schedule/schedule.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What goes from one virtual stage of a model to a neighbour: activations to the one after (forward), gradients to the virtual_stage
/// before (backward).
struct PipelineMessage {
    PipelineWork work = PipelineWork::forward;
    std::int32_t micro_batch = 0;
    /// The virtual stage that it is for.
    std::int64_t virtual_stage = 0;

    friend constexpr bool operator==(PipelineMessage const&, PipelineMessage const&) = default;
};

/// The rank that holds a virtual stage of the model.
[[nodiscard]] constexpr std::int64_t rank_of_virtual_stage(PipelineSchedule const& schedule,
                                                           std::int64_t virtual_stage) {
    auto const place = virtual_stage % schedule.stages;
    bool const is_reversed = schedule.order == ChunkOrder::back_and_forth && virtual_stage / schedule.stages % 2 == 1;
    return is_reversed ? schedule.stages - 1 - place : place;
}

/// What a slot of work waits for; nothing for the ends of the model and for gradients of weights.
[[nodiscard]] constexpr Optional<PipelineMessage> message_needed(PipelineSchedule const& schedule, std::int64_t rank,
                                                                 PipelineSlot const& slot) {
    auto const virtual_stage = schedule.virtual_stage(rank, slot.chunk);
    bool const is_end = slot.work == PipelineWork::forward ? virtual_stage == 0
                                                           : virtual_stage + 1 == schedule.stages * schedule.chunks;
    if (is_end || slot.work == PipelineWork::weights) return std::nullopt;
    return PipelineMessage{slot.work, slot.micro_batch, virtual_stage};
}

/// What a later pass reads again: the input of its forward pass.
[[nodiscard]] constexpr Optional<PipelineMessage> message_kept(PipelineSchedule const& schedule, std::int64_t rank,
                                                               PipelineSlot const& slot) {
    return message_needed(schedule, rank, {PipelineWork::forward, slot.micro_batch, slot.chunk});
}

/// What a slot of work makes for a neighbour.
[[nodiscard]] constexpr Optional<PipelineMessage> message_made(PipelineSchedule const& schedule, std::int64_t rank,
                                                               PipelineSlot const& slot) {
    auto const virtual_stage = schedule.virtual_stage(rank, slot.chunk) + (slot.work == PipelineWork::forward ? 1 : -1);
    bool const is_end = virtual_stage < 0 || virtual_stage == schedule.stages * schedule.chunks;
    if (is_end || slot.work == PipelineWork::weights) return std::nullopt;
    return PipelineMessage{slot.work, slot.micro_batch, virtual_stage};
}

/// Where a rank keeps what it received: messages of one sender come in the sender's order, so that some come before they are
/// needed. Places are numbered from 0, the lowest free one first; the same walk gives the same places.
class PipelineInbox {
public:
    constexpr PipelineInbox() = default;
    constexpr PipelineInbox(PipelineSchedule const& schedule, std::int64_t rank)
        : schedule_(&schedule), rank_(rank), cursors_(schedule.ranks.size(), 0) {}

    /// The place of a message; `receive(sender, place)` takes in the sender's next one until it is there.
    ///
    /// Errors  invalid_argument where the sender's table never makes it; those of `receive`
    template <class Receive>
    [[nodiscard]] constexpr Result<std::int64_t> fetch(PipelineMessage const& message, Receive&& receive) {
        for (std::size_t place = 0; place < places_.size(); ++place) {
            if (places_[place].is_taken && places_[place].message == message) return static_cast<std::int64_t>(place);
        }
        auto const neighbour =
            message.work == PipelineWork::forward ? message.virtual_stage - 1 : message.virtual_stage + 1;
        auto const sender = rank_of_virtual_stage(*schedule_, neighbour);
        while (true) {
            auto const next = next_from(sender);
            if (!next) {
                return Error{ErrorCode::invalid_argument}
                    .at("schedule")
                    .because("waits for a message that no rank sends")
                    .got(message.micro_batch)
                    .fix("give every rank each micro-batch's passes once");
            }
            // A message that could not be received is the next one still.
            auto const place = free_place();
            if (Result<> const received = receive(sender, place); !received) return received.error();
            places_[static_cast<std::size_t>(place)] = {*next, true};
            ++cursors_[static_cast<std::size_t>(sender)];
            if (*next == message) return place;
        }
    }

    /// Keeps a message that this rank made for itself.
    [[nodiscard]] constexpr std::int64_t keep(PipelineMessage const& message) {
        auto const place = free_place();
        places_[static_cast<std::size_t>(place)] = {message, true};
        return place;
    }

    /// Frees a message's place.
    constexpr void release(PipelineMessage const& message) {
        for (auto& place : places_) {
            if (place.message == message) place.is_taken = false;
        }
    }

    /// How many places were ever needed.
    [[nodiscard]] constexpr std::int64_t places() const { return static_cast<std::int64_t>(places_.size()); }

private:
    struct Place {
        PipelineMessage message;
        bool is_taken = false;
    };

    constexpr std::int64_t free_place() {
        std::size_t place = 0;
        while (place < places_.size() && places_[place].is_taken) ++place;
        if (place == places_.size()) places_.push_back({});
        return static_cast<std::int64_t>(place);
    }
    /// The message that the sender sends next to this rank.
    constexpr Optional<PipelineMessage> next_from(std::int64_t sender) {
        auto& cursor = cursors_[static_cast<std::size_t>(sender)];
        auto const& table = schedule_->ranks[static_cast<std::size_t>(sender)];
        for (; cursor < table.size() && sender != rank_; ++cursor) {
            auto const made = message_made(*schedule_, sender, table[cursor]);
            if (made && rank_of_virtual_stage(*schedule_, made->virtual_stage) == rank_) return made;
        }
        return std::nullopt;
    }

    PipelineSchedule const* schedule_ = nullptr;
    std::int64_t rank_ = 0;
    List<std::size_t> cursors_{};
    List<Place> places_{};
};

/// The messages that a slot of work is done with: its own input where no later pass needs it, and what the passes before it
/// kept for it.
[[nodiscard]] constexpr List<PipelineMessage> messages_done(PipelineSchedule const& schedule, std::int64_t rank,
                                                            PipelineSlot const& slot, bool is_training) {
    auto const last = !is_training        ? PipelineWork::forward
                      : schedule.is_split ? PipelineWork::weights
                                          : PipelineWork::backward;
    List<PipelineMessage> done;
    if (slot.work != last) return done;
    auto const virtual_stage = schedule.virtual_stage(rank, slot.chunk);
    done.push_back({PipelineWork::forward, slot.micro_batch, virtual_stage});
    if (is_training) done.push_back({PipelineWork::backward, slot.micro_batch, virtual_stage});
    return done;
}

/// True where a table has backward passes.
[[nodiscard]] constexpr bool is_training(PipelineSchedule const& schedule) {
    for (auto const& slot : schedule.ranks.front()) {
        if (slot.work != PipelineWork::forward) return true;
    }
    return false;
}

/// How many messages a rank holds at once, those included that it waits with for a later pass.
///
/// Errors  invalid_argument for a table that waits for what never comes
[[nodiscard]] constexpr Result<std::int64_t> places_needed(PipelineSchedule const& schedule, std::int64_t rank) {
    PipelineInbox inbox(schedule, rank);
    bool const trains = is_training(schedule);
    for (auto const& slot : schedule.ranks[static_cast<std::size_t>(rank)]) {
        for (auto const& needed : {message_kept(schedule, rank, slot), message_needed(schedule, rank, slot)}) {
            if (!needed) continue;
            auto const place = inbox.fetch(*needed, [](std::int64_t, std::int64_t) { return Result<>{}; });
            if (!place) return place.error();
        }
        auto const made = message_made(schedule, rank, slot);
        if (made && rank_of_virtual_stage(schedule, made->virtual_stage) == rank) (void)inbox.keep(*made);
        for (auto const& message : messages_done(schedule, rank, slot, trains)) inbox.release(message);
    }
    return inbox.places();
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
