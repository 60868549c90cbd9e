// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/detail/gloo_interrupter.hpp>
#include <shardwise/comm/detail/gloo_mesh.hpp>
#include <shardwise/comm/detail/message_rank.hpp>
#include <shardwise/core/deadline.hpp>
#include <shardwise/core/error.hpp>
#include <shardwise/core/result.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <dirent.h>
#include <exception>
#include <gloo/transport/tcp/device.h>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Keeps a write to a closed connection from ending the process: Gloo's threads inherit it, the caller's gets its mask back.
class NoPipeSignal {
public:
    NoPipeSignal() {
        sigemptyset(&pipe_);
        sigaddset(&pipe_, SIGPIPE);
        pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
    }
    ~NoPipeSignal() {
        if (sigismember(&before_, SIGPIPE) == 1) return;
        timespec const now{};
        (void)sigtimedwait(&pipe_, nullptr, &now);
        pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }
    NoPipeSignal(NoPipeSignal const&) = delete;
    NoPipeSignal& operator=(NoPipeSignal const&) = delete;

private:
    sigset_t pipe_{};
    sigset_t before_{};
};

/// True where a message has come, false where the wait for it was interrupted. `wait(until)` says the same of Gloo, which tells most
/// messages that their connection broke, but not one that was half read then: `look()` throws where the connection is broken. What
/// was sent before it broke is here by then, also where it came after the wait.
///
/// Throws what `look` and `wait` throw
template <class Wait, class Look>
[[nodiscard]] bool comes_before_break(Wait const& wait, Look const& look, Deadline const& until) {
    if (wait(until)) return true;
    try {
        look();
    } catch (std::exception const&) {
        if (!wait(Deadline::after(std::chrono::milliseconds(50)))) throw;
        return true;
    }
    return false;
}

/// Messages of Gloo over TCP. Gloo's own deadline closes all connections, and a message that was half read when its connection
/// broke is never told: waits are interrupted by a thread of the wire, which looks at the clock and at another message of the
/// same connection.
class GlooWire {
public:
    class Message {
    public:
        [[nodiscard]] MessageState state() const { return held_->state; }
        [[nodiscard]] std::string const& reason() const { return held_->reason; }
        [[nodiscard]] std::span<std::byte const> bytes() const { return held_->bytes; }
        [[nodiscard]] std::int32_t peer() const { return held_->peer; }

    private:
        friend class GlooWire;

        struct Held {
            // The buffer goes first: Gloo lets go of the bytes when it does.
            std::vector<std::byte> bytes;
            std::unique_ptr<gloo::transport::UnboundBuffer> buffer;
            std::int32_t peer = 0;
            bool is_send = false;
            MessageState state = MessageState::pending;
            std::string reason;
        };
        std::unique_ptr<Held> held_ = std::make_unique<Held>();
    };

    /// Connects all ranks with each other through a folder that all can see. A connection that gives no sign of life for
    /// `silence` is broken.
    ///
    /// Errors  deadline_exceeded with the rank that does not connect; backend_failure with Gloo's own words
    [[nodiscard]] static Result<std::shared_ptr<GlooWire>> create(std::string const& folder, std::int32_t rank,
                                                                  std::int32_t ranks, std::string const& address,
                                                                  std::chrono::seconds silence,
                                                                  Deadline const& deadline) {
        std::shared_ptr<GlooWire> wire;
        std::string awaited;
        NoPipeSignal const no_signal;
        try {
            wire.reset(new GlooWire);
            must_resolve(address);
            wire->device_ = gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr(address.c_str()));
            wire->context_ = std::make_shared<GlooMesh>(rank, ranks);
            auto const before = connections();
            wire->context_->connect(folder, wire->device_, deadline, awaited);
            for (auto const socket : connections()) {
                if (std::find(before.begin(), before.end(), socket) == before.end()) keep_alive(socket, silence);
            }
            for (std::int32_t peer = 0; peer < ranks; ++peer) {
                if (peer != rank) wire->watches_.push_back(wire->start_receive(peer, watch_lane, 1));
            }
        } catch (std::exception const& problem) {
            if (!awaited.empty() && deadline.has_passed()) {
                return Error{ErrorCode::deadline_exceeded}
                    .in("gloo")
                    .at(folder)
                    .because("rank " + awaited + " came, but did not connect in time (" + last_words(problem) + ")")
                    .fix("look at what that rank does, and whether the ranks reach each other's addresses");
            }
            return Error{ErrorCode::backend_failure}
                .in("gloo")
                .because(last_words(problem))
                .fix("check that the ranks reach each other's addresses");
        }
        return wire;
    }

    [[nodiscard]] Message start_send(std::int32_t to, std::uint32_t lane, std::vector<std::byte> bytes) {
        return start(to, lane, std::move(bytes), true);
    }
    [[nodiscard]] Message start_receive(std::int32_t from, std::uint32_t lane, std::size_t bytes) {
        return start(from, lane, std::vector<std::byte>(bytes), false);
    }
    /// Gloo can be asked by a wait only, which takes a while to interrupt: it is while a wait takes long, or when the connections
    /// are broken.
    [[nodiscard]] bool has_come(Message& message) {
        if (is_broken_ || is_late_) (void)wait_a_moment(message, Deadline::after({}));
        return message.state() == MessageState::done;
    }
    template <class Stop>
    void wait(std::span<Message> messages, std::chrono::nanoseconds timeout, Stop const& stop) {
        auto const deadline = Deadline::after(timeout);
        while (true) {
            bool is_interrupted = false;
            for (auto& each : messages) {
                // The first that does not come takes a while; then the others are only looked at.
                is_interrupted = wait_a_moment(each, is_interrupted ? Deadline::after({}) : deadline) || is_interrupted;
                if (each.state() == MessageState::broken) return;
            }
            if (!is_interrupted || deadline.has_passed()) return;
            is_late_ = true;
            bool const is_over = stop();
            is_late_ = false;
            if (is_over) return;
        }
    }
    void keep(std::vector<Message> messages) {
        for (auto& each : messages) {
            if (each.state() == MessageState::pending) kept_.push_back(std::move(each));
        }
        if (kept_.size() < max_kept_) return;
        std::erase_if(kept_, [this](Message& each) {
            (void)wait_a_moment(each, Deadline::after({}));
            return each.state() == MessageState::done;
        });
        max_kept_ = std::max(min_kept, 2 * kept_.size());
    }
    /// Closes all connections: whoever waits for this rank is told by the system.
    void give_up(Error const& error) {
        ended_by = error;
        is_broken_ = true;
        NoPipeSignal const no_signal;
        context_->close();
    }

    /// The error of the group that gave up first: without connections none goes on.
    std::optional<Error> ended_by;
    std::uint32_t next_channel = 1;

private:
    GlooWire() = default;

    /// Gloo goes on with nothing where a host name is unknown, and crashes.
    static void must_resolve(std::string const& address) {
        addrinfo hints{};
        hints.ai_socktype = SOCK_STREAM;
        addrinfo* found = nullptr;
        char host[256] = {};
        // Nothing means this machine's name to Gloo.
        if (address.empty()) (void)gethostname(host, sizeof host - 1);
        auto const status = getaddrinfo(address.empty() ? host : address.c_str(), nullptr, &hints, &found);
        if (status != 0) throw std::runtime_error("the address " + address + " is unknown: " + gai_strerror(status));
        freeaddrinfo(found);
    }

    /// The process's connected TCP sockets: Gloo does not show its own, so those that are new are.
    [[nodiscard]] static std::vector<int> connections() {
        std::vector<int> found;
        auto* const folder = opendir("/proc/self/fd");
        if (folder == nullptr) return found;
        while (auto const* const entry = readdir(folder)) {
            auto const socket = std::atoi(entry->d_name);
            sockaddr_storage peer{};
            socklen_t size = sizeof peer;
            if (getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
            if (peer.ss_family == AF_INET || peer.ss_family == AF_INET6) found.push_back(socket);
        }
        closedir(folder);
        return found;
    }

    /// Lets the system ask a silent peer for a sign of life, so that a cut connection is known while nobody writes, too.
    ///
    /// Source  tcp(7)
    static void keep_alive(int socket, std::chrono::seconds silence) {
        int const on = 1;
        int const interval = 1;
        auto const seconds = static_cast<int>(silence.count());
        int const probes = seconds > 1 ? seconds - 1 : 1;
        auto const most = static_cast<unsigned>(seconds) * 1000U;
        setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
        setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &interval, sizeof interval);
        setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
        setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
        setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &most, sizeof most);
    }

    [[nodiscard]] Message start(std::int32_t peer, std::uint32_t lane, std::vector<std::byte> bytes, bool is_send) {
        Message message;
        auto& held = *message.held_;
        held.bytes = std::move(bytes);
        held.peer = peer;
        held.is_send = is_send;
        NoPipeSignal const no_signal;
        try {
            held.buffer = context_->createUnboundBuffer(held.bytes.data(), held.bytes.size());
            if (is_send)
                held.buffer->send(peer, lane);
            else
                held.buffer->recv(peer, lane);
        } catch (std::exception const& problem) {
            mark_broken(held, problem);
        }
        return message;
    }
    /// False where the wait is interrupted, at this moment or before: then the message may have come all the same.
    [[nodiscard]] bool wait_in_gloo(Message::Held& held, Deadline const& until) {
        interrupter_.begin(held.buffer.get(), held.is_send, until.moment());
        bool const is_done = held.is_send ? held.buffer->waitSend(never) : held.buffer->waitRecv(never);
        interrupter_.end();
        return is_done;
    }
    /// Throws where the connection with a rank is broken.
    void look_at_connection(std::int32_t peer) const {
        for (auto const& watch : watches_) {
            if (watch.peer() != peer) continue;
            watch.held_->buffer->abortWaitRecv();
            (void)watch.held_->buffer->waitRecv(never);
        }
    }
    /// Waits until a message is done or broken; true where it was interrupted, at this moment or before.
    [[nodiscard]] bool wait_a_moment(Message& message, Deadline const& until) {
        auto& held = *message.held_;
        if (held.state != MessageState::pending) return false;
        try {
            auto const wait = [&](Deadline const& moment) { return wait_in_gloo(held, moment); };
            if (!comes_before_break(
                    wait, [&] { look_at_connection(held.peer); }, until))
                return true;
            held.state = MessageState::done;
        } catch (std::exception const& problem) {
            interrupter_.end();
            mark_broken(held, problem);
        }
        return false;
    }
    /// What Gloo says, without where in its source it says so.
    [[nodiscard]] static std::string last_words(std::exception const& problem) {
        std::string const words = problem.what();
        auto const begin = words.rfind("] ");
        return begin == std::string::npos ? words : words.substr(begin + 2);
    }
    void mark_broken(Message::Held& held, std::exception const& problem) {
        std::string const words = problem.what();
        is_broken_ = true;
        held.state = MessageState::broken;
        bool const is_cut = words.find("timed out") != std::string::npos || words.find("route") != std::string::npos ||
                            words.find("unreachable") != std::string::npos;
        held.reason =
            (is_cut ? "is cut off by a network partition (" : "closed its connection (") + last_words(problem) + ")";
    }

    static constexpr std::uint32_t watch_lane = UINT32_MAX;
    static constexpr std::chrono::milliseconds never = std::chrono::hours(24);

    std::shared_ptr<gloo::transport::Device> device_;
    std::shared_ptr<GlooMesh> context_;
    bool is_broken_ = false;
    bool is_late_ = false;
    /// What is kept, and how much of it before what has come by now is let go.
    static constexpr std::size_t min_kept = 64;
    std::vector<Message> kept_;
    std::size_t max_kept_ = min_kept;
    /// One message from each other rank that never comes.
    std::vector<Message> watches_;
    GlooInterrupter interrupter_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
