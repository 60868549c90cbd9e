// SPDX-License-Identifier: Apache-2.0
#pragma once

// Models over the library of NCCL's interface that is loaded as NCCL is, which works in the fake vendor's streams alone.
#if !defined(SHARDWISE_HAS_CUDA) && !defined(SHARDWISE_HAS_HIP)
#include <shardwise/session/embed.hpp>
#include <shardwise/session/run_on_devices.hpp>

#include "fake_nccl_library.hpp"
#include "model_cases.hpp"
#include "temporary_folder.hpp"

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

TEST_SUITE_BEGIN("fibers");

TEST_CASE(
    "Models: ranks add up by a library of NCCL's interface, which knows the arena as a window where they lay it out "
    "alike") {
    using namespace shardwise;
    auto const name = testing::fake_nccl_library();
    testing::TemporaryFolder const folder;
    ::setenv("SHARDWISE_FAKE_NCCL_FOLDER", folder.path().c_str(), 1);
    testing::use_fake_streams();
    testing::FakeApi::nccl_name = name;
    struct Run {
        testing::ModelCase of;
        char const* windows;
        int made;
        char const* reason;
    };
    testing::ModelCase const halves{testing::tiny_llama, 2, 2, 8, 3};
    testing::ModelCase const thirds{testing::tiny_gpt2, 3, 2, 8, 3};
    for (auto const& run :
         {Run{halves, "", 2, ""}, Run{thirds, "", 0, "the arena is no window: ranks lay it out unlike"},
          Run{halves, "none", 0, "the arena is no window: the library makes none on these devices"}}) {
        if (testing::takes_samples() && std::string_view(run.windows) == "none") continue;
        auto of = run.of;
        CAPTURE(of.tp);
        CAPTURE(std::string(run.windows));
        ::setenv("SHARDWISE_FAKE_NCCL_WINDOWS", run.windows, 1);
        testing::FormulaModel const model(of.config);
        auto const requests = testing::model_requests(of);
        testing::ModelLogits over_host;
        testing::ModelLogits by_library;
        of.comm = DeviceComm::staged;
        auto const staged = testing::run_model<testing::Fake>(model, of, requests, &over_host);
        REQUIRE_MESSAGE(staged, (staged ? "" : staged.error().message()));
        of.comm = DeviceComm::nccl;
        auto const found = testing::run_model<testing::Fake>(model, of, requests, &by_library);
        REQUIRE_MESSAGE(found, (found ? "" : found.error().message()));
        CHECK(found->communicator == "nccl");
        CHECK(found->communicator_reason == run.reason);
        CHECK(testing::fake_nccl_windows() == run.made);
        CHECK(by_library == over_host);
        for (auto const& rank : found->ranks) CHECK(rank.held == rank.predicted);
    }
    // Texts, too.
    testing::FormulaModel const model(halves.config);
    testing::FakeRoom const room;
    std::vector<std::vector<std::int32_t>> const texts{{5, 9, 2}, {7, 1, 3, 40, 11, 7, 2, 8, 9, 30}, {30}};
    ::setenv("SHARDWISE_FAKE_NCCL_WINDOWS", "", 1);
    std::vector<std::vector<float>> embedded[2];
    for (auto const comm : {DeviceComm::staged, DeviceComm::nccl}) {
        EmbedOptions options;
        options.tp = 2;
        options.threads = 1;
        options.activations = Dtype::f32;
        options.step_tokens = 6;
        options.comm = comm;
        OpenCheckpoint files(model.source);
        auto const found = embed_on_backend<testing::Fake>(files, model.checkpoint->model, texts, options);
        REQUIRE_MESSAGE(found, (found ? "" : found.error().message()));
        for (auto const& one : *found) embedded[comm == DeviceComm::nccl ? 1 : 0].push_back(one.values);
        CHECK(testing::fake_nccl_windows() == (comm == DeviceComm::nccl ? 2 : 0));
    }
    CHECK(embedded[0] == embedded[1]);
    testing::FakeApi::nccl_name = "libshardwise-no-nccl.so";
    CHECK(testing::FakeMachine::get().is_empty());
}

TEST_SUITE_END();
#endif
