// SPDX-License-Identifier: Apache-2.0
#include <shardwise/backend/host/products.hpp>
#include <shardwise/comm/threads.hpp>
#include <shardwise/parallel/weight_stream.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

using namespace shardwise;
using namespace std::chrono_literals;

Deadline soon() {
    return Deadline::after(20s);
}

/// Layers of different sizes, each byte a function of its layer and place.
struct Layers {
    std::vector<std::vector<std::byte>> memory;

    static std::byte value(std::int64_t layer, std::int64_t i) {
        return static_cast<std::byte>((layer * 31 + i * 7 + i / 250) % 251);
    }
    explicit Layers(std::vector<std::int64_t> const& sizes) {
        for (std::size_t layer = 0; layer < sizes.size(); ++layer) {
            memory.emplace_back();
            for (std::int64_t i = 0; i < sizes[layer]; ++i)
                memory.back().push_back(value(static_cast<std::int64_t>(layer), i));
        }
    }
    [[nodiscard]] MemoryLayers source() const {
        List<std::span<std::byte const>> spans;
        for (auto const& layer : memory) spans.push_back({layer.data(), layer.size()});
        return MemoryLayers(std::move(spans));
    }
    /// A worker that finds every layer as it is, in order.
    [[nodiscard]] auto checker(std::int64_t& next) const {
        return [this, &next](std::int64_t layer, std::span<std::byte const> weights, HostStream&) -> Result<> {
            CHECK(layer == next++);
            auto const& expected = memory[static_cast<std::size_t>(layer)];
            CHECK(std::vector<std::byte>(weights.begin(), weights.end()) == expected);
            return {};
        };
    }
};

TEST_CASE("WeightStream: every walk sees every layer's bytes, through as many buffers as asked for") {
    Layers const layers({300, 7, 0, 1000, 64});
    for (std::int64_t const depth : {2, 3, 5, 9}) {
        HostContext context({.threads = 1});
        auto stream = context.make_stream();
        auto weights = WeightStream<MemoryLayers>::create(context, layers.source(), depth);
        REQUIRE(weights);
        CHECK(weights->bytes() == Bytes{1000 * std::min<std::int64_t>(depth, 5)});
        CHECK(context.memory().current() == weights->bytes());
        for (int walk = 0; walk < 3; ++walk) {
            std::int64_t next = 0;
            auto const done = weights->run(layers.checker(next), stream, soon());
            CHECK_MESSAGE(done, (done ? "" : done.error().message()));
            CHECK(next == 5);
        }
        CHECK(weights->layers_fetched() == 3 * 5 + std::min<std::int64_t>(depth, 5));
    }
}

TEST_CASE("WeightStream: fetches one layer while the one before is computed, also into the next walk") {
    // Neither side goes on before the other has begun: without overlap nobody would.
    struct Meeting {
        std::atomic<std::int64_t> fetching{-1};
        std::atomic<std::int64_t> computing{-1};
        static bool waits_for(std::atomic<std::int64_t> const& other, std::int64_t least) {
            auto const deadline = Deadline::after(10s);
            while (other < least && !deadline.has_passed()) std::this_thread::yield();
            return other >= least;
        }
    } meeting;
    struct Source {
        Meeting* meeting;
        std::int64_t calls = 0;
        [[nodiscard]] std::int64_t layers() const { return 4; }
        [[nodiscard]] Bytes bytes(std::int64_t) const { return Bytes{8}; }
        Result<> read(std::int64_t, std::int64_t, std::span<std::byte>) {
            auto const call = calls++;
            meeting->fetching = call;
            // It does not end before the layer before it is being computed.
            CHECK(Meeting::waits_for(meeting->computing, call - 1));
            return {};
        }
    };
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    auto weights = WeightStream<Source>::create(context, Source{&meeting});
    REQUIRE(weights);
    for (int walk = 0; walk < 2; ++walk) {
        auto const done = weights->run(
            [&](std::int64_t layer, std::span<std::byte const>, HostStream&) -> Result<> {
                meeting.computing = walk * 4 + layer;
                CHECK(Meeting::waits_for(meeting.fetching, walk * 4 + layer + 1));
                return {};
            },
            stream, soon());
        CHECK(done);
    }
    // What the last fetches wait for.
    meeting.computing = 100;
}

TEST_CASE("WeightStream: work that is put into a queued stream keeps its weights until it is done") {
    Layers const layers({64, 64, 64, 64, 64, 64});
    HostContext context({.threads = 1, .streams = StreamMode::queued});
    auto stream = context.make_stream();
    auto weights = WeightStream<MemoryLayers>::create(context, layers.source());
    REQUIRE(weights);
    std::int64_t right = 0;
    auto const done = weights->run(
        [&](std::int64_t layer, std::span<std::byte const> bytes, HostStream& queue) -> Result<> {
            queue.submit([&, layer, bytes]() -> Result<> {
                std::this_thread::sleep_for(2ms);
                auto const& expected = layers.memory[static_cast<std::size_t>(layer)];
                right += std::vector<std::byte>(bytes.begin(), bytes.end()) == expected ? 1 : 0;
                return {};
            });
            return {};
        },
        stream, soon());
    CHECK(done);
    CHECK(right == 6);
}

TEST_CASE("WeightStream: waits for what still reads its buffers when it goes, also after a deadline that has passed") {
    Layers const layers({64, 64});
    HostContext context({.threads = 1, .streams = StreamMode::queued});
    auto stream = context.make_stream();
    std::atomic<bool> is_read{false};
    {
        auto weights = WeightStream<MemoryLayers>::create(context, layers.source());
        REQUIRE(weights);
        auto const work = [&](std::int64_t, std::span<std::byte const> bytes, HostStream& to) -> Result<> {
            to.submit([&is_read, bytes]() -> Result<> {
                std::this_thread::sleep_for(50ms);
                is_read = bytes[63] != std::byte{255};
                return {};
            });
            return Error{ErrorCode::invalid_argument}.because("ends the walk");
        };
        CHECK_FALSE(weights->run(work, stream, soon()));
        CHECK_FALSE(is_read);
    }
    CHECK(is_read);
}

TEST_CASE("FileLayers: layers in a file; one that is too short is refused before and while it is used") {
    Layers const layers({300, 500});
    auto const path = (std::filesystem::temp_directory_path() / ("layers_" + std::to_string(::getpid()))).string();
    {
        std::ofstream file(path, std::ios::binary);
        file << "head";
        for (auto const& layer : layers.memory)
            file.write(reinterpret_cast<char const*>(layer.data()), static_cast<std::streamsize>(layer.size()));
    }
    List<FileLayers::Place> places{{4, 300}, {304, 500}};
    auto source = FileLayers::open(path, places);
    REQUIRE(source);
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    auto weights = WeightStream<FileLayers>::create(context, std::move(*source));
    REQUIRE(weights);
    std::int64_t next = 0;
    CHECK(weights->run(layers.checker(next), stream, soon()));
    CHECK(next == 2);

    places[1].bytes = 501;
    auto const longer = FileLayers::open(path, places);
    REQUIRE_FALSE(longer);
    CHECK(longer.error().message().find("ends before a layer") != std::string::npos);
    // Up to where the layer reaches.
    CHECK(longer.error().needed() == Bytes{805});
    CHECK(longer.error().available() == Bytes{804});
    CHECK(FileLayers::open(path, {{0, -1}}).error().code() == ErrorCode::invalid_argument);
    CHECK(FileLayers::open(path, {{~std::uint64_t{0}, 1}}).error().code() == ErrorCode::malformed_file);
    CHECK_FALSE(FileLayers::open(path + ".none", {}));

    places[1].bytes = 500;
    auto cut = FileLayers::open(path, places);
    REQUIRE(cut);
    std::filesystem::resize_file(path, 700);
    auto broken = WeightStream<FileLayers>::create(context, std::move(*cut));
    REQUIRE(broken);
    next = 0;
    auto const done = broken->run(layers.checker(next), stream, soon());
    REQUIRE_FALSE(done);
    CHECK(done.error().message().find("was cut") != std::string::npos);
    CHECK(next == 1);
    // It does not begin again in the middle.
    CHECK_FALSE(broken->run(layers.checker(next), stream, soon()));
    CHECK(next == 1);
    std::filesystem::remove(path);
}

namespace {

/// Walks twice over all layers, which are checked.
template <class Source>
Result<> walk_twice(Layers const& layers, Source source) {
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    auto weights = WeightStream<Source>::create(context, std::move(source));
    if (!weights) return weights.error();
    for (int walk = 0; walk < 2; ++walk) {
        std::int64_t next = 0;
        if (auto const ran = weights->run(layers.checker(next), stream, soon()); !ran) return ran;
    }
    return {};
}

}  // namespace

TEST_CASE("SharedLayers: each rank fetches its part of a layer, and all see all of it") {
    Layers const layers({300, 7, 1, 1000});
    for (std::int32_t const ranks : {1, 2, 4}) {
        std::atomic<std::int64_t> read{0};
        struct Counted {
            MemoryLayers source;
            std::atomic<std::int64_t>* bytes_read;
            [[nodiscard]] std::int64_t layers() const { return source.layers(); }
            [[nodiscard]] Bytes bytes(std::int64_t layer) const { return source.bytes(layer); }
            Result<> read(std::int64_t layer, std::int64_t begin, std::span<std::byte> to) const {
                *bytes_read += static_cast<std::int64_t>(to.size());
                return source.read(layer, begin, to);
            }
        };
        auto const done = run_threads(ranks, [&](Threads& comm) -> Result<> {
            return walk_twice(layers, SharedLayers<Counted, Threads>(Counted{layers.source(), &read}, comm));
        });
        CHECK_MESSAGE(done, (done ? "" : done.error().message()));
        // Two walks, and the first two layers of a third.
        CHECK(read == 2 * 1308 + 307);
    }
}

TEST_CASE("SharedLayers: ranks that hold their parts of each layer alone all see all of it") {
    Layers const layers({300, 7, 0, 1, 1000});
    for (std::int32_t const ranks : {1, 2, 3, 8}) {
        CAPTURE(ranks);
        auto const done = run_threads(ranks, [&](Threads& comm) -> Result<> {
            // Copies: nothing of the others' is in reach.
            std::vector<std::vector<std::byte>> held;
            List<MemoryParts::Part> parts;
            for (auto const& layer : layers.memory) {
                auto const size = static_cast<std::int64_t>(layer.size());
                auto const own = split_units(size, ranks, comm.rank());
                held.emplace_back(layer.begin() + own.begin, layer.begin() + own.end);
                parts.push_back({size, held.back()});
            }
            auto source = MemoryParts::create(parts, ranks, comm.rank());
            if (!source) return source.error();
            std::vector<std::byte> all(300);
            CHECK(source->read(0, 0, all).has_value() == (ranks == 1));
            return walk_twice(layers, SharedLayers<MemoryParts, Threads>(std::move(*source), comm));
        });
        CHECK_MESSAGE(done, (done ? "" : done.error().message()));
    }
    std::vector<std::byte> const four(4);
    CHECK(MemoryParts::create({{8, four}}, 2, 1));
    CHECK(MemoryParts::create({{9, four}}, 2, 1));
    CHECK(MemoryParts::create({{9, four}}, 2, 0).error().message().find("(got 4, expected 5)") != std::string::npos);
    CHECK(MemoryParts::create({{-8, four}}, 2, 0).error().code() == ErrorCode::shape_mismatch);
    CHECK(MemoryParts::create({{8, four}}, 0, 0).error().code() == ErrorCode::invalid_argument);
}

TEST_CASE("WeightStream: a depth that overlaps nothing is refused") {
    HostContext context({.threads = 1});
    Layers const layers({8});
    auto const refused = WeightStream<MemoryLayers>::create(context, layers.source(), 1);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().message().find("depth") != std::string::npos);
}

TEST_SUITE("long") {
    TEST_CASE("WeightStream: a step takes at most 1.15 times the longer of computing and fetching") {
        struct Slow {
            std::chrono::milliseconds time;
            [[nodiscard]] std::int64_t layers() const { return 20; }
            [[nodiscard]] Bytes bytes(std::int64_t) const { return Bytes{4096}; }
            [[nodiscard]] Result<> read(std::int64_t, std::int64_t, std::span<std::byte>) const {
                std::this_thread::sleep_for(time);
                return {};
            }
        };
        for (auto const& [fetch, compute] : {std::pair{20ms, 20ms}, {10ms, 25ms}, {25ms, 10ms}}) {
            HostContext context({.threads = 1});
            auto stream = context.make_stream();
            auto weights = WeightStream<Slow>::create(context, Slow{fetch});
            REQUIRE(weights);
            auto const work = [time = compute](std::int64_t, std::span<std::byte const>, HostStream&) -> Result<> {
                std::this_thread::sleep_for(time);
                return {};
            };
            REQUIRE(weights->run(work, stream, soon()));
            auto const begin = std::chrono::steady_clock::now();
            REQUIRE(weights->run(work, stream, soon()));
            auto const step = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
            auto const longer = 20.0 * std::chrono::duration<double>(std::max(fetch, compute)).count();
            MESSAGE("step " << step << " s, longer of the two " << longer << " s: " << step / longer);
            CHECK(step <= 1.15 * longer);
        }
    }
}

}  // namespace
