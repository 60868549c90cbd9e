// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/session/run_on_devices.hpp>
#include <shardwise/session/run_on_threads.hpp>

#include "../executor/formula_model.hpp"
#include "backends.hpp"
#include "pair_sample.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

// Whole models: written to disk, loaded on ranks, run by the session.

namespace shardwise::testing {

/// A session's requests, and how near logits are to be to the host's.
struct ModelCase {
    char const* config;
    std::int32_t tp = 1;
    std::int64_t sequences = 3;
    std::int64_t step_tokens = 8;
    std::int64_t new_tokens = 3;
    LoadOptions load{};
    Dtype kv_dtype = Dtype::f32;
    bool is_deterministic = false;
    double tolerance = 1e-4;
    bool has_graphs = true;
    std::int32_t pp = 1;
    DeviceComm comm = DeviceComm::automatic;
    std::vector<std::int32_t> devices{};
    std::chrono::nanoseconds timeout = std::chrono::minutes(5);
    /// What the fake vendor's devices have.
    std::int64_t free_bytes = std::int64_t{1} << 30U;
    std::vector<LayerHome> homes{};
    std::int32_t ep = 1;
    /// What lies between the back end's kernels; the host's is f32.
    /// None: what a run takes where nothing is asked for.
    Optional<Dtype> activations = Dtype::f32;
    BlockTimes* times = nullptr;
};

/// Three requests of unlike lengths: a prompt in several chunks among them.
[[nodiscard]] inline std::vector<GenerationRequest> model_requests(ModelCase const& of) {
    std::vector<GenerationRequest> all(3);
    all[0].prompt = {5, 9, 2};
    all[1].prompt = {7, 7, 1, 7, 7, 3, 7, 7, 40, 7, 11, 7, 7, 2, 7, 8, 7, 7};
    all[2].prompt = {30};
    for (auto& one : all) one.max_new_tokens = of.new_tokens;
    return all;
}

/// What the fake vendor's devices have while this is there; of real ones nothing.
class FakeRoom {
public:
#if !defined(SHARDWISE_HAS_CUDA) && !defined(SHARDWISE_HAS_HIP)
    /// One block of each rank's sums: every block is a thread here.
    explicit FakeRoom(std::int32_t multiprocessors = 2, std::int64_t free_bytes = std::int64_t{1} << 30U)
        : multiprocessors_(std::exchange(FakeMachine::get().multiprocessors, multiprocessors)) {
        FakeMachine::get().free_bytes = free_bytes;
    }
    ~FakeRoom() {
        FakeMachine::get().free_bytes = 1234;
        FakeMachine::get().multiprocessors = multiprocessors_;
    }
    FakeRoom(FakeRoom const&) = delete;
    FakeRoom& operator=(FakeRoom const&) = delete;
    /// Each rank has asked its device for memory once.
    void check_allocations(std::int32_t ranks) const {
        CHECK(FakeMachine::get().calls("allocate") - allocations_ == ranks);
    }

private:
    std::int32_t multiprocessors_;
    int allocations_ = FakeMachine::get().calls("allocate");
#else
    explicit FakeRoom(std::int32_t = 2, std::int64_t = 0) {}
    void check_allocations(std::int32_t) const {}
#endif
};

using ModelLogits = std::map<std::int64_t, std::vector<std::vector<float>>>;

/// The largest difference of the logits of the first requests, or of the first of each `groups`, which have as many steps and as wide ones.
inline double worst_difference(ModelLogits& ours, ModelLogits& theirs, std::size_t requests, std::int64_t groups = 1) {
    double worst = 0.0;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(requests); i += groups) {
        auto const& rows = ours[i];
        auto const& wanted = theirs[i];
        REQUIRE(rows.size() == wanted.size());
        for (std::size_t step = 0; step < rows.size(); ++step) {
            REQUIRE(rows[step].size() == wanted[step].size());
            for (std::size_t k = 0; k < rows[step].size(); ++k)
                worst = std::max(worst, static_cast<double>(std::abs(rows[step][k] - wanted[step][k])));
        }
    }
    return worst;
}

/// Runs a case on a back end; `logits` null: nobody looks at them.
template <class B>
[[nodiscard]] Result<RunReport> run_model(FormulaModel const& model, ModelCase const& of,
                                          std::vector<GenerationRequest> const& requests, ModelLogits* logits) {
    RunOptions options;
    options.tp = of.tp;
    options.pp = of.pp;
    options.ep = of.ep;
    options.threads = 1;
    options.sequences = of.sequences;
    options.step_tokens = of.step_tokens;
    options.kv_dtype = of.kv_dtype;
    options.load = of.load;
    options.is_deterministic = of.is_deterministic;
    options.limit = std::chrono::minutes(4);
    options.has_graphs = of.has_graphs;
    options.comm = of.comm;
    options.devices.numbers = of.devices;
    options.timeout = of.timeout;
    options.layer_homes = of.homes;
    options.activations = of.activations;
    options.times = of.times;
    if (logits != nullptr) {
        options.on_logits = [logits](std::int64_t request, std::span<float const> row) {
            (*logits)[request].emplace_back(row.begin(), row.end());
        };
    }
    OpenCheckpoint files(model.source);
    if constexpr (std::is_same_v<B, Host>) {
        return run_on_threads(files, model.checkpoint->model, requests, options);
    } else {
        FakeRoom const room(of.tp * of.ep, of.free_bytes);
        auto ran = run_on_devices<B>(files, model.checkpoint->model, requests, options);
        // Peers have memory of their own, which other devices see.
        bool const has_peers = of.tp > 1 && of.comm != DeviceComm::staged;
        if (ran && !has_peers && of.devices.empty()) room.check_allocations(of.tp * of.pp * of.ep);
        return ran;
    }
}

/// Two requests of a conversation, of which the second begins with all that was said: the answers of serve(next, on_generation).
template <class Serve>
[[nodiscard]] std::vector<std::vector<std::int32_t>> talk(Serve const& serve) {
    std::vector<std::vector<std::int32_t>> answers;
    std::vector<std::int32_t> all{5, 9, 2};
    auto const next = [&]() -> std::optional<GenerationRequest> {
        if (answers.size() == 2) return std::nullopt;
        GenerationRequest request;
        request.prompt = all;
        request.max_new_tokens = 3;
        return request;
    };
    auto const take = [&](Result<Generation> const& made) {
        REQUIRE(made);
        answers.push_back(made->tokens);
        all.insert(all.end(), made->tokens.begin(), made->tokens.end());
        all.push_back(11);
    };
    auto const served = serve(next, take);
    REQUIRE_MESSAGE(served, (served ? "" : served.error().message()));
    return answers;
}

/// The host's tokens, from logits as near as sums in another order are; what was held is what was predicted.
template <class B>
void check_model(ModelCase const& of) {
    FormulaModel const model(of.config);
    auto const requests = model_requests(of);
    auto alone = of;
    alone.tp = 1;
    alone.pp = 1;
    alone.ep = 1;
    alone.activations = Dtype::f32;
    ModelLogits theirs;
    auto const expected = run_model<Host>(model, alone, requests, &theirs);
    REQUIRE_MESSAGE(expected, (expected ? "" : expected.error().message()));
    ModelLogits ours;
    auto const found = run_model<B>(model, of, requests, &ours);
    REQUIRE_MESSAGE(found, (found ? "" : found.error().message()));
    // Greedy tokens that are found where the logits lie.
    auto const quiet = run_model<B>(model, of, requests, nullptr);
    REQUIRE_MESSAGE(quiet, (quiet ? "" : quiet.error().message()));
    for (auto const& rank : found->ranks) {
        CHECK(rank.peak <= rank.predicted);
        // The host's share of communicators is not there from the beginning.
        if (!HasHostMemory<B>) CHECK(rank.held == rank.predicted);
    }
    for (std::size_t i = 0; i < requests.size(); ++i) {
        CHECK(found->generations[i].tokens == expected->generations[i].tokens);
        CHECK(quiet->generations[i].tokens == expected->generations[i].tokens);
    }
    auto const worst = worst_difference(ours, theirs, requests.size(), of.ep);
    CAPTURE(worst);
    CHECK(worst <= of.tolerance);
}

/// A model of small chunks on one rank, on shards under either policy, and in two stages.
template <class B>
void check_over_ranks(char const* config) {
    for (bool const is_deterministic : {false, true}) {
        for (auto const tp : {1, 2, 3}) {
            CAPTURE(is_deterministic);
            CAPTURE(tp);
            check_model<B>({config, tp, 2, 8, 4, {}, Dtype::f32, is_deterministic});
        }
    }
    check_model<B>({config, 1, 2, 8, 4, {}, Dtype::f32, false, 1e-4, true, 2});
}

// Tiny models: grouped heads; windows, soft caps and scaled embeddings; heads in one product; norms of heads; turned weights, biases and
// tables of positions; parallel branches and a part of each head that turns.
inline constexpr auto tiny_llama =
    R"({"model_type":"llama","architectures":["LlamaForCausalLM"],"vocab_size":61,"hidden_size":32,)"
    R"("intermediate_size":48,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,)"
    R"("max_position_embeddings":64})";
inline constexpr auto tiny_gemma2 =
    R"({"model_type":"gemma2","architectures":["Gemma2ForCausalLM"],"vocab_size":70,"hidden_size":32,)"
    R"("num_hidden_layers":2,"intermediate_size":48,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":16,)"
    R"("sliding_window":6,"max_position_embeddings":64})";
inline constexpr auto tiny_gpt2 =
    R"({"model_type":"gpt2","architectures":["GPT2LMHeadModel"],"vocab_size":67,"n_embd":32,"n_layer":2,"n_head":4,)"
    R"("n_positions":64})";
inline constexpr auto tiny_mistral =
    R"({"model_type":"mistral","architectures":["MistralForCausalLM"],"vocab_size":90,"hidden_size":64,)"
    R"("num_hidden_layers":2,"intermediate_size":96,"num_attention_heads":4,"num_key_value_heads":2,)"
    R"("sliding_window":10,"max_position_embeddings":64})";
inline constexpr auto tiny_phi3 =
    R"({"model_type":"phi3","architectures":["Phi3ForCausalLM"],"vocab_size":77,"hidden_size":32,)"
    R"("num_hidden_layers":2,"intermediate_size":48,"num_attention_heads":4,"num_key_value_heads":4,"pad_token_id":0,)"
    R"("max_position_embeddings":64,"original_max_position_embeddings":64})";
inline constexpr auto tiny_qwen3 =
    R"({"model_type":"qwen3","architectures":["Qwen3ForCausalLM"],"vocab_size":61,"hidden_size":40,)"
    R"("num_hidden_layers":2,"intermediate_size":56,"num_attention_heads":5,"num_key_value_heads":1,"head_dim":24,)"
    R"("max_position_embeddings":64})";
inline constexpr auto tiny_opt =
    R"({"model_type":"opt","architectures":["OPTForCausalLM"],"vocab_size":59,"hidden_size":32,"ffn_dim":72,)"
    R"("num_hidden_layers":2,"num_attention_heads":4,"max_position_embeddings":64,"word_embed_proj_dim":32})";
inline constexpr auto tiny_gpt_neox =
    R"({"model_type":"gpt_neox","architectures":["GPTNeoXForCausalLM"],"vocab_size":66,"hidden_size":32,)"
    R"("intermediate_size":64,"num_hidden_layers":2,"num_attention_heads":4,"max_position_embeddings":64,)"
    R"("rotary_pct":0.25})";

/// A norm with a weight for each head, which ranks share by heads.
inline constexpr auto tiny_cohere =
    R"({"model_type":"cohere","architectures":["CohereForCausalLM"],"vocab_size":63,"hidden_size":36,"use_qk_norm":true,)"
    R"("intermediate_size":48,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":1,"head_dim":10,)"
    R"("max_position_embeddings":64})";

/// Latent attention, in one block without experts and one with.
inline constexpr auto tiny_deepseek =
    R"({"model_type":"deepseek_v2","architectures":["DeepseekV2ForCausalLM"],"vocab_size":97,"hidden_size":32,)"
    R"("intermediate_size":52,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":4,)"
    R"("q_lora_rank":null,"kv_lora_rank":32,"qk_nope_head_dim":16,"qk_rope_head_dim":8,"v_head_dim":16,)"
    R"("first_k_dense_replace":1,"n_routed_experts":4,"num_experts_per_tok":2,"moe_intermediate_size":16,)"
    R"("max_position_embeddings":64})";

[[nodiscard]] inline LoadOptions held_in(Dtype dtype) {
    LoadOptions load;
    load.dtype = dtype;
    return load;
}

}  // namespace shardwise::testing

TEST_CASE_TEMPLATE("Models: tiny ones generate the host's tokens on every back end", B, SHARDWISE_TEST_BACKENDS) {
    using namespace shardwise;
    if (!testing::open_bench<B>()) return;
    using testing::ModelCase;
    for (auto const& of :
         {ModelCase{testing::tiny_llama}, ModelCase{testing::tiny_deepseek}, ModelCase{testing::tiny_cohere, 2},
          ModelCase{testing::tiny_gemma2, 2, 2, 5, 4, {}, Dtype::bf16, false, 1e-3},
          ModelCase{testing::tiny_gpt2, 1, 3, 8, 3, testing::held_in(Dtype::bf16), Dtype::i8, false, 1e-3}}) {
        CAPTURE(std::string(of.config));
        testing::check_model<B>(of);
    }
}

TEST_CASE_TEMPLATE("Models: steps that are launched as graphs have the bits of those that are not", B,
                   SHARDWISE_TEST_BACKENDS) {
    using namespace shardwise;
    if (!testing::open_bench<B>()) return;
    testing::ModelCase of{testing::tiny_llama, 1, 2, 8, 6};
    testing::FormulaModel const model(of.config);
    auto const requests = testing::model_requests(of);
    testing::ModelLogits replayed;
    testing::ModelLogits called;
    auto const first = testing::run_model<B>(model, of, requests, &replayed);
    of.has_graphs = false;
    auto const second = testing::run_model<B>(model, of, requests, &called);
    REQUIRE(first);
    REQUIRE(second);
    CHECK(second->graphs.captured == 0);
    CHECK(second->graphs.replayed == 0);
    for (std::size_t i = 0; i < requests.size(); ++i)
        CHECK(first->generations[i].tokens == second->generations[i].tokens);
    CHECK(replayed == called);
    if (HasHostMemory<B> || !first->graphs.reason.empty()) {
        CHECK(first->graphs.captured == 0);
    } else {
        CHECK(first->graphs.captured >= 1);
        CHECK(first->graphs.replayed >= 2);
    }
}

TEST_CASE("Models: a graph serves all batches of its bucket, whose empty rows change no bits of the others") {
    using namespace shardwise;
    using B = testing::TestDevice;
    using testing::ModelCase;
    if (!testing::open_bench<B>()) return;
    // Deterministic experts have no table, and so no graphs.
    for (auto of : {ModelCase{testing::tiny_llama, 1, 5, 64, 9, {}, Dtype::f32, true},
                    ModelCase{testing::tiny_deepseek, 1, 5, 64, 9},
                    ModelCase{testing::tiny_gemma2, 1, 5, 64, 9, {}, Dtype::i8, true}}) {
        if (testing::takes_samples() && std::string_view(of.config) != testing::tiny_deepseek) continue;
        CAPTURE(std::string(of.config));
        testing::FormulaModel const model(of.config);
        auto requests = testing::model_requests(of);
        requests.push_back(requests[0]);
        requests.push_back(requests[2]);
        // Steps of five, four, four, and then three rows.
        requests[3].prompt.push_back(17);
        requests[3].max_new_tokens = 4;
        requests[4].max_new_tokens = 2;
        testing::ModelLogits replayed;
        testing::ModelLogits called;
        auto const first = testing::run_model<B>(model, of, requests, &replayed);
        REQUIRE_MESSAGE(first, (first ? "" : first.error().message()));
        of.has_graphs = false;
        auto const second = testing::run_model<B>(model, of, requests, &called);
        REQUIRE_MESSAGE(second, (second ? "" : second.error().message()));
        CHECK(replayed == called);
        if (!first->graphs.reason.empty()) continue;
        CHECK(first->graphs.captured == 1);
        CHECK(first->graphs.replayed == 6);
    }
}

TEST_CASE_TEMPLATE("Models: families, formats, caches and ranks" * doctest::test_suite("long"), B,
                   SHARDWISE_TEST_BACKENDS) {
    using namespace shardwise;
    if (!testing::open_bench<B>()) return;
    using testing::ModelCase;
    for (auto const* const config :
         {testing::tiny_llama, testing::tiny_gemma2, testing::tiny_gpt2, testing::tiny_mistral, testing::tiny_phi3,
          testing::tiny_qwen3, testing::tiny_opt, testing::tiny_gpt_neox, testing::tiny_deepseek}) {
        CAPTURE(std::string(config));
        testing::check_over_ranks<B>(config);
        for (auto const dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
            CAPTURE(traits(dtype).short_name);
            testing::check_model<B>({config, 1, 3, 8, 4, testing::held_in(dtype), Dtype::bf16, false, 1e-3});
            testing::check_model<B>({config, 2, 1, 5, 4, testing::held_in(dtype), Dtype::i8, false, 1e-2});
        }
    }
}

#if !defined(SHARDWISE_HAS_CUDA) && !defined(SHARDWISE_HAS_HIP)
TEST_CASE("Models: a device refuses by name what was left out of its kernels, and what does not fit what is free") {
    using namespace shardwise;
    using testing::TestDevice;
    auto const allocated = testing::FakeMachine::get().calls("allocate");
    testing::ModelCase full{testing::tiny_llama};
    auto const requests = testing::model_requests(full);
    full.free_bytes = 100'000;
    auto const large = testing::run_model<TestDevice>(testing::FormulaModel(full.config), full, requests, nullptr);
    REQUIRE_FALSE(large);
    CHECK(large.error().code() == ErrorCode::out_of_memory);
    CHECK(large.error().available() == Bytes{100'000});
    // Weights in fp32: what has neither the kernels nor the place is refused by the kernels.
    testing::FakeMachine::get().kernels = "bf16";
    auto const unlinked = testing::run_model<TestDevice>(testing::FormulaModel(full.config), full, requests, nullptr);
    testing::FakeMachine::get().kernels = "all";
    REQUIRE_FALSE(unlinked);
    CHECK(unlinked.error().code() == ErrorCode::unsupported);
    CHECK(unlinked.error().message().find("fp32: model.embed_tokens.weight is held in this format") !=
          std::string::npos);
    testing::FakeMachine::get().has_code = false;
    auto const elsewhere = testing::run_model<TestDevice>(testing::FormulaModel(full.config), full, requests, nullptr);
    testing::FakeMachine::get().has_code = true;
    REQUIRE_FALSE(elsewhere);
    CHECK(elsewhere.error().code() == ErrorCode::unsupported);
    CHECK(elsewhere.error().message().find("fake16: has no kernels in this program") != std::string::npos);
    CHECK(testing::FakeMachine::get().calls("allocate") == allocated);
}
#endif
