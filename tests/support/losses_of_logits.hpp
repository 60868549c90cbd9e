// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/kernels/backward/cross_entropy.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardwise::testing {

/// The loss of each target by logits [targets, vocabulary], as training computes it from a head's products: those with ones on the
/// diagonal are what they multiply.
[[nodiscard]] inline std::vector<float> losses_of_logits(std::vector<float> const& logits,
                                                         std::vector<std::int32_t> const& targets,
                                                         std::int64_t vocabulary) {
    auto const tokens = static_cast<std::int64_t>(targets.size());
    REQUIRE(static_cast<std::int64_t>(logits.size()) == tokens * vocabulary);
    std::vector<float> ones(static_cast<std::size_t>(vocabulary * vocabulary));
    for (std::int64_t i = 0; i < vocabulary; ++i) ones[static_cast<std::size_t>(i * vocabulary + i)] = 1.0F;
    std::vector<float> losses(targets.size());
    std::vector<float> workspace(static_cast<std::size_t>(head_cross_entropy_workspace(tokens, vocabulary)));
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    auto const lost = head_cross_entropy({.in = {logits.data(), {tokens, vocabulary}},
                                          .head = {ones.data(), {vocabulary, vocabulary}},
                                          .targets = {targets.data(), {tokens}}},
                                         {.loss = {losses.data(), {tokens}}}, {},
                                         {workspace.data(), {static_cast<std::int64_t>(workspace.size())}}, stream);
    REQUIRE_MESSAGE(lost, (lost ? "" : lost.error().message()));
    REQUIRE(stream.synchronize(Deadline::after(std::chrono::seconds(60))));
    return losses;
}

}  // namespace shardwise::testing
