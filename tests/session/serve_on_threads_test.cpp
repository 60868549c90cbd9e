// SPDX-License-Identifier: Apache-2.0
#include <shardwise/session/run_on_threads.hpp>
#include <shardwise/session/serve_on_threads.hpp>

#include <doctest/doctest.h>

#include "formula_llama.hpp"
#include "letters.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace shardwise;
using namespace shardwise::testing;

TEST_CASE(
    "serve_on_threads: one request after another gives what each gives alone; refused and ended ones harm nobody") {
    FormulaModel const model(
        R"({"model_type":"mixtral","vocab_size":61,"hidden_size":24,"intermediate_size":20,"num_hidden_layers":2,)"
        R"("num_attention_heads":4,"num_key_value_heads":2,"num_local_experts":3,"num_experts_per_tok":2,)"
        R"("max_position_embeddings":64})");
    auto const requests = two_requests();
    auto const alone = run_on_threads(model.source, model.checkpoint->model, requests, {.is_deterministic = true});
    REQUIRE(alone);
    struct Degrees {
        std::int32_t tp, pp, ep;
    };
    for (auto const& degrees :
         {Degrees{1, 1, 1}, Degrees{3, 1, 1}, Degrees{1, 2, 1}, Degrees{1, 1, 2}, Degrees{2, 2, 2}}) {
        CAPTURE(degrees.tp);
        CAPTURE(degrees.pp);
        CAPTURE(degrees.ep);
        // A prompt that is too long, one whose answer is ended after the second token, and the two again.
        auto asked = std::vector{requests[0], requests[0], requests[0], requests[1], requests[0]};
        asked[1].prompt.assign(1000, 7);
        auto const tokenizer = letters();
        auto const text = *tokenizer.decode(alone->generations[1].tokens);
        asked[3].stop_strings = {text.substr(text.size() - 1)};
        std::size_t turn = 0;
        std::size_t answers = 0;
        std::int64_t heard = 0;
        // Those that are refused have no number.
        std::int64_t number = 0;
        int wrong = 0;
        RunOptions options{.tp = degrees.tp,
                           .pp = degrees.pp,
                           .ep = degrees.ep,
                           .threads = 2,
                           .is_deterministic = true,
                           .context = 24};
        options.tokenizer = &tokenizer;
        options.on_token = [&](std::int64_t request, std::int32_t) {
            wrong += request == number ? 0 : 1;
            return turn != 3 || ++heard < 2;
        };
        options.on_text = [&](std::int64_t request, std::string_view) { wrong += request == number ? 0 : 1; };
        options.on_logits = [&](std::int64_t request, std::span<float const>) { wrong += request == number ? 0 : 1; };
        auto const next = [&]() -> std::optional<GenerationRequest> {
            return turn < asked.size() ? std::optional(asked[turn++]) : std::nullopt;
        };
        auto const on_generation = [&](Result<Generation> const& generation) {
            ++answers;
            CHECK(generation.has_value() == (turn != 2));
            if (!generation) return;
            CHECK(generation->request == number++);
            auto expected = alone->generations[turn == 4 ? 1 : 0].tokens;
            if (turn == 3) expected.resize(2);
            if (turn == 4) {
                expected.resize(text.find(text.back()) + 1);
                CHECK(generation->reason == FinishReason::stop_string);
                CHECK(generation->text == text.substr(0, text.find(text.back())));
            }
            CHECK(generation->tokens == expected);
            CHECK((generation->reason == FinishReason::cancelled) == (turn == 3));
        };
        auto const served = serve_on_threads(model.source, model.checkpoint->model, options, next, on_generation);
        CHECK_MESSAGE(served, (served ? "" : served.error().message()));
        CHECK(answers == asked.size());
        CHECK(wrong == 0);
    }
}

TEST_CASE("serve_on_threads: stages whose layers see unequally far know the same of the last conversation") {
    FormulaModel const model(
        R"({"model_type":"qwen2","architectures":["Qwen2ForCausalLM"],"vocab_size":61,"hidden_size":24,)"
        R"("intermediate_size":20,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,)"
        R"("use_sliding_window":true,"sliding_window":4,"max_window_layers":1,"max_position_embeddings":512})");
    // The second begins as the first, which the layer with a window has written over by then.
    std::vector<GenerationRequest> asked(2);
    for (std::int32_t i = 0; i < 200; ++i) asked[0].prompt.push_back(i % 50);
    for (std::int32_t i = 0; i < 20; ++i) asked[1].prompt.push_back(i % 10);
    for (auto& request : asked) request.max_new_tokens = 4;
    auto const alone = run_on_threads(model.source, model.checkpoint->model, asked, {.is_deterministic = true});
    REQUIRE(alone);
    RunOptions const options{.pp = 2, .threads = 2, .is_deterministic = true, .context = 256, .step_tokens = 16};
    std::size_t turn = 0;
    std::size_t answers = 0;
    auto const next = [&]() -> std::optional<GenerationRequest> {
        return turn < asked.size() ? std::optional(asked[turn++]) : std::nullopt;
    };
    auto const on_generation = [&](Result<Generation> const& generation) {
        REQUIRE(generation);
        CHECK(generation->tokens == alone->generations[answers++].tokens);
    };
    auto const served = serve_on_threads(model.source, model.checkpoint->model, options, next, on_generation);
    CHECK_MESSAGE(served, (served ? "" : served.error().message()));
    CHECK(answers == 2);
}

TEST_CASE("serve_on_threads: a callback that throws ends all ranks") {
    FormulaLlama const model;
    auto const next = []() -> std::optional<GenerationRequest> { throw std::runtime_error("no more paper"); };
    auto const served = serve_on_threads(model.source, model.checkpoint->model,
                                         {.tp = 3, .threads = 1, .context = 24, .timeout = std::chrono::seconds(50)},
                                         next, [](Result<Generation> const&) {});
    REQUIRE(!served);
    CHECK(served.error().message().find("no more paper") != std::string::npos);
}

}  // namespace
