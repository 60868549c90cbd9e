// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/barrier.hpp>
#include <shardwise/comm/detail/finish_until.hpp>
#include <shardwise/comm/gloo.hpp>

#include <doctest/doctest.h>

#include "../comm/gloo_ranks.hpp"

#include <arpa/inet.h>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <functional>
#include <gloo/transport/tcp/address.h>
#include <memory>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace shardwise;
using namespace std::chrono_literals;
using shardwise::testing::MeetingFolder;
using shardwise::testing::ProcessOutcome;
using shardwise::testing::run_processes;

namespace {

using Address = gloo::transport::tcp::Address;

/// The file in which Gloo keeps what it calls `key` (rendezvous/file_store.cc).
std::string path_of(std::string const& folder, std::string const& key) {
    return folder + "/" + std::to_string(std::hash<std::string>()(key));
}

/// Of two ranks, rank 1 says where it listens for the other.
void write_address(std::string const& folder, sockaddr_in const& where) {
    auto const bytes = Address(reinterpret_cast<sockaddr const*>(&where), sizeof where).bytes();
    auto const path = path_of(folder, "1");
    std::ofstream(path + ".new", std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    CHECK(rename((path + ".new").c_str(), path.c_str()) == 0);
}

sockaddr_in address_of(char const* text, std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    inet_pton(AF_INET, text, &address.sin_addr);
    return address;
}

/// Listens at 127.0.0.1 and accepts nobody; the system does for as many as have room.
class Listener {
public:
    Listener(std::string const& folder, bool has_room) {
        auto own = address_of("127.0.0.1", 0);
        socklen_t size = sizeof own;
        CHECK(bind(socket_, reinterpret_cast<sockaddr const*>(&own), size) == 0);
        CHECK(listen(socket_, has_room ? 8 : 0) == 0);
        getsockname(socket_, reinterpret_cast<sockaddr*>(&own), &size);
        for (auto const guest : guests_) {
            if (!has_room) (void)connect(guest, reinterpret_cast<sockaddr const*>(&own), size);
        }
        write_address(folder, own);
    }
    Listener(Listener const&) = delete;
    Listener& operator=(Listener const&) = delete;
    ~Listener() {
        close(socket_);
        for (auto const guest : guests_) close(guest);
    }

private:
    int socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int guests_[3] = {socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0),
                      socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0),
                      socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
};

void leave_rank_file(std::string const& folder) {
    std::ofstream(folder + "/shardwise-rank-1") << "2\n";
}

/// Rank 0 of two joins where rank 1 is only what `prepare` makes of it before, and `meanwhile`.
ProcessOutcome join_alone(std::chrono::nanoseconds timeout, std::function<void(std::string const&)> const& prepare,
                          std::function<void(std::string const&)> const& meanwhile = {}) {
    MeetingFolder const folder;
    prepare(folder.path());
    auto const join = [&]() -> Result<> {
        // Who has the greater address connects.
        auto const comm = Gloo::join(folder.path(), 0, 2, {.timeout = timeout, .address = "127.0.0.2"});
        return comm ? Result<>{} : comm.error();
    };
    return run_processes({join}, [&](std::vector<pid_t> const&) {
        if (meanwhile) meanwhile(folder.path());
    })[0];
}

/// Joins whose other rank never comes, stalls on its way, or lies in a folder that does not answer.
void check_stalled_joins(std::chrono::milliseconds timeout, std::chrono::nanoseconds limit) {
    auto const check = [&](char const* words, ProcessOutcome const& outcome) {
        CAPTURE(words);
        CAPTURE(outcome.message);
        REQUIRE(outcome.has_answered);
        CHECK(outcome.code == ErrorCode::deadline_exceeded);
        CHECK(outcome.message.find(words) != std::string::npos);
        CHECK(outcome.took >= timeout);
        CHECK(outcome.took < limit);
    };
    check("was never joined by rank 1", join_alone(timeout, [](std::string const&) {}));
    auto const stalls = "rank 1 came, but did not connect in time (the deadline has passed)";
    check(stalls, join_alone(timeout, leave_rank_file));
    // It says its address when most of the time has gone, and then does not connect.
    check(stalls, join_alone(timeout, leave_rank_file, [&](std::string const& folder) {
              std::this_thread::sleep_for(timeout * 9 / 10);
              write_address(folder, address_of("127.0.0.3", 9));
          }));
    // What is sent to it is lost.
    std::unique_ptr<Listener> listener;
    check(stalls, join_alone(timeout, [&](std::string const& folder) {
              leave_rank_file(folder);
              listener = std::make_unique<Listener>(folder, false);
          }));
    auto const silent = "the system gave no answer about this folder";
    auto const make_pipe = [](std::string const& path) { CHECK(mkfifo(path.c_str(), 0600) == 0); };
    check(silent, join_alone(timeout, [&](std::string const& folder) { make_pipe(folder + "/shardwise-rank-1"); }));
    check(silent, join_alone(timeout, [&](std::string const& folder) {
              leave_rank_file(folder);
              make_pipe(path_of(folder, "1"));
          }));
}

}  // namespace

// Times ten; the exact limit is in the suite "long".
TEST_CASE("Gloo: a join ends at its deadline, whatever the other rank, the network or the folder does") {
    check_stalled_joins(300ms, 8s);
}

TEST_CASE("Gloo: a rank that is connected and never answers is named at the deadline of the first call") {
    MeetingFolder const folder;
    leave_rank_file(folder.path());
    Listener const listener(folder.path(), true);
    auto comm = Gloo::join(folder.path(), 0, 2, {.timeout = 400ms, .address = "127.0.0.2"});
    REQUIRE(comm);
    auto const met = barrier(*comm);
    REQUIRE_FALSE(met);
    CHECK(met.error().code() == ErrorCode::deadline_exceeded);
    CHECK(met.error().message().find("by rank 1") != std::string::npos);
}

TEST_CASE("Gloo: a join whose timeout has no end meets") {
    MeetingFolder const folder;
    auto const join = [&](std::int32_t rank) {
        return [&, rank]() -> Result<> {
            auto comm = Gloo::join(folder.path(), rank, 2, {.timeout = std::chrono::nanoseconds::max()});
            return comm ? barrier(*comm) : comm.error();
        };
    };
    for (auto const& outcome : run_processes({join(0), join(1)})) {
        CAPTURE(outcome.message);
        CHECK(outcome.succeeded);
    }
}

TEST_CASE("Gloo: a fork that drops its copy of a rank ends, and takes the rank from nobody") {
    shardwise::testing::GlooBody const forks = [](Gloo& comm) -> Result<> {
        auto part = comm.split(0);
        if (!part) return part.error();
        if (comm.rank() == 1) {
            auto const child = fork();
            if (child == 0) {
                alarm(20);
                {
                    auto const dropped = std::move(comm);
                    auto const dropped_part = std::move(*part);
                }
                _exit(0);
            }
            int status = 0;
            if (waitpid(child, &status, 0) != child || status != 0) return Error{ErrorCode::unsupported}.in("fork");
        }
        auto const met = barrier(*part);
        return met ? barrier(comm) : met;
    };
    for (auto const& outcome : shardwise::testing::run_gloo_ranks({forks, forks}, {.timeout = 40s})) {
        CAPTURE(outcome.message);
        CHECK(outcome.succeeded);
    }
}

TEST_CASE("finish_until: what is not done in time goes on with what it owns, and is dropped") {
    auto const quick = detail::finish_until(Deadline::after(50s), [] { return 5; });
    REQUIRE(quick);
    CHECK(*quick == 5);
    int channel[2];
    REQUIRE(pipe(channel) == 0);
    auto const owned = std::make_shared<int>(7);
    auto const slow = detail::finish_until(Deadline::after(20ms), [owned, from = channel[0]] {
        char byte = 0;
        (void)!read(from, &byte, 1);
        return owned;
    });
    CHECK_FALSE(slow);
    CHECK(owned.use_count() > 1);
    CHECK(write(channel[1], "x", 1) == 1);
    auto const deadline = Deadline::after(50s);
    while (owned.use_count() > 1 && !deadline.has_passed()) std::this_thread::sleep_for(1ms);
    CHECK(owned.use_count() == 1);
    close(channel[0]);
    close(channel[1]);
}

TEST_SUITE("long") {
    TEST_CASE("Gloo: a join ends within its timeout and half a second") {
        check_stalled_joins(2000ms, 2500ms);
        check_stalled_joins(100ms, 600ms);
    }
}
