// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/block_times.hpp>

#include "model_cases.hpp"

TEST_CASE_TEMPLATE("Models: blocks are timed, on devices by events of which a step has one more than blocks", B,
                   SHARDWISE_TEST_BACKENDS) {
    using namespace shardwise;
    if (!testing::open_bench<B>()) return;
    testing::ModelCase of{testing::tiny_llama, 1, 2, 8, 6};
    testing::FormulaModel const model(of.config);
    auto const requests = testing::model_requests(of);
    testing::ModelLogits plain;
    auto const expected = testing::run_model<B>(model, of, requests, &plain);
    REQUIRE(expected);
    BlockTimes times(model.checkpoint->model.program);
    of.times = &times;
    testing::ModelLogits timed;
#if !defined(SHARDWISE_HAS_CUDA) && !defined(SHARDWISE_HAS_HIP)
    auto const made = testing::FakeMachine::get().calls("create_timed_event");
#endif
    auto const ran = testing::run_model<B>(model, of, requests, &timed);
    REQUIRE_MESSAGE(ran, (ran ? "" : ran.error().message()));
    CHECK(timed == plain);
    auto const seconds = times.seconds();
    auto const blocks = model.checkpoint->model.program.count();
    CHECK(std::ssize(seconds) == 2 * blocks);
    for (auto const one : seconds) CHECK(one > 0.0);
    if (HasHostMemory<B>) return;
    CHECK(ran->graphs.captured == 0);
    CHECK(ran->graphs.reason == "blocks are timed");
#if !defined(SHARDWISE_HAS_CUDA) && !defined(SHARDWISE_HAS_HIP)
    CHECK(testing::FakeMachine::get().calls("create_timed_event") - made == blocks + 1);
#endif
}

TEST_CASE_TEMPLATE("Models: the report says why steps of ranks and stages are no graphs", B, SHARDWISE_TEST_BACKENDS) {
    using namespace shardwise;
    if (HasHostMemory<B> || !testing::open_bench<B>()) return;
    testing::ModelCase of{testing::tiny_llama, 1, 2, 8, 6};
    testing::FormulaModel const model(of.config);
    auto const requests = testing::model_requests(of);
    auto const reason = [&](testing::ModelCase const& made) {
        auto const ran = testing::run_model<B>(model, made, requests, nullptr);
        REQUIRE_MESSAGE(ran, (ran ? "" : ran.error().message()));
        CHECK((ran->graphs.captured == 0) == !ran->graphs.reason.empty());
        return ran->graphs.reason;
    };
    CHECK(reason(of).empty());
    of.has_graphs = false;
    CHECK(reason(of) == "they are switched off");
    of.has_graphs = true;
    of.tp = 2;
    of.comm = DeviceComm::staged;
    CHECK(reason(of) == "ranks add up in the host's memory");
    of.tp = 1;
    of.pp = 2;
    CHECK(reason(of) == "stages hand on through the host's memory");
}
