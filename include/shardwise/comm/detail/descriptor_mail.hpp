// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/host_communicator.hpp>
#include <shardwise/core/deadline.hpp>
#include <shardwise/core/result.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <poll.h>
#include <string_view>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A file descriptor that its owner closes.
class OwnedDescriptor {
public:
    explicit OwnedDescriptor(int descriptor = -1) : descriptor_(descriptor) {}
    OwnedDescriptor(OwnedDescriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
    OwnedDescriptor& operator=(OwnedDescriptor&& other) noexcept {
        std::swap(descriptor_, other.descriptor_);
        return *this;
    }
    ~OwnedDescriptor() {
        if (descriptor_ >= 0) (void)::close(descriptor_);
    }
    [[nodiscard]] int get() const { return descriptor_; }
    [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }

private:
    int descriptor_;
};

/// Hands a file descriptor of each rank to all others, processes of one user on one machine: over unix sockets with abstract names, of which
/// nothing stays behind when a process ends. Ranks tell each other the names, and words that nobody else knows, over their communicator.
class DescriptorMail {
public:
    /// What other ranks reach a rank by.
    struct Address {
        std::array<char, 40> name{};
        std::array<std::uint64_t, 2> word{};
    };

    /// Errors  backend_failure
    [[nodiscard]] static Result<DescriptorMail> open() {
        DescriptorMail mail;
        std::array<std::uint64_t, 3> random{};
        if (::getrandom(random.data(), sizeof random, 0) != static_cast<ssize_t>(sizeof random))
            return failure("getrandom");
        mail.address_.word = {random[0], random[1]};
        std::string_view const prefix = "shardwise-mail/";
        auto* const digits = std::copy(prefix.begin(), prefix.end(), mail.address_.name.begin());
        for (int i = 0; i < 16; ++i) digits[i] = "0123456789abcdef"[random[2] >> (4 * i) & 15U];
        mail.socket_ = OwnedDescriptor(make_socket());
        if (!mail.socket_.is_open()) return failure("socket");
        auto const at = place(mail.address_);
        if (::bind(mail.socket_.get(), reinterpret_cast<sockaddr const*>(&at), sizeof at) != 0) return failure("bind");
        if (::listen(mail.socket_.get(), waiting) != 0) return failure("listen");
        return mail;
    }
    [[nodiscard]] Address const& address() const { return address_; }

    /// Every rank calls it with the addresses of all, and gets the others' descriptors by their rank; its own place stays empty. No rank
    /// leaves the group before all have: they meet afterwards. What comes from another user, or without this rank's word, is closed unread.
    ///
    /// Errors  rank_lost, where the communicator finds out; deadline_exceeded with the rank that has sent nothing; backend_failure, also
    ///         for a rank that is in another network namespace
    [[nodiscard]] Result<std::vector<OwnedDescriptor>> exchange(HostCommunicator& comm,
                                                                std::vector<Address> const& addresses, int own,
                                                                std::chrono::nanoseconds limit) {
        std::vector<OwnedDescriptor> received(addresses.size());
        std::vector<bool> has_sent(addresses.size());
        has_sent[static_cast<std::size_t>(comm.rank())] = true;
        std::vector<OwnedDescriptor> callers;
        auto const deadline = Deadline::after(limit);
        while (true) {
            bool is_done = true;
            for (std::size_t rank = 0; rank < addresses.size(); ++rank) {
                if (!has_sent[rank]) {
                    auto const sent = send(addresses[rank], comm.rank(), own);
                    if (!sent) return sent.error();
                    has_sent[rank] = *sent;
                }
                bool const is_own = static_cast<std::int32_t>(rank) == comm.rank();
                is_done = is_done && has_sent[rank] && (is_own || received[rank].is_open());
            }
            if (is_done) return received;
            if (auto const lost = comm.lost()) return *lost;
            if (deadline.has_passed()) return late(comm, received);
            take(callers, received);
        }
    }

private:
    struct Message {
        std::array<std::uint64_t, 2> word{};
        std::int64_t rank = 0;
    };
    union Control {
        cmsghdr header;
        std::array<char, CMSG_SPACE(sizeof(int))> bytes;
    };
    /// Callers that the system keeps until they are heard.
    static constexpr int waiting = 64;

    DescriptorMail() = default;

    [[nodiscard]] static int make_socket() {
        return ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    }
    /// The first byte of an abstract name is 0; all bytes count.
    [[nodiscard]] static sockaddr_un place(Address const& address) {
        sockaddr_un out{};
        out.sun_family = AF_UNIX;
        std::copy(address.name.begin(), address.name.end(), out.sun_path + 1);
        return out;
    }
    [[nodiscard]] static Error failure(std::string_view call) {
        return Error{ErrorCode::backend_failure}.in(call).because(std::strerror(errno)).got(errno);
    }
    [[nodiscard]] static bool is_later() { return errno == EAGAIN || errno == EINTR || errno == EWOULDBLOCK; }
    /// Whether the process at the other end is this user's.
    [[nodiscard]] static bool is_ours(int connection) {
        ucred other{};
        socklen_t size = sizeof other;
        return ::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &other, &size) == 0 && other.uid == ::geteuid();
    }

    /// False: not yet.
    ///
    /// Errors  backend_failure, also where the address is another user's
    [[nodiscard]] static Result<bool> send(Address const& to, std::int32_t from, int descriptor) {
        OwnedDescriptor const connection(make_socket());
        if (!connection.is_open()) return failure("socket");
        auto const at = place(to);
        if (::connect(connection.get(), reinterpret_cast<sockaddr const*>(&at), sizeof at) != 0) {
            if (is_later()) return false;
            // Ranks tell their addresses when they listen: this one is gone, which the communicator finds out, or out of reach.
            return failure("connect");
        }
        if (!is_ours(connection.get()))
            return Error{ErrorCode::backend_failure}.in("connect").because("the address is another user's");
        Message message{to.word, from};
        iovec text{&message, sizeof message};
        Control control{};
        msghdr head{};
        head.msg_iov = &text;
        head.msg_iovlen = 1;
        head.msg_control = control.bytes.data();
        head.msg_controllen = sizeof control.bytes;
        auto* const enclosed = CMSG_FIRSTHDR(&head);
        enclosed->cmsg_level = SOL_SOCKET;
        enclosed->cmsg_type = SCM_RIGHTS;
        enclosed->cmsg_len = CMSG_LEN(sizeof descriptor);
        std::memcpy(CMSG_DATA(enclosed), &descriptor, sizeof descriptor);
        if (::sendmsg(connection.get(), &head, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof message)) return true;
        // What is sent stays there after this end is closed.
        if (is_later() || errno == EPIPE || errno == ECONNRESET) return false;
        return failure("sendmsg");
    }
    /// Hears who has come, for a moment.
    void take(std::vector<OwnedDescriptor>& callers, std::vector<OwnedDescriptor>& received) const {
        std::vector<pollfd> events{{socket_.get(), POLLIN, 0}};
        for (auto const& caller : callers) events.push_back({caller.get(), POLLIN, 0});
        constexpr int moment_ms = 2;
        if (::poll(events.data(), events.size(), moment_ms) <= 0) return;
        std::vector<OwnedDescriptor> silent;
        for (std::size_t i = 0; i < callers.size(); ++i) {
            if (events[i + 1].revents == 0)
                silent.push_back(std::move(callers[i]));
            else
                read(callers[i].get(), received);
        }
        callers = std::move(silent);
        while (callers.size() < waiting) {
            OwnedDescriptor caller(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
            if (!caller.is_open()) break;
            if (is_ours(caller.get())) callers.push_back(std::move(caller));
        }
    }
    void read(int caller, std::vector<OwnedDescriptor>& received) const {
        Message message;
        iovec text{&message, sizeof message};
        Control control{};
        msghdr head{};
        head.msg_iov = &text;
        head.msg_iovlen = 1;
        head.msg_control = control.bytes.data();
        head.msg_controllen = sizeof control.bytes;
        auto const size = ::recvmsg(caller, &head, MSG_CMSG_CLOEXEC);
        auto const* const enclosed = size < 0 ? nullptr : CMSG_FIRSTHDR(&head);
        if (enclosed == nullptr || enclosed->cmsg_level != SOL_SOCKET || enclosed->cmsg_type != SCM_RIGHTS) return;
        // Alignment leaves a place for a second one, which a stranger may use.
        OwnedDescriptor found;
        auto const count = (enclosed->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (std::size_t i = 0; i < count; ++i) {
            int descriptor = -1;
            std::memcpy(&descriptor, CMSG_DATA(enclosed) + i * sizeof descriptor, sizeof descriptor);
            found = OwnedDescriptor(descriptor);
        }
        bool const is_known = count == 1 && size == static_cast<ssize_t>(sizeof message) &&
                              message.word == address_.word && message.rank >= 0 &&
                              static_cast<std::size_t>(message.rank) < received.size();
        if (!is_known) return;
        auto& place = received[static_cast<std::size_t>(message.rank)];
        if (!place.is_open()) place = std::move(found);
    }
    [[nodiscard]] static Error late(HostCommunicator const& comm, std::vector<OwnedDescriptor> const& received) {
        Error error{ErrorCode::deadline_exceeded};
        error.in("peers").because("has handed over no memory after the group's limit");
        for (std::int32_t rank = 0; rank < comm.size(); ++rank) {
            if (rank != comm.rank() && !received[static_cast<std::size_t>(rank)].is_open())
                return error.at(comm.rank_names().name(rank));
        }
        return error.because("does not take what this rank hands over");
    }

    OwnedDescriptor socket_;
    Address address_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
