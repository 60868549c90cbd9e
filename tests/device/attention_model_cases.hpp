// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "activation_cases.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// Whole models whose queries see chunks, whose scores have linear biases in bf16, or which see in both directions.

namespace shardwise::testing {

/// Twelve heads: slopes of other numbers of them may be powers of two, which no rounding changes.
inline constexpr auto tiny_falcon =
    R"({"model_type":"falcon","architectures":["FalconForCausalLM"],"vocab_size":61,"hidden_size":48,)"
    R"("num_hidden_layers":2,"num_attention_heads":12,"alibi":true,"multi_query":false,"parallel_attn":false,)"
    R"("bias":true})";

/// Every other layer sees chunks of five.
inline constexpr auto chunked_llama4 =
    R"({"model_type":"llama4_text","architectures":["Llama4ForCausalLM"],"vocab_size":67,"hidden_size":48,)"
    R"("intermediate_size":40,"intermediate_size_mlp":60,"num_hidden_layers":3,"num_attention_heads":6,)"
    R"("num_key_value_heads":2,"head_dim":8,"max_position_embeddings":64,"num_local_experts":3,)"
    R"("interleave_moe_layer_step":4,"no_rope_layer_interval":2,"attention_chunk_size":5,)"
    R"("attn_temperature_tuning":false})";

/// Biases by distance.
inline constexpr auto tiny_t5_encoder =
    R"({"model_type":"t5","architectures":["T5EncoderModel"],"vocab_size":61,"d_model":36,"d_kv":6,"d_ff":40,)"
    R"("num_layers":2,"num_heads":6})";

}  // namespace shardwise::testing

TEST_CASE_TEMPLATE("Models: attention in chunks, and with rounded biases, makes the host's tokens on every back end", B,
                   SHARDWISE_TEST_BACKENDS) {
    using namespace shardwise;
    if (!testing::open_bench<B>()) return;
    using testing::ModelCase;
    for (auto const* const config : {testing::tiny_falcon, testing::chunked_llama4}) {
        CAPTURE(std::string(config));
        // A sample takes one of each.
        bool const is_first = config == testing::tiny_falcon;
        if (is_first || !testing::takes_samples()) testing::check_model<B>({config});
        if (!is_first || !testing::takes_samples())
            testing::check_model<B>({config, 2, 2, 5, 4, {}, Dtype::i8, true, 1e-3});
        if (!testing::takes_samples()) testing::check_model<B>({config, 2, 3, 64, 4, {}, Dtype::bf16, false, 1e-3});
    }
}

TEST_CASE("Models: attention in chunks, and with rounded biases, moves logits in 16 bits by their rounding") {
    using namespace shardwise;
    using testing::rounded;
    using testing::TestDevice;
    if (!testing::open_bench<TestDevice>()) return;
    (void)testing::check_rounded<TestDevice>(rounded(testing::tiny_falcon, Dtype::bf16));
    (void)testing::check_rounded<TestDevice>(rounded(testing::chunked_llama4, Dtype::f16));
    if (testing::takes_samples()) return;
    (void)testing::check_rounded<TestDevice>(rounded(testing::tiny_falcon, Dtype::f16, 2));
    (void)testing::check_rounded<TestDevice>(rounded(testing::chunked_llama4, Dtype::bf16, 2));
}

TEST_CASE("Models: texts are embedded by encoders with activations in 16 bits, over ranks") {
    using namespace shardwise;
    using testing::TestDevice;
    if (!testing::open_bench<TestDevice>()) return;
    testing::FakeRoom const room;
    std::vector<std::vector<std::int32_t>> const texts{{5, 9, 2}, {7, 1, 3, 40, 11, 7, 2, 8, 9, 30}, {30}};
    for (auto const* const config : {testing::tiny_bert, testing::tiny_modernbert, testing::tiny_t5_encoder}) {
        CAPTURE(std::string(config));
        testing::FormulaModel const encoder(config);
        auto const& described = encoder.checkpoint->model;
        OpenCheckpoint files(encoder.source);
        EmbedOptions options{.threads = 1, .step_tokens = 12};
        auto const wanted = embed_on_threads(files, described, texts, options);
        REQUIRE_MESSAGE(wanted, (wanted ? "" : wanted.error().message()));
        for (std::int32_t const tp : {1, 2}) {
            for (auto const dtype : {Dtype::bf16, Dtype::f16}) {
                CAPTURE(tp);
                CAPTURE(traits(dtype).short_name);
                options.tp = tp;
                options.activations = dtype;
                auto const found = embed_on_backend<TestDevice>(files, described, texts, options);
                REQUIRE_MESSAGE(found, (found ? "" : found.error().message()));
                REQUIRE(found->size() == wanted->size());
                for (std::size_t i = 0; i < wanted->size(); ++i)
                    testing::check_moved(described, dtype, (*found)[i].values, (*wanted)[i].values);
            }
        }
    }
}
