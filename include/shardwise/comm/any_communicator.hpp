// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/call_trace.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/comm/detail/rank_names.hpp>
#include <shardwise/core/bytes.hpp>
#include <shardwise/core/result.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// One of several communicators, chosen at run time. What is a template on its communicator is compiled once for all of them:
/// only the collectives themselves are compiled for each.
///
/// Order  one thread at a time uses it, as each of the kinds
template <class... Kinds>
class AnyCommunicator {
    static_assert((Communicator<Kinds> && ...), "each kind is a communicator of its own");

public:
    template <class C>
    requires(std::same_as<C, Kinds> || ...)
        // NOLINTNEXTLINE(google-explicit-constructor): any of the kinds is one.
        AnyCommunicator(C one)
        : one_(std::move(one)) {}

    [[nodiscard]] std::int32_t rank() const {
        return std::visit([](auto const& one) { return one.rank(); }, one_);
    }
    [[nodiscard]] std::int32_t size() const {
        return std::visit([](auto const& one) { return one.size(); }, one_);
    }
    /// This rank's share of the memory that the group stages its data in; none where the kind has none of its own.
    [[nodiscard]] Bytes staging_bytes() const {
        return std::visit(
            [](auto const& one) {
                if constexpr (requires { one.staging_bytes(); })
                    return one.staging_bytes();
                else
                    return Bytes{0};
            },
            one_);
    }
    /// The name of the kind that it is.
    [[nodiscard]] std::string_view kind() const {
        return std::visit([](auto const& one) { return std::remove_cvref_t<decltype(one)>::name; }, one_);
    }
    /// What errors of the group call its ranks.
    [[nodiscard]] detail::RankNames rank_names() const {
        return std::visit([](auto const& one) { return detail::names_of_ranks(one); }, one_);
    }
    [[nodiscard]] Traffic& traffic() {
        return std::visit([](auto& one) -> Traffic& { return one.traffic(); }, one_);
    }
    void took(std::int64_t messages, std::int64_t bytes) {
        std::visit([=](auto& one) { one.took(messages, bytes); }, one_);
    }
    [[nodiscard]] Result<> send_bytes(std::int32_t to, Dtype dtype, std::byte const* data, std::int64_t count,
                                      std::size_t element_bytes) {
        auto const send = [&] {
            return std::visit([=](auto& one) { return one.send_bytes(to, dtype, data, count, element_bytes); }, one_);
        };
        if (!tracer_.is_on()) return send();
        return detail::trace_message(tracer_, to, count * static_cast<std::int64_t>(element_bytes), true, send);
    }
    [[nodiscard]] Result<> receive_bytes(std::int32_t from, Dtype dtype, std::byte* data, std::int64_t count,
                                         std::size_t element_bytes) {
        auto const receive = [&] {
            auto const begin = is_timed_ ? Clock::now() : Clock::time_point{};
            auto done =
                std::visit([=](auto& one) { return one.receive_bytes(from, dtype, data, count, element_bytes); }, one_);
            if (is_timed_) time_ += Clock::now() - begin;
            return done;
        };
        if (!tracer_.is_on()) return receive();
        return detail::trace_message(tracer_, from, count * static_cast<std::int64_t>(element_bytes), false, receive);
    }
    /// Whether messages wait for their receivers in memory of the kind's own (KeepsUnread): one thread alone then uses it.
    [[nodiscard]] bool keeps_unread() const {
        return std::visit([]<class One>(One const&) { return KeepsUnread<One>; }, one_);
    }
    /// As of a kind that keeps unread messages; nothing for another.
    void keep_unread(std::int64_t messages, std::int64_t bytes) {
        std::visit(
            [=]<class One>(One& one) {
                if constexpr (KeepsUnread<One>) one.keep_unread(messages, bytes);
            },
            one_);
    }
    [[nodiscard]] Result<> finish_sends() {
        return std::visit(
            []<class One>(One& one) -> Result<> {
                if constexpr (KeepsUnread<One>) return one.finish_sends();
                return {};
            },
            one_);
    }
    /// Makes every later call of every rank return `error`, unless another error came first; returns the first one. Another thread of the
    /// rank may be in a call where the ranks share memory.
    Result<> fail(Error const& error) {
        return std::visit([&](auto& one) { return one.fail(error); }, one_);
    }
    /// What has ended the group, if something has and the kind sees it without a call of all ranks.
    [[nodiscard]] std::optional<Error> lost() const {
        return std::visit(
            [](auto const& one) -> std::optional<Error> {
                if constexpr (requires { one.lost(); })
                    return one.lost();
                else
                    return std::nullopt;
            },
            one_);
    }
    /// Cuts the group: ranks that give one color become a group of their own, numbered by their rank here.
    ///
    /// Errors  as a collective
    [[nodiscard]] Result<AnyCommunicator> split(std::int32_t color) {
        return std::visit(
            [color](auto& one) -> Result<AnyCommunicator> {
                auto part = one.split(color);
                if (!part) return part.error();
                return Result<AnyCommunicator>(AnyCommunicator(std::move(*part)));
            },
            one_);
    }

    /// Calls `use` with the communicator that it is: what the collectives do.
    template <class Use>
    [[nodiscard]] Result<> visit(Use&& use) {
        auto const begin = is_timed_ ? Clock::now() : Clock::time_point{};
        auto const call = [&] { return std::visit(std::forward<Use>(use), one_); };
        auto done = tracer_.is_on() ? detail::trace_collective(tracer_, traffic(), call) : call();
        if (is_timed_) time_ += Clock::now() - begin;
        return done;
    }
    /// Has waits leave the core to others at once from now on, or not; nothing where the kind waits in its own way.
    void wait_gently(bool is_gentle) {
        std::visit(
            [is_gentle](auto& one) {
                if constexpr (requires { one.wait_gently(is_gentle); }) one.wait_gently(is_gentle);
            },
            one_);
    }
    /// Adds up from now on how long collectives and receives take, what they wait for other ranks included.
    void measure_calls() { is_timed_ = true; }
    [[nodiscard]] std::chrono::nanoseconds time_of_calls() const { return time_; }
    /// Tells of every call from now on, of its waits too; what `tracer` refers to outlives the calls.
    void trace(Tracer const& tracer) {
        tracer_ = tracer;
        traffic().trace(tracer);
    }

private:
    using Clock = std::chrono::steady_clock;

    std::variant<Kinds...> one_;
    Tracer tracer_{};
    bool is_timed_ = false;
    std::chrono::nanoseconds time_{0};
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
