// SPDX-License-Identifier: Apache-2.0
#include <shardwise/cost/block_work.hpp>
#include <shardwise/model/architectures.hpp>
#include <shardwise/model/presets.hpp>

#include <doctest/doctest.h>

#include <cmath>

using namespace shardwise;

namespace {

double flops_of(Model const& model, Step const& step, OpRank const& rank = {}) {
    double sum = 0.0;
    for (auto const& block : model.program.blocks())
        sum += block.count * block_work(model.program.body(block), step, rank).flops;
    return sum;
}

Step decode(std::int64_t context, std::int64_t batch = 1) {
    return {.batch = batch, .new_tokens = 1, .context = context};
}

BlockBody const& layer_of(Model const& model) {
    for (auto const& block : model.program.blocks()) {
        if (block.is_numbered) return model.program.body(block);
    }
    return model.program.bodies().front();
}

}  // namespace

// Kaplan et al., Scaling Laws for Neural Language Models, 2020, table 1: 2N + 2 n_layer n_ctx d_attn per token
// without embedding
TEST_CASE("block work: Llama-2-7B takes about two operations per parameter and token, and attention on top") {
    auto const model = *describe(presets::llama_2_7b);
    auto const weights = 6738415616.0 - 32000.0 * 4096.0;
    CHECK(flops_of(model, decode(1)) == doctest::Approx(2.0 * weights).epsilon(0.001));
    // Scores and values: 4 * hidden per layer and visible token.
    auto const attention = flops_of(model, decode(4096)) - flops_of(model, decode(1));
    CHECK(attention == doctest::Approx(4.0 * 32 * 4096 * 4095).epsilon(0.03));
}

TEST_CASE("block work: prefill is the sum of its tokens, except that the head scores the last one only") {
    auto const model = *describe(presets::llama_2_7b);
    double one_by_one = 0.0;
    for (std::int64_t context = 1; context <= 64; ++context) one_by_one += flops_of(model, decode(context));
    auto const head = 2.0 * 32000 * 4096;
    CHECK(flops_of(model, {.batch = 1, .new_tokens = 64, .context = 64}) ==
          doctest::Approx(one_by_one - 63 * head).epsilon(1e-9));
}

TEST_CASE("block work: a mixture computes with its active parameters") {
    auto const model = *describe(presets::mixtral_8x7b);
    auto const active = 12879925248.0 - 32000.0 * 4096.0;
    CHECK(flops_of(model, decode(1)) == doctest::Approx(2.0 * active).epsilon(0.001));
}

TEST_CASE("block work: tensor-parallel ranks share the products") {
    auto const model = *describe(presets::llama_2_7b);
    double sum = 0.0;
    for (std::int64_t rank = 0; rank < 5; ++rank) sum += flops_of(model, decode(100), {.tp = 5, .tp_rank = rank});
    // Norms and additions are done by each.
    CHECK(sum == doctest::Approx(flops_of(model, decode(100))).epsilon(0.001));
    CHECK(sum > flops_of(model, decode(100)));
}

TEST_CASE("block work: few rows read few experts, many read all") {
    auto const model = *describe(presets::qwen3_30b_a3b);
    CHECK(block_work(layer_of(model), decode(10)).expert_share == doctest::Approx(8.0 / 128));
    CHECK(block_work(layer_of(model), decode(10, 4)).expert_share == doctest::Approx(32.0 / 128));
    CHECK(block_work(layer_of(model), decode(10, 1000)).expert_share == 1.0);
    CHECK(block_work(layer_of(*describe(presets::llama_2_7b)), decode(10)).expert_share == 1.0);
}

TEST_CASE("block work: an embedding reads a row per token") {
    auto const model = *describe(presets::llama_2_7b);
    auto const& embedding = model.program.body(model.program.blocks().front());
    CHECK(block_work(embedding, decode(10)).table_share == doctest::Approx(1.0 / 32000));
    CHECK(block_work(embedding, decode(10)).flops == 0.0);
    CHECK(block_work(layer_of(model), decode(10)).table_share == 1.0);
}

TEST_CASE("block work: a layer hands on the hidden state and reads its part of the cache") {
    auto const model = *describe(presets::llama_3_8b);
    auto const work = block_work(layer_of(model), decode(1001, 3));
    CHECK(work.output == Bytes{3 * 4096 * 2});
    CHECK(work.kv_read == 3.0 * 1000 * 2 * 8 * 128 * 2);
    CHECK(work.bytes(1000_B) == work.traffic + work.kv_read + 1000.0);
    CHECK(work.bytes(0_B, 1000_B, 1000_B) == work.traffic + work.kv_read + 2000.0);
}

TEST_CASE("block work: every preset's blocks have finite, positive work") {
    for (auto const& preset : model_presets) {
        CAPTURE(preset.name);
        auto const model = *describe(*preset.config);
        for (auto const& body : model.program.bodies()) {
            auto const work = block_work(body, decode(100));
            CHECK(std::isfinite(work.flops));
            CHECK(work.flops >= 0.0);
            CHECK(work.traffic > 0.0);
            CHECK(work.output > 0_B);
            CHECK(work.expert_share > 0.0);
            CHECK(work.expert_share <= 1.0);
        }
    }
}
