// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/files/checkpoint.hpp>
#include <shardwise/session/run_on_threads.hpp>

#include <doctest/doctest.h>

#include "formula_llama.hpp"
#include "letters.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace shardwise;
using namespace shardwise::testing;

TEST_CASE("run_on_threads: any number of ranks makes the same tokens, and every rank's memory is counted") {
    FormulaLlama const model;
    auto const alone =
        run_on_threads(model.source, model.checkpoint->model, two_requests(), {.is_deterministic = true});
    REQUIRE_MESSAGE(alone, (alone ? "" : alone.error().message()));
    CHECK(alone->generations[0].tokens.size() == 8);
    CHECK(alone->generations[1].tokens.size() == 6);
    CHECK(alone->prompt_tokens == 7);
    CHECK(alone->decode_tokens == 12);
    for (std::int32_t const tp : {2, 4}) {
        auto const ran = run_on_threads(model.source, model.checkpoint->model, two_requests(),
                                        {.tp = tp, .threads = 2, .is_deterministic = true, .sequences = 2});
        REQUIRE_MESSAGE(ran, (ran ? "" : ran.error().message()));
        for (std::size_t i = 0; i < 2; ++i) CHECK(ran->generations[i].tokens == alone->generations[i].tokens);
        REQUIRE(ran->ranks.size() == static_cast<std::size_t>(tp));
        for (auto const& rank : ran->ranks) {
            CHECK(rank.weights < alone->ranks[0].weights);
            CHECK_FALSE(rank.peak < rank.weights + rank.cache + rank.activations);
            CHECK_FALSE(rank.predicted < rank.peak);
            CHECK(rank.predicted.count() <= rank.peak.count() + rank.peak.count() / 50);
        }
    }
}

TEST_CASE("run_on_threads: stages of a pipeline, alone and times tensor-parallel ranks, have the bits of one rank") {
    FormulaLlama const model;
    auto const run = [&](RunOptions options) {
        std::vector<float> logits;
        options.threads = 2;
        options.is_deterministic = true;
        // Chunks of two: a prompt takes several steps.
        options.step_tokens = 2;
        options.on_logits = [&](std::int64_t, std::span<float const> row) {
            logits.insert(logits.end(), row.begin(), row.end());
        };
        auto ran = run_on_threads(model.source, model.checkpoint->model, two_requests(), options);
        REQUIRE_MESSAGE(ran, (ran ? "" : ran.error().message()));
        return std::pair(std::move(*ran), std::move(logits));
    };
    auto const alone = run({});
    for (auto const& degrees : {std::pair{1, 2}, std::pair{2, 2}, std::pair{3, 2}}) {
        auto const tp = degrees.first;
        auto const pp = degrees.second;
        CAPTURE(tp);
        auto const staged = run({.tp = tp, .pp = pp});
        for (std::size_t i = 0; i < 2; ++i)
            CHECK(staged.first.generations[i].tokens == alone.first.generations[i].tokens);
        CHECK(staged.second == alone.second);
        REQUIRE(staged.first.ranks.size() == static_cast<std::size_t>(tp * pp));
        Bytes cache{0};
        for (auto const& rank : staged.first.ranks) {
            CHECK(rank.weights < alone.first.ranks[0].weights);
            cache = cache + rank.cache;
        }
        if (tp == 2) CHECK(cache == alone.first.ranks[0].cache);
    }
    // The callback's word reaches every stage.
    std::int64_t heard = 0;
    RunOptions options{.pp = 2, .threads = 2, .is_deterministic = true};
    options.on_token = [&](std::int64_t request, std::int32_t) { return request != 0 || ++heard < 3; };
    auto const ended = run_on_threads(model.source, model.checkpoint->model, two_requests(), options);
    REQUIRE(ended);
    CHECK(ended->generations[0].tokens.size() == 3);
    CHECK(ended->generations[1].tokens == alone.first.generations[1].tokens);
}

TEST_CASE("run_on_threads: experts sharded over groups, times ranks and stages, have the tokens and logits of one rank") {
    FormulaModel const model(
        R"({"model_type":"mixtral","vocab_size":50,"hidden_size":24,"intermediate_size":20,"num_hidden_layers":2,)"
        R"("num_attention_heads":4,"num_key_value_heads":2,"num_local_experts":5,"num_experts_per_tok":2,)"
        R"("max_position_embeddings":64})");
    auto requests = two_requests();
    requests.push_back({.prompt = {1, 2, 3, 4, 5, 6}, .max_new_tokens = 3});
    std::vector<std::int32_t> seen(3);
    auto const run = [&](RunOptions options) {
        std::vector<std::vector<float>> logits(3);
        seen.assign(3, 0);
        options.threads = 2;
        options.is_deterministic = true;
        options.step_tokens = 2;
        options.on_logits = [&](std::int64_t request, std::span<float const> row) {
            auto& to = logits[static_cast<std::size_t>(request)];
            to.insert(to.end(), row.begin(), row.end());
        };
        options.on_token = [&](std::int64_t request, std::int32_t) {
            return ++seen[static_cast<std::size_t>(request)] < (request == 1 ? 4 : 100);
        };
        auto ran = run_on_threads(model.source, model.checkpoint->model, requests, options);
        REQUIRE_MESSAGE(ran, (ran ? "" : ran.error().message()));
        return std::pair(std::move(*ran), std::move(logits));
    };
    auto const alone = run({});
    CHECK(alone.first.generations[1].reason == FinishReason::cancelled);
    struct Degrees {
        std::int32_t tp, pp, ep;
    };
    for (auto const degrees : {Degrees{1, 1, 2}, Degrees{1, 1, 4}, Degrees{2, 1, 2}, Degrees{1, 2, 2}}) {
        CAPTURE(degrees.tp);
        CAPTURE(degrees.ep);
        auto const dealt = run({.tp = degrees.tp, .pp = degrees.pp, .ep = degrees.ep});
        for (std::size_t i = 0; i < 3; ++i) {
            CHECK(dealt.first.generations[i].tokens == alone.first.generations[i].tokens);
            CHECK(dealt.first.generations[i].reason == alone.first.generations[i].reason);
        }
        CHECK(seen == std::vector<std::int32_t>{8, 4, 3});
        // Rank 0's group has the first request and, of two groups, the third.
        CHECK(dealt.second[0] == alone.second[0]);
        CHECK(dealt.second[1].empty());
        CHECK(dealt.second[2] == (degrees.ep == 2 ? alone.second[2] : std::vector<float>()));
        Bytes staging{0};
        if (degrees.tp * degrees.pp == 1) {
            auto const split = run_threads(degrees.ep, [&](Threads& comm) -> Result<> {
                HostCommunicator world(std::move(comm));
                auto const team = world.split(world.rank());
                if (!team) return team.error();
                auto const peers = world.split(0);
                if (!peers) return peers.error();
                if (world.rank() == 0) staging = world.staging_bytes() + team->staging_bytes() + peers->staging_bytes();
                return {};
            });
            REQUIRE(split);
        }
        for (auto const& rank : dealt.first.ranks) {
            CHECK_FALSE(rank.peak < rank.weights + rank.cache + rank.activations + staging);
            CHECK(rank.weights < alone.first.ranks[0].weights);
            CHECK(rank.peak <= rank.predicted);
        }
    }
    auto const refused = run_on_threads(model.source, model.checkpoint->model, requests, {.ep = 6});
    REQUIRE_FALSE(refused);
    CHECK(refused.error().message().find("more ranks than the model has experts") != std::string::npos);
}

TEST_CASE("run_on_threads: stop strings end each request by itself, with its text, on any kind of ranks") {
    FormulaModel const model(
        R"({"model_type":"mixtral","vocab_size":61,"hidden_size":24,"intermediate_size":20,"num_hidden_layers":2,)"
        R"("num_attention_heads":4,"num_key_value_heads":2,"num_local_experts":3,"num_experts_per_tok":2,)"
        R"("max_position_embeddings":64})");
    auto const tokenizer = letters();
    auto requests = two_requests();
    for (auto& request : requests) request.sampling = {.temperature = 1.0F, .seed = 7};
    requests.push_back(requests[0]);
    auto const run = [&](RunOptions options) {
        options.is_deterministic = true;
        options.threads = 2;
        options.tokenizer = &tokenizer;
        std::vector<std::string> shown(3);
        options.on_text = [&](std::int64_t request, std::string_view text) {
            shown[static_cast<std::size_t>(request)] += text;
        };
        auto ran = run_on_threads(model.source, model.checkpoint->model, requests, options);
        REQUIRE_MESSAGE(ran, (ran ? "" : ran.error().message()));
        for (std::size_t i = 0; i < 3; ++i) CHECK(ran->generations[i].text == shown[i]);
        return std::move(ran->generations);
    };
    auto const whole = run({});
    for (auto const& generation : whole) CHECK(generation.text.size() == generation.tokens.size());
    // One ends in its middle, one with its very last token, one not at all.
    requests[0].stop_strings = {"never", whole[0].text.substr(3, 2)};
    requests[1].stop_strings = {whole[1].text.substr(4)};
    requests[2].stop_strings = {"never"};
    struct Degrees {
        std::int32_t tp, pp, ep;
    };
    for (auto const degrees : {Degrees{1, 1, 1}, Degrees{2, 1, 1}, Degrees{1, 2, 1}, Degrees{1, 1, 2}}) {
        CAPTURE(degrees.tp);
        CAPTURE(degrees.ep);
        auto const ended = run({.tp = degrees.tp, .pp = degrees.pp, .ep = degrees.ep, .sequences = 2});
        CHECK(ended[0].text == whole[0].text.substr(0, whole[0].text.find(requests[0].stop_strings[1])));
        CHECK(ended[0].tokens.size() == ended[0].text.size() + 2);
        CHECK(ended[1].text == whole[1].text.substr(0, 4));
        CHECK(ended[1].tokens == whole[1].tokens);
        for (auto const i : {0, 1}) CHECK(ended[static_cast<std::size_t>(i)].reason == FinishReason::stop_string);
        CHECK(ended[2].text == whole[2].text);
        CHECK(ended[2].reason == FinishReason::length);
    }
    auto const refused = run_on_threads(model.source, model.checkpoint->model, requests, {.threads = 2});
    REQUIRE_FALSE(refused);
    CHECK(refused.error().message().find("stop_strings: need a tokenizer") != std::string::npos);
}

TEST_CASE("run_on_threads: stages of a pipeline measure the blocks that they have, each once") {
    FormulaLlama const model;
    auto const measured = [&](RunOptions options) {
        BlockTimes times(model.checkpoint->model.program);
        options.times = &times;
        auto const ran = run_on_threads(model.source, model.checkpoint->model, two_requests(), options);
        REQUIRE_MESSAGE(ran, (ran ? "" : ran.error().message()));
        return times.seconds();
    };
    auto const alone = measured({.threads = 1});
    auto const staged = measured({.pp = 2, .threads = 1});
    REQUIRE(staged.size() == alone.size());
    for (auto const seconds : staged) CHECK(seconds > 0.0);
    // A stage's waiting for the other one is nobody's time.
    std::int64_t heard = 0;
    RunOptions slow{.pp = 2, .threads = 1};
    slow.on_token = [&](std::int64_t, std::int32_t) {
        if (++heard == 2) std::this_thread::sleep_for(std::chrono::milliseconds(300));
        return true;
    };
    for (auto const seconds : measured(slow)) CHECK(seconds < 0.25);
}

TEST_CASE("run_on_threads: stages that do not cover the layers, or are more than there are, are refused") {
    FormulaLlama const model;
    auto const refusal = [&](RunOptions const& options) {
        auto const ran = run_on_threads(model.source, model.checkpoint->model, two_requests(), options);
        return ran ? std::string() : ran.error().message();
    };
    CHECK(refusal({.pp = 3}).find("legal are 1 to the number of layers") != std::string::npos);
    CHECK(refusal({.pp = 0}).find("less than one stage") != std::string::npos);
    CHECK(refusal({.pp = 2, .stage_begins = {0, 1}}).find("one run of consecutive layers") != std::string::npos);
    CHECK(refusal({.pp = 2, .stage_begins = {0, 1, 3}}).find("one run of consecutive layers") != std::string::npos);
    CHECK(refusal({.pp = 3, .stage_begins = {0, 1, 1, 2}}).find("one run of consecutive") != std::string::npos);
    CHECK(refusal({.pp = 2, .stage_begins = {0, 1, 2}}).empty());
    // What stands before or after the layers may be a stage.
    CHECK(refusal({.pp = 2, .stage_begins = {0, 0, 2}}).empty());
    CHECK(refusal({.pp = 2, .stage_begins = {0, 2, 2}}).empty());
}

TEST_CASE(
    "run_on_threads: layers that are fetched, experts and latents too, give the resident ones' bits and take less") {
    for (
        std::string const config :
        {R"({"model_type":"mixtral","vocab_size":61,"hidden_size":24,"intermediate_size":20,"num_hidden_layers":4,)"
         R"("num_attention_heads":4,"num_key_value_heads":2,"num_local_experts":8,"num_experts_per_tok":2,)"
         R"("max_position_embeddings":64})",
         R"({"model_type":"deepseek_v2","vocab_size":61,"hidden_size":48,"intermediate_size":52,"num_hidden_layers":4,)"
         R"("num_attention_heads":4,"num_key_value_heads":4,"q_lora_rank":null,"kv_lora_rank":32,)"
         R"("qk_nope_head_dim":16,"qk_rope_head_dim":8,"v_head_dim":16,"first_k_dense_replace":2,)"
         R"("n_routed_experts":4,"num_experts_per_tok":2,"moe_intermediate_size":16,"max_position_embeddings":64})"}) {
        CAPTURE(config);
        FormulaModel const model(config);
        auto const run = [&](std::vector<LayerHome> homes, std::int32_t tp) {
            auto ran =
                run_on_threads(model.source, model.checkpoint->model, two_requests(),
                               {.tp = tp, .layer_homes = std::move(homes), .threads = 2, .is_deterministic = true});
            REQUIRE_MESSAGE(ran, (ran ? "" : ran.error().message()));
            for (auto const& rank : ran->ranks) {
                CHECK(rank.peak == rank.predicted);
            }
            return std::move(*ran);
        };
        for (std::int32_t const tp : {1, 2}) {
            CAPTURE(tp);
            auto const resident = run({}, tp);
            auto const fetched = run(std::vector(4, LayerHome::disk), tp);
            auto const mixed = run({LayerHome::cpu, LayerHome::resident, LayerHome::disk, LayerHome::cpu}, tp);
            for (std::size_t i = 0; i < 2; ++i) {
                CHECK(fetched.generations[i].tokens == resident.generations[i].tokens);
                CHECK(mixed.generations[i].tokens == resident.generations[i].tokens);
            }
            // Four layers, of which two are there at a time.
            CHECK(fetched.ranks[0].weights.count() < resident.ranks[0].weights.count() * 2 / 3);
        }
    }
}

TEST_CASE("run_on_threads: a callback ends its own request, on all ranks at the same token") {
    FormulaLlama const model;
    auto const whole =
        run_on_threads(model.source, model.checkpoint->model, two_requests(), {.is_deterministic = true});
    REQUIRE(whole);
    for (std::int32_t const tp : {1, 2, 3}) {
        for (std::int64_t const sequences : {1, 2}) {
            CAPTURE(tp);
            CAPTURE(sequences);
            std::int64_t heard = 0;
            RunOptions options{.tp = tp, .threads = 2, .is_deterministic = true, .sequences = sequences};
            options.on_token = [&](std::int64_t request, std::int32_t) { return request != 0 || ++heard < 3; };
            auto const ran = run_on_threads(model.source, model.checkpoint->model, two_requests(), options);
            REQUIRE_MESSAGE(ran, (ran ? "" : ran.error().message()));
            auto const& tokens = whole->generations[0].tokens;
            CHECK(heard == 3);
            CHECK(ran->generations[0].tokens == std::vector<std::int32_t>(tokens.begin(), tokens.begin() + 3));
            CHECK(ran->generations[0].reason == FinishReason::cancelled);
            CHECK(ran->generations[1].tokens == whole->generations[1].tokens);
            CHECK(ran->generations[1].reason == FinishReason::length);
        }
    }
}

TEST_CASE("run_on_threads: the logits of each step are those that its token is chosen from") {
    FormulaLlama const model;
    auto requests = two_requests();
    requests.resize(1);
    std::vector<std::int32_t> best;
    RunOptions options{.tp = 2, .threads = 2};
    options.on_logits = [&](std::int64_t, std::span<float const> logits) {
        best.push_back(static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
    };
    auto const ran = run_on_threads(model.source, model.checkpoint->model, requests, options);
    REQUIRE_MESSAGE(ran, (ran ? "" : ran.error().message()));
    CHECK(best == ran->generations[0].tokens);
}

TEST_CASE("run_on_threads: more ranks than heads, and prompts that do not fit, are refused") {
    FormulaLlama const model;
    auto const many = run_on_threads(model.source, model.checkpoint->model, two_requests(), {.tp = 5, .threads = 2});
    REQUIRE_FALSE(many);
    CHECK(many.error().message().find("query heads") != std::string::npos);
    CHECK_FALSE(run_on_threads(model.source, model.checkpoint->model, two_requests(), {.tp = 0}));
    auto const small = run_on_threads(model.source, model.checkpoint->model, two_requests(), {.context = 3});
    REQUIRE_FALSE(small);
    CHECK(small.error().message().find("longer than the context") != std::string::npos);
    auto const long_context = run_on_threads(model.source, model.checkpoint->model, two_requests(), {.context = 65});
    REQUIRE_FALSE(long_context);
    CHECK(long_context.error().message().find("model's positions") != std::string::npos);
    constexpr auto most = std::numeric_limits<std::int64_t>::max();
    CHECK_FALSE(
        run_on_threads(model.source, model.checkpoint->model, two_requests(), {.sequences = 2, .context = most}));
    auto endless = two_requests();
    endless[0].max_new_tokens = most;
    auto const ended = run_on_threads(model.source, model.checkpoint->model, endless, {.threads = 1});
    REQUIRE(ended);
    CHECK(ended->generations[0].reason == FinishReason::length);
}

}  // namespace
