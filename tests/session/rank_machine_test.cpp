// SPDX-License-Identifier: Apache-2.0
#include <shardwise/executor/device_kernels.hpp>
#include <shardwise/session/rank_machine.hpp>

#include <doctest/doctest.h>

#include "../device/fake_vendor.hpp"

#include <string>
#include <string_view>

using namespace shardwise;

/// The fake vendor's program has kernels for the devices or not, as its machine says.
namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <>
std::string_view compiled_architectures<testing::FakeApi>() {
    return {};
}
template <>
Result<bool> has_device_code<testing::FakeApi>() {
    return testing::FakeMachine::get().has_code;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail

TEST_CASE("RankMachine: a device that the program has no kernels for is refused when it is opened") {
    RunOptions options;
    options.devices.numbers = {1};
    auto& fake = testing::FakeMachine::get();
    fake.has_code = false;
    {
        detail::RankMachine<testing::Fake> machine({.threads = 1});
        auto const refused = machine.open(options, 0);
        REQUIRE_FALSE(refused);
        CHECK(refused.error().code() == ErrorCode::unsupported);
        CHECK(refused.error().message() ==
              "fake:1: fake16: has no kernels in this program, which was compiled for others; configure CMake with "
              "this processor in SHARDWISE_FAKE_ARCHITECTURES");
        fake.has_code = true;
        CHECK(machine.open(options, 0));
    }
    CHECK(fake.is_empty());
}

TEST_CASE("RankMachine: a device refuses to round what products multiply, by the option, before it is opened") {
    RunOptions options;
    options.devices.numbers = {0};
    detail::RankMachine<testing::Fake> machine({.threads = 1});
    options.product_activations = ProductActivations::int8;
    auto const refused = machine.open(options, 0);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code() == ErrorCode::unsupported);
    CHECK(refused.error().message() == "fake: product_activations: multiplies activations as they are; leave it out");
    CHECK(testing::FakeMachine::get().is_empty());
}
