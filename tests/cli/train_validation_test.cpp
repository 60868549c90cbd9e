// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/token_mean.hpp>

#include <doctest/doctest.h>

#include "losses_of_logits.hpp"
#include "training.hpp"

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
    TokenMean mean;
    for (auto const loss : testing::losses_of_logits(logits, targets, 61)) mean.add(loss);
    CHECK(answer.real("loss", "valid") == mean.mean());
    for (auto const* const degree : {"--tp", "--pp"}) {
        CAPTURE(degree);
        auto const other = training.train(std::string("by") + degree, {"--steps", "3", degree, "2", "--valid", valid});
        CHECK(other.real("loss", "valid") == mean.mean());
    }
}

TEST_CASE("train: the best validation loss of a run that goes on is of the data that it validates with now") {
    Training const training;
    std::string others;
    for (int i = 0; i < 40; ++i) others += {static_cast<char>(i % 3), '\0'};
    std::vector<std::string> const data{training.data, training.folder.write("others.u16", others)};
    std::vector<Answer> whole;
    for (std::size_t i = 0; i < 2; ++i) {
        auto const name = "whole" + std::to_string(i);
        whole.push_back(
            training.train(name, {"--steps", "4", "--save-every", "2", "--valid-every", "2", "--valid", data[i]}));
    }
    for (std::size_t before = 0; before < 2; ++before) {
        for (std::size_t now = 0; now < 2; ++now) {
            CAPTURE(before);
            CAPTURE(now);
            auto const name = "run" + std::to_string(before) + std::to_string(now);
            auto const from = training.out("whole" + std::to_string(before)) + "/step-000002";
            auto const answer =
                training.train(name, {"--steps", "4", "--valid-every", "2", "--valid", data[now], "--resume", from});
            CHECK(answer.real("loss", "valid") == whole[now].real("loss", "valid"));
            auto const* const best = before == now ? "best_valid" : "valid";
            CHECK(answer.real("loss", "best_valid") == whole[now].real("loss", best));
        }
    }
}
