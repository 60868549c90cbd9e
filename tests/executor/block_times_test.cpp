// SPDX-License-Identifier: Apache-2.0
#include <shardwise/cost/profile_json.hpp>
#include <shardwise/executor/block_times.hpp>

#include <doctest/doctest.h>

using namespace shardwise;

TEST_CASE("BlockTimes: prompts' steps add up, steps of a token are averaged, and the profile is read back") {
    BlockProgram program;
    program.append(ModuleRole::embedding, "model.embed_tokens", 0);
    program.append_layers("model.layers", 0, 2, 0);
    BlockTimes times(program);
    CHECK_FALSE(times.has_steps());
    auto const step = [&](std::int64_t tokens) {
        times.begin(tokens, 1);
        for (std::size_t block = 0; block < 3; ++block) times.add(block, 0.5);
    };
    step(1);
    auto const decoded = times.profile("Some Processor", 1, 8);
    REQUIRE(decoded.modules.size() == 3);
    CHECK(decoded.modules[0].module == "model.embed_tokens");
    CHECK(decoded.modules[2].module == "model.layers.1");
    CHECK(decoded.modules[2].prefill < 0.0);
    CHECK(decoded.modules[2].decode == 0.5);

    step(5);
    step(1);
    auto const both = times.profile("Some Processor", 1, 8);
    CHECK(both.repeat == 2);
    CHECK(both.modules[1].prefill == 0.5);
    CHECK(both.modules[1].decode == 0.5);
    auto const read = read_profile(write_profile({"a model", {both}}), "times.json");
    REQUIRE(read);
    CHECK(read->devices[0].context == 8);
    CHECK(read->devices[0].modules[1].module == "model.layers.0");
}
