// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "activation_cases.hpp"
#include "encoder_cases.hpp"
#include "expert_model_cases.hpp"
#include "model_cases.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// Whole models of which ranks share what is one row's: norms over all heads, types of tokens; and llama4's experts and scores.

namespace shardwise::testing {

/// Norms over all heads of queries and of keys, of which three ranks share two.
inline constexpr auto tiny_olmo2 =
    R"({"model_type":"olmo2","architectures":["Olmo2ForCausalLM"],"vocab_size":97,"hidden_size":36,)"
    R"("intermediate_size":48,"num_hidden_layers":2,"num_attention_heads":6,"num_key_value_heads":2,)"
    R"("max_position_embeddings":64})";
/// The same, and experts.
inline constexpr auto tiny_minimax_m2 =
    R"({"model_type":"minimax_m2","architectures":["MiniMaxM2ForCausalLM"],"vocab_size":61,"hidden_size":32,)"
    R"("intermediate_size":24,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":1,"head_dim":10,)"
    R"("num_local_experts":4,"num_experts_per_tok":2,"rotary_dim":6,"max_position_embeddings":64})";
/// Experts whose inputs are weighed in every second layer, scores that grow each four positions in the last; the others see chunks of five.
inline constexpr auto tiny_llama4 =
    R"({"model_type":"llama4_text","architectures":["Llama4ForCausalLM"],"vocab_size":61,"hidden_size":36,)"
    R"("intermediate_size":20,"intermediate_size_mlp":28,"num_hidden_layers":4,"num_attention_heads":6,)"
    R"("num_key_value_heads":2,"head_dim":8,"num_local_experts":4,"num_experts_per_tok":2,)"
    R"("interleave_moe_layer_step":2,"attention_chunk_size":5,"floor_scale":4,"attn_scale":0.3,)"
    R"("max_position_embeddings":64})";
/// One expert of each token, as published models have.
inline constexpr auto tiny_scout =
    R"({"model_type":"llama4_text","architectures":["Llama4ForCausalLM"],"vocab_size":61,"hidden_size":32,)"
    R"("intermediate_size":24,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":1,"head_dim":8,)"
    R"("num_local_experts":3,"num_experts_per_tok":1,"no_rope_layers":[1,0],"attention_chunk_size":4,)"
    R"("floor_scale":2,"attn_scale":0.5,"max_position_embeddings":64})";

}  // namespace shardwise::testing

TEST_CASE_TEMPLATE("Models: norms over columns that ranks share give the host's tokens on every back end", B,
                   SHARDWISE_TEST_BACKENDS) {
    using namespace shardwise;
    if (!testing::open_bench<B>()) return;
    testing::check_model<B>({testing::tiny_olmo2, 2});
    // The bits do not depend on the ranks, nor on how they add up.
    testing::ModelCase of{testing::tiny_minimax_m2, 1};
    of.is_deterministic = true;
    testing::FormulaModel const model(of.config);
    auto const requests = testing::model_requests(of);
    testing::ModelLogits alone;
    REQUIRE(testing::run_model<B>(model, of, requests, &alone));
    for (std::int32_t const tp : {2, 3}) {
        CAPTURE(tp);
        of.tp = tp;
        of.comm = tp == 2 ? DeviceComm::staged : DeviceComm::automatic;
        testing::ModelLogits shared;
        auto const ran = testing::run_model<B>(model, of, requests, &shared);
        REQUIRE_MESSAGE(ran, (ran ? "" : ran.error().message()));
        CHECK(shared == alone);
    }
}

TEST_CASE_TEMPLATE("Models: experts whose inputs are weighed and scores that grow are the host's on every back end", B,
                   SHARDWISE_TEST_BACKENDS) {
    using namespace shardwise;
    if (!testing::open_bench<B>()) return;
    testing::check_model<B>({testing::tiny_llama4, 2});
    // Steps of one token are graphs, of the bits of those that are not.
    testing::ModelCase of{testing::tiny_scout};
    of.new_tokens = 6;
    testing::FormulaModel const model(of.config);
    auto const requests = testing::model_requests(of);
    testing::ModelLogits replayed;
    testing::ModelLogits called;
    auto const first = testing::run_model<B>(model, of, requests, &replayed);
    of.has_graphs = false;
    auto const second = testing::run_model<B>(model, of, requests, &called);
    REQUIRE((first && second));
    CHECK(replayed == called);
    if (!HasHostMemory<B> && first->graphs.reason.empty()) CHECK(first->graphs.captured >= 1);
}

TEST_CASE_TEMPLATE("Models: weighed experts that groups of ranks share make the bits of one group on every back end", B,
                   SHARDWISE_TEST_BACKENDS) {
    using namespace shardwise;
    if (!testing::open_bench<B>()) return;
    testing::check_over_groups<B>(testing::tiny_llama4, 2);
    testing::check_over_groups<B>(testing::tiny_scout, 3);
    if (testing::takes_samples()) return;
    testing::check_over_groups<B>(testing::tiny_llama4, 3);
    testing::ModelCase shards{testing::tiny_llama4, 2};
    shards.ep = 2;
    testing::check_model<B>(shards);
    testing::ModelCase halves{testing::tiny_llama4,          1,           3,     8,   4,
                              testing::held_in(Dtype::bf16), Dtype::bf16, false, 1e-3};
    halves.ep = 2;
    testing::check_model<B>(halves);
}

TEST_CASE_TEMPLATE("Models: an encoder whose ranks share tables gives the host's states on every back end", B,
                   SHARDWISE_TEST_BACKENDS) {
    using namespace shardwise;
    if (!testing::open_bench<B>()) return;
    std::vector<std::int32_t> const ids{5, 9, 2, 40, 7, 7, 1, 58, 0, 3};
    std::vector<SequencePart> const parts{{0, 0, 4}, {1, 0, 1}, {2, 0, 5}};
    testing::FormulaModel const model(testing::tiny_bert);
    auto const wanted = testing::encode_texts<Host>(model, ids, parts, true);
    REQUIRE_MESSAGE(wanted, (wanted ? "" : wanted.error().message()));
    for (std::int32_t const tp : {2, 3}) {
        CAPTURE(tp);
        auto const found = testing::encode_texts<B>(model, ids, parts, true, Dtype::f32, tp);
        REQUIRE_MESSAGE(found, (found ? "" : found.error().message()));
        testing::check_states(*found, *wanted);
    }
}

TEST_CASE_TEMPLATE("Models: shared norms and weighed experts, over ranks and fixed trees" * doctest::test_suite("long"),
                   B, SHARDWISE_TEST_BACKENDS) {
    using namespace shardwise;
    if (!testing::open_bench<B>()) return;
    for (auto const* const config :
         {testing::tiny_olmo2, testing::tiny_minimax_m2, testing::tiny_llama4, testing::tiny_scout}) {
        CAPTURE(std::string(config));
        testing::check_over_ranks<B>(config);
        testing::check_model<B>({config, 2, 3, 8, 4, testing::held_in(Dtype::bf16), Dtype::bf16, false, 1e-3});
    }
}

TEST_CASE("Models: shared norms and weighed experts move by the rounding of activations in 16 bits") {
    using namespace shardwise;
    using testing::rounded;
    using testing::TestDevice;
    if (!testing::open_bench<TestDevice>()) return;
    (void)testing::check_rounded<TestDevice>(rounded(testing::tiny_scout, Dtype::bf16));
    (void)testing::check_rounded<TestDevice>(rounded(testing::tiny_olmo2, Dtype::f16, 2, true));
    if (testing::takes_samples()) return;
    (void)testing::check_rounded<TestDevice>(rounded(testing::tiny_minimax_m2, Dtype::bf16, 3));
    (void)testing::check_rounded<TestDevice>(rounded(testing::tiny_llama4, Dtype::bf16, 2));
}

TEST_CASE("Models: experts whose inputs are weighed and whose rows the host counts make the host's tokens" *
          doctest::test_suite("long")) {
    using namespace shardwise;
    using testing::TestDevice;
    if (!testing::open_bench<TestDevice>()) return;
    // More than 512 pairs of a token and an expert in one step.
    testing::FormulaModel const model(
        R"({"model_type":"llama4_text","architectures":["Llama4ForCausalLM"],"vocab_size":61,"hidden_size":32,)"
        R"("intermediate_size":24,"num_hidden_layers":1,"num_attention_heads":4,"num_key_value_heads":1,"head_dim":8,)"
        R"("num_local_experts":3,"num_experts_per_tok":2,"no_rope_layers":[0],"attention_chunk_size":0,)"
        R"("floor_scale":2,"attn_scale":0.5,"max_position_embeddings":320})");
    testing::ModelCase of{""};
    of.step_tokens = 300;
    std::vector<GenerationRequest> requests(1);
    for (std::int32_t i = 0; i < 270; ++i) requests[0].prompt.push_back(i * i % 61);
    requests[0].max_new_tokens = 2;
    auto const expected = testing::run_model<Host>(model, of, requests, nullptr);
    REQUIRE_MESSAGE(expected, (expected ? "" : expected.error().message()));
    auto const found = testing::run_model<TestDevice>(model, of, requests, nullptr);
    REQUIRE_MESSAGE(found, (found ? "" : found.error().message()));
    CHECK(found->generations[0].tokens == expected->generations[0].tokens);
}
