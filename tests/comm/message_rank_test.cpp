// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/barrier.hpp>
#include <shardwise/comm/detail/message_communicator.hpp>
#include <shardwise/comm/detail/message_group.hpp>
#include <shardwise/comm/detail/message_rank.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace shardwise;
using namespace std::chrono_literals;
using detail::MessageState;

namespace {

/// A wire whose messages come when the test says: what is sent is gone at once; what a rank is to get comes at a look of its own.
class ScriptedWire {
public:
    class Message {
    public:
        [[nodiscard]] MessageState state() const { return state_; }
        [[nodiscard]] std::string const& reason() const { return reason_; }
        [[nodiscard]] std::span<std::byte const> bytes() const { return bytes_; }
        [[nodiscard]] std::int32_t peer() const { return peer_; }

    private:
        friend class ScriptedWire;

        std::vector<std::byte> bytes_;
        std::int32_t peer_ = 0;
        int comes_at_ = 0;
        MessageState state_ = MessageState::pending;
        std::string reason_;
    };

    static constexpr int never = 1'000'000;
    /// Of each rank: the look at which its message comes, and that at which the word comes that it has left.
    std::vector<int> message_at;
    std::vector<int> word_at;
    /// The look at which the time is up.
    int last_look = 100;

    [[nodiscard]] Message start_send(std::int32_t to, std::uint32_t, std::vector<std::byte> bytes) {
        Message message;
        message.bytes_ = std::move(bytes);
        message.peer_ = to;
        message.state_ = MessageState::done;
        return message;
    }
    [[nodiscard]] Message start_receive(std::int32_t from, std::uint32_t lane, std::size_t bytes) {
        Message message;
        // A word of 0 is that of a rank which left without a failure.
        message.bytes_.resize(bytes);
        message.peer_ = from;
        constexpr std::uint32_t lane_of_words = 2;
        message.comes_at_ = (lane == lane_of_words ? word_at : message_at)[static_cast<std::size_t>(from)];
        return message;
    }
    [[nodiscard]] bool has_come(Message& message) const {
        if (look_ >= message.comes_at_) message.state_ = MessageState::done;
        return message.state_ == MessageState::done;
    }
    template <class Stop>
    void wait(std::span<Message> messages, std::chrono::nanoseconds, Stop const& stop) {
        while (true) {
            bool is_pending = false;
            for (auto& each : messages) is_pending = !has_come(each) || is_pending;
            ++look_;
            if (!is_pending || stop() || look_ > last_look) return;
            std::this_thread::sleep_for(70ms);
        }
    }
    void keep(std::vector<Message>) {}
    void give_up(Error const&) {}

    std::optional<Error> ended_by;
    std::uint32_t next_channel = 1;

private:
    int look_ = 0;
};

class Scripted : public detail::MessageCommunicator<Scripted, ScriptedWire> {
public:
    [[nodiscard]] static Scripted first_of_three(std::vector<int> message_at, std::vector<int> word_at) {
        return first_of({0, 1, 2}, std::move(message_at), std::move(word_at));
    }
    /// Rank 0 of a group of these ranks of the wire.
    [[nodiscard]] static Scripted first_of(std::vector<std::int32_t> members, std::vector<int> message_at,
                                           std::vector<int> word_at, int last_look = 100) {
        auto wire = std::make_shared<ScriptedWire>();
        wire->last_look = last_look;
        wire->message_at = std::move(message_at);
        wire->word_at = std::move(word_at);
        return Scripted(std::move(wire), {std::move(members), 0, 0}, {20s, false});
    }

private:
    using MessageCommunicator::MessageCommunicator;
    friend MessageCommunicator;
};

}  // namespace

TEST_CASE("MessageRank: each rank that leaves behind its last message is given time for it") {
    constexpr int never = ScriptedWire::never;
    // Each time the word that a rank has left is seen just before its message.
    auto late = Scripted::first_of_three({never, 2, 5}, {never, 1, 4});
    auto const met = barrier(late);
    if (!met) CAPTURE(met.error().message());
    CHECK(met);
    // Rank 1's message comes, and rank 2's does not.
    auto lost = Scripted::first_of_three({never, 2, never}, {never, 1, 4});
    auto const failed = barrier(lost);
    REQUIRE_FALSE(failed);
    CHECK(failed.error().code() == ErrorCode::rank_lost);
    CHECK(failed.error().message().find("rank 2: left the group before call 1, barrier") != std::string::npos);
}

TEST_CASE("MessageRank: ranks of a part that miss a call are named by their numbers in the whole, too") {
    constexpr int never = ScriptedWire::never;
    auto part = Scripted::first_of({1, 3, 4, 6}, {0, never, 0, never, 1, 0, never}, std::vector<int>(7, never), 2);
    auto const missed = barrier(part);
    REQUIRE_FALSE(missed);
    CHECK(missed.error().code() == ErrorCode::deadline_exceeded);
    CAPTURE(missed.error().message());
    CHECK(missed.error().message().find("by rank 1, 3 (of all: rank 3, 6)") != std::string::npos);
}
