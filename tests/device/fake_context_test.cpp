// SPDX-License-Identifier: Apache-2.0
#include <shardwise/backend/brief_memory.hpp>
#include <shardwise/kernels/device/compiled_kernels.hpp>

#include <doctest/doctest.h>

#include "fake_clean.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

using namespace shardwise;
using shardwise::testing::Clean;
using shardwise::testing::Fake;
using shardwise::testing::FakeApi;
using shardwise::testing::FakeMachine;

namespace {

using FakeContext = Fake::Context;

}  // namespace

TEST_CASE("DeviceContext: a device that is not there, or has other warps, is refused with the numbers") {
    Clean const clean;
    auto const far = FakeContext::open({.device = 2});
    REQUIRE_FALSE(far);
    CHECK(far.error().code() == ErrorCode::no_such_device);
    CHECK(far.error().message().find("got 2, expected 0 to 1") != std::string::npos);
    CHECK(FakeContext::open({.device = -1}).error().code() == ErrorCode::no_such_device);
    FakeMachine::get().devices = 0;
    CHECK(FakeContext::open().error().code() == ErrorCode::no_such_device);
    FakeMachine::get().devices = 2;
    FakeMachine::get().warp_size = FakeApi::warp_size;
    CHECK(FakeContext::open());
    FakeMachine::get().warp_size = 64;
    auto const wide = FakeContext::open();
    REQUIRE_FALSE(wide);
    CHECK(wide.error().code() == ErrorCode::unsupported);
    CHECK(wide.error().message().find("got 64, expected 16 to 32") != std::string::npos);
}

TEST_CASE(
    "check_device_code: a device that kernels were not compiled for is refused by its name, theirs and the option") {
    Clean const clean;
    auto& machine = FakeMachine::get();
    auto const context = std::move(*FakeContext::open({.device = 1}));
    CHECK(check_device_code(*context));
    machine.has_code = false;
    auto const refused = check_device_code(*context);
    machine.has_code = true;
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code() == ErrorCode::unsupported);
    CHECK(refused.error().message() ==
          "fake:1: fake16: has no kernels in this program, which was compiled for fake16, fake32; configure CMake with "
          "this processor in SHARDWISE_FAKE_ARCHITECTURES");
    machine.fail("has_code");
    auto const failed = check_device_code(*context);
    REQUIRE_FALSE(failed);
    CHECK(failed.error().code() == ErrorCode::backend_failure);
    CHECK(FakeApi::current() == 0);
}

TEST_CASE("DeviceContext: a driver that does not answer is a backend_failure that names the call") {
    Clean const clean;
    for (std::string const call : {"count_devices", "describe"}) {
        FakeMachine::get().fail(call);
        auto const context = FakeContext::open();
        REQUIRE_FALSE(context);
        CHECK(context.error().code() == ErrorCode::backend_failure);
        CHECK(context.error().subject() == call);
    }
}

TEST_CASE("DeviceContext: what is allocated is parts of the block that was reserved, and then memory of the vendor's") {
    Clean const clean;
    auto& machine = FakeMachine::get();
    auto const context = std::move(*FakeContext::open());
    REQUIRE(context->reserve(Bytes{4096}));
    CHECK(context->reserved() == Bytes{4096});
    auto const before = machine.calls("allocate");
    auto const hold = [&](std::int64_t count) {
        return std::move(*Buffer<std::byte, Fake>::allocate(*context, count));
    };
    auto const first = hold(1);
    auto const* const block = first.data();
    CHECK(context->memory().current() == Bytes{256});
    {
        auto second = hold(257);
        CHECK(second.data() == block + 256);
        auto const third = hold(256);
        CHECK(third.data() == block + 768);
        // What goes soon lies at the other end, and leaves no gap behind.
        using Brief = detail::BriefMemory<FakeContext>;
        auto const brief = [&] {
            Brief const all(*context, Brief::Of::all);
            return hold(512);
        }();
        CHECK(brief.data() == block + 4096 - 512);
        second = {};
        // The lowest place that is large enough.
        auto const fourth = hold(600);
        CHECK(fourth.data() == block + 1024);
        CHECK(hold(512).data() == block + 256);
        CHECK(machine.calls("allocate") == before);
        auto const large = hold(2048);
        CHECK(machine.calls("allocate") == before + 1);
        CHECK(context->memory().current() == Bytes{256 + 256 + 512 + 768 + 2048});
    }
    CHECK(context->memory().current() == Bytes{256});
    // All that was given back is one part again.
    CHECK(hold(4096 - 256).data() == block + 256);
    CHECK(machine.calls("allocate") == before + 1);
}

TEST_CASE(
    "DeviceContext: a second block and one of negative size are refused, and what was there before stays outside") {
    Clean const clean;
    auto& machine = FakeMachine::get();
    auto const context = std::move(*FakeContext::open());
    auto first = std::move(*Buffer<std::byte, Fake>::allocate(*context, 100));
    auto const before = machine.calls("allocate");
    CHECK(context->reserve(Bytes{-1}).error().code() == ErrorCode::invalid_argument);
    CHECK(context->reserve(Bytes{0}));
    CHECK(machine.calls("allocate") == before);
    REQUIRE(context->reserve(Bytes{4096}));
    for (auto const bytes : {Bytes{4096}, Bytes{0}}) {
        auto const again = context->reserve(bytes);
        REQUIRE_FALSE(again);
        CHECK(again.error().code() == ErrorCode::invalid_argument);
    }
    CHECK(machine.calls("allocate") == before + 1);
    CHECK(context->reserved() == Bytes{4096});
    first = {};
    CHECK(context->memory().current() == Bytes{0});
    // The block holds no part of it.
    CHECK(Buffer<std::byte, Fake>::allocate(*context, 4096));
    CHECK(machine.calls("allocate") == before + 1);
}

TEST_CASE("DeviceContext: a block that is not there is out_of_memory, and nothing is held") {
    Clean const clean;
    auto const context = std::move(*FakeContext::open());
    FakeMachine::get().fail("allocate");
    CHECK(context->reserve(Bytes{4096}).error().code() == ErrorCode::out_of_memory);
    CHECK(context->reserved() == Bytes{0});
    FakeMachine::get().mend();
    CHECK(Buffer<float, Fake>::allocate(*context, 10));
}
