// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/barrier.hpp>
#include <shardwise/comm/device/peer_processes.hpp>
#include <shardwise/comm/shared_memory.hpp>

#include <doctest/doctest.h>

#include "../comm/processes.hpp"
#include "collected.hpp"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <thread>
#include <utility>
#include <vector>

// Ranks that are processes, on whatever devices there are: of the fake vendor here, of a real one in a program of its own, since no process
// may fork that has called a real vendor. On one device ranks add up staged, on several over each other's memory.

using namespace shardwise;
using namespace std::chrono_literals;
using shardwise::testing::check_all_succeed;
using shardwise::testing::ProcessOutcome;
using shardwise::testing::run_processes;
using Device = shardwise::testing::TestDevice;
using Api = Device::VendorApi;

namespace {

struct Place {
    HostCommunicator& world;
    Device::Context& context;
    Device::Stream& stream;
};
using Body = std::function<Result<>(Place&)>;

Error wrong(std::string const& what) {
    return Error{ErrorCode::invalid_argument}.in("test").because(what);
}

/// How many devices the fake vendor has; a real one has what it has.
void have_devices(std::int32_t count) {
#if defined(SHARDWISE_HAS_CUDA) || defined(SHARDWISE_HAS_HIP)
    (void)count;
#else
    testing::FakeMachine::get().devices = count;
    testing::FakeMachine::get().multiprocessors = 1;
#endif
}

/// Runs body in a process for each rank, rank r on device r modulo `share` of them (0: of all).
std::vector<ProcessOutcome> run_ranks(std::int32_t ranks, std::int32_t fake_devices, std::int32_t share,
                                      Body const& body,
                                      std::function<void(std::vector<pid_t> const&)> const& meanwhile = {}) {
    static int number = 0;
    auto const key = "vendor-processes-" + std::to_string(getpid()) + "-" + std::to_string(++number);
    std::vector<std::function<Result<>()>> bodies;
    for (std::int32_t rank = 0; rank < ranks; ++rank) {
        bodies.emplace_back([=, &body]() -> Result<> {
            have_devices(fake_devices);
            auto joined = SharedMemory::join(key, rank, ranks, {.timeout = 30s});
            if (!joined) return joined.error();
            HostCommunicator world(std::move(*joined));
            auto const count = Api::count_devices();
            if (!count) return world.fail(count.error());
            auto const opened = Device::Context::open({.device = rank % (share > 0 ? share : *count), .limit = 30s});
            if (!opened) return world.fail(opened.error());
            auto stream = (*opened)->make_stream();
            Place place{world, **opened, stream};
            auto done = body(place);
            return done ? done : world.fail(done.error());
        });
    }
    return run_processes(bodies, meanwhile, 100s);
}

/// Whether a process finds a device; says so where it does not.
bool has_device() {
    auto const outcomes = run_ranks(1, 1, 1, [](Place&) -> Result<> { return {}; });
    if (!outcomes[0].succeeded)
        std::cout << "SKIPPED: no device for " << Device::name << ": " << outcomes[0].message << '\n';
    return outcomes[0].succeeded;
}

/// Values in device memory, as copied there and back.
Result<> put(Place& place, float* to, std::vector<float> const& values) {
    auto const count = static_cast<std::int64_t>(values.size());
    auto const copied = Device::copy<float>(TensorView<float const, 1, Host>(values.data(), {count}),
                                            TensorView<float, 1, Device>(to, {count}), place.stream);
    return copied ? place.stream.synchronize(Deadline::after(30s)) : copied;
}
Result<std::vector<float>> get(Place& place, float const* from, std::size_t size) {
    std::vector<float> values(size);
    auto const count = static_cast<std::int64_t>(size);
    auto const copied = Device::copy<float>(TensorView<float const, 1, Device>(from, {count}),
                                            TensorView<float, 1, Host>(values.data(), {count}), place.stream);
    if (!copied) return copied.error();
    if (auto const done = place.stream.synchronize(Deadline::after(30s)); !done) return done.error();
    return values;
}

constexpr std::size_t shared_values = 1000;

/// Rank 0 exports memory, rank 1 opens it, reads what lies there and writes something else.
Result<> pass_memory(Place& place) {
    detail::DeviceScope<Api> const scope(place.context.device());
    if (!scope.result()) return scope.result();
    std::vector<float> const first(shared_values, 1.5F);
    std::vector<float> const second(shared_values, -2.25F);
    bool const is_owner = place.world.rank() == 0;
    void* memory = nullptr;
    Result<detail::SharedHandle> handle{detail::SharedHandle{}};
    if (is_owner) {
        auto const made = Api::allocate_shared(shared_values * sizeof(float));
        if (!made) return made.error();
        memory = *made;
        if (auto const sent = put(place, static_cast<float*>(memory), first); !sent) return sent;
        handle = Api::export_shared(memory);
    }
    auto const handles = detail::exchange_results(place.world, handle);
    if (!handles) return handles.error();
    if (!is_owner) {
        auto const opened = Api::open_shared((*handles)[0]);
        if (!opened) return opened.error();
        memory = *opened;
        auto const seen = get(place, static_cast<float const*>(memory), shared_values);
        if (!seen) return seen.error();
        if (*seen != first) return wrong("sees other values than the owner's");
        if (auto const sent = put(place, static_cast<float*>(memory), second); !sent) return sent;
    }
    if (auto const met = barrier(place.world); !met) return met;
    if (is_owner) {
        auto const seen = get(place, static_cast<float const*>(memory), shared_values);
        if (!seen) return seen.error();
        if (*seen != second) return wrong("does not see what the other process wrote");
    } else {
        Api::close_shared(memory);
    }
    if (auto const met = barrier(place.world); !met) return met;
    if (is_owner) Api::release(memory);
    return {};
}

PeerOptions small() {
    return {.staging = Bytes{4096}, .blocks = 1, .limit = 40s};
}

/// The ranks' communicator: over peers, or staged where they share a device that does not run them at once; other refusals are errors.
Result<std::unique_ptr<DeviceCommunicator<Api>>> connect(Place& place) {
    auto peers = join_peer_processes(place.world, place.context, place.stream, small());
    if (peers) return std::make_unique<DeviceCommunicator<Api>>(place.world, std::move(*peers), place.stream);
    if (peers.error().code() != ErrorCode::unsupported) return peers.error();
    return std::make_unique<DeviceCommunicator<Api>>(place.world);
}

/// `kind`: what the fake vendor's ranks are connected by.
Result<> compare_with_staged(Place& place, std::string_view kind) {
    DeviceCommunicator<Api> staged(place.world);
    auto comm = connect(place);
    if (!comm) return comm.error();
    if (Device::name == "fake" && (*comm)->kind() != kind)
        return wrong("is connected by " + std::string((*comm)->kind()));
    auto alike = testing::check_collected<Device, float>(staged, **comm, place.context, place.stream);
    if (alike) alike = testing::check_collected<Device, Bfloat16>(staged, **comm, place.context, place.stream);
    return alike;
}

struct Progress {
    std::atomic<int> sums[8];

    static std::shared_ptr<Progress> make() {
        auto* const memory = mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        return {new (memory) Progress{}, [](Progress* progress) { munmap(progress, sizeof(Progress)); }};
    }
};

/// Sums until a rank is gone.
Result<> add_up_for_ever(Place& place, Progress& progress) {
    auto comm = connect(place);
    if (!comm) return comm.error();
    auto memory = Buffer<float, Device>::allocate(place.context, 100);
    if (!memory) return memory.error();
    place.stream.submit([&](Api::Stream native) { return Api::clear(memory->data(), 100 * sizeof(float), native); });
    auto const deadline = Deadline::after(60s);
    while (!deadline.has_passed()) {
        submit_all_reduce(**comm, memory->view(), ReduceOp::sum, place.stream);
        if (auto const done = place.stream.synchronize(Deadline::after(60s)); !done) return done;
        ++progress.sums[place.world.rank()];
    }
    return wrong("nobody has been killed");
}

/// Kills a rank after some of its sums: the others end soon and name it.
void kill_one(std::int32_t ranks, std::int32_t fake_devices, std::int32_t victim, int sums) {
    CAPTURE(ranks);
    CAPTURE(victim);
    CAPTURE(sums);
    auto const progress = Progress::make();
    auto const begin = std::chrono::steady_clock::now();
    std::chrono::nanoseconds killed_at{0};
    auto const meanwhile = [&](std::vector<pid_t> const& processes) {
        for (int i = 0; i < 60000 && progress->sums[victim] < sums; ++i) std::this_thread::sleep_for(1ms);
        killed_at = std::chrono::steady_clock::now() - begin;
        kill(processes[static_cast<std::size_t>(victim)], SIGKILL);
    };
    auto const outcomes = run_ranks(
        ranks, fake_devices, 0, [&](Place& place) { return add_up_for_ever(place, *progress); }, meanwhile);
    for (std::int32_t rank = 0; rank < ranks; ++rank) {
        CAPTURE(rank);
        auto const& outcome = outcomes[static_cast<std::size_t>(rank)];
        if (rank == victim) {
            CHECK_FALSE(outcome.has_answered);
            CHECK(WIFSIGNALED(outcome.status));
            continue;
        }
        REQUIRE_MESSAGE(outcome.has_answered, outcome.status);
        CHECK_FALSE(outcome.succeeded);
        CHECK(outcome.took - killed_at < 40s);
        CHECK_MESSAGE(outcome.code == ErrorCode::rank_lost, outcome.message);
        CHECK_MESSAGE(outcome.message.find("rank " + std::to_string(victim)) != std::string::npos, outcome.message);
    }
}

}  // namespace

TEST_SUITE_BEGIN("fibers");

TEST_CASE("Processes of a vendor: memory that one exports another opens, reads and writes") {
    if (!has_device()) return;
    check_all_succeed(run_ranks(2, 1, 1, pass_memory));
}

TEST_CASE("Processes of a vendor: collectives have the bits of staged ones, on devices of their own or on one") {
    if (!has_device()) return;
    check_all_succeed(run_ranks(2, 2, 0, [](Place& place) { return compare_with_staged(place, "peers"); }));
    check_all_succeed(run_ranks(3, 1, 1, [](Place& place) { return compare_with_staged(place, "staged"); }));
}

TEST_CASE("Processes of a vendor: whoever is killed is named by all others") {
    if (!has_device()) return;
    kill_one(2, 2, 1, 1);
    kill_one(2, 1, 0, 3);
    kill_one(3, 3, 1, 20);
}

TEST_SUITE_END();
