// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device_graph.hpp>

#include "backends.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace shardwise;

/// Rows of a table by the ids of a step: what a graph of one step does at every launch.
template <class B>
struct LookedUp {
    explicit LookedUp(testing::Bench<B>& bench)
        : table(*StepTable<B>::create(bench.context(), {.tokens = 4, .sequences = 1, .wanted = 1})),
          rows(bench.send(row_values())),
          out(bench.send(std::vector<float>(4))) {}

    [[nodiscard]] static std::vector<float> row_values() {
        std::vector<float> values(256);
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i / 4);
        return values;
    }
    [[nodiscard]] Result<> write(std::int32_t id, typename B::Stream& stream) {
        StepSequence const sequence{.past = id, .rows = 1};
        return table.write({.ids = {&id, 1}, .sequences = {&sequence, 1}}, stream);
    }
    [[nodiscard]] Result<> look_up(typename B::Stream& stream) {
        TensorView<float const, 2, B> const from(rows.data(), {64, 4});
        TensorView<float, 2, B> const to(out.data(), {1, 4});
        if (auto const taken = take_rows<float>(table.ids(), from, to, stream); !taken) return taken;
        return add<float>(TensorView<float const, 2, B>(to), TensorView<float const, 2, B>(to), to, stream);
    }

    StepTable<B> table;
    Buffer<float, B> rows;
    Buffer<float, B> out;
};

}  // namespace

TEST_SUITE_BEGIN("fibers");

TEST_CASE("DeviceGraph: what was taken down once runs with each step's numbers, and not while it is taken down") {
    using B = testing::TestDevice;
    auto const bench = testing::open_bench<B>();
    if (!bench) return;
    auto& stream = bench->stream();
    LookedUp<B> step(*bench);
    REQUIRE(step.write(3, stream));
    auto graph = DeviceGraph<B::VendorApi>::capture(stream, [&] { return step.look_up(stream); });
    if (!graph && std::string(B::name) == "hip") {
        MESSAGE("this vendor takes no graphs down: " << graph.error().message());
        return;
    }
    REQUIRE(graph);
    CHECK(bench->fetch(step.out) == std::vector<float>(4, 0.0F));
    for (std::int32_t id = 5; id < 25; ++id) {
        REQUIRE(step.write(id, stream));
        graph->launch(stream);
        if (id % 7 == 0) CHECK(bench->fetch(step.out) == std::vector<float>(4, static_cast<float>(2 * id)));
    }
    CHECK(bench->fetch(step.out) == std::vector<float>(4, 48.0F));
    auto const moved = std::move(*graph);
    moved.launch(stream);
    bench->wait();
}

TEST_CASE("DeviceGraph: work that cannot be taken down is an error, and the stream goes on") {
    using B = testing::TestDevice;
    auto const bench = testing::open_bench<B>();
    if (!bench) return;
    auto& stream = bench->stream();
    LookedUp<B> step(*bench);
    REQUIRE(step.write(3, stream));
    Error const own = Error{ErrorCode::invalid_argument}.in("own");
    auto const refused = DeviceGraph<B::VendorApi>::capture(stream, [&]() -> Result<> { return own; });
    REQUIRE_FALSE(refused);
    auto const allocates = DeviceGraph<B::VendorApi>::capture(stream, [&]() -> Result<> {
        auto const memory = Buffer<float, B>::allocate(bench->context(), 1024);
        return memory ? Result<>{} : Result<>{memory.error()};
    });
    if (std::string(B::name) != "hip") {
        CHECK(refused.error().subject() == "own");
        CHECK_FALSE(allocates);
    }
    REQUIRE(step.look_up(stream));
    CHECK(bench->fetch(step.out) == std::vector<float>(4, 6.0F));
}

TEST_SUITE_END();
