// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/device/nccl.hpp>
#include <shardwise/comm/threads.hpp>

#include <doctest/doctest.h>

#include "fake_nccl.hpp"
#include "nccl_collectives.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

using namespace shardwise;
using namespace std::chrono_literals;
using shardwise::testing::collect_all;
using shardwise::testing::expect;
using shardwise::testing::Fake;
using shardwise::testing::FakeApi;
using shardwise::testing::FakeMachine;
using shardwise::testing::FakeNccl;
using shardwise::testing::hold;
using shardwise::testing::Kept;
using shardwise::testing::look;

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

/// Runs body on ranks that are threads, each with a device's context, a stream and the library.
[[nodiscard]] Result<> run_ranks(std::int32_t ranks, std::chrono::nanoseconds limit, Body const& body,
                                 NcclTable const& table = FakeNccl::table(),
                                 std::chrono::nanoseconds control_limit = 20s) {
    return run_threads(ranks,
                       [&](Threads& threads) -> Result<> {
                           HostCommunicator world(std::move(threads));
                           auto context = Fake::Context::open();
                           if (!context) return context.error();
                           auto stream = (*context)->make_stream();
                           auto nccl = Nccl<FakeApi>::join(table, world, **context, stream, limit);
                           if (!nccl) return nccl.error();
                           auto const done = body(**nccl, **context, stream, world);
                           if (!done) (void)world.fail(done.error());
                           (void)stream.synchronize(Deadline::after(30s));
                           Kept::get() = {};
                           return done;
                       },
                       {.timeout = control_limit});
}

}  // namespace

TEST_CASE("Nccl: every collective moves what it says, also where the library is long in progress") {
    Mended const mended;
    for (int const asks : {0, 3}) {
        FakeNccl::get().asks_in_progress = asks;
        for (std::int32_t const ranks : {2, 3}) {
            auto const done = run_ranks(ranks, 10s, [](auto& nccl, auto& context, auto& stream, auto&) {
                return collect_all(nccl, context, stream);
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
            2, 1s, [](auto& nccl, auto& context, auto& stream, auto&) { return collect_all(nccl, context, stream); });
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

TEST_CASE(
    "Nccl: a group that is cut works in its parts and as a whole; a cut that fails ends it on all ranks by name") {
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
            if (auto const moved = collect_all(**half, context, own); !moved) return moved;
            auto& sum = hold(context, own, {static_cast<float>(world.rank())});
            if (auto const put = (*half)->template all_reduce<float>(sum.view()); !put) return put;
            auto const expected = world.rank() % 2 == 0 ? 2.0F : 4.0F;
            if (auto const ok = expect(look(sum, own), {expected}, "sum of a part"); !ok) return ok;
            // The whole goes on.
            return collect_all(nccl, context, stream);
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
    // Also where one rank alone has the wrong stream, which is told at once.
    for (std::int32_t const wrong_ranks : {2, 1}) {
        auto const begin = std::chrono::steady_clock::now();
        auto const same = run_ranks(2, 5s, [=](auto& nccl, auto& context, auto& stream, auto& world) -> Result<> {
            auto part = world.split(0);
            if (!part) return part.error();
            auto own = context.make_stream();
            auto half = nccl.split(*part, world.rank() < wrong_ranks ? stream : own);
            return half ? Result<>{} : Result<>{half.error()};
        });
        REQUIRE_FALSE(same);
        CHECK(same.error().code() == ErrorCode::invalid_argument);
        // The library waits ten seconds for who does not come.
        CHECK(std::chrono::steady_clock::now() - begin < 8s);
    }
    CHECK(FakeNccl::get().alive == 0);
    CHECK(alive() == "");
}

namespace {

/// What became of memory that ranks have registered, on rank 0.
struct Registered {
    Result<> done;
    NcclRegistration registration = NcclRegistration::none;
    std::string reason;
};

/// Ranks register memory of so many bytes and such a layout each, and move data in it.
[[nodiscard]] Registered register_memory(NcclTable const& table, std::function<Bytes(std::int32_t)> const& bytes,
                                         std::function<std::uint64_t(std::int32_t)> const& layout,
                                         std::chrono::nanoseconds limit = 10s,
                                         std::chrono::nanoseconds control_limit = 20s) {
    Registered out;
    auto const body = [&](auto& nccl, auto& context, auto& stream, auto& world) -> Result<> {
        auto const own = bytes(world.rank());
        auto const memory = own.count() > 0 ? nccl.allocate(own) : Error{ErrorCode::unsupported}.in("test");
        if (auto const told = nccl.register_memory(layout(world.rank())); !told) return told;
        // All ranks come to the same.
        auto const registration = nccl.memory().registration();
        auto const all = detail::exchange_results(world, Result<NcclRegistration>(registration));
        if (!all) return all.error();
        for (auto const other : *all)
            if (other != registration) return Error{ErrorCode::invalid_argument}.in("test").because("differ");
        if (FakeNccl::get().heap.is_known() != (registration != NcclRegistration::none))
            return Error{ErrorCode::invalid_argument}.in("test").because("registered in part");
        if (world.rank() == 0) {
            out.registration = registration;
            out.reason = nccl.memory().reason();
        }
        // A rank without memory of the library's sums elsewhere.
        auto const* const some = memory ? nullptr : &hold(context, stream, std::vector<float>(16));
        if (memory || bytes(0) != bytes(1)) {
            auto const count = std::int64_t{16};
            TensorView<float, 1, Fake> const sum(
                memory ? static_cast<float*>(*memory) : const_cast<float*>(some->data()), {count});
            std::vector<float> const values(static_cast<std::size_t>(count), 1.0F);
            (void)Fake::copy<float>(TensorView<float const, 1, Host>(values.data(), {count}), sum, stream);
            if (auto const put = nccl.template all_reduce<float>(sum); !put) return put;
            std::vector<float> seen(values.size());
            (void)Fake::copy<float>(TensorView<float const, 1, Fake>(sum),
                                    TensorView<float, 1, Host>(seen.data(), {count}), stream);
            if (auto const waited = stream.synchronize(Deadline::after(10s)); !waited) return waited;
            if (auto const ok = expect(seen, std::vector<float>(values.size(), 2.0F), "sum"); !ok) return ok;
        }
        return collect_all(nccl, context, stream);
    };
    out.done = run_ranks(2, limit, body, table, control_limit);
    CHECK(FakeNccl::get().alive == 0);
    CHECK(FakeNccl::get().heap.blocks() == 0);
    CHECK(alive() == "");
    return out;
}

constexpr auto alike = [](std::int32_t) { return std::uint64_t{7}; };
constexpr auto large = [](std::int32_t) { return Bytes{5000}; };
constexpr auto by_rank = [](std::int32_t rank) { return static_cast<std::uint64_t>(rank); };
constexpr auto first_alone = [](std::int32_t rank) { return Bytes{rank == 0 ? 5000 : 0}; };
constexpr auto larger_by_rank = [](std::int32_t rank) { return Bytes{5000 + 64 * rank}; };

}  // namespace

TEST_CASE("Nccl: memory of the library is a window where ranks lay it out alike, and else each rank's buffer") {
    Mended const mended;
    auto& library = FakeNccl::get();
    library.broken_rules = 0;
    for (int const asks : {0, 3}) {
        library.asks_in_progress = asks;
        auto const same = register_memory(FakeNccl::table(), large, alike);
        CHECK_MESSAGE(same.done, (same.done ? "" : same.done.error().message()));
        CHECK(same.registration == NcclRegistration::window);
        CHECK(same.reason == "");
        for (auto const& [bytes, layout] :
             {std::pair<std::function<Bytes(std::int32_t)>, std::function<std::uint64_t(std::int32_t)>>{large, by_rank},
              {larger_by_rank, alike}}) {
            auto const unlike = register_memory(FakeNccl::table(), bytes, layout);
            CHECK_MESSAGE(unlike.done, (unlike.done ? "" : unlike.done.error().message()));
            CHECK(unlike.registration == NcclRegistration::buffer);
            CHECK(unlike.reason == "the arena is no window: ranks lay it out unlike");
        }
        library.makes_windows = false;
        auto const none = register_memory(FakeNccl::table(), large, alike);
        library.makes_windows = true;
        CHECK(none.done);
        CHECK(none.registration == NcclRegistration::buffer);
        CHECK(none.reason == "the arena is no window: the library makes none on these devices");
    }
    library.mend();
    // Older libraries, which is nothing to speak of.
    auto table = FakeNccl::table();
    table.add_window = nullptr;
    CHECK(register_memory(table, large, alike).registration == NcclRegistration::buffer);
    table.remove_buffer = nullptr;
    auto const neither = register_memory(table, large, alike);
    CHECK(neither.done);
    CHECK(neither.registration == NcclRegistration::none);
    CHECK(neither.reason == "");
    table = FakeNccl::table();
    table.allocate = nullptr;
    auto const oldest = register_memory(table, large, alike);
    CHECK(oldest.done);
    CHECK(oldest.registration == NcclRegistration::none);
    CHECK(oldest.reason == "");
    CHECK(library.broken_rules == 0);
}

TEST_CASE("Nccl: memory that the library does not take is gone without, on all ranks, and said") {
    Mended const mended;
    auto& library = FakeNccl::get();
    library.broken_rules = 0;
    struct Failure {
        char const* call;
        int rank;
        NcclRegistration registration;
        char const* reason;
    };
    auto const begin = std::chrono::steady_clock::now();
    for (auto const& one : {Failure{"ncclMemAlloc", -1, NcclRegistration::none, ""},
                            Failure{"ncclCommWindowRegister", -1, NcclRegistration::none,
                                    "the arena is no window: ncclCommWindowRegister"},
                            Failure{"ncclCommWindowRegister", 1, NcclRegistration::none, "the arena is no window: "},
                            Failure{"ncclCommWindowRegister", 0, NcclRegistration::none,
                                    "the arena is no window: ncclCommWindowRegister"},
                            Failure{"ncclCommWindowDeregister", 1, NcclRegistration::window, ""}}) {
        CAPTURE(std::string(one.call));
        CAPTURE(one.rank);
        library.fail(one.call, one.rank);
        // Ranks wait in the library for one that has failed, and comes to wait for them elsewhere, half of their limit.
        auto const found = register_memory(FakeNccl::table(), large, alike, 4s, 3s);
        library.mend();
        CHECK_MESSAGE(found.done, (found.done ? "" : found.done.error().message()));
        CHECK(found.registration == one.registration);
        bool const is_silent = std::string(one.reason).empty();
        CHECK_MESSAGE((is_silent ? found.reason.empty() : found.reason.find(one.reason) == 0), found.reason);
    }
    CHECK(library.broken_rules == 1);
    library.broken_rules = 0;
    for (auto const rank : {0, 1}) {
        for (auto const* const call : {"ncclCommRegister", "ncclCommDeregister"}) {
            library.fail(call, rank);
            auto const found = register_memory(FakeNccl::table(), large, by_rank, 1s);
            library.mend();
            CHECK_MESSAGE(found.done, (found.done ? "" : found.done.error().message()));
            bool const is_end = std::string(call) == "ncclCommDeregister";
            CHECK((found.registration == NcclRegistration::buffer) == is_end);
            CHECK((found.reason.find("the arena is not registered: ") == 0) != is_end);
        }
    }
    // Only where the library did not take it back.
    CHECK(library.broken_rules == 2);
    auto const alone = register_memory(FakeNccl::table(), first_alone, alike);
    CHECK_MESSAGE(alone.done, (alone.done ? "" : alone.done.error().message()));
    CHECK(alone.registration == NcclRegistration::none);
    CHECK(alone.reason == "the arena is not registered: a rank has none of the library's memory");
    CHECK(std::chrono::steady_clock::now() - begin < 60s);
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
