// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/device/peer_meeting.hpp>
#include <shardwise/comm/shared_memory.hpp>
#include <shardwise/comm/threads.hpp>
#include <shardwise/session/embed.hpp>
#include <shardwise/session/run_on_devices.hpp>
#include <shardwise/session/serve_on_threads.hpp>

#include "../comm/processes.hpp"
#include "collected.hpp"
#include "model_cases.hpp"

#include <chrono>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

// Ranks that are threads with a device, or a part of one, each.

TEST_SUITE_BEGIN("fibers");

TEST_CASE("DeviceCommunicator: collectives over peers have the bits of staged ones") {
    using namespace shardwise;
    using B = testing::TestDevice;
    using Api = B::VendorApi;
    if (!testing::open_bench<B>() || !B::co_resident_blocks) return;
    for (std::int32_t const ranks : {2, 3}) {
        PeerMeeting<Api> meeting(ranks);
        auto const done = run_threads(ranks, [&](Threads& threads) -> Result<> {
            HostCommunicator world(std::move(threads));
            auto context = B::Context::open();
            if (!context) return context.error();
            auto stream = (*context)->make_stream();
            DeviceCommunicator<Api> staged(world);
            auto const before = (*context)->memory().current();
            PeerOptions const options{.staging = Bytes{256}, .blocks = 2};
            {
                auto peers = meeting.join(world, **context, stream, options);
                if (!peers) return peers.error();
                DeviceCommunicator<Api> comm(world, std::move(*peers), stream);
                if (comm.kind() != "peers" || !comm.repeats() ||
                    (*context)->memory().current() != before + PeerGroup<Api>::bytes_of_rank(options))
                    return Error{ErrorCode::invalid_argument}.in("test").because("does not hold what it says");
                auto alike = testing::check_collected<B, float>(staged, comm, **context, stream);
                if (alike) alike = testing::check_collected<B, Bfloat16>(staged, comm, **context, stream);
                if (alike) alike = testing::check_collected<B, Float16>(staged, comm, **context, stream);
                if (!alike) return alike;
                if (auto const met = barrier(world); !met) return met;
            }
            if ((*context)->memory().current() == before) return {};
            return Error{ErrorCode::invalid_argument}.in("test").because("still counts the group's memory");
        });
        INFO(std::string(done ? "" : done.error().message()));
        CHECK(done);
    }
}

TEST_CASE("DeviceCommunicator: a rank that fails ends what the others' kernels wait for, by its own reason") {
    using namespace shardwise;
    using B = testing::TestDevice;
    using Api = B::VendorApi;
    if (!testing::open_bench<B>() || !B::co_resident_blocks) return;
    PeerMeeting<Api> meeting(2);
    auto const begin = std::chrono::steady_clock::now();
    auto const done = run_threads(2, [&](Threads& threads) -> Result<> {
        HostCommunicator world(std::move(threads));
        auto context = B::Context::open();
        if (!context) return context.error();
        auto stream = (*context)->make_stream();
        auto peers = meeting.join(world, **context, stream, {.blocks = 2, .limit = std::chrono::minutes(5)});
        if (!peers) return peers.error();
        DeviceCommunicator<Api> comm(world, std::move(*peers), stream);
        if (world.rank() == 1) return comm.fail(Error{ErrorCode::invalid_argument}.in("own reason"));
        auto memory = Buffer<float, B>::allocate(**context, 8);
        if (!memory) return memory.error();
        TensorView<float const, 1, B> const in = memory->view();
        // As a graph does it: without a word to the other.
        auto const put = comm.peers()->template all_reduce<float>(Rank{0}, in, memory->view(), stream);
        if (!put) return put;
        auto const lost = stream.synchronize(Deadline::after(std::chrono::minutes(4)));
        if (lost || lost.error().code() != ErrorCode::rank_lost || lost.error().place() != "rank 1")
            return Error{ErrorCode::invalid_argument}.in("test").because("does not name the rank");
        return comm.fail(lost.error());
    });
    REQUIRE_FALSE(done);
    CHECK(done.error().subject() == "own reason");
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::minutes(2));
}

TEST_CASE("Models: ranks add up over peers with the tokens of staged ones, and their steps are graphs") {
    using namespace shardwise;
    using B = testing::TestDevice;
    if (!testing::open_bench<B>() || !B::co_resident_blocks) return;
    for (bool const is_deterministic : {false, true}) {
        // In a sample the one that has a rank alone beside it.
        if (testing::takes_samples() && !is_deterministic) continue;
        CAPTURE(is_deterministic);
        testing::ModelCase of{testing::tiny_llama, 2, 3, 24, 5};
        of.is_deterministic = is_deterministic;
        testing::FormulaModel const model(of.config);
        auto const requests = testing::model_requests(of);
        testing::ModelLogits over_peers;
        testing::ModelLogits over_host;
        of.comm = DeviceComm::peers;
        auto const peers = testing::run_model<B>(model, of, requests, &over_peers);
        REQUIRE_MESSAGE(peers, (peers ? "" : peers.error().message()));
        of.comm = DeviceComm::staged;
        auto const staged = testing::run_model<B>(model, of, requests, &over_host);
        REQUIRE_MESSAGE(staged, (staged ? "" : staged.error().message()));
        CHECK(peers->communicator == "peers");
        CHECK(staged->communicator == "staged");
        CHECK(peers->communicator_reason.empty());
        for (auto const* const report : {&*peers, &*staged}) {
            for (auto const& rank : report->ranks) CHECK(rank.held == rank.predicted);
        }
        for (std::size_t i = 0; i < requests.size(); ++i)
            CHECK(peers->generations[i].tokens == staged->generations[i].tokens);
        CHECK(over_peers == over_host);
        if (peers->graphs.reason.empty()) {
            CHECK(peers->graphs.captured >= 1);
            CHECK(peers->graphs.replayed >= 2);
        }
        CHECK(staged->graphs.captured == 0);
        if (!is_deterministic) continue;
        of.tp = 1;
        testing::ModelLogits alone;
        auto const one = testing::run_model<B>(model, of, requests, &alone);
        REQUIRE(one);
        CHECK(one->communicator == "none");
        CHECK(over_peers == alone);
    }
}

#if !defined(SHARDWISE_HAS_CUDA) && !defined(SHARDWISE_HAS_HIP)
TEST_CASE(
    "Models: peers hold where a driver loads code only when nothing runs, and give way to staged where they cannot be "
    "had") {
    using namespace shardwise;
    auto& machine = testing::FakeMachine::get();
    testing::ModelCase of{testing::tiny_llama, 2, 2, 8, 5};
    testing::FormulaModel const model(of.config);
    auto const requests = testing::model_requests(of);
    auto const alone =
        testing::run_model<Host>(model, testing::ModelCase{testing::tiny_llama, 1, 2, 8, 5}, requests, nullptr);
    REQUIRE(alone);
    auto const check = [&](char const* communicator) {
        auto const ran = testing::run_model<testing::Fake>(model, of, requests, nullptr);
        REQUIRE_MESSAGE(ran, (ran ? "" : ran.error().message()));
        CHECK(ran->communicator == communicator);
        CHECK(ran->communicator_reason.empty() == (ran->communicator == "peers"));
        for (std::size_t i = 0; i < requests.size(); ++i)
            CHECK(ran->generations[i].tokens == alone->generations[i].tokens);
        for (auto const& rank : ran->ranks) CHECK(rank.held == rank.predicted);
    };
    machine.load_lazily(true);
    of.timeout = std::chrono::seconds(60);
    auto const loaded = testing::run_model<testing::Fake>(model, of, requests, nullptr);
    machine.load_lazily(false);
    REQUIRE_MESSAGE(loaded, (loaded ? "" : loaded.error().message()));
    CHECK(loaded->communicator == "peers");
    // Two devices that do not reach each other, and kernels that cannot be launched.
    of.devices = {0, 1};
    check("peers");
    for (auto const* const call : {"enable_peer", "all_reduce"}) {
        CAPTURE(call);
        machine.fail(call);
        check("staged");
        of.comm = DeviceComm::peers;
        CHECK_FALSE(testing::run_model<testing::Fake>(model, of, requests, nullptr));
        of.comm = DeviceComm::automatic;
        machine.mend();
    }
    of.comm = DeviceComm::nccl;
    auto const refused = testing::run_model<testing::Fake>(model, of, requests, nullptr);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code() == ErrorCode::file_not_found);
    CHECK(refused.error().subject() == "libshardwise-no-nccl.so");
    CHECK(machine.is_empty());
}
#endif

TEST_CASE_TEMPLATE("Models: texts are embedded, and a conversation goes on, on every back end and over ranks", B,
                   SHARDWISE_TEST_BACKENDS) {
    using namespace shardwise;
    if (!testing::open_bench<B>()) return;
    testing::FormulaModel const model(testing::tiny_llama);
    auto const& described = model.checkpoint->model;
    testing::FakeRoom const room;
    std::vector<std::vector<std::int32_t>> const texts{{5, 9, 2}, {7, 1, 3, 40, 11, 7, 2, 8, 9, 30}, {30}};
    OpenCheckpoint files(model.source);
    auto const wanted = embed_on_threads(files, described, texts, {.threads = 1, .step_tokens = 6});
    REQUIRE_MESSAGE(wanted, (wanted ? "" : wanted.error().message()));
    RunOptions options;
    options.activations = Dtype::f32;
    options.threads = 1;
    options.context = 40;
    options.limit = std::chrono::minutes(4);
    auto const said = testing::talk([&](auto const& next, auto const& take) {
        return serve_on_backend<Host>(files, described, options, next, take);
    });
    for (std::int32_t const tp : {1, 2}) {
        if (tp > 1 && !HasHostMemory<B> && !testing::TestDevice::co_resident_blocks) continue;
        CAPTURE(tp);
        auto const found = embed_on_backend<B>(files, described, texts,
                                               {.tp = tp, .threads = 1, .activations = Dtype::f32, .step_tokens = 6});
        REQUIRE_MESSAGE(found, (found ? "" : found.error().message()));
        REQUIRE(found->size() == wanted->size());
        for (std::size_t i = 0; i < wanted->size(); ++i) {
            REQUIRE((*found)[i].values.size() == (*wanted)[i].values.size());
            for (std::size_t k = 0; k < (*wanted)[i].values.size(); ++k)
                CHECK(std::abs((*found)[i].values[k] - (*wanted)[i].values[k]) < 1e-4F);
        }
        options.tp = tp;
        CHECK(testing::talk([&](auto const& next, auto const& take) {
                  return serve_on_backend<B>(files, described, options, next, take);
              }) == said);
    }
#if !defined(SHARDWISE_HAS_CUDA) && !defined(SHARDWISE_HAS_HIP)
    if (HasHostMemory<B>) return;
    options.tp = 1;
    for (bool const has_graphs : {true, false}) {
        CAPTURE(has_graphs);
        options.has_graphs = has_graphs;
        auto const before = testing::FakeMachine::get().calls("begin_capture");
        CHECK(testing::talk([&](auto const& next, auto const& take) {
                  return serve_on_backend<B>(files, described, options, next, take);
              }) == said);
        CHECK((testing::FakeMachine::get().calls("begin_capture") > before) == has_graphs);
    }
#endif
}

#if !defined(SHARDWISE_HAS_CUDA) && !defined(SHARDWISE_HAS_HIP)
TEST_CASE("Models: ranks that are processes add up over peers, or staged where they share a device, and say why") {
    using namespace shardwise;
    testing::ModelCase const of{testing::tiny_llama, 1, 2, 8, 3};
    testing::FormulaModel const model(of.config);
    auto const requests = testing::model_requests(of);
    auto const alone = testing::run_model<Host>(model, of, requests, nullptr);
    REQUIRE(alone);
    testing::FakeRoom const room(1);
    struct Run {
        DeviceComm comm;
        std::vector<std::int32_t> devices;
        char const* communicator;
    };
    int number = 0;
    for (auto const& run : {Run{DeviceComm::peers, {0, 1}, "peers"}, Run{DeviceComm::automatic, {0}, "staged"}}) {
        auto const key = "peer-models-" + std::to_string(getpid()) + "-" + std::to_string(++number);
        auto const rank = [&](std::int32_t own) -> Result<> {
            auto joined = SharedMemory::join(key, own, 2);
            if (!joined) return joined.error();
            HostCommunicator world(std::move(*joined));
            RunOptions options;
            options.activations = Dtype::f32;
            options.tp = 2;
            options.threads = 1;
            options.sequences = 2;
            options.step_tokens = 8;
            options.comm = run.comm;
            options.devices.numbers = run.devices;
            OpenCheckpoint files(model.source);
            auto const ran =
                run_in_group_on_devices<testing::Fake>(world, files, model.checkpoint->model, requests, options);
            if (!ran) return ran.error();
            auto const wrong = [](std::string const& what) {
                return Error{ErrorCode::invalid_argument}.in("test").because(what);
            };
            if (ran->communicator != run.communicator) return wrong(std::string(ran->communicator));
            bool const says_why = ran->communicator_reason.find("shares its device") != std::string::npos;
            if (says_why != (ran->communicator == "staged")) return wrong(ran->communicator_reason);
            if (ran->communicator == "peers" && ran->graphs.replayed == 0) return wrong("no graphs");
            for (auto const& memory : ran->ranks)
                if (memory.held != memory.predicted) return wrong("holds other memory than predicted");
            for (std::size_t i = 0; i < requests.size(); ++i)
                if (ran->generations[i].tokens != alone->generations[i].tokens) return wrong("other tokens");
            return {};
        };
        for (auto const& outcome :
             testing::run_processes({[&] { return rank(0); }, [&] { return rank(1); }}, {}, std::chrono::seconds(200)))
            CHECK_MESSAGE(outcome.succeeded, outcome.message);
    }
}
#endif

TEST_CASE("Models: ranks of a group that is no meeting of threads add up staged, and refuse peers by name") {
    using namespace shardwise;
    using B = testing::TestDevice;
    if (!testing::open_bench<B>()) return;
    testing::ModelCase const of{testing::tiny_llama, 1, 2, 8, 3};
    testing::FormulaModel const model(of.config);
    auto const requests = testing::model_requests(of);
    auto const alone = testing::run_model<Host>(model, of, requests, nullptr);
    REQUIRE(alone);
    testing::FakeRoom const room;
    for (auto const comm : {DeviceComm::automatic, DeviceComm::peers}) {
        RunOptions options;
        options.activations = Dtype::f32;
        options.tp = 2;
        options.threads = 1;
        options.sequences = 2;
        options.step_tokens = 8;
        options.comm = comm;
        std::optional<RunReport> report;
        // As processes: each rank opens the checkpoint itself.
        auto const done = run_threads(2, [&](Threads& threads) -> Result<> {
            HostCommunicator world(std::move(threads));
            bool const is_first = world.rank() == 0;
            OpenCheckpoint files(model.source);
            auto ran = run_in_group_on_devices<B>(world, files, model.checkpoint->model, requests, options);
            if (!ran) return ran.error();
            if (is_first) report.emplace(std::move(*ran));
            return {};
        });
        if (comm == DeviceComm::peers) {
            REQUIRE_FALSE(done);
            CHECK(done.error().code() == ErrorCode::unsupported);
            CHECK(done.error().place() == "peers");
            continue;
        }
        REQUIRE_MESSAGE(done, (done ? "" : done.error().message()));
        CHECK(report->communicator == "staged");
        for (std::size_t i = 0; i < requests.size(); ++i)
            CHECK(report->generations[i].tokens == alone->generations[i].tokens);
    }
}

TEST_SUITE_END();
