// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "activation_cases.hpp"
#include "model_cases.hpp"
#include "pair_sample.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

// Whole models of an encoder and a decoder that reads it.

namespace shardwise::testing {

/// One table of distances for each stack, and a head that is the table of words.
inline constexpr auto tiny_t5 =
    R"({"model_type":"t5","architectures":["T5ForConditionalGeneration"],"vocab_size":61,"d_model":32,"d_kv":8,)"
    R"("d_ff":40,"num_layers":2,"num_heads":4,"decoder_start_token_id":0,"relative_attention_num_buckets":8,)"
    R"("relative_attention_max_distance":9})";
/// A table for each block, heads on no pack, gates, a decoder of its own length, and a head of its own.
inline constexpr auto tiny_umt5 =
    R"({"model_type":"umt5","architectures":["UMT5ForConditionalGeneration"],"vocab_size":67,"d_model":24,"d_kv":5,)"
    R"("d_ff":28,"num_layers":1,"num_decoder_layers":2,"num_heads":6,"decoder_start_token_id":5,)"
    R"("tie_word_embeddings":false,"relative_attention_num_buckets":6,"relative_attention_max_distance":11})";

/// The first three, and two that begin when others have ended.
[[nodiscard]] inline std::vector<GenerationRequest> five_requests(ModelCase const& of) {
    auto requests = model_requests(of);
    requests.push_back(requests[0]);
    requests.push_back(requests[1]);
    requests[3].prompt.push_back(17);
    requests[3].max_new_tokens = 4;
    requests[4].prompt.insert(requests[4].prompt.end(), 15, 9);
    requests[4].max_new_tokens = 7;
    return requests;
}

}  // namespace shardwise::testing

TEST_CASE_TEMPLATE("Models: a decoder over an encoder generates the host's tokens on every back end", B,
                   SHARDWISE_TEST_BACKENDS) {
    using namespace shardwise;
    if (!testing::open_bench<B>()) return;
    using testing::ModelCase;
    for (auto const& of :
         {ModelCase{testing::tiny_t5}, ModelCase{testing::tiny_t5, 2, 2, 4, 4, {}, Dtype::f32, true},
          ModelCase{testing::tiny_umt5, 2, 1, 5, 4, {}, Dtype::bf16, false, 1e-3},
          ModelCase{testing::tiny_umt5, 1, 3, 8, 4, testing::held_in(Dtype::bf16), Dtype::i8, false, 1e-3, false}}) {
        CAPTURE(std::string(of.config));
        testing::check_model<B>(of);
    }
}

TEST_CASE("Models: a decoder's steps over an encoder are graphs, which serve sources of any length") {
    using namespace shardwise;
    using B = testing::TestDevice;
    using testing::ModelCase;
    if (!testing::open_bench<B>()) return;
    for (auto of : {ModelCase{testing::tiny_t5, 1, 3, 64, 5}, ModelCase{testing::tiny_umt5, 2, 3, 64, 5}}) {
        CAPTURE(std::string(of.config));
        testing::FormulaModel const model(of.config);
        auto const requests = testing::five_requests(of);
        testing::ModelLogits replayed;
        testing::ModelLogits called;
        testing::ModelLogits theirs;
        auto const first = testing::run_model<B>(model, of, requests, &replayed);
        REQUIRE_MESSAGE(first, (first ? "" : first.error().message()));
        of.has_graphs = false;
        auto const second = testing::run_model<B>(model, of, requests, &called);
        REQUIRE_MESSAGE(second, (second ? "" : second.error().message()));
        of.tp = 1;
        auto const expected = testing::run_model<Host>(model, of, requests, &theirs);
        REQUIRE_MESSAGE(expected, (expected ? "" : expected.error().message()));
        CHECK(replayed == called);
        CHECK(testing::worst_difference(replayed, theirs, requests.size()) <= of.tolerance);
        for (std::size_t i = 0; i < requests.size(); ++i)
            CHECK(first->generations[i].tokens == expected->generations[i].tokens);
        CHECK(second->graphs.captured == 0);
        if (!first->graphs.reason.empty()) continue;
        CHECK(first->graphs.captured >= 2);
        CHECK(first->graphs.replayed >= 5);
    }
}

TEST_CASE("Models: activations in bf16 move the logits of a decoder over an encoder by their rounding") {
    using namespace shardwise;
    using testing::TestDevice;
    if (!testing::open_bench<TestDevice>()) return;
    (void)testing::check_rounded<TestDevice>(testing::rounded(testing::tiny_t5, Dtype::bf16));
    (void)testing::check_rounded<TestDevice>(testing::rounded(testing::tiny_umt5, Dtype::bf16, 2, true));
}

TEST_CASE_TEMPLATE("Models: decoders over encoders, their caches, ranks and stages" * doctest::test_suite("long"), B,
                   SHARDWISE_TEST_BACKENDS) {
    using namespace shardwise;
    if (!testing::open_bench<B>()) return;
    for (auto const* const config : {testing::tiny_t5, testing::tiny_umt5}) {
        CAPTURE(std::string(config));
        for (bool const is_deterministic : {false, true}) {
            for (auto const tp : {1, 2, 3, 4}) {
                CAPTURE(is_deterministic);
                CAPTURE(tp);
                testing::check_model<B>({config, tp, 2, 8, 4, {}, Dtype::f32, is_deterministic});
            }
        }
        for (auto const dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
            CAPTURE(traits(dtype).short_name);
            testing::check_model<B>({config, 1, 3, 8, 4, testing::held_in(dtype), Dtype::bf16, false, 1e-3});
            testing::check_model<B>({config, 2, 1, 5, 4, testing::held_in(dtype), Dtype::i8, false, 1e-2});
        }
        for (std::int32_t const pp : {2, 3})
            testing::check_model<B>({config, 1, 2, 8, 4, {}, Dtype::f32, false, 1e-4, true, pp});
        testing::check_model<B>({config, 2, 2, 8, 4, {}, Dtype::f32, false, 1e-4, true, 1, DeviceComm::staged});
    }
}
