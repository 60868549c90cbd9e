// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/device/peer_meeting.hpp>
#include <shardwise/comm/threads.hpp>
#include <shardwise/parallel/device_collectives.hpp>
#include <shardwise/session/embed.hpp>
#include <shardwise/session/run_on_devices.hpp>
#include <shardwise/session/serve_on_threads.hpp>

#include "model_cases.hpp"

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// Ranks that are threads with a device, or a part of one, each.

namespace shardwise::testing {

/// The bits that a rank's collectives leave: a sum, a gather, a sum's share and an exchange.
template <class B, class T>
[[nodiscard]] Result<std::vector<T>> collect(DeviceCommunicator<typename B::VendorApi>& comm,
                                             typename B::Context& context, typename B::Stream& stream) {
    constexpr std::int64_t size = 90;
    auto const own_numbers = numbers(size, 3U + static_cast<unsigned>(comm.rank()));
    std::vector<T> values;
    for (auto const value : own_numbers) values.push_back(T(value));
    auto memory = Buffer<T, B>::allocate(context, 4 * size);
    if (!memory) return memory.error();
    auto const part = [&](std::int64_t i) { return memory->view().part(i * size, size); };
    TensorView<T const, 1, Host> const from(values.data(), {size});
    for (int i = 0; i < 3; ++i) {
        if (auto const copied = B::template copy<T>(from, part(i), stream); !copied) return copied.error();
    }
    auto const share = [ranks = comm.size()](std::int32_t rank) { return split_units(size, ranks, rank).size(); };
    auto const own = split_units(size, comm.size(), comm.rank());
    TensorView<T const, 1, B> const whole = part(1);
    submit_all_reduce(comm, part(0), ReduceOp::sum, stream);
    submit_reduce_scatter(comm, whole, part(1).part(own.begin, own.size()), share, stream);
    submit_all_gather(comm, TensorView<T const, 1, B>(part(1).part(own.begin, own.size())), part(1), share, stream);
    auto const received = own.size() * comm.size();
    submit_all_to_all(
        comm, TensorView<T const, 1, B>(part(2)), share, part(3).part(0, received),
        [&](std::int32_t) { return own.size(); }, stream);
    // What the stream still reads stays where it is.
    std::vector<T> results(4 * size);
    TensorView<T, 1, Host> const to(results.data(), {4 * size});
    if (auto const copied = B::template copy<T>(std::as_const(*memory).view(), to, stream); !copied)
        return copied.error();
    if (auto const done = stream.synchronize(Deadline::after(std::chrono::seconds(60))); !done) return done.error();
    results.resize(static_cast<std::size_t>(3 * size + received));
    return results;
}

/// Whether collectives over peers have the bits of staged ones, of one rank.
template <class B, class T>
[[nodiscard]] Result<> check_collected(DeviceCommunicator<typename B::VendorApi>& staged,
                                       DeviceCommunicator<typename B::VendorApi>& peers, typename B::Context& context,
                                       typename B::Stream& stream) {
    auto const expected = collect<B, T>(staged, context, stream);
    if (!expected) return expected.error();
    auto const found = collect<B, T>(peers, context, stream);
    if (!found) return found.error();
    if (std::memcmp(found->data(), expected->data(), expected->size() * sizeof(T)) != 0)
        return Error{ErrorCode::invalid_argument}.in("test").because("other bits");
    return {};
}

}  // namespace shardwise::testing

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
    options.threads = 1;
    options.context = 40;
    options.limit = std::chrono::minutes(4);
    auto const said = testing::talk([&](auto const& next, auto const& take) {
        return serve_on_backend<Host>(files, described, options, next, take);
    });
    for (std::int32_t const tp : {1, 2}) {
        if (tp > 1 && !HasHostMemory<B> && !testing::TestDevice::co_resident_blocks) continue;
        CAPTURE(tp);
        auto const found = embed_on_backend<B>(files, described, texts, {.tp = tp, .threads = 1, .step_tokens = 6});
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
