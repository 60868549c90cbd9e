// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/device/nccl_library.hpp>
#include <shardwise/comm/shared_memory.hpp>

#include <doctest/doctest.h>

#include "../comm/processes.hpp"
#include "collected.hpp"
#include "fake_nccl_library.hpp"
#include "nccl_collectives.hpp"
#include "temporary_folder.hpp"

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

// A library of NCCL's interface that is loaded as NCCL is, tests/fakes/nccl.cpp, between ranks that are processes.

using namespace shardwise;
using namespace std::chrono_literals;
using shardwise::testing::check_all_succeed;
using shardwise::testing::Fake;
using shardwise::testing::FakeApi;
using shardwise::testing::FakeMachine;
using shardwise::testing::ProcessOutcome;

namespace {

/// What a rank has of its own.
struct Place {
    HostCommunicator& world;
    NcclTable const& table;
    Fake::Context& context;
    Fake::Stream& stream;
    Nccl<FakeApi>& nccl;
};
using Body = std::function<Result<>(Place&)>;

/// What a case asks of the library, by its settings.
struct Settings {
    int delay_ms = 0;
    std::string error{};
    std::string windows{};
    std::chrono::nanoseconds limit = 20s;
};

/// The library, whose tasks go into the fake vendor's streams.
Result<NcclTable> load() {
    auto table = load_nccl(testing::fake_nccl_library());
    if (table) testing::use_fake_streams();
    return table;
}

/// Runs body in a process for each rank, each with a device of a machine that has one for each.
std::vector<ProcessOutcome> run_ranks(std::int32_t ranks, Settings const& settings, Body const& body,
                                      std::function<void(std::vector<pid_t> const&)> const& meanwhile = {}) {
    static int number = 0;
    testing::TemporaryFolder const folder;
    auto const key = "nccl-processes-" + std::to_string(getpid()) + "-" + std::to_string(++number);
    std::vector<std::function<Result<>()>> bodies;
    for (std::int32_t rank = 0; rank < ranks; ++rank) {
        bodies.emplace_back([&, rank]() -> Result<> {
            ::setenv("SHARDWISE_FAKE_NCCL_FOLDER", folder.path().c_str(), 1);
            ::setenv("SHARDWISE_FAKE_NCCL_DELAY_MS", std::to_string(settings.delay_ms).c_str(), 1);
            ::setenv("SHARDWISE_FAKE_NCCL_ERROR", settings.error.c_str(), 1);
            ::setenv("SHARDWISE_FAKE_NCCL_WINDOWS", settings.windows.c_str(), 1);
            FakeMachine::get().devices = ranks;
            auto joined = SharedMemory::join(key, rank, ranks, {.timeout = 30s});
            if (!joined) return joined.error();
            HostCommunicator world(std::move(*joined));
            auto const table = load();
            if (!table) return world.fail(table.error());
            auto const context = Fake::Context::open({.device = rank, .limit = 30s});
            if (!context) return world.fail(context.error());
            auto stream = (*context)->make_stream();
            auto nccl = Nccl<FakeApi>::join(*table, world, **context, stream, settings.limit);
            if (!nccl) return world.fail(nccl.error());
            Place place{world, *table, **context, stream, **nccl};
            auto done = body(place);
            (void)stream.synchronize(Deadline::after(30s));
            testing::Kept::get() = {};
            return done ? done : world.fail(done.error());
        });
    }
    return testing::run_processes(bodies, meanwhile, 100s);
}

}  // namespace

TEST_CASE("Nccl: between processes every collective moves what it says, of a group, a part of it, and with delays") {
    struct Case {
        std::int32_t ranks;
        int delay_ms;
    };
    for (auto const& one : {Case{2, 0}, Case{3, 0}, Case{2, 5}}) {
        CAPTURE(one.ranks);
        CAPTURE(one.delay_ms);
        check_all_succeed(run_ranks(one.ranks, {.delay_ms = one.delay_ms}, [](Place& place) {
            return testing::collect_all(place.nccl, place.context, place.stream);
        }));
    }
    check_all_succeed(run_ranks(4, {}, [](Place& place) -> Result<> {
        auto part = place.world.split(place.world.rank() % 2);
        if (!part) return part.error();
        auto own = place.context.make_stream();
        auto half = place.nccl.split(*part, own);
        if (!half) return half.error();
        if (auto const moved = testing::collect_all(**half, place.context, own); !moved) return moved;
        return testing::collect_all(place.nccl, place.context, place.stream);
    }));
}

TEST_CASE("Nccl: between processes the layers' collectives have the bits of staged ones, of each element type") {
    check_all_succeed(run_ranks(3, {}, [](Place& place) -> Result<> {
        auto stream = place.context.make_stream();
        auto nccl = Nccl<FakeApi>::join(place.table, place.world, place.context, stream, 20s);
        if (!nccl) return nccl.error();
        DeviceCommunicator<FakeApi> staged(place.world);
        DeviceCommunicator<FakeApi> comm(place.world, std::move(*nccl));
        auto alike = testing::check_collected<Fake, float>(staged, comm, place.context, stream);
        if (alike) alike = testing::check_collected<Fake, Bfloat16>(staged, comm, place.context, stream);
        if (alike) alike = testing::check_collected<Fake, Float16>(staged, comm, place.context, stream);
        return alike;
    }));
}

TEST_CASE("Nccl: between processes memory is a window of all ranks, and one that a rank does not get is gone without") {
    struct Case {
        char const* windows;
        NcclRegistration registration;
        char const* reason;
    };
    for (auto const& one :
         {Case{"", NcclRegistration::window, ""},
          {"none", NcclRegistration::buffer, "the arena is no window: the library makes none on these devices"},
          {"1", NcclRegistration::none, "the arena is no window: "}}) {
        CAPTURE(std::string(one.windows));
        auto const moves = [&](Place& place) -> Result<> {
            auto const memory = place.nccl.allocate(Bytes{70000});
            if (!memory) return memory.error();
            if (auto const told = place.nccl.register_memory(7); !told) return told;
            Error wrong{ErrorCode::invalid_argument};
            if (place.nccl.memory().registration() != one.registration) return wrong.in("registration");
            if (place.nccl.memory().reason().find(one.reason) != 0) return wrong.in(place.nccl.memory().reason());
            TensorView<float, 1, Fake> const sum(static_cast<float*>(*memory) + 100, {16});
            place.stream.submit([&](FakeApi::Stream native) { return FakeApi::clear(sum.data(), 64, native); });
            if (auto const put = place.nccl.all_reduce<float>(sum); !put) return put;
            return testing::collect_all(place.nccl, place.context, place.stream);
        };
        // A rank waits for one that has failed half of this.
        check_all_succeed(run_ranks(3, {.delay_ms = 0, .error = {}, .windows = one.windows, .limit = 6s}, moves));
    }
    // What is told to be alike and is not, the library finds.
    auto const unlike = run_ranks(2, {}, [](Place& place) -> Result<> {
        auto const memory = place.nccl.allocate(Bytes{70000});
        if (auto const told = memory ? place.nccl.register_memory(7) : memory.error(); !told) return told;
        TensorView<float, 1, Fake> const sum(static_cast<float*>(*memory) + place.world.rank(), {16});
        if (auto const put = place.nccl.all_reduce<float>(sum); !put) return put;
        return testing::collect_all(place.nccl, place.context, place.stream);
    });
    for (auto const& outcome : unlike) CHECK_FALSE(outcome.succeeded);
}

TEST_CASE("Nccl: between processes an error that the library finds later, and a rank that is killed, end all by name") {
    auto const failed = run_ranks(2, {.delay_ms = 0, .error = "1:2"}, [](Place& place) {
        return testing::collect_all(place.nccl, place.context, place.stream);
    });
    for (auto const& outcome : failed) {
        CHECK_MESSAGE(outcome.has_answered, outcome.status);
        CHECK_FALSE(outcome.succeeded);
    }
    CHECK_MESSAGE(failed[1].message.find("remote process exited") != std::string::npos, failed[1].message);
    // At several moments of a long exchange.
    for (int const moment_ms : {0, 20, 60}) {
        CAPTURE(moment_ms);
        auto const lost = run_ranks(
            3, {.delay_ms = 2, .error = {}, .windows = {}, .limit = 10s},
            [](Place& place) -> Result<> {
                for (int i = 0; i < 1000; ++i) {
                    auto const done = testing::collect_all(place.nccl, place.context, place.stream);
                    if (!done) return done;
                }
                return {};
            },
            [moment_ms](std::vector<pid_t> const& processes) {
                std::this_thread::sleep_for(std::chrono::milliseconds(300 + moment_ms));
                (void)::kill(processes[1], SIGKILL);
            });
        CHECK(lost[1].status == SIGKILL);
        for (auto const rank : {std::size_t{0}, std::size_t{2}}) {
            CAPTURE(rank);
            CHECK_MESSAGE(lost[rank].has_answered, lost[rank].status);
            CHECK_FALSE(lost[rank].succeeded);
            CHECK_MESSAGE(lost[rank].message.find("rank 1") != std::string::npos, lost[rank].message);
        }
    }
}
