// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model_cases.hpp"

#include <array>

namespace shardwise::testing {

inline constexpr auto tiny_mixtral =
    R"({"model_type":"mixtral","architectures":["MixtralForCausalLM"],"vocab_size":61,"hidden_size":32,)"
    R"("intermediate_size":48,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,)"
    R"("num_local_experts":4,"num_experts_per_tok":2,"max_position_embeddings":64})";
/// Rows of an odd number of elements, three for each token.
inline constexpr auto tiny_odd_mixtral =
    R"({"model_type":"mixtral","architectures":["MixtralForCausalLM"],"vocab_size":61,"hidden_size":33,)"
    R"("intermediate_size":27,"num_hidden_layers":2,"num_attention_heads":3,"num_key_value_heads":3,"head_dim":10,)"
    R"("num_local_experts":5,"num_experts_per_tok":3,"max_position_embeddings":64})";
inline constexpr auto tiny_qwen2_moe =
    R"({"model_type":"qwen2_moe","architectures":["Qwen2MoeForCausalLM"],"vocab_size":61,"hidden_size":32,)"
    R"("intermediate_size":48,"moe_intermediate_size":24,"shared_expert_intermediate_size":40,)"
    R"("num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,"num_experts":6,)"
    R"("num_experts_per_tok":3,"max_position_embeddings":64})";
inline constexpr auto tiny_gpt_oss =
    R"({"model_type":"gpt_oss","architectures":["GptOssForCausalLM"],"vocab_size":61,"hidden_size":32,)"
    R"("intermediate_size":48,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":8,)"
    R"("num_local_experts":4,"num_experts_per_tok":2,"max_position_embeddings":64})";

/// Gated delta rules beside attention, and experts.
inline constexpr auto tiny_qwen3_next =
    R"({"model_type":"qwen3_next","architectures":["Qwen3NextForCausalLM"],"vocab_size":61,"hidden_size":36,)"
    R"("intermediate_size":52,"num_hidden_layers":4,"num_attention_heads":6,"num_key_value_heads":2,"head_dim":8,)"
    R"("linear_num_key_heads":3,"linear_num_value_heads":6,"linear_key_head_dim":6,"linear_value_head_dim":4,)"
    R"("num_experts":4,"num_experts_per_tok":2,"moe_intermediate_size":20,"shared_expert_intermediate_size":28,)"
    R"("max_position_embeddings":64})";
/// xIELU.
inline constexpr auto tiny_apertus =
    R"({"model_type":"apertus","architectures":["ApertusForCausalLM"],"vocab_size":61,"hidden_size":36,)"
    R"("intermediate_size":52,"num_hidden_layers":2,"num_attention_heads":6,"num_key_value_heads":2,)"
    R"("max_position_embeddings":64})";

/// Experts that groups of ranks share make the host's tokens and, where a row's product does not depend on the rows beside it, the bits of
/// one group; and what they hold is predicted.
template <class B>
void check_over_groups(char const* config, std::int32_t groups) {
    CAPTURE(std::string(config));
    CAPTURE(groups);
    ModelCase of{config};
    of.ep = groups;
    check_model<B>(of);
    of.is_deterministic = true;
    FormulaModel const model(of.config);
    auto const requests = model_requests(of);
    ModelLogits sharded;
    auto const found = run_model<B>(model, of, requests, &sharded);
    REQUIRE_MESSAGE(found, (found ? "" : found.error().message()));
    of.ep = 1;
    ModelLogits whole;
    auto const alone = run_model<B>(model, of, requests, &whole);
    REQUIRE_MESSAGE(alone, (alone ? "" : alone.error().message()));
    // The first group tells of its own: of three every so many-th.
    REQUIRE(sharded.size() == (requests.size() - 1) / static_cast<std::size_t>(groups) + 1);
    for (auto const& [request, rows] : sharded) CHECK(rows == whole[request]);
    if (!HasHostMemory<B>) CHECK(found->graphs.reason == "rows go to other groups' experts");
    if (!HasHostMemory<B>) CHECK(found->graphs.captured == 0);
    for (auto const& rank : found->ranks) {
        CHECK(rank.pinned == rank.predicted_pinned);
        if (!HasHostMemory<B>) CHECK(rank.pinned > Bytes{0});
    }
}

}  // namespace shardwise::testing

TEST_CASE_TEMPLATE("Models: a tiny one with experts generates the host's tokens on every back end", B,
                   SHARDWISE_TEST_BACKENDS) {
    using namespace shardwise;
    if (!testing::open_bench<B>()) return;
    testing::check_model<B>({testing::tiny_mixtral});
}

TEST_CASE_TEMPLATE("Models: experts that are sharded over groups of ranks make the host's tokens on every back end", B,
                   SHARDWISE_TEST_BACKENDS) {
    using namespace shardwise;
    if (!testing::open_bench<B>()) return;
    testing::check_over_groups<B>(testing::tiny_mixtral, 2);
}

TEST_CASE_TEMPLATE("Models: sharded experts of more families, with shards, stages and fixed trees" *
                       doctest::test_suite("long"),
                   B, SHARDWISE_TEST_BACKENDS) {
    using namespace shardwise;
    if (!testing::open_bench<B>()) return;
    for (auto const* const config : {testing::tiny_mixtral, testing::tiny_deepseek, testing::tiny_qwen2_moe,
                                     testing::tiny_gpt_oss, testing::tiny_qwen3_next}) {
        CAPTURE(std::string(config));
        for (auto const& degrees : {std::array{1, 1, 3}, std::array{2, 1, 2}, std::array{1, 2, 2}}) {
            CAPTURE(degrees[0]);
            CAPTURE(degrees[1]);
            testing::ModelCase of{config, degrees[0]};
            of.pp = degrees[1];
            of.ep = degrees[2];
            of.is_deterministic = of.tp > 1;
            testing::check_model<B>(of);
        }
    }
}

TEST_CASE_TEMPLATE("Models: more experts, gated delta rules and xIELU" * doctest::test_suite("long"), B,
                   SHARDWISE_TEST_BACKENDS) {
    using namespace shardwise;
    if (!testing::open_bench<B>()) return;
    for (auto const* const config :
         {testing::tiny_qwen2_moe, testing::tiny_gpt_oss, testing::tiny_qwen3_next, testing::tiny_apertus}) {
        CAPTURE(std::string(config));
        testing::check_model<B>({config});
    }
}

TEST_CASE_TEMPLATE("Models: tokens that are drawn where the logits lie are the host's, of experts in graphs", B,
                   SHARDWISE_TEST_BACKENDS) {
    using namespace shardwise;
    if (!testing::open_bench<B>()) return;
    testing::ModelCase of{testing::tiny_mixtral};
    of.new_tokens = 6;
    testing::FormulaModel const model(of.config);
    auto requests = testing::model_requests(of);
    for (auto& one : requests) one.sampling = {.temperature = 0.9F, .top_k = 20, .top_p = 0.9F, .seed = 11};
    requests[1].sampling.repetition_penalty = 1.3F;
    requests[2].sampling = {};
    auto const expected = testing::run_model<Host>(model, of, requests, nullptr);
    REQUIRE_MESSAGE(expected, (expected ? "" : expected.error().message()));
    auto const found = testing::run_model<B>(model, of, requests, nullptr);
    REQUIRE_MESSAGE(found, (found ? "" : found.error().message()));
    for (std::size_t i = 0; i < requests.size(); ++i)
        CHECK(found->generations[i].tokens == expected->generations[i].tokens);
    if (!HasHostMemory<B> && found->graphs.reason.empty()) {
        CHECK(found->graphs.captured >= 1);
        CHECK(found->graphs.replayed >= 2);
    }
}

TEST_CASE_TEMPLATE(
    "Models: experts whose rows the host counts, of many rows and under Deterministic, make the host's tokens" *
        doctest::test_suite("long"),
    B, SHARDWISE_TEST_BACKENDS) {
    using namespace shardwise;
    if (!testing::open_bench<B>()) return;
    testing::ModelCase fixed{testing::tiny_mixtral};
    fixed.is_deterministic = true;
    testing::check_model<B>(fixed);
    // More than 512 pairs of a token and an expert in one step.
    testing::ModelCase of{testing::tiny_mixtral};
    of.step_tokens = 300;
    testing::FormulaModel const model(
        R"({"model_type":"mixtral","architectures":["MixtralForCausalLM"],"vocab_size":61,"hidden_size":32,)"
        R"("intermediate_size":48,"num_hidden_layers":1,"num_attention_heads":4,"num_key_value_heads":2,)"
        R"("num_local_experts":4,"num_experts_per_tok":2,"max_position_embeddings":320})");
    std::vector<GenerationRequest> requests(1);
    for (std::int32_t i = 0; i < 270; ++i) requests[0].prompt.push_back(i * i % 61);
    requests[0].max_new_tokens = 2;
    auto const expected = testing::run_model<Host>(model, of, requests, nullptr);
    REQUIRE_MESSAGE(expected, (expected ? "" : expected.error().message()));
    auto const found = testing::run_model<B>(model, of, requests, nullptr);
    REQUIRE_MESSAGE(found, (found ? "" : found.error().message()));
    CHECK(found->generations[0].tokens == expected->generations[0].tokens);
}
