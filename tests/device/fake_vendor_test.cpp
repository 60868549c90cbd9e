// SPDX-License-Identifier: Apache-2.0
#include <shardwise/backend/device_graph.hpp>
#include <shardwise/kernels/device/all_reduce.hpp>

#include <doctest/doctest.h>

#include "fake_clean.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace shardwise;
using namespace std::chrono_literals;
using shardwise::testing::Clean;
using shardwise::testing::Fake;
using shardwise::testing::FakeApi;
using shardwise::testing::FakeMachine;

namespace {

using FakeContext = Fake::Context;

/// Holds a stream up until it is told to go on.
class Gate {
public:
    explicit Gate(Fake::Stream& stream) {
        stream.native()->put([open = is_open_] {
            while (!open->load()) std::this_thread::yield();
        });
    }
    Gate(Gate const&) = delete;
    Gate& operator=(Gate const&) = delete;
    ~Gate() { open(); }
    void open() { is_open_->store(true); }

private:
    std::shared_ptr<std::atomic<bool>> is_open_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace

TEST_CASE(
    "DeviceBackend: memory that is not there is out_of_memory with what is needed and what is free, and is not "
    "counted") {
    Clean const clean;
    auto const context = std::move(*FakeContext::open());
    FakeMachine::get().fail("allocate");
    auto const buffer = Buffer<float, Fake>::allocate(*context, 1000);
    REQUIRE_FALSE(buffer);
    CHECK(buffer.error().code() == ErrorCode::out_of_memory);
    CHECK(buffer.error().needed() == Bytes{4000});
    CHECK(buffer.error().available() == Bytes{1234});
    CHECK(context->memory().current() == Bytes{0});
}

TEST_CASE("DeviceBackend: every call acts on the context's device, and the program's own choice stays") {
    Clean const clean;
    auto const context = std::move(*FakeContext::open({.device = 1}));
    CHECK(context->id() == DeviceId::gpu(1));
    auto stream = context->make_stream();
    CHECK(stream.native()->device == 1);
    auto from = std::move(*Buffer<float, Fake>::allocate(*context, 4));
    auto to = std::move(*Buffer<float, Fake>::allocate(*context, 4));
    TensorView<float const, 1, Fake> const source = from.view();
    REQUIRE(Fake::copy<float>(source, to.view(), stream));
    Fake::Event event;
    event.record(stream);
    event.block(stream, 1s);
    CHECK(event.synchronize(Deadline::after(10s)));
    CHECK(stream.synchronize(Deadline::after(10s)));
    CHECK(FakeApi::current() == 0);
}

TEST_CASE("DeviceStream: the first failure stops the stream, and what comes after it is not given to the vendor") {
    Clean const clean;
    auto& machine = FakeMachine::get();
    auto const context = std::move(*FakeContext::open());
    auto stream = context->make_stream();
    auto buffer = std::move(*Buffer<float, Fake>::allocate(*context, 4));
    std::vector<float> const values{1, 2, 3, 4};
    TensorView<float const, 1, Host> const from(values.data(), {4});
    machine.fail("copy", 1);
    auto const copies = machine.calls("copy");
    for (int turn = 0; turn < 4; ++turn) REQUIRE(Fake::copy<float>(from, buffer.view(), stream));
    CHECK(machine.calls("copy") == copies + 2);
    auto const result = stream.synchronize(Deadline::after(10s));
    REQUIRE_FALSE(result);
    CHECK(result.error().subject() == "copy");
    CHECK(stream.synchronize(Deadline::after(10s)).error().subject() == "copy");

    Fake::Event event;
    event.record(stream);
    CHECK_FALSE(event.is_reached());
    CHECK(event.synchronize(Deadline::after(10s)).error().subject() == "copy");
    auto other = context->make_stream();
    event.block(other, 1s);
    CHECK(other.synchronize(Deadline::after(10s)).error().subject() == "copy");
}

TEST_CASE("DeviceStream: one that could not be made fails from the start; nothing is lost") {
    Clean const clean;
    auto const context = std::move(*FakeContext::open());
    for (std::string const call : {"create_stream", "create_event"}) {
        FakeMachine::get().fail(call);
        auto stream = context->make_stream();
        auto const result = stream.synchronize(Deadline::after(10s));
        REQUIRE_FALSE(result);
        CHECK(result.error().subject() == call);
        FakeMachine::get().mend();
    }
}

TEST_CASE("DeviceStream: synchronize gives up at its deadline, and the stream goes on") {
    Clean const clean;
    auto const context = std::move(*FakeContext::open());
    auto stream = context->make_stream();
    Gate gate(stream);
    Fake::Event event;
    event.record(stream);
    auto const early = stream.synchronize(Deadline::after(20ms));
    REQUIRE_FALSE(early);
    CHECK(early.error().code() == ErrorCode::deadline_exceeded);
    CHECK(event.synchronize(Deadline::after(1ms)).error().code() == ErrorCode::deadline_exceeded);
    CHECK_FALSE(event.is_reached());
    gate.open();
    CHECK(event.synchronize(Deadline::after(10s)));
    CHECK(stream.synchronize(Deadline::after(10s)));
}

TEST_CASE("DeviceStream: a query that fails is the stream's failure, not an endless wait") {
    Clean const clean;
    auto const context = std::move(*FakeContext::open());
    auto stream = context->make_stream();
    FakeMachine::get().fail("is_reached");
    auto const result = stream.synchronize(Deadline::after(10s));
    REQUIRE_FALSE(result);
    CHECK(result.error().subject() == "is_reached");
}

TEST_CASE("DeviceStream: ends by waiting for its work; an adopted one is neither waited for nor destroyed") {
    Clean const clean;
    auto const context = std::move(*FakeContext::open());
    std::vector<float> target(4, 0.0F);
    std::vector<float> const values{1, 2, 3, 4};
    {
        auto buffer = std::move(*Buffer<float, Fake>::allocate(*context, 4));
        auto stream = context->make_stream();
        {
            auto theirs = context->adopt_stream(stream.native());
            TensorView<float const, 1, Host> const from(values.data(), {4});
            REQUIRE(Fake::copy<float>(from, buffer.view(), theirs));
            auto const moved = std::move(theirs);
        }
        CHECK(FakeMachine::get().streams == 1);
        TensorView<float const, 1, Fake> const back = buffer.view();
        REQUIRE(Fake::copy<float>(back, TensorView<float, 1, Host>(target.data(), {4}), stream));
    }
    CHECK(target == values);
}

TEST_CASE("DeviceEvent: a copy stays at its point when the other is recorded anew, and events are not lost") {
    Clean const clean;
    auto const context = std::move(*FakeContext::open());
    auto stream = context->make_stream();
    Fake::Event first;
    first.record(stream);
    REQUIRE(first.synchronize(Deadline::after(10s)));
    auto const before = FakeMachine::get().events.load();
    auto second = first;
    Gate gate(stream);
    second.record(stream);
    CHECK(FakeMachine::get().events == before + 1);
    CHECK(first.is_reached());
    CHECK_FALSE(second.is_reached());
    second.record(stream);
    CHECK(FakeMachine::get().events == before + 1);
}

TEST_CASE("DeviceBackend: products that cannot be opened stop the stream, and are opened once") {
    Clean const clean;
    auto const context = std::move(*FakeContext::open());
    auto buffer = std::move(*Buffer<float, Fake>::allocate(*context, 4));
    TensorView<float const, 2, Fake> const factor = buffer.matrix(2, 2);
    FakeMachine::get().fail("lt_create");
    auto stream = context->make_stream();
    REQUIRE(Fake::gemm<float>(factor, factor, buffer.matrix(2, 2), {}, stream));
    CHECK(stream.synchronize(Deadline::after(10s)).error().subject() == "lt_create");
    FakeMachine::get().mend();
    auto const first = context->products();
    REQUIRE(first);
    auto const opened = FakeMachine::get().calls("lt_create");
    CHECK(*context->products() == *first);
    CHECK(FakeMachine::get().calls("lt_create") == opened);
}

TEST_CASE("DeviceBackend: a weight whose upload fails in the middle leaves nothing behind") {
    Clean const clean;
    auto const context = std::move(*FakeContext::open());
    std::vector<std::byte> const data(static_cast<std::size_t>(3) << 20U);
    WeightSource const source{WeightFormat::f32, 192, 4096, data, {}};
    for (std::string const call : {"allocate", "create_stream", "copy", "record", "is_reached"}) {
        FakeMachine::get().fail(call);
        auto const weight = Fake::hold_weight(*context, source);
        CAPTURE(call);
        REQUIRE_FALSE(weight);
        CHECK(context->memory().current() == Bytes{0});
        FakeMachine::get().mend();
    }
    CHECK(Fake::hold_weight(*context, source));
}

TEST_CASE(
    "PeerGroup: a group that fails in the making leaves nothing behind; peers of two devices are connected both ways") {
    Clean const clean;
    auto& machine = FakeMachine::get();
    auto const first = std::move(*FakeContext::open({.device = 0}));
    auto const second = std::move(*FakeContext::open({.device = 1}));
    std::vector<FakeContext*> const contexts{first.get(), second.get(), first.get()};
    for (std::string const call : {"allocate", "allocate_pinned", "clear", "enable_peer"}) {
        for (int const after : {0, 1}) {
            machine.fail(call, after);
            auto const group = PeerGroup<FakeApi>::open(contexts);
            CAPTURE(call);
            REQUIRE_FALSE(group);
            machine.mend();
            CHECK(first->memory().current() == Bytes{0});
            CHECK(second->memory().current() == Bytes{0});
        }
    }
    auto const connections = machine.calls("enable_peer");
    auto const group = PeerGroup<FakeApi>::open(contexts);
    REQUIRE(group);
    // 0-1 twice, 1-0 twice: ranks 0 and 2 share a device.
    CHECK(machine.calls("enable_peer") == connections + 4);
    // Two ranks share the eight multiprocessors of device 0.
    CHECK((*group)->blocks() == 4);
    auto const wide = PeerGroup<FakeApi>::open(contexts, {.blocks = 5});
    REQUIRE_FALSE(wide);
    CHECK(wide.error().message().find("got 5, expected at most 4") != std::string::npos);

    auto stream = second->make_stream();
    auto buffer = std::move(*Buffer<float, Fake>::allocate(*second, 4));
    TensorView<float const, 1, Fake> const in = buffer.view();
    auto const wrong = all_reduce<float>(**group, Rank{0}, in, buffer.view(), stream);
    REQUIRE_FALSE(wrong);
    CHECK(wrong.error().message().find("another device") != std::string::npos);
}

TEST_CASE("DeviceGraph: a vendor that fails at the begin, the end or a launch is named, and nothing is left behind") {
    Clean const clean;
    auto& machine = FakeMachine::get();
    auto const context = std::move(*FakeContext::open());
    auto buffer = std::move(*Buffer<float, Fake>::allocate(*context, 4));
    std::vector<float> const values{1, 2, 3, 4};
    TensorView<float const, 1, Host> const from(values.data(), {4});
    for (std::string const call : {"begin_capture", "end_capture", "copy", "launch_graph"}) {
        CAPTURE(call);
        auto stream = context->make_stream();
        machine.fail(call);
        auto const graph =
            DeviceGraph<FakeApi>::capture(stream, [&] { return Fake::copy<float>(from, buffer.view(), stream); });
        CHECK(static_cast<bool>(graph) == (call == "launch_graph"));
        if (graph) graph->launch(stream);
        if (!graph) CHECK(graph.error().subject() == call);
        machine.mend();
        // What the vendor did not do before a capture, or at its end, is no failure of the stream.
        bool const goes_on = call == "begin_capture" || call == "end_capture";
        CHECK(static_cast<bool>(stream.synchronize(Deadline::after(10s))) == goes_on);
    }
    auto stream = context->make_stream();
    auto const waits = DeviceGraph<FakeApi>::capture(stream, [&] { return stream.synchronize(Deadline::after(10s)); });
    REQUIRE_FALSE(waits);
    CHECK(waits.error().message().find("prohibited while a stream is captured") != std::string::npos);
}
