// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/held_block.hpp>
#include <shardwise/executor/layer_home.hpp>
#include <shardwise/executor/offloaded_device_blocks.hpp>
#include <shardwise/kernels/device/expert_table.hpp>
#include <shardwise/parallel/device_weight_stream.hpp>

#include "backends.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <latch>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// Layers whose weights do not stay on a device: how they come there.

namespace shardwise::testing {

/// Layers of unlike sizes, some in pinned memory and some that are read.
class OffloadedLayers {
    using Api = TestDevice::VendorApi;

public:
    [[nodiscard]] static Result<OffloadedLayers> make(DeviceContext<Api>& context, MemoryCounter& host,
                                                      std::vector<LayerHome> const& homes) {
        OffloadedLayers layers;
        for (std::size_t i = 0; i < homes.size(); ++i) {
            std::vector<std::byte> bytes(1000 + 256 * (i % 3), static_cast<std::byte>(i + 1));
            PinnedMemory<Api> pinned;
            if (homes[i] == LayerHome::cpu) {
                auto memory = PinnedMemory<Api>::allocate(context, host, static_cast<std::int64_t>(bytes.size()));
                if (!memory) return memory.error();
                std::copy(bytes.begin(), bytes.end(), memory->data());
                pinned = std::move(*memory);
            }
            layers.pinned_.push_back(std::move(pinned));
            layers.bytes_.push_back(std::move(bytes));
        }
        return Result<OffloadedLayers>(std::move(layers));
    }
    [[nodiscard]] std::int64_t layers() const { return static_cast<std::int64_t>(bytes_.size()); }
    [[nodiscard]] Bytes bytes(std::int64_t layer) const {
        return Bytes{static_cast<std::int64_t>(bytes_[static_cast<std::size_t>(layer)].size())};
    }
    [[nodiscard]] std::byte const* in_memory(std::int64_t layer) const {
        return pinned_[static_cast<std::size_t>(layer)].data();
    }
    /// As where the file of a layer was cut.
    void cut(std::int64_t layer) { cut_ = layer; }
    [[nodiscard]] Result<> read(std::int64_t layer, std::int64_t begin, std::span<std::byte> to) const {
        if (layer == cut_) return Error{ErrorCode::malformed_file}.in("layers").because("were cut");
        auto const from = bytes_[static_cast<std::size_t>(layer)].begin() + static_cast<std::ptrdiff_t>(begin);
        std::copy_n(from, to.size(), to.begin());
        return {};
    }

private:
    std::vector<PinnedMemory<Api>> pinned_;
    std::vector<std::vector<std::byte>> bytes_;
    std::int64_t cut_ = -1;
};

/// Walks `walks` times over layers; what each walk's work found in their slots, one byte of every layer and whether all are alike.
/// Calls begin(walk) before each.
[[nodiscard]] inline Result<std::vector<int>> walk_layers(
    Bench<TestDevice>& bench, std::vector<LayerHome> const& homes, std::int64_t depth, int walks,
    std::function<void(int)> const& begin = [](int) {}) {
    using Api = TestDevice::VendorApi;
    HostContext host({.threads = 1});
    auto source = OffloadedLayers::make(bench.context(), host.memory(), homes);
    if (!source) return source.error();
    constexpr std::int64_t most = 1600;
    auto const count = static_cast<std::int64_t>(homes.size()) * walks;
    auto out = Buffer<std::byte, TestDevice>::allocate(bench.context(), most * count);
    if (!out) return out.error();
    auto weights =
        DeviceWeightStream<Api, OffloadedLayers>::create(bench.context(), host.memory(), std::move(*source), depth);
    if (!weights) return weights.error();
    std::vector<std::byte> found(static_cast<std::size_t>(most * count));
    // Goes first: after a failure it still reads the slots and writes what was found.
    auto stream = bench.context().make_stream();
    auto const deadline = Deadline::after(std::chrono::seconds{60});
    std::vector<std::int64_t> sizes;
    for (int walk = 0; walk < walks; ++walk) {
        begin(walk);
        for (std::int64_t layer = 0; layer < static_cast<std::int64_t>(homes.size()); ++layer) {
            if (auto const here = weights->acquire(layer, stream, deadline); !here) return here.error();
#if !defined(SHARDWISE_HAS_CUDA) && !defined(SHARDWISE_HAS_HIP)
            // Work that takes long: the next copy comes to its slot before it is done.
            stream.submit([](FakeStream* native) -> Result<> {
                native->put([] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); });
                return {};
            });
#endif
            auto const size = 1000 + 256 * (layer % 3);
            auto const at = static_cast<std::int64_t>(sizes.size());
            TensorView<std::byte const, 1, TestDevice> const from(weights->place(layer), {size});
            TensorView<std::byte, 1, TestDevice> const to(out->data() + most * at, {size});
            if (auto const copied = TestDevice::copy<std::byte>(from, to, stream); !copied) return copied.error();
            weights->release(layer, stream);
            sizes.push_back(size);
        }
    }
    TensorView<std::byte, 1, Host> const all(found.data(), {most * count});
    if (auto const copied = TestDevice::copy<std::byte>(out->view(), all, stream); !copied) return copied.error();
    if (auto const done = stream.synchronize(deadline); !done) return done.error();
    std::vector<int> seen;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        auto const first = found.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(most) * i);
        bool const is_one = std::all_of(first, first + sizes[i], [&](std::byte byte) { return byte == *first; });
        seen.push_back(is_one ? static_cast<int>(*first) : -1);
    }
    return seen;
}

}  // namespace shardwise::testing

TEST_CASE("DeviceWeightStream: every walk sees every layer's bytes, from pinned memory and read, through any slots") {
    using namespace shardwise;
    using enum LayerHome;
    auto const bench = testing::open_bench<testing::TestDevice>();
    if (!bench) return;
    auto const before = bench->context().memory().current();
    for (auto const& homes : {std::vector<LayerHome>{},
                              {cpu},
                              {disk},
                              {cpu, disk},
                              {disk, cpu, cpu},
                              {cpu, cpu, cpu, cpu},
                              {disk, disk, disk, disk, disk},
                              {cpu, disk, disk, cpu, disk, cpu, cpu}}) {
        for (std::int64_t const depth : {2, 3}) {
            CAPTURE(homes.size());
            CAPTURE(depth);
            auto const seen = testing::walk_layers(*bench, homes, depth, 3);
            REQUIRE_MESSAGE(seen, (seen ? "" : seen.error().message()));
            for (std::size_t i = 0; i < seen->size(); ++i) CHECK((*seen)[i] == static_cast<int>(i % homes.size()) + 1);
        }
    }
    CHECK(bench->context().memory().current() == before);
    auto const refused = testing::walk_layers(*bench, {cpu, cpu}, 1, 1);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code() == ErrorCode::invalid_argument);
}

TEST_CASE("DeviceWeightStream: a read that fails is the error of its layer and of whatever is acquired later") {
    using namespace shardwise;
    using enum LayerHome;
    using Api = testing::TestDevice::VendorApi;
    auto const bench = testing::open_bench<testing::TestDevice>();
    if (!bench) return;
    HostContext host({.threads = 1});
    auto source = testing::OffloadedLayers::make(bench->context(), host.memory(), {disk, cpu, disk});
    REQUIRE(source);
    source->cut(2);
    auto weights =
        DeviceWeightStream<Api, testing::OffloadedLayers>::create(bench->context(), host.memory(), std::move(*source));
    REQUIRE(weights);
    auto const deadline = Deadline::after(std::chrono::seconds{60});
    for (std::int64_t const layer : {0, 1}) {
        REQUIRE(weights->acquire(layer, bench->stream(), deadline));
        weights->release(layer, bench->stream());
    }
    for (std::int64_t const layer : {2, 0}) {
        auto const here = weights->acquire(layer, bench->stream(), deadline);
        REQUIRE_FALSE(here);
        CHECK(here.error().code() == ErrorCode::malformed_file);
    }
}

TEST_CASE("OffloadedDeviceBlocks: a walk that fails between two layers is what every later walk returns") {
    using namespace shardwise;
    using Backend = testing::TestDevice;
    auto const bench = testing::open_bench<Backend>();
    if (!bench) return;
    HostContext host({.threads = 1});
    RankHome<Backend> const rank{host, bench->context()};
    // Without weights: what is asked is which walks begin.
    std::vector<HeldBlock<Backend, Fast>> blocks(3);
    OffloadedDeviceBlocks<Backend::VendorApi, Fast> offloaded;
    REQUIRE(offloaded.add(rank, 0, blocks[0], LayerHome::disk));
    REQUIRE(offloaded.add(rank, 1, blocks[1], LayerHome::cpu));
    REQUIRE(offloaded.finish(rank, blocks));
    auto const deadline = Deadline::after(std::chrono::seconds{60});
    std::vector<std::size_t> ends;
    bool is_sound = true;
    auto const walk = [&](std::size_t end) -> Result<> {
        ends.push_back(end);
        if (!is_sound && end == 1) return Error{ErrorCode::invalid_argument}.in("walk").because("ends here");
        return {};
    };
    REQUIRE(offloaded.run(blocks, walk, bench->stream(), deadline));
    CHECK(ends == std::vector<std::size_t>{0, 1, 1, 2, 3});
    for (bool const sound : {false, true}) {
        is_sound = sound;
        ends.clear();
        auto const done = offloaded.run(blocks, walk, bench->stream(), deadline);
        REQUIRE_FALSE(done);
        CHECK(done.error().code() == ErrorCode::invalid_argument);
        CHECK(ends.size() == (sound ? 0 : 2));
    }
}

#if !defined(SHARDWISE_HAS_CUDA) && !defined(SHARDWISE_HAS_HIP)
TEST_CASE("DeviceWeightStream: a layer that is read is copied while the one before it is computed") {
    using namespace shardwise;
    using enum LayerHome;
    using Api = testing::TestDevice::VendorApi;
    auto const bench = testing::open_bench<testing::TestDevice>();
    REQUIRE(bench);
    HostContext host({.threads = 1});
    auto source = testing::OffloadedLayers::make(bench->context(), host.memory(), {cpu, disk, cpu, disk});
    REQUIRE(source);
    std::latch goes_on(1);
    auto weights =
        DeviceWeightStream<Api, testing::OffloadedLayers>::create(bench->context(), host.memory(), std::move(*source));
    REQUIRE(weights);
    auto stream = bench->context().make_stream();
    auto beside = bench->context().make_stream();
    auto const deadline = Deadline::after(std::chrono::seconds{60});
    REQUIRE(weights->acquire(0, stream, deadline));
    stream.submit([&](testing::FakeStream* native) -> Result<> {
        native->put([&] { goes_on.wait(); });
        return {};
    });
    weights->release(0, stream);
    auto const here = weights->acquire(1, beside, deadline);
    auto const copied = here ? beside.synchronize(Deadline::after(std::chrono::seconds{10})) : here;
    goes_on.count_down();
    CHECK_MESSAGE(copied, (copied ? "" : copied.error().message()));
}

TEST_CASE("DeviceWeightStream: each call of the vendor that fails is an error, and nothing stays") {
    using namespace shardwise;
    using enum LayerHome;
    auto& machine = testing::FakeMachine::get();
    for (std::string const call : {"allocate", "allocate_pinned", "create_stream", "create_event", "copy", "record",
                                   "hold_back", "is_reached", "select_device"}) {
        for (int after = 0;; ++after) {
            CAPTURE(call);
            CAPTURE(after);
            Result<std::vector<int>> seen(Error{ErrorCode::backend_failure});
            auto before = 0;
            auto in_first_walk = 0;
            {
                auto const bench = testing::open_bench<testing::TestDevice>();
                REQUIRE(bench);
                in_first_walk = before = machine.calls(call);
                machine.fail(call, after);
                seen = testing::walk_layers(*bench, {cpu, disk, cpu, disk}, 2, 2, [&](int walk) {
                    if (walk == 1) in_first_walk = machine.calls(call);
                });
                machine.mend();
            }
            CHECK(machine.is_empty());
            if (seen) {
                // All later calls fail, too. A device that is not selected where an event goes is no failure.
                if (call != "select_device") CHECK(in_first_walk - before <= after);
                for (std::size_t i = 0; i < seen->size(); ++i) CHECK((*seen)[i] == static_cast<int>(i % 4) + 1);
            } else {
                CHECK((seen.error().code() == ErrorCode::backend_failure ||
                       seen.error().code() == ErrorCode::out_of_memory));
            }
            // All of its calls have succeeded.
            if (machine.calls(call) - before <= after) break;
        }
    }
}
#endif
