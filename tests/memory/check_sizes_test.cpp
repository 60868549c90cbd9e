// SPDX-License-Identifier: Apache-2.0
#include <shardwise/memory/check_sizes.hpp>
#include <shardwise/memory/estimator.hpp>
#include <shardwise/model/architectures.hpp>
#include <shardwise/model/presets.hpp>

#include <doctest/doctest.h>

using namespace shardwise;

namespace {

ErrorCode code_of(ModelConfig const& config, EstimateRequest const& request = {}) {
    auto const model = describe(config);
    if (!model) return model.error().code();
    auto const estimate = estimate_memory(*model, request);
    REQUIRE_FALSE(estimate);
    return estimate.error().code();
}

}  // namespace

TEST_CASE("sizes: a config that claims impossible widths is refused before anything overflows") {
    auto config = presets::llama_3_8b;
    config.hidden_size = std::int64_t{1} << 40U;
    config.head_dim = 128;
    CHECK(code_of(config) == ErrorCode::size_overflow);
    config = presets::llama_3_8b;
    config.vocab_size = INT64_MAX;
    CHECK(code_of(config) == ErrorCode::size_overflow);
    config = presets::llama_3_8b;
    config.intermediate_size = INT64_MAX / 2;
    CHECK(code_of(config) == ErrorCode::size_overflow);
}

TEST_CASE("sizes: so is a batch whose activations leave all memories") {
    CHECK(code_of(presets::llama_3_8b, {.batch = max_tokens}) == ErrorCode::size_overflow);
    CHECK(code_of(presets::llama_3_8b, {.context = max_tokens}) == ErrorCode::size_overflow);
}

TEST_CASE("sizes: the largest request that passes does not overflow on any number of ranks") {
    auto const model = *describe(presets::qwen3_30b_a3b);
    EstimateRequest request{.batch = 1024, .context = 1 << 20, .parallel = {.pp = 48, .dp = 1000}};
    auto const estimate = estimate_memory(model, request);
    REQUIRE(estimate);
    CHECK(estimate->total > 0_B);
    CHECK(estimate->terms.kv_cache == Bytes{1000LL * 1024 * (1 << 20) * 98304});
    request.batch = 1;
    request.training = TrainingPlan{.recompute = Recompute::selective};
    auto const training = estimate_memory(model, request);
    REQUIRE(training);
    for (auto const& device : training->devices) CHECK(device.total() > 0_B);
}
