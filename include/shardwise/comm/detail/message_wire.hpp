// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/error.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// How far a message has come.
enum class MessageState { pending, done, broken };

/// A message on a wire, which owns its memory wherever it is moved: how far it is, why it is broken, what came (of one that was sent:
/// anything), and the rank at the other end by its number on the wire.
template <class M>
concept WireMessage = std::movable<M> && requires(M const& message) {
    { message.state() } -> std::same_as<MessageState>;
    { message.reason() } -> std::convertible_to<std::string>;
    { message.bytes() } -> std::convertible_to<std::span<std::byte const>>;
    { message.peer() } -> std::same_as<std::int32_t>;
};

/// A wire starts messages: start_send(rank, lane, bytes) and start_receive(rank, lane, size). The n-th that is sent on a lane
/// to a rank is the n-th that this rank receives there, and as long; lanes know nothing of each other.
template <class W>
concept StartsMessages = requires(W& wire, std::vector<std::byte> bytes) {
    { wire.start_send(std::int32_t{}, std::uint32_t{}, std::move(bytes)) } -> std::same_as<typename W::Message>;
    { wire.start_receive(std::int32_t{}, std::uint32_t{}, std::size_t{}) } -> std::same_as<typename W::Message>;
};

/// What a wait asks now and then: true ends it.
struct StopProbe {
    bool operator()() const { return false; }
};

/// A wire waits for messages: wait(messages, timeout, stop) until all are done, one is broken, the time is up or stop() is true,
/// which it asks every few milliseconds at least; has_come(message) looks, and says whether it is done.
template <class W>
concept WaitsForMessages = requires(W& wire, typename W::Message& message, std::span<typename W::Message> messages,
                                    std::chrono::nanoseconds timeout, StopProbe const& stop) {
    wire.wait(messages, timeout, stop);
    { wire.has_come(message) } -> std::same_as<bool>;
};

/// keep(messages) holds what may still be written to for as long as the process lives.
template <class W>
concept KeepsMessages = requires(W& wire, std::vector<typename W::Message> messages) {
    wire.keep(std::move(messages));
};

/// A wire carries several groups: next_channel is the first number that no group of this rank has (from 1), give_up(error) lets
/// nobody wait any longer for this rank, whose group ended with the error, and ended_by is the error that ended all groups of the
/// wire, where one's end is that of all.
template <class W>
concept CarriesGroups = requires(W& wire, Error const& error) {
    { wire.next_channel } -> std::same_as<std::uint32_t&>;
    wire.give_up(error);
    { wire.ended_by } -> std::same_as<std::optional<Error>&>;
};

/// What a communicator that passes messages is made over (message_communicator.hpp).
template <class W>
concept MessageWire = WireMessage<typename W::Message> && StartsMessages<W> && WaitsForMessages<W> &&
    KeepsMessages<W> && CarriesGroups<W>;

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
