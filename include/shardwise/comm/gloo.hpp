// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/communicator.hpp>
#include <shardwise/comm/detail/check_ranks.hpp>
#include <shardwise/comm/detail/finish_until.hpp>
#include <shardwise/comm/detail/gloo_wire.hpp>
#include <shardwise/comm/detail/message_communicator.hpp>
#include <shardwise/comm/detail/message_group.hpp>
#include <shardwise/comm/detail/rank_files.hpp>
#include <shardwise/core/deadline.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How a group of processes is connected by Gloo; all ranks give the same timeout, checks and silence.
struct GlooOptions {
    /// How long a call waits for the other ranks, and how long `join` waits for all to come.
    std::chrono::nanoseconds timeout = std::chrono::seconds(30);
    /// Compares collective, type, operation, root and count across ranks before data moves.
    bool checks_calls = true;
    /// This rank's own address or host name, at which it listens until all are connected: the loopback unless asked otherwise.
    std::string address = "127.0.0.1";
    /// How long the system of another rank may give no sign of life. A stopped process is not silent: its system answers.
    std::chrono::seconds silence{3};
};

/// One rank of a group of processes on one or more machines, connected by Gloo over TCP.
///
/// The ranks find each other through an empty folder that all can see and only this user may write; nothing listens for it. A
/// rank that dies or is cut off is named by those who wait for it; then all connections of the group and of those split
/// from it are closed. One thread at a time uses a group and those split from it.
class Gloo : public detail::MessageCommunicator<Gloo, detail::GlooWire> {
public:
    static constexpr std::string_view name = "gloo";
    static constexpr std::int32_t max_ranks = 256;

    /// Joins the group that meets in `folder` and waits until all its ranks have come.
    ///
    /// Errors  invalid_argument for a rank that is out of range or taken, or a group of another size; deadline_exceeded with the
    ///         ranks that never came, with one that does not connect, or with a folder or an address of which the system knows
    ///         nothing in time, within half a second of the timeout; backend_failure with Gloo's or the system's words
    [[nodiscard]] static Result<Gloo> join(std::string const& folder, std::int32_t rank, std::int32_t ranks,
                                           GlooOptions const& options = {}) {
        Error wrong{ErrorCode::invalid_argument};
        wrong.in("gloo");
        if (auto const checked = detail::check_ranks("gloo", ranks, max_ranks); !checked) return checked.error();
        if (rank < 0 || rank >= ranks)
            return wrong.at("rank").because("is no rank of the group").got(rank).between(0, ranks - 1);
        if (options.silence < std::chrono::seconds(1)) {
            return wrong.at("silence").because("is less than a second").got(options.silence.count()).at_least(1);
        }
        auto const meet = [=]() -> Result<std::shared_ptr<detail::GlooWire>> {
            auto const deadline = Deadline::after(options.timeout);
            // Gloo names neither who is missing nor who came twice.
            if (auto const met = detail::meet_in_folder(folder, rank, ranks, options.timeout); !met) return met.error();
            // Also who came at the last moment needs some time to connect.
            auto const left = std::max<std::chrono::nanoseconds>(deadline.left(), std::chrono::milliseconds(300));
            return detail::GlooWire::create(folder, rank, ranks, options.address, options.silence,
                                            Deadline::after(left));
        };
        constexpr std::chrono::nanoseconds more = std::chrono::milliseconds(450);
        constexpr auto most = std::chrono::nanoseconds::max() - more;
        auto finished = detail::finish_until(Deadline::after(std::min(options.timeout, most) + more), meet);
        if (!finished) {
            return Error{ErrorCode::deadline_exceeded}
                .in("gloo")
                .at(folder)
                .because("the system gave no answer about this folder or the address " + options.address)
                .fix("look at the file system of the folder and at the name service");
        }
        auto& wire = *finished;
        if (!wire) return wire.error();
        return Gloo(*std::move(wire), detail::whole_group(rank, ranks), {options.timeout, options.checks_calls});
    }

private:
    using MessageCommunicator::MessageCommunicator;
    friend MessageCommunicator;
};

static_assert(Communicator<Gloo> && KeepsUnread<Gloo>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
