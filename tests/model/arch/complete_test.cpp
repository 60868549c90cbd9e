// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/architectures.hpp>
#include <shardwise/model/presets.hpp>
#include <shardwise/model/tree_totals.hpp>

#include <doctest/doctest.h>

#include "family.hpp"
#include "golden_cases.hpp"

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

using namespace shardwise;

namespace {

/// The layers whose attention sees only a window.
std::vector<std::int64_t> local_layers(Model const& model) {
    std::vector<std::int64_t> layers;
    for (std::int64_t i = 0; i < model.config.layers; ++i) {
        if (model.config.local_layers.contains(i)) layers.push_back(i);
    }
    return layers;
}

/// The window of each layer as the program's attention has it.
std::vector<std::int64_t> windows(Model const& model) {
    std::vector<std::int64_t> found;
    for (auto const& block : model.program.blocks()) {
        if (block.role != ModuleRole::layer) continue;
        for (auto const& op : model.program.body(block).operations()) {
            if (op.kind != OpKind::attention) continue;
            for (std::int32_t i = 0; i < block.count; ++i) found.push_back(op.attention().window);
        }
    }
    return found;
}

Model describe_or_fail(ModelConfig const& config) {
    auto model = describe(config);
    REQUIRE_MESSAGE(model.has_value(), model.error().message());
    return std::move(*model);
}

/// One preset of each decoder family that this file tests.
std::vector<ModelConfig> one_of_each_family() {
    return {presets::llama_3_8b,        presets::mistral_7b,    presets::qwen2_5_7b,   presets::qwen3_8b,
            presets::qwen1_5_moe_a2_7b, presets::qwen3_30b_a3b, presets::mixtral_8x7b, presets::gemma_2b,
            presets::gemma_2_9b,        presets::gemma_3_1b,    presets::phi_4,        presets::gpt_oss_20b};
}

ErrorCode refusal(ModelConfig const& config) {
    auto const model = describe(config);
    REQUIRE(!model.has_value());
    return model.error().code();
}

}  // namespace

TEST_CASE("Every layer sees the window that transformers gives it") {
    std::ifstream file(golden::folder + "windows.tsv");
    std::string line;
    int cases = 0;
    while (std::getline(file, line)) {
        std::istringstream columns(line);
        std::string name;
        columns >> name;
        std::vector<std::int64_t> wanted;
        std::string run;
        while (columns >> run) {
            auto const cross = run.find('x');
            wanted.insert(wanted.end(), std::stoul(run.substr(0, cross)), std::stoll(run.substr(cross + 1)));
        }
        CAPTURE(name);
        auto const model = golden::describe_case(golden::read_golden(name));
        REQUIRE_MESSAGE(model.has_value(), model.error().message());
        CHECK(windows(*model) == wanted);
        ++cases;
    }
    CHECK(cases >= 67);
}

TEST_CASE("Every layer of mistral and phi3 slides, none without a window") {
    auto const mistral = describe_or_fail(presets::mistral_7b);
    CHECK(windows(mistral) == std::vector<std::int64_t>(32, 4096));
    CHECK(windows(describe_or_fail(presets::mistral_7b_v0_3)) == std::vector<std::int64_t>(32, 0));
    CHECK(windows(describe_or_fail(presets::phi_3_mini)) == std::vector<std::int64_t>(32, 2047));
    CHECK(local_layers(describe_or_fail(presets::llama_3_8b)).empty());
}

TEST_CASE("Qwen slides from max_window_layers on, and only where use_sliding_window is set") {
    auto config = presets::qwen2_5_7b;
    config.sliding_window = 4096;
    config.own.set("max_window_layers", 25);
    CHECK(local_layers(describe_or_fail(config)).empty());
    config.use_sliding_window = true;
    CHECK(local_layers(describe_or_fail(config)) == std::vector<std::int64_t>{25, 26, 27});
    auto moe = presets::qwen3_30b_a3b;
    moe.use_sliding_window = true;
    moe.sliding_window = 512;
    CHECK(local_layers(describe_or_fail(moe)).size() == 48);
}

TEST_CASE("gemma2 and gpt_oss alternate, gemma3 has one full layer in six") {
    auto const gemma2 = describe_or_fail(presets::gemma_2_9b);
    for (std::int64_t i = 0; i < 42; ++i) CHECK(gemma2.config.local_layers.contains(i) == (i % 2 == 0));
    auto const oss = describe_or_fail(presets::gpt_oss_20b);
    CHECK(windows(oss)[0] == 128);
    CHECK(windows(oss)[1] == 0);
    auto const gemma3 = describe_or_fail(presets::gemma_3_1b);
    auto const found = windows(gemma3);
    REQUIRE(found.size() == 26);
    // The published config's layer_types name layers 5, 11, 17 and 23 full (tests/golden/configs/gemma-3-1b-v5.json).
    for (std::size_t i = 0; i < 26; ++i) CHECK(found[i] == (i % 6 == 5 ? 0 : 512));
}

TEST_CASE("layer_types beat the family's own rule, and must name every layer") {
    auto config = presets::gemma_3_1b;
    config.layer_types_count = 26;
    config.local_layers.insert(3);
    CHECK(local_layers(describe_or_fail(config)) == std::vector<std::int64_t>{3});
    config.layer_types_count = 25;
    auto const model = describe(config);
    REQUIRE(!model);
    CHECK(model.error().place() == "layer_types");
}

TEST_CASE("A bidirectional gemma3 sees half a window to each side") {
    auto config = presets::gemma_3_1b;
    config.own.set("use_bidirectional_attention", 1);
    auto const model = describe_or_fail(config);
    // transformers 4.57 configuration_gemma3.py: sliding_window // 2 + 1
    CHECK(windows(model)[0] == 257);
    auto const is_causal = [](Model const& one) {
        auto const* const attention = family::find_operation(one, OpKind::attention);
        REQUIRE(attention != nullptr);
        return attention->attention().is_causal;
    };
    CHECK_FALSE(is_causal(model));
    CHECK(is_causal(describe_or_fail(presets::gemma_3_1b)));
    CHECK(describe_or_fail(model.config).config.sliding_window == 512);
}

TEST_CASE("Completing a completed config changes nothing") {
    for (auto const& config : one_of_each_family()) {
        CAPTURE(config.name.view());
        auto const once = describe_or_fail(config);
        auto const twice = describe_or_fail(once.config);
        CHECK(count_parameters(once.tree) == count_parameters(twice.tree));
        CHECK(local_layers(once) == local_layers(twice));
        CHECK(windows(once) == windows(twice));
        CHECK(once.config.dense_layers == twice.config.dense_layers);
        CHECK(once.config.kv_heads == twice.config.kv_heads);
        CHECK(once.config.model_class == twice.config.model_class);
    }
}

TEST_CASE("Impossible sizes are refused in every family") {
    struct Damage {
        char const* what;
        void (*apply)(ModelConfig&);
        ErrorCode code;
    };
    Damage const damages[] = {
        {"no layers", [](ModelConfig& c) { c.layers = 0; }, ErrorCode::invalid_field},
        {"negative layers", [](ModelConfig& c) { c.layers = -3; }, ErrorCode::invalid_field},
        {"10^12 layers", [](ModelConfig& c) { c.layers = 1'000'000'000'000; }, ErrorCode::capacity_exceeded},
        {"no heads", [](ModelConfig& c) { c.heads = 0; }, ErrorCode::invalid_field},
        {"no vocabulary", [](ModelConfig& c) { c.vocab_size = 0; }, ErrorCode::invalid_field},
        {"kv heads that do not divide", [](ModelConfig& c) { c.kv_heads = c.heads + 1; }, ErrorCode::invalid_field},
        {"hidden of 2^62",
         [](ModelConfig& c) { c.hidden_size = std::int64_t{1} << 62U, c.heads = c.kv_heads = 1, c.head_dim = 64; },
         ErrorCode::size_overflow},
        {"an overflowing product",
         [](ModelConfig& c) {
             c.hidden_size = c.intermediate_size = std::int64_t{1} << 30U, c.heads = c.kv_heads = 1, c.head_dim = 64;
         },
         ErrorCode::size_overflow},
        {"a hidden size that heads do not divide",
         [](ModelConfig& c) { c.head_dim = 0, c.hidden_size = c.heads * 64 + 1; }, ErrorCode::invalid_field},
        {"a class of another kind", [](ModelConfig& c) { c.model_class = "LlamaForQuestionAnswering"; },
         ErrorCode::unsupported},
    };
    for (auto const& healthy : one_of_each_family()) {
        for (auto const& damage : damages) {
            auto config = healthy;
            damage.apply(config);
            CAPTURE(healthy.name.view());
            CAPTURE(damage.what);
            CHECK(refusal(config) == damage.code);
        }
    }
}

TEST_CASE("Impossible experts are refused in every family that has them") {
    for (auto const& healthy :
         {presets::qwen1_5_moe_a2_7b, presets::qwen3_30b_a3b, presets::mixtral_8x7b, presets::gpt_oss_20b}) {
        CAPTURE(healthy.name.view());
        auto config = healthy;
        config.experts_per_token = config.experts + 1;
        CHECK(refusal(config) == ErrorCode::invalid_field);
        config.experts_per_token = 0;
        CHECK(refusal(config) == ErrorCode::invalid_field);
        config = healthy;
        config.experts = 1'000'000;
        CHECK(refusal(config) == ErrorCode::capacity_exceeded);
    }
    auto config = presets::qwen3_30b_a3b;
    config.decoder_sparse_step = 0;
    CHECK(refusal(config) == ErrorCode::invalid_field);
}

TEST_CASE("A class that is not counted is named, with the class that is") {
    auto config = presets::llama_3_8b;
    config.model_class = "LlamaForQuestionAnswering";
    auto const model = describe(config);
    REQUIRE(!model);
    CHECK(model.error().subject() == "LlamaForQuestionAnswering");
    CHECK(model.error().message().find("LlamaForCausalLM") != std::string::npos);
}

TEST_CASE("The bare model has no head and drops the prefix of its modules") {
    auto config = presets::llama_3_8b;
    config.model_class = "LlamaModel";
    auto const model = describe_or_fail(config);
    CHECK(find_tensor(model.tree, "layers.31.mlp.up_proj.weight") != nullptr);
    CHECK(find_tensor(model.tree, "lm_head.weight") == nullptr);
    CHECK(model.program.blocks().back().module == "norm");
}

TEST_CASE("An unknown model_type is answered with the closest one") {
    ModelConfig config;
    config.model_type = "qwen3_mo";
    auto const model = describe(config);
    REQUIRE(!model);
    CHECK(model.error().code() == ErrorCode::unknown_name);
    CHECK(model.error().message().find("qwen3_moe") != std::string::npos);
}

TEST_CASE("Qwen's sparse step and dense layers make runs of both kinds") {
    auto config = presets::qwen3_30b_a3b;
    config.layers = 8;
    config.decoder_sparse_step = 2;
    config.dense_layers.insert(3);
    auto const model = describe_or_fail(config);
    std::vector<bool> has_experts;
    for (int i = 0; i < 8; ++i) {
        has_experts.push_back(find_tensor(model.tree, "model.layers." + std::to_string(i) +
                                                          ".mlp.experts.127.up_proj.weight") != nullptr);
    }
    CHECK(has_experts == std::vector<bool>{false, true, false, false, false, true, false, true});
    config.experts = 0;
    auto const dense = describe_or_fail(config);
    CHECK(find_tensor(dense.tree, "model.layers.1.mlp.up_proj.weight")->shape == Shape{6144, 2048});
}

TEST_CASE("Experts are marked for expert parallelism") {
    auto const mixtral = describe_or_fail(presets::mixtral_8x7b);
    int runs = 0;
    for (auto const& child : mixtral.tree.children()) {
        if (child.role != ModuleRole::expert) continue;
        ++runs;
        CHECK(child.count == 8);
    }
    CHECK(runs == 1);
    auto const oss = describe_or_fail(presets::gpt_oss_20b);
    auto const* const gate_up = find_tensor(oss.tree, "model.layers.0.mlp.experts.gate_up_proj");
    REQUIRE(gate_up != nullptr);
    CHECK(gate_up->shard == ShardRule::units(2, 2880).stacked(32));
    CHECK(find_tensor(oss.tree, "model.layers.0.mlp.router.weight")->shard == ShardRule{});
    CHECK(find_tensor(oss.tree, "model.layers.0.mlp.router.weight")->use == TensorUse::router);
}

TEST_CASE("Gemma scales embeddings by the square root of the hidden size, others do not") {
    CHECK(describe_or_fail(presets::gemma_2b).config.embedding_scale == doctest::Approx(45.254833995939045));
    CHECK(describe_or_fail(presets::gemma_2_9b).config.embedding_scale == doctest::Approx(59.866518188383062));
    CHECK(describe_or_fail(presets::llama_3_8b).config.embedding_scale == 1.0);
}

TEST_CASE("Packed projections say how they are sharded") {
    auto const phi = describe_or_fail(presets::phi_4);
    CHECK(find_tensor(phi.tree, "model.layers.0.self_attn.qkv_proj.weight")->shard == ShardRule::qkv(0, 40, 10));
    CHECK(find_tensor(phi.tree, "model.layers.0.mlp.gate_up_proj.weight")->shard == ShardRule::packed(0, 2, 17920));
}
