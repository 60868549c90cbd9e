// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/device/nccl.hpp>
#include <shardwise/comm/threads.hpp>
#include <shardwise/core/split.hpp>

#include <doctest/doctest.h>

#include "fake_nccl.hpp"

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

using namespace shardwise;
using namespace std::chrono_literals;
using shardwise::testing::Fake;
using shardwise::testing::FakeApi;
using shardwise::testing::FakeMachine;
using shardwise::testing::FakeNccl;

namespace {

using Body = std::function<Result<>(Nccl<FakeApi>&, Fake::Context&, Fake::Stream&, HostCommunicator&)>;

/// What was set for one case is no other's trouble.
struct Mended {
    Mended() = default;
    Mended(Mended const&) = delete;
    Mended& operator=(Mended const&) = delete;
    ~Mended() { FakeNccl::get().mend(); }
};

/// What is alive on the fake vendor's machine: nothing, in words.
[[nodiscard]] std::string alive() {
    auto const& machine = FakeMachine::get();
    if (machine.is_empty()) return "";
    return "memory " + std::to_string(machine.memory) + ", pinned " + std::to_string(machine.pinned) + ", streams " +
           std::to_string(machine.streams) + ", events " + std::to_string(machine.events);
}

/// What a rank's stream may still use after a failure.
struct Kept {
    std::deque<Buffer<float, Fake>> memory;
    std::deque<std::vector<float>> values;

    static Kept& get() {
        static thread_local Kept kept;
        return kept;
    }
};

/// Runs body on ranks that are threads, each with a device's context, a stream and the library.
[[nodiscard]] Result<> run_ranks(std::int32_t ranks, std::chrono::nanoseconds limit, Body const& body) {
    return run_threads(ranks,
                       [&](Threads& threads) -> Result<> {
                           HostCommunicator world(std::move(threads));
                           auto context = Fake::Context::open();
                           if (!context) return context.error();
                           auto stream = (*context)->make_stream();
                           auto nccl = Nccl<FakeApi>::join(FakeNccl::table(), world, **context, stream, limit);
                           if (!nccl) return nccl.error();
                           auto const done = body(**nccl, **context, stream, world);
                           if (!done) (void)world.fail(done.error());
                           (void)stream.synchronize(Deadline::after(30s));
                           Kept::get() = {};
                           return done;
                       },
                       {.timeout = 20s});
}

[[nodiscard]] Buffer<float, Fake>& hold(Fake::Context& context, Fake::Stream& stream,
                                        std::vector<float> const& values) {
    auto memory = Buffer<float, Fake>::allocate(context, static_cast<std::int64_t>(values.size()));
    TensorView<float const, 1, Host> const from(values.data(), {memory->size()});
    (void)Fake::copy<float>(from, memory->view(), stream);
    (void)stream.synchronize(Deadline::after(10s));
    Kept::get().memory.push_back(std::move(*memory));
    return Kept::get().memory.back();
}
[[nodiscard]] Result<std::vector<float>> look(Buffer<float, Fake> const& memory, Fake::Stream& stream) {
    auto& values = Kept::get().values.emplace_back(static_cast<std::size_t>(memory.size()));
    TensorView<float, 1, Host> const to(values.data(), {memory.size()});
    if (auto const copied = Fake::copy<float>(memory.view(), to, stream); !copied) return copied.error();
    if (auto const done = stream.synchronize(Deadline::after(10s)); !done) return done.error();
    return values;
}
[[nodiscard]] Result<> expect(Result<std::vector<float>> const& found, std::vector<float> const& expected,
                              char const* what) {
    if (!found) return found.error();
    if (*found == expected) return {};
    return Error{ErrorCode::invalid_argument}.in(what).because("has other values");
}

/// Every collective once, with counts that are alike and that are not.
[[nodiscard]] Result<> collect(Nccl<FakeApi>& nccl, Fake::Context& context, Fake::Stream& stream) {
    using View = TensorView<float const, 1, Fake>;
    auto const ranks = nccl.size();
    auto const rank = nccl.rank();
    auto const own = static_cast<float>(rank + 1);
    auto const all = static_cast<float>(ranks * (ranks + 1)) / 2.0F;
    for (std::int64_t const size : {std::int64_t{6 * ranks}, std::int64_t{7}}) {
        std::vector<std::int64_t> counts;
        std::vector<float> gathered;
        for (std::int32_t peer = 0; peer < ranks; ++peer) {
            counts.push_back(split_units(size, ranks, peer).size());
            gathered.insert(gathered.end(), static_cast<std::size_t>(counts.back()), static_cast<float>(peer + 1));
        }
        auto const length = static_cast<std::size_t>(size);
        auto const part = counts[static_cast<std::size_t>(rank)];
        auto const first = split_units(size, ranks, rank).begin;
        auto& sum = hold(context, stream, std::vector<float>(length, own));
        if (auto const put = nccl.all_reduce<float>(sum.view()); !put) return put;
        if (auto const ok = expect(look(sum, stream), std::vector<float>(length, all), "sum"); !ok) return ok;
        auto& whole = hold(context, stream, std::vector<float>(length, own));
        auto const mine = whole.view().part(first, part);
        if (auto const put = nccl.all_gather<float>(View(mine), whole.view(), counts); !put) return put;
        if (auto const ok = expect(look(whole, stream), gathered, "gather"); !ok) return ok;
        auto& scattered = hold(context, stream, std::vector<float>(static_cast<std::size_t>(part)));
        if (auto const put = nccl.reduce_scatter<float>(View(whole.view()), scattered.view(), counts); !put) return put;
        std::vector<float> expected;
        for (std::int64_t i = first; i < first + part; ++i)
            expected.push_back(gathered[static_cast<std::size_t>(i)] * static_cast<float>(ranks));
        if (auto const ok = expect(look(scattered, stream), expected, "scatter"); !ok) return ok;
        std::vector<std::int64_t> const received(static_cast<std::size_t>(ranks), part);
        auto& taken = hold(context, stream, std::vector<float>(static_cast<std::size_t>(part * ranks)));
        auto const& sent = hold(context, stream, std::vector<float>(length, own));
        if (auto const put = nccl.all_to_all<float>(sent.view(), counts, taken.view(), received); !put) return put;
        expected.clear();
        for (std::int32_t peer = 0; peer < ranks; ++peer)
            expected.insert(expected.end(), static_cast<std::size_t>(part), static_cast<float>(peer + 1));
        if (auto const ok = expect(look(taken, stream), expected, "exchange"); !ok) return ok;
    }
    auto& word = hold(context, stream, {own, own});
    if (auto const put = nccl.broadcast_from<float>(word.view(), 1); !put) return put;
    if (auto const ok = expect(look(word, stream), {2.0F, 2.0F}, "broadcast"); !ok) return ok;
    if (rank == 0) {
        if (auto const put = nccl.send<float>(View(word.view()), 1); !put) return put;
    } else if (rank == 1) {
        auto& other = hold(context, stream, {9.0F, 9.0F});
        if (auto const put = nccl.receive<float>(other.view(), 0); !put) return put;
        return expect(look(other, stream), {2.0F, 2.0F}, "message");
    }
    return expect(look(word, stream), {2.0F, 2.0F}, "message");
}

}  // namespace

TEST_CASE("Nccl: every collective moves what it says, also where the library is long in progress") {
    Mended const mended;
    for (int const asks : {0, 3}) {
        FakeNccl::get().asks_in_progress = asks;
        for (std::int32_t const ranks : {2, 3}) {
            auto const done = run_ranks(ranks, 10s, [](auto& nccl, auto& context, auto& stream, auto&) {
                return collect(nccl, context, stream);
            });
            INFO(std::string(done ? "" : done.error().message()));
            CHECK(done);
        }
    }
    CHECK(FakeNccl::get().alive == 0);
    CHECK(alive() == "");
}

TEST_CASE("Nccl: each call that fails ends the group with its name, and nothing hangs or stays") {
    Mended const mended;
    for (auto const* const call : {"ncclGetUniqueId", "ncclCommInitRankConfig", "ncclCommGetAsyncError",
                                   "ncclAllReduce", "ncclAllGather", "ncclBroadcast", "ncclReduceScatter", "ncclReduce",
                                   "ncclSend", "ncclRecv", "ncclGroupStart", "ncclGroupEnd", "ncclCommFinalize"}) {
        CAPTURE(std::string(call));
        FakeNccl::get().fail(call, 1);
        auto const done = run_ranks(
            2, 1s, [](auto& nccl, auto& context, auto& stream, auto&) { return collect(nccl, context, stream); });
        FakeNccl::get().mend();
        // What cannot end in peace is aborted.
        INFO(std::string(done ? "" : done.error().message()));
        bool const is_end = std::string(call) == "ncclCommFinalize";
        CHECK(static_cast<bool>(done) == is_end);
        if (!done) CHECK(done.error().message().find("was told to fail") != std::string::npos);
        CHECK(FakeNccl::get().alive == 0);
        CHECK(alive() == "");
    }
}

TEST_CASE("Nccl: a library that stays in progress is given up at the limit, and another rank's end is told as such") {
    Mended const mended;
    FakeNccl::get().asks_in_progress = -1;
    auto const begin = std::chrono::steady_clock::now();
    auto const stuck = run_ranks(2, 200ms, [](auto&, auto&, auto&, auto&) { return Result<>{}; });
    REQUIRE_FALSE(stuck);
    CHECK(stuck.error().code() == ErrorCode::deadline_exceeded);
    CHECK(stuck.error().subject() == "ncclCommInitRankConfig");
    FakeNccl::get().mend();
    // Rank 1 calls nothing, and says nothing.
    auto const late = run_ranks(2, 300ms, [](auto& nccl, auto& context, auto& stream, auto& world) -> Result<> {
        auto& sum = hold(context, stream, {1.0F});
        if (world.rank() == 0) {
            if (auto const put = nccl.template all_reduce<float>(sum.view()); !put) return put;
        }
        // Both wait for their streams; only one of them has something to wait for.
        if (world.rank() == 0) return stream.synchronize(Deadline::after(10s));
        std::int64_t const calls = 0;
        std::vector<std::int64_t> both(2);
        std::vector<std::int64_t> const counts{1, 1};
        (void)all_gather(world, TensorView<std::int64_t const, 1, Host>(&calls, {1}),
                         TensorView<std::int64_t, 1, Host>(both.data(), {2}), std::span<std::int64_t const>(counts));
        return {};
    });
    REQUIRE_FALSE(late);
    CHECK(late.error().code() == ErrorCode::deadline_exceeded);
    CHECK(late.error().place() == "rank 1");
    // The library finds out that a rank is lost while the stream waits.
    auto const lost = run_ranks(2, 20s, [](auto& nccl, auto& context, auto& stream, auto& world) -> Result<> {
        auto& sum = hold(context, stream, {1.0F});
        if (world.rank() == 1) return {};
        if (auto const put = nccl.template all_reduce<float>(sum.view()); !put) return put;
        FakeNccl::get().async_status = 6;
        FakeNccl::get().async_rank = 0;
        return stream.synchronize(Deadline::after(20s));
    });
    REQUIRE_FALSE(lost);
    CHECK(lost.error().code() == ErrorCode::rank_lost);
    CHECK(std::chrono::steady_clock::now() - begin < 60s);
    CHECK(FakeNccl::get().alive == 0);
    CHECK(alive() == "");
}

TEST_CASE("Nccl: a group that is cut works in its parts and as a whole; a cut that fails ends it on all ranks by name") {
    Mended const mended;
    for (int const asks : {0, 3}) {
        FakeNccl::get().asks_in_progress = asks;
        auto const done = run_ranks(4, 10s, [](auto& nccl, auto& context, auto& stream, auto& world) -> Result<> {
            auto part = world.split(world.rank() % 2);
            if (!part) return part.error();
            auto own = context.make_stream();
            auto half = nccl.split(*part, own);
            if (!half) return half.error();
            if ((*half)->size() != 2 || (*half)->rank() != world.rank() / 2)
                return Error{ErrorCode::invalid_argument}.in("test").because("has other ranks");
            if (auto const moved = collect(**half, context, own); !moved) return moved;
            auto& sum = hold(context, own, {static_cast<float>(world.rank())});
            if (auto const put = (*half)->template all_reduce<float>(sum.view()); !put) return put;
            auto const expected = world.rank() % 2 == 0 ? 2.0F : 4.0F;
            if (auto const ok = expect(look(sum, own), {expected}, "sum of a part"); !ok) return ok;
            // The whole goes on.
            return collect(nccl, context, stream);
        });
        INFO(std::string(done ? "" : done.error().message()));
        CHECK(done);
    }
    FakeNccl::get().mend();
    FakeNccl::get().fail("ncclCommSplit", 1);
    auto const failed = run_ranks(2, 5s, [](auto& nccl, auto& context, auto&, auto& world) -> Result<> {
        auto part = world.split(0);
        if (!part) return part.error();
        auto own = context.make_stream();
        auto half = nccl.split(*part, own);
        return half ? Result<>{} : Result<>{half.error()};
    });
    REQUIRE_FALSE(failed);
    CHECK(failed.error().message().find("ncclCommSplit") != std::string::npos);
    FakeNccl::get().mend();
    auto const same = run_ranks(2, 5s, [](auto& nccl, auto&, auto& stream, auto& world) -> Result<> {
        auto part = world.split(0);
        if (!part) return part.error();
        auto half = nccl.split(*part, stream);
        return half ? Result<>{} : Result<>{half.error()};
    });
    REQUIRE_FALSE(same);
    CHECK(same.error().code() == ErrorCode::invalid_argument);
    CHECK(FakeNccl::get().alive == 0);
    CHECK(alive() == "");
}

TEST_CASE("load_nccl: a library that is not there, or is no NCCL, is refused by name") {
    auto const absent = load_nccl("libshardwise-no-nccl.so");
    REQUIRE_FALSE(absent);
    CHECK(absent.error().code() == ErrorCode::file_not_found);
    auto const other = load_nccl("libc.so.6");
    REQUIRE_FALSE(other);
    CHECK(other.error().code() == ErrorCode::unsupported);
    CHECK(other.error().place() == "ncclGetVersion");
}
