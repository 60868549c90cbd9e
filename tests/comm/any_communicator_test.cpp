// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/agree_on.hpp>
#include <shardwise/comm/all_gather.hpp>
#include <shardwise/comm/all_reduce.hpp>
#include <shardwise/comm/barrier.hpp>
#include <shardwise/comm/broadcast.hpp>
#include <shardwise/comm/host_communicator.hpp>
#include <shardwise/comm/send_receive.hpp>

#include <doctest/doctest.h>

#include "processes.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <unistd.h>
#include <utility>

namespace {

using namespace shardwise;

template <class T, std::size_t N>
TensorView<T, 1, Host> flat(std::array<T, N>& values) {
    return {values.data(), {static_cast<std::int64_t>(N)}};
}

/// What ranks of one handle do together; an error says what went wrong.
Result<> use(HostCommunicator& comm) {
    auto const wrong = [](std::string_view what) { return Error{ErrorCode::invalid_argument}.in(what); };
    std::array<float, 3> sums{1.0F, 2.0F, static_cast<float>(comm.rank())};
    if (auto const done = all_reduce(comm, flat(sums)); !done) return done;
    if (sums != std::array{3.0F, 6.0F, 3.0F}) return wrong("all_reduce");
    std::array<std::int32_t, 2> told{comm.rank() == 1 ? 7 : 0, comm.rank() == 1 ? 8 : 0};
    if (auto const done = broadcast(comm, flat(told), 1); !done) return done;
    if (told != std::array{7, 8}) return wrong("broadcast");
    std::array<std::int32_t, 3> all{};
    std::array<std::int32_t, 1> own{comm.rank() * 10};
    std::array<std::int64_t, 3> const counts{1, 1, 1};
    auto const gathered = all_gather(comm, TensorView<std::int32_t const, 1, Host>(own.data(), {1}), flat(all),
                                     std::span<std::int64_t const>(counts));
    if (!gathered) return gathered;
    if (all != std::array{0, 10, 20}) return wrong("all_gather");
    if (auto const done = barrier(comm); !done) return done;
    // Ranks 0 and 2, and rank 1 alone.
    auto part = comm.split(comm.rank() % 2);
    if (!part) return part.error();
    if (part->size() != (comm.rank() == 1 ? 1 : 2) || part->kind() != comm.kind()) return wrong("split");
    if (comm.rank() == 0) return send(*part, TensorView<float const, 1, Host>(sums.data(), {3}), 1);
    std::array<float, 3> received{};
    if (comm.rank() == 2) {
        if (auto const done = receive(*part, flat(received), 0); !done) return done;
        if (received != sums) return wrong("receive");
    }
    return comm.traffic().of(CollectiveKind::all_reduce).calls == 1 ? Result<>{} : Result<>{wrong("traffic")};
}

TEST_CASE("AnyCommunicator: one handle does on threads and processes what each of them does") {
    auto const on_threads = run_threads(3, [](Threads& comm) {
        HostCommunicator handle(std::move(comm));
        if (handle.kind() != "threads") return Result<>{Error{ErrorCode::invalid_argument}.in("kind")};
        return use(handle);
    });
    CHECK_MESSAGE(on_threads, (on_threads ? "" : on_threads.error().message()));

    auto const key = "any-" + std::to_string(getpid());
    std::vector<std::function<Result<>()>> bodies;
    for (std::int32_t rank = 0; rank < 3; ++rank) {
        bodies.emplace_back([key, rank]() -> Result<> {
            auto joined = SharedMemory::join(key, rank, 3);
            if (!joined) return joined.error();
            HostCommunicator handle(std::move(*joined));
            return use(handle);
        });
    }
    for (auto const& outcome : testing::run_processes(bodies)) CHECK_MESSAGE(outcome.succeeded, outcome.message);
}

TEST_CASE("AnyCommunicator: the first failure of a rank is every rank's") {
    auto const failed = run_threads(2, [](Threads& comm) -> Result<> {
        HostCommunicator handle(std::move(comm));
        if (handle.rank() == 1) return handle.fail(Error{ErrorCode::out_of_memory}.in("rank 1"));
        return barrier(handle);
    });
    REQUIRE_FALSE(failed);
    CHECK(failed.error().code() == ErrorCode::out_of_memory);
}

TEST_CASE("agree_on: the error of the first rank that failed is everybody's, with its number") {
    for (std::int32_t const first : {0, 1, 3}) {
        auto const agreed = run_threads(3, [&](Threads& comm) -> Result<> {
            HostCommunicator handle(std::move(comm));
            auto const mine =
                handle.rank() >= first ? Result<>{Error{ErrorCode::out_of_memory}.in("weights")} : Result<>{};
            auto const all = agree_on(handle, mine);
            if (all || all.error().message() == (first == 0 ? "weights" : "rank 1: weights")) return all;
            return Error{ErrorCode::invalid_argument}.in(all.error().message());
        });
        CHECK(agreed.has_value() == (first == 3));
        if (!agreed) CHECK_MESSAGE(agreed.error().code() == ErrorCode::out_of_memory, agreed.error().message());
    }
}

}  // namespace
