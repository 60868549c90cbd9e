// SPDX-License-Identifier: Apache-2.0
#include <shardwise/backend/host.hpp>
#include <shardwise/backend/host/host_rank.hpp>

#include <doctest/doctest.h>

#include "no_more_threads.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <csignal>
#include <sys/wait.h>
#include <unistd.h>
#endif

using namespace shardwise;
using namespace std::chrono_literals;

TEST_CASE("ThreadPool: every part of a loop is computed once, for any number of threads and parts") {
    for (int const threads : {1, 2, 3, 5}) {
        ThreadPool pool(threads);
        CHECK(pool.size() == threads);
        for (std::int64_t const parts : {0, 1, 2, 7, 64, 1000}) {
            std::vector<std::atomic<int>> seen(static_cast<std::size_t>(parts));
            pool.run(parts, [&](std::int64_t part) { seen[static_cast<std::size_t>(part)].fetch_add(1); });
            for (auto const& count : seen) REQUIRE(count.load() == 1);
        }
    }
}

TEST_CASE("ThreadPool: ranges cover the whole count, are as many as grains, and at most one per thread") {
    ThreadPool pool(3);
    for (std::int64_t const count : {0, 1, 5, 100}) {
        for (std::int64_t const grain : {1, 4, 1000}) {
            std::vector<std::atomic<int>> seen(static_cast<std::size_t>(count));
            std::atomic<int> ranges{0};
            pool.run_ranges(count, grain, [&](std::int64_t begin, std::int64_t end) {
                ranges.fetch_add(1);
                for (auto i = begin; i < end; ++i) seen[static_cast<std::size_t>(i)].fetch_add(1);
            });
            for (auto const& times : seen) REQUIRE(times.load() == 1);
            CHECK(ranges.load() <= 3);
            if (grain == 1000 && count > 0) CHECK(ranges.load() == 1);
        }
    }
}

TEST_CASE(
    "ThreadPool: a loop in order covers the whole count once, and threads that are done help those that are not") {
    for (int const threads : {1, 2, 3, 70}) {
        ThreadPool pool(threads);
        for (std::int64_t const count : {0, 1, 2, 7, 200}) {
            for (std::int64_t const grain : {1, 3, 500}) {
                std::vector<std::atomic<int>> seen(static_cast<std::size_t>(count));
                std::atomic<bool> is_short = true;
                auto const visit = [&](std::int64_t begin, std::int64_t end) {
                    if ((threads > 1 && end - begin > grain) || end <= begin) is_short = false;
                    for (auto i = begin; i < end; ++i) seen[static_cast<std::size_t>(i)].fetch_add(1);
                };
                pool.run_in_order(count, grain, visit);
                CHECK(is_short.load());
                CHECK(std::all_of(seen.begin(), seen.end(), [](auto const& times) { return times == 1; }));
            }
        }
    }
    // The first piece of a range waits for all others.
    ThreadPool pool(2);
    std::atomic<int> others = 0;
    pool.run_in_order(100, 1, [&](std::int64_t begin, std::int64_t) {
        if (begin != 50) return static_cast<void>(others.fetch_add(1));
        auto const end = std::chrono::steady_clock::now() + 20s;
        while (others < 99 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
        CHECK(others.load() == 99);
    });
}

TEST_CASE("ThreadPool: a loop inside a loop, and loops of several callers, are complete") {
    ThreadPool pool(2);
    std::atomic<int> inner{0};
    pool.run(4, [&](std::int64_t) { pool.run(5, [&](std::int64_t) { inner.fetch_add(1); }); });
    CHECK(inner.load() == 20);

    std::atomic<int> outer{0};
    std::vector<std::thread> callers;
    for (int caller = 0; caller < 3; ++caller) {
        callers.emplace_back([&] {
            for (int turn = 0; turn < 200; ++turn) pool.run(3, [&](std::int64_t) { outer.fetch_add(1); });
        });
    }
    for (auto& caller : callers) caller.join();
    CHECK(outer.load() == 3 * 200 * 3);
}

TEST_CASE("ThreadPool: threads that went to sleep wake for the next loop") {
    ThreadPool pool(2, true);
    for (int turn = 0; turn < 3; ++turn) {
        std::atomic<int> parts{0};
        pool.run(8, [&](std::int64_t) { parts.fetch_add(1); });
        CHECK(parts.load() == 8);
        std::this_thread::sleep_for(5ms);
    }
}

TEST_CASE("ThreadPool: ends although a worker comes too late for the last loop") {
    for (int pools = 0; pools < 5000; ++pools) {
        ThreadPool pool(2);
        for (int loops = 0; loops <= pools % 4; ++loops) pool.run(2, [](std::int64_t) {});
    }
}

TEST_CASE("CorePin: a thread stays on one core while it lives, and may use all again afterwards") {
    auto const before = detail::allowed_cores();
    for (int const index : {0, before - 1, before}) {
        {
            CorePin const pin(index);
            REQUIRE(pin.is_pinned());
            CHECK(detail::allowed_cores() == 1);
        }
        CHECK(detail::allowed_cores() == before);
    }
    // The pool's threads lie beside the caller's core, which may be counted past the last.
    for (int const first_core : {0, before - 1}) {
        HostContext context({.threads = 2, .is_pinned = true, .first_core = first_core});
        std::atomic<int> cores{0};
        std::atomic<int> begun{0};
        context.pool().run(2, [&](std::int64_t) {
            begun.fetch_add(1);
            // Until both threads have a part.
            while (begun.load() < 2) std::this_thread::yield();
            cores.fetch_add(detail::allowed_cores());
        });
        CHECK(cores.load() == before + 1);
    }
}

TEST_CASE("Host memory is aligned, and its count and peak follow what is held") {
    HostContext context({.threads = 1});
    {
        auto one = Buffer<float, Host>::allocate(context, 100);
        REQUIRE(one);
        CHECK(reinterpret_cast<std::uintptr_t>(one->data()) % Host::alignment == 0);
        CHECK(context.memory().current() == Bytes{400});
        auto two = Buffer<double, Host>::allocate(context, 10);
        REQUIRE(two);
        CHECK(context.memory().peak() == Bytes{480});
        *two = *Buffer<double, Host>::allocate(context, 1);
        CHECK(context.memory().peak() == Bytes{488});
    }
    CHECK(context.memory().current() == Bytes{0});
    CHECK(context.memory().peak() == Bytes{488});
    context.memory().restart_peak();
    CHECK(context.memory().peak() == Bytes{0});
}

TEST_CASE("Buffer: an impossible size is refused with its reason") {
    HostContext context({.threads = 1});
    CHECK(Buffer<float, Host>::allocate(context, -1).error().code() == ErrorCode::invalid_argument);
    CHECK(Buffer<double, Host>::allocate(context, INT64_MAX).error().code() == ErrorCode::size_overflow);
    CHECK(Buffer<char, Host>::allocate(context, INT64_MAX / 4).error().code() == ErrorCode::out_of_memory);
    auto const empty = Buffer<float, Host>::allocate(context, 0);
    REQUIRE(empty);
    CHECK(empty->view().empty());
}

TEST_CASE("HostStream: tasks run in order, the first failure stops the stream and is what synchronize returns") {
    for (auto const mode : {StreamMode::immediate, StreamMode::queued}) {
        HostStream stream(mode);
        std::vector<int> order;
        for (int i = 0; i < 50; ++i) stream.submit([&order, i] { return order.push_back(i), Result<>{}; });
        REQUIRE(stream.synchronize(Deadline::after(10s)));
        REQUIRE(order.size() == 50);
        for (int i = 0; i < 50; ++i) CHECK(order[static_cast<std::size_t>(i)] == i);

        stream.submit([] { return Result<>{Error{ErrorCode::backend_failure}.because("first")}; });
        stream.submit([&order] { return order.push_back(99), Result<>{}; });
        stream.submit([] { return Result<>{Error{ErrorCode::backend_failure}.because("second")}; });
        auto const result = stream.synchronize(Deadline::after(10s));
        REQUIRE_FALSE(result);
        CHECK(result.error().reason() == "first");
        CHECK(order.size() == 50);
    }
}

TEST_CASE("HostStream: a task that takes too long is a deadline_exceeded, and the stream goes on") {
    HostStream stream(StreamMode::queued);
    std::atomic<bool> is_released{false};
    stream.submit([&is_released] {
        while (!is_released.load()) std::this_thread::yield();
        return Result<>{};
    });
    auto const early = stream.synchronize(Deadline::after(20ms));
    REQUIRE_FALSE(early);
    CHECK(early.error().code() == ErrorCode::deadline_exceeded);
    is_released.store(true);
    CHECK(stream.synchronize(Deadline::after(10s)));
}

#if defined(__GLIBC__)
TEST_CASE("HostContext: works with the threads that the system gives; a queued stream that gets none has failed") {
    {
        shardwise::testing::NoMoreThreads const refusal;
        HostContext context({.threads = 3, .streams = StreamMode::queued});
        CHECK(context.pool().size() == 1);
        std::atomic<int> sum{0};
        context.pool().run(10, [&](std::int64_t) { sum.fetch_add(1); });
        CHECK(sum.load() == 10);

        auto stream = context.make_stream();
        stream.submit([&] { return sum.store(0), Result<>{}; });
        auto const refused = stream.synchronize(Deadline::after(10s));
        REQUIRE_FALSE(refused);
        CHECK(refused.error().code() == ErrorCode::capacity_exceeded);
        CHECK(sum.load() == 10);
    }
    CHECK(ThreadPool(3).size() == 3);
}
#endif

#if defined(__linux__)
TEST_CASE("HostContext: has as many threads as its caller may use cores, where no number is asked for") {
    CHECK(HostContext().pool().size() == detail::allowed_cores());
    CorePin const pin(0);
    if (!pin.is_pinned()) return;
    CHECK(HostContext().pool().size() == 1);
    CHECK(HostContext({.threads = 2}).pool().size() == 2);
}

/// What `work` returns in a fork of this process; -1 where it crashes or takes half a minute.
template <class Work>
int in_fork(Work const& work) {
    auto const child = fork();
    if (child == 0) _exit(work());
    if (child < 0) return -1;
    int status = 0;
    auto const limit = Deadline::after(30s);
    auto ended = waitpid(child, &status, WNOHANG);
    while (ended == 0 && !limit.has_passed()) {
        std::this_thread::sleep_for(1ms);
        ended = waitpid(child, &status, WNOHANG);
    }
    if (ended == 0) {
        (void)kill(child, SIGKILL);
        (void)waitpid(child, &status, 0);
    }
    return ended == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_CASE("HostContext: in a fork its threads are missing, and nothing waits for them") {
    auto context = std::make_unique<HostContext>(HostOptions{.threads = 3, .streams = StreamMode::queued});
    auto stream = std::make_unique<HostStream>(context->make_stream());
    stream->submit([] { return Result<>{}; });
    REQUIRE(stream->synchronize(Deadline::after(10s)));
    // The threads go to sleep: in the fork nobody is there to be woken.
    std::this_thread::sleep_for(50ms);
    auto const found = in_fork([&] {
        int wrong = 0;
        for (int i = 0; i < 10; ++i) {
            int sum = 0;
            context->pool().run(10, [&](std::int64_t part) { sum += static_cast<int>(part); });
            if (sum != 45) wrong |= 1;
        }
        bool has_run = false;
        HostEvent event;
        for (int i = 0; i < 10; ++i) {
            stream->submit([&] { return has_run = true, Result<>{}; });
            event.record(*stream);
        }
        auto const waited = stream->synchronize(Deadline::after(10s));
        if (has_run || waited || waited.error().code() != ErrorCode::unsupported) wrong |= 2;
        if (event.synchronize(Deadline::after(10s))) wrong |= 4;
        stream.reset();
        context.reset();
        return wrong;
    });
    CHECK(found == 0);
    // The parent goes on.
    stream->submit([] { return Result<>{}; });
    CHECK(stream->synchronize(Deadline::after(10s)));
}

TEST_CASE("HostStream: in a fork that is made during a task nothing waits for the task, nor for an event after it") {
    HostStream stream(StreamMode::queued);
    HostEvent before;
    before.record(stream);
    REQUIRE(before.synchronize(Deadline::after(10s)));
    std::atomic<bool> is_running{false};
    std::atomic<bool> may_end{false};
    stream.submit([&] {
        is_running.store(true);
        while (!may_end.load()) std::this_thread::sleep_for(1ms);
        return Result<>{};
    });
    HostEvent behind;
    behind.record(stream);
    while (!is_running.load()) std::this_thread::sleep_for(1ms);
    auto const wrong = in_fork([&] {
        auto const fails = [](Result<> const& done) { return !done && done.error().code() == ErrorCode::unsupported; };
        int found = 0;
        if (!fails(stream.synchronize(Deadline::after(24h)))) found |= 1;
        if (!fails(behind.synchronize(Deadline::after(24h))) || behind.is_reached()) found |= 2;
        if (!before.synchronize(Deadline::after(24h)) || !before.is_reached()) found |= 4;
        HostEvent later;
        later.record(stream);
        if (!fails(later.synchronize(Deadline::after(24h)))) found |= 8;
        return found;
    });
    CHECK(wrong == 0);
    may_end.store(true);
    CHECK(stream.synchronize(Deadline::after(10s)));
    CHECK(behind.is_reached());
}
#endif

TEST_CASE("HostStream: the longest deadline that can be asked for waits") {
    HostStream stream(StreamMode::queued);
    std::atomic<bool> is_done{false};
    stream.submit([&is_done] {
        std::this_thread::sleep_for(20ms);
        is_done.store(true);
        return Result<>{};
    });
    CHECK(stream.synchronize(Deadline::after(std::chrono::nanoseconds::max())));
    CHECK(is_done.load());
}

TEST_CASE("HostEvent: holds a second stream up until the first has come so far") {
    HostStream first(StreamMode::queued);
    HostStream second(StreamMode::queued);
    std::atomic<bool> is_released{false};
    std::atomic<bool> is_after{false};
    HostEvent event;
    CHECK(event.is_reached());
    first.submit([&is_released] {
        while (!is_released.load()) std::this_thread::yield();
        return Result<>{};
    });
    event.record(first);
    event.block(second, 10s);
    second.submit([&is_after] { return is_after.store(true), Result<>{}; });
    CHECK_FALSE(event.is_reached());
    CHECK_FALSE(event.synchronize(Deadline::after(10ms)));
    CHECK_FALSE(is_after.load());
    is_released.store(true);
    CHECK(event.synchronize(Deadline::after(10s)));
    CHECK(second.synchronize(Deadline::after(10s)));
    CHECK(is_after.load());
}

TEST_CASE("Host: a copy moves the values in stream order and refuses other sizes") {
    HostContext context({.threads = 2, .streams = StreamMode::queued});
    auto stream = context.make_stream();
    auto from = *Buffer<int, Host>::allocate(context, 5);
    auto to = *Buffer<int, Host>::allocate(context, 5);
    for (int i = 0; i < 5; ++i) from.data()[i] = i * i;
    REQUIRE(Host::copy<int>(from.view(), to.view(), stream));
    auto const add_one = [data = to.data()](std::int64_t begin, std::int64_t end) {
        for (auto i = begin; i < end; ++i) data[i] += 1;
    };
    Host::launch(5, add_one, stream);
    REQUIRE(stream.synchronize(Deadline::after(10s)));
    for (int i = 0; i < 5; ++i) CHECK(to.data()[i] == i * i + 1);
    auto const wrong = Host::copy<int>(from.view().part(0, 3), to.view(), stream);
    REQUIRE_FALSE(wrong);
    CHECK(wrong.error().code() == ErrorCode::shape_mismatch);
}
