// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/barrier.hpp>
#include <shardwise/comm/detail/descriptor_mail.hpp>
#include <shardwise/comm/detail/exchange_results.hpp>
#include <shardwise/comm/shared_memory.hpp>

#include <doctest/doctest.h>

#include "processes.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <string>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace shardwise;
using namespace std::chrono_literals;
using detail::DescriptorMail;
using detail::OwnedDescriptor;
using shardwise::testing::check_all_succeed;
using shardwise::testing::ProcessOutcome;

namespace {

using Addresses = std::vector<DescriptorMail::Address>;
using Body = std::function<Result<>(HostCommunicator&, DescriptorMail&, Addresses const&)>;

Error wrong(std::string const& what) {
    return Error{ErrorCode::invalid_argument}.in("test").because(what);
}

/// Runs body in a process for each rank, once all know each other's addresses.
std::vector<ProcessOutcome> run_ranks(std::int32_t ranks, Body const& body) {
    static int number = 0;
    auto const key = "descriptor-mail-" + std::to_string(getpid()) + "-" + std::to_string(++number);
    std::vector<std::function<Result<>()>> bodies;
    for (std::int32_t rank = 0; rank < ranks; ++rank) {
        bodies.emplace_back([=, &body]() -> Result<> {
            auto joined = SharedMemory::join(key, rank, ranks, {.timeout = 30s});
            if (!joined) return joined.error();
            HostCommunicator world(std::move(*joined));
            auto mail = DescriptorMail::open();
            if (!mail) return mail.error();
            auto const addresses = detail::exchange_results(world, Result<DescriptorMail::Address>(mail->address()));
            if (!addresses) return addresses.error();
            return body(world, *mail, *addresses);
        });
    }
    return testing::run_processes(bodies, {}, 60s);
}

/// A file with a rank's number in it.
OwnedDescriptor file_of(std::int32_t rank) {
    OwnedDescriptor file(memfd_create("descriptor-mail", MFD_CLOEXEC));
    auto const byte = static_cast<char>('a' + rank);
    (void)!write(file.get(), &byte, 1);
    return file;
}
Result<> exchange(HostCommunicator& world, DescriptorMail& mail, Addresses const& addresses,
                  std::chrono::nanoseconds limit = 20s) {
    auto const own = file_of(world.rank());
    auto const found = mail.exchange(world, addresses, own.get(), limit);
    if (!found) return found.error();
    for (std::int32_t rank = 0; rank < world.size(); ++rank) {
        auto const& file = (*found)[static_cast<std::size_t>(rank)];
        if (file.is_open() == (rank == world.rank())) return wrong("has its own, or lacks another's");
        char byte = 0;
        if (file.is_open() && (pread(file.get(), &byte, 1, 0) != 1 || byte != 'a' + rank))
            return wrong("has another rank's file");
        if (file.is_open() && (fcntl(file.get(), F_GETFD) & FD_CLOEXEC) == 0) return wrong("goes on to children");
    }
    return {};
}

/// Sends a text and a file to an address, as a stranger may.
void send_to(DescriptorMail::Address const& address, std::string const& text, int file, std::size_t files = 1) {
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    std::copy(address.name.begin(), address.name.end(), at.sun_path + 1);
    OwnedDescriptor const socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (::connect(socket.get(), reinterpret_cast<sockaddr const*>(&at), sizeof at) != 0) return;
    iovec part{const_cast<char*>(text.data()), text.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(2 * sizeof(int))> control{};
    msghdr head{};
    head.msg_iov = &part;
    head.msg_iovlen = 1;
    if (file >= 0) {
        head.msg_control = control.data();
        head.msg_controllen = CMSG_SPACE(files * sizeof(int));
        auto* const enclosed = CMSG_FIRSTHDR(&head);
        enclosed->cmsg_level = SOL_SOCKET;
        enclosed->cmsg_type = SCM_RIGHTS;
        enclosed->cmsg_len = CMSG_LEN(files * sizeof(int));
        int const twice[] = {file, file};
        std::memcpy(CMSG_DATA(enclosed), twice, files * sizeof(int));
    }
    (void)::sendmsg(socket.get(), &head, MSG_NOSIGNAL);
}
int count_open() {
    int count = 0;
    for (int i = 0; i < 200; ++i) count += fcntl(i, F_GETFD) >= 0 ? 1 : 0;
    return count;
}

}  // namespace

TEST_CASE("DescriptorMail: every rank gets every other's file, several times, and keeps nothing open") {
    for (std::int32_t const ranks : {1, 2, 5, 16}) {
        CAPTURE(ranks);
        check_all_succeed(run_ranks(ranks, [](auto& world, auto& mail, auto const& addresses) -> Result<> {
            auto const before = count_open();
            for (int i = 0; i < 3; ++i) {
                if (auto const done = exchange(world, mail, addresses); !done) return done;
                if (auto const met = barrier(world); !met) return met;
            }
            return count_open() == before ? Result<>{} : Result<>{wrong("leaves descriptors open")};
        }));
    }
}

TEST_CASE("DescriptorMail: who does not know a rank's word hands it nothing, whatever it sends") {
    check_all_succeed(run_ranks(2, [](auto& world, auto& mail, auto const& addresses) -> Result<> {
        auto const before = count_open();
        {
            auto const file = file_of(25);
            auto const& other = addresses[static_cast<std::size_t>(1 - world.rank())];
            struct {
                std::array<std::uint64_t, 2> word;
                std::int64_t rank;
            } message{{other.word[0], other.word[1] + 1}, world.rank()};
            std::string text(reinterpret_cast<char const*>(&message), sizeof message);
            send_to(other, text, file.get());
            message = {other.word, world.rank()};
            send_to(other, {reinterpret_cast<char const*>(&message), sizeof message}, file.get(), 2);
            message = {other.word, std::int64_t{1} << 40};
            send_to(other, {reinterpret_cast<char const*>(&message), sizeof message}, file.get());
            message = {other.word, -1};
            send_to(other, {reinterpret_cast<char const*>(&message), sizeof message}, file.get());
            message = {other.word, 0};
            send_to(other, {reinterpret_cast<char const*>(&message), sizeof other.word}, file.get());
            send_to(other, text, -1);
            send_to(other, "", -1);
        }
        // All of it lies there before the ranks' own.
        if (auto const met = barrier(world); !met) return met;
        if (auto const done = exchange(world, mail, addresses); !done) return done;
        if (auto const met = barrier(world); !met) return met;
        return count_open() == before ? Result<>{} : Result<>{wrong("leaves descriptors open")};
    }));
}

TEST_CASE("DescriptorMail: a rank that dies, or sends nothing, ends the others' wait by name") {
    for (auto const victim : {0, 2}) {
        auto const outcomes = run_ranks(3, [&](auto& world, auto& mail, auto const& addresses) -> Result<> {
            if (world.rank() == victim) (void)raise(SIGKILL);
            auto const done = exchange(world, mail, addresses, 40s);
            auto const all = detail::exchange_results(world, done ? Result<int>(0) : Result<int>(done.error()));
            return all ? Result<>{} : Result<>{all.error()};
        });
        for (std::int32_t rank = 0; rank < 3; ++rank) {
            auto const& outcome = outcomes[static_cast<std::size_t>(rank)];
            CHECK(outcome.has_answered == (rank != victim));
            if (rank == victim) continue;
            CHECK_MESSAGE(outcome.code == ErrorCode::rank_lost, outcome.message);
            CHECK_MESSAGE(outcome.message.find("rank " + std::to_string(victim)) != std::string::npos, outcome.message);
            CHECK(outcome.took < 20s);
        }
    }
    auto const silent = run_ranks(3, [](auto& world, auto& mail, auto const& addresses) -> Result<> {
        auto done = world.rank() == 1 ? Result<>{} : exchange(world, mail, addresses, 500ms);
        if (auto const met = barrier(world); !met) return met;
        return done;
    });
    CHECK(silent[1].succeeded);
    for (auto const rank : {0, 2}) {
        auto const& outcome = silent[static_cast<std::size_t>(rank)];
        CHECK_MESSAGE(outcome.code == ErrorCode::deadline_exceeded, outcome.message);
        CHECK_MESSAGE(outcome.message.find("rank 1") != std::string::npos, outcome.message);
    }
}
