// SPDX-License-Identifier: Apache-2.0
#include <shardwise/kernels/backward/cross_entropy.hpp>
#include <shardwise/train/token_mean.hpp>

#include <doctest/doctest.h>

#include "training.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

using namespace shardwise;
using namespace shardwise::tests;

namespace {

constexpr auto context = Training::context;

}  // namespace

TEST_CASE("train: the validation loss of a checkpoint is that of run --deterministic's logits, in every bit") {
    Training const training;
    std::vector<int> ids;
    std::string bytes;
    for (std::int64_t i = 0; i < 2 * context + 1; ++i) {
        ids.push_back(static_cast<int>((5 * i * i + 11 * i + 2) % 61));
        bytes += {static_cast<char>(ids.back()), '\0'};
    }
    auto const valid = training.folder.write("valid.u16", bytes);
    auto const answer = training.train("run", {"--steps", "3", "--dp", "2", "--valid", valid});
    auto const checkpoint = answer.text("checkpoints", std::size_t{0});
    std::vector<float> logits;
    std::vector<std::int32_t> targets;
    for (std::int64_t i = 0; i < 2 * context; ++i) {
        std::string prompt;
        for (auto j = i / context * context; j <= i; ++j)
            prompt += (prompt.empty() ? "" : ",") + std::to_string(ids[static_cast<std::size_t>(j)]);
        auto const file = training.out("logits.bin");
        auto const ran = run({"run", checkpoint, "--prompt-ids", prompt, "--max-new-tokens", "1", "--deterministic",
                              "--logits", file, "--threads", "1"});
        REQUIRE_MESSAGE(ran.status == 0, ran.err);
        auto const row = read_text(file);
        REQUIRE(row.size() == 61 * sizeof(float));
        logits.resize(logits.size() + 61);
        std::memcpy(&logits[logits.size() - 61], row.data(), row.size());
        targets.push_back(ids[static_cast<std::size_t>(i + 1)]);
    }
    // A head of ones on the diagonal gives its input as logits.
    std::vector<float> identity(61 * 61);
    for (std::size_t i = 0; i < 61; ++i) identity[i * 62] = 1.0F;
    constexpr auto tokens = 2 * context;
    std::vector<float> losses(tokens);
    std::vector<float> workspace(static_cast<std::size_t>(head_cross_entropy_workspace(tokens, 61)));
    HostContext host({.threads = 1});
    auto stream = host.make_stream();
    REQUIRE(head_cross_entropy({.in = {logits.data(), {tokens, 61}},
                                .head = {identity.data(), {61, 61}},
                                .targets = {targets.data(), {tokens}}},
                               {.loss = {losses.data(), {tokens}}}, {},
                               {workspace.data(), {static_cast<std::int64_t>(workspace.size())}}, stream));
    REQUIRE(stream.synchronize(Deadline::after(std::chrono::seconds(60))));
    TokenMean mean;
    for (auto const loss : losses) mean.add(loss);
    CHECK(answer.real("loss", "valid") == mean.mean());
    for (auto const* const degree : {"--tp", "--pp"}) {
        CAPTURE(degree);
        auto const other = training.train(std::string("by") + degree, {"--steps", "3", degree, "2", "--valid", valid});
        CHECK(other.real("loss", "valid") == mean.mean());
    }
}
