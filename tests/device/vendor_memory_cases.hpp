// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backends.hpp"
#include "model_cases.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

// What vendors take of devices besides what a run holds there.

namespace shardwise::testing {

#if !defined(SHARDWISE_HAS_CUDA) && !defined(SHARDWISE_HAS_HIP)

/// A run of so many ranks on one device, of whose free memory so many bytes go with the first step.
inline std::vector<RunMemory> memory_while(FormulaModel const& model, std::int32_t ranks, std::int64_t gone) {
    RunOptions options;
    options.tp = ranks;
    options.threads = 1;
    options.comm = DeviceComm::staged;
    bool has_gone = false;
    options.on_logits = [&](std::int64_t, std::span<float const>) {
        if (!std::exchange(has_gone, true)) FakeMachine::get().free_bytes -= gone;
    };
    FakeRoom const room(ranks);
    OpenCheckpoint files(model.source);
    std::vector<GenerationRequest> requests(1);
    requests[0].prompt = {5};
    requests[0].max_new_tokens = 1;
    auto const report = run_on_devices<Fake>(files, model.checkpoint->model, requests, options);
    REQUIRE_MESSAGE(report, (report ? "" : report.error().message()));
    return report->ranks;
}

TEST_CASE("Models: what a vendor takes of a device besides what its ranks hold is told in their shares") {
    FormulaModel const model(tiny_llama);
    // The fake vendor's free memory does not fall by what is allocated.
    std::int64_t held = 0;
    for (auto const& rank : memory_while(model, 2, 0)) {
        CHECK(rank.vendor == Bytes{0});
        held += std::max(rank.held, rank.predicted).count();
    }
    for (auto const& rank : memory_while(model, 2, held + 3000)) CHECK(rank.vendor == Bytes{1500});
}

#endif

TEST_CASE("Models: ranks on unlike devices have each its own vendor's memory") {
    detail::DeviceUuid one;
    detail::DeviceUuid other;
    other.bytes[3] = std::byte{7};
    detail::DeviceUuid third;
    third.bytes[0] = std::byte{1};
    std::vector<detail::RankHolding> all(5);
    all[0] = {{.held = Bytes{100}}, {one, Bytes{150}, true}};
    all[1] = {{.predicted = Bytes{40}, .held = Bytes{10}}, {other, Bytes{45}, true}};
    // Opened last on the first device, when the others' memory was gone already.
    all[2] = {{.held = Bytes{20}}, {one, Bytes{30}, true}};
    all[3] = {{.held = Bytes{1000}}, {}};
    // Others gave back more meanwhile than the vendor took.
    all[4] = {{.held = Bytes{30}}, {third, Bytes{29}, true}};
    detail::share_vendor_memory(all);
    CHECK(all[0].memory.vendor == Bytes{15});
    CHECK(all[1].memory.vendor == Bytes{5});
    CHECK(all[2].memory.vendor == Bytes{15});
    CHECK(all[3].memory.vendor == Bytes{0});
    CHECK(all[4].memory.vendor == Bytes{0});
}

}  // namespace shardwise::testing
