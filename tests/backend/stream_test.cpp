// SPDX-License-Identifier: Apache-2.0
#include <shardwise/backend/host.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

using namespace shardwise;
using namespace std::chrono_literals;

TEST_CASE("HostStream: an exception of a task is the stream's failure, with its own words, and nothing else") {
    for (auto const mode : {StreamMode::immediate, StreamMode::queued}) {
        HostStream stream(mode);
        bool is_after = false;
        stream.submit([]() -> Result<> { throw std::runtime_error("the disk is gone"); });
        stream.submit([&] { return is_after = true, Result<>{}; });
        HostEvent event;
        event.record(stream);
        auto const failed = stream.synchronize(Deadline::after(10s));
        REQUIRE_FALSE(failed);
        CHECK(failed.error().code() == ErrorCode::backend_failure);
        CHECK(failed.error().message() == "stream: threw: the disk is gone");
        CHECK_FALSE(event.synchronize(Deadline::after(10s)));
        CHECK_FALSE(is_after);

        HostStream other(mode);
        other.submit([]() -> Result<> { throw 1; });
        auto const unknown = other.synchronize(Deadline::after(10s));
        REQUIRE_FALSE(unknown);
        CHECK(unknown.error().message() == "stream: threw an exception");

        // A mark's exception, too.
        HostStream marked(mode);
        marked.submit_mark([](std::optional<Error> const&) { throw std::runtime_error("a mark"); });
        CHECK_FALSE(marked.synchronize(Deadline::after(10s)));
    }
}

TEST_CASE("Host: an exception of a part of a kernel is the stream's failure, whatever thread computes it") {
    HostContext context({.threads = 3, .streams = StreamMode::queued});
    for (int const thrower : {0, 1, 2}) {
        auto stream = context.make_stream();
        std::atomic<int> begun{0};
        Host::launch(
            3,
            [&](std::int64_t begin, std::int64_t) {
                // Until each thread has a part.
                begun.fetch_add(1);
                auto const end = std::chrono::steady_clock::now() + 20s;
                while (begun < 3 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
                if (begin == thrower) throw std::runtime_error("part " + std::to_string(begin));
            },
            stream);
        auto const failed = stream.synchronize(Deadline::after(30s));
        REQUIRE_FALSE(failed);
        CHECK(failed.error().message() == "stream: threw: part " + std::to_string(thrower));
    }
    // The pool works on.
    std::atomic<int> parts{0};
    context.pool().run(7, [&](std::int64_t) { parts.fetch_add(1); });
    CHECK(parts.load() == 7);
    CHECK_THROWS_AS(context.pool().run(7, [](std::int64_t) { throw std::runtime_error("each"); }), std::runtime_error);
}

TEST_CASE("HostStream: what a task holds is gone when the stream is done") {
    HostStream stream(StreamMode::queued);
    std::atomic<int> gone{0};
    struct Slow {
        std::atomic<int>& gone;
        ~Slow() {
            std::this_thread::sleep_for(20ms);
            gone.fetch_add(1);
        }
    };
    for (bool const fails : {false, true}) {
        stream.submit([held = std::shared_ptr<Slow>(new Slow{gone}), fails]() -> Result<> {
            if (fails) return Error{ErrorCode::backend_failure}.in("task");
            return {};
        });
        CHECK(bool(stream.synchronize(Deadline::after(10s))) != fails);
        CHECK(gone.load() == (fails ? 2 : 1));
    }
    // Skipped ones hold nothing either.
    HostEvent behind;
    stream.submit([held = std::shared_ptr<Slow>(new Slow{gone})] { return Result<>{}; });
    behind.record(stream);
    CHECK_FALSE(behind.synchronize(Deadline::after(10s)));
    CHECK(gone.load() == 3);
}

#if defined(__linux__)
TEST_CASE("HostEvent: a new record leaves copies at the point that they had") {
    HostStream stream(StreamMode::queued);
    HostEvent event;
    event.record(stream);
    REQUIRE(event.synchronize(Deadline::after(10s)));
    for (int round = 0; round < 3; ++round) {
        CAPTURE(round);
        auto const earlier = event;
        std::promise<void> opened;
        stream.submit([wait = opened.get_future().share()] {
            wait.wait();
            return Result<>{};
        });
        event.record(stream);
        CHECK(earlier.is_reached());
        CHECK_FALSE(event.is_reached());
        auto const same = event;
        CHECK_FALSE(same.is_reached());
        opened.set_value();
        CHECK(same.synchronize(Deadline::after(10s)));
        CHECK(event.is_reached());
    }
    // Nobody else knows of this point: it is used again, and not passed before the stream comes there.
    std::promise<void> opened;
    stream.submit([wait = opened.get_future().share()] {
        wait.wait();
        return Result<>{};
    });
    event.record(stream);
    CHECK_FALSE(event.is_reached());
    opened.set_value();
    CHECK(event.synchronize(Deadline::after(10s)));
}

TEST_CASE("HostContext: the thread of a queued stream stays on the caller's core where threads are pinned") {
    for (bool const is_pinned : {false, true}) {
        HostContext context({.threads = 2, .is_pinned = is_pinned, .streams = StreamMode::queued});
        auto stream = context.make_stream();
        std::atomic<int> cores{0};
        stream.submit([&] { return cores.store(detail::allowed_cores()), Result<>{}; });
        REQUIRE(stream.synchronize(Deadline::after(10s)));
        CHECK(cores.load() == (is_pinned ? 1 : detail::allowed_cores()));
    }
}
#endif
