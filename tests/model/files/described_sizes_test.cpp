// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_fixtures.hpp"

#include <cstdint>
#include <string>
#include <string_view>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

std::string const llama =
    R"({"model_type": "llama", "vocab_size": 320, "hidden_size": 128, "intermediate_size": 352, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "torch_dtype": "bfloat16", "quantization_config": )";
std::string const qwen3_moe =
    R"({"model_type": "qwen3_moe", "vocab_size": 320, "hidden_size": 128, "intermediate_size": 384,
    "moe_intermediate_size": 256, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 32, "num_experts": 4, "num_experts_per_tok": 2, "mlp_only_layers": [0], "torch_dtype": "bfloat16",
    "quantization_config": )";

/// The checkpoint that a config.json alone describes.
Result<Checkpoint> describe_text(std::string const& config) {
    TemporaryFolder const folder;
    folder.write("config.json", config + "}");
    return shardwise::testing::read(folder.path("config.json"));
}
std::int64_t bytes(std::string const& config) {
    auto const checkpoint = describe_text(config);
    REQUIRE_MESSAGE(checkpoint, (checkpoint ? "" : checkpoint.error().message()));
    CHECK(checkpoint->has_stored_sizes);
    return stored_bytes(checkpoint->model.tree);
}
std::string compressed(std::string_view format, std::string_view groups, std::string_view ignore = R"(["lm_head"])") {
    return llama + R"({"quant_method": "compressed-tensors", "format": ")" + std::string(format) +
           R"(", "config_groups": {)" + std::string(groups) + R"(}, "ignore": )" + std::string(ignore) + "}";
}
std::string linear(std::string_view weights, std::string_view inputs = "null") {
    return R"("group_0": {"targets": ["Linear"], "weights": {)" + std::string(weights) + R"(}, "input_activations": )" +
           std::string(inputs) + "}";
}

}  // namespace

// The bytes of the state_dict that compressed-tensors 0.20 (apply_quantization_config, ModelCompressor) makes of this model.
TEST_CASE("config.json alone: the forms of compressed-tensors have their exact sizes") {
    std::string const w4 = R"("num_bits": 4, "type": "int", "strategy": "group", "group_size": 32)";
    std::string const fp8 = R"("num_bits": 8, "type": "float", "symmetric": true, )";
    std::string const dynamic = R"({"num_bits": 8, "strategy": "token", "dynamic": true})";
    CHECK(bytes(compressed("pack-quantized", linear(w4 + R"(, "symmetric": true)"))) == 372'704);
    CHECK(bytes(compressed("pack-quantized", linear(w4 + R"(, "symmetric": false)"))) == 378'464);
    CHECK(bytes(compressed("pack-quantized", linear(R"("num_bits": 8, "strategy": "channel", "group_size": null)"),
                           R"(["re:.*lm_head"])")) == 538'848);
    CHECK(bytes(compressed("float-quantized", linear(fp8 + R"("strategy": "channel")", dynamic))) == 538'624);
    CHECK(bytes(compressed("float-quantized", linear(fp8 + R"("strategy": "tensor")",
                                                     R"({"strategy": "tensor", "dynamic": false})"))) == 533'816);
    CHECK(bytes(compressed("float-quantized",
                           linear(fp8 + R"("strategy": "block", "block_structure": [64, 64])", dynamic))) == 533'952);
    CHECK(bytes(compressed("int-quantized", linear(R"("num_bits": 8, "strategy": "channel")", dynamic),
                           R"(["lm_head", "model.layers.1.mlp.down_proj"])")) == 583'424);
    CHECK(bytes(compressed("int-quantized",
                           linear(R"("num_bits": 8, "strategy": "channel", "symmetric": false)",
                                  R"({"strategy": "tensor", "dynamic": false, "symmetric": false})"))) == 541'098);
    CHECK(bytes(compressed("pack-quantized", R"("group_0": {"targets": ["re:.*mlp.*"], "weights": {)" + w4 + R"(}},
                           "group_1": {"targets": ["re:.*(q|k)_proj$"], "weights": {"num_bits": 8, "strategy": "channel"}})",
                           "[]")) == 465'568);
    CHECK(bytes(compressed("pack-quantized", linear(w4), "[]")) == 313'840);
    CHECK(bytes(compressed("nvfp4-pack-quantized",
                           linear(R"("num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16)",
                                  R"({"strategy": "tensor_group", "dynamic": "local"})"))) == 372'592);
    // Older versions and vLLM store a group's number for each column: 7 matrices a layer, 6 * 128 + 352 columns.
    CHECK(bytes(compressed("pack-quantized", linear(w4 + R"(, "actorder": "group")"))) ==
          372'704 + 2 * 4 * (6 * 128 + 352));
}

// The state_dict of transformers 4.57's replace_with_fp8_linear on the meta device.
TEST_CASE("config.json alone: fp8 keeps the modules that modules_to_not_convert names, and no others") {
    auto const fp8 = [](std::string_view kept) {
        return bytes(qwen3_moe +
                     R"({"quant_method": "fp8", "weight_block_size": [128, 128], "modules_to_not_convert": )" +
                     std::string(kept) + "}");
    };
    CHECK(fp8(R"(["lm_head"])") == 1'248'668);
    CHECK(fp8("[]") == 1'207'720);
    CHECK(fp8(R"(["model.layers.1.mlp.gate", "model.layers.2.mlp.gate", "lm_head"])") == 1'249'684);
    CHECK(fp8(R"(["mlp.gate", "lm_head"])") == 1'298'824);
    CHECK(fp8(R"(["self_attn", "lm_head"])") == 1'396'076);
    CHECK(fp8(R"(["down_proj"])") == 1'518'940);
}

TEST_CASE("config.json alone: bitsandbytes' and AWQ's lists keep modules by their own rules") {
    std::string const int8 = R"({"quant_method": "bitsandbytes", "load_in_8bit": true, "llm_int8_skip_modules": )";
    auto const size = [](std::string const& config, std::string_view name) {
        auto const checkpoint = describe_text(config);
        REQUIRE(checkpoint);
        return tensor_of(*checkpoint, name).bytes().count();
    };
    std::string const q = "model.layers.1.self_attn.q_proj.weight";
    std::string const head = "lm_head.weight";
    // 128 x 128: int8 values, an fp32 scale for each row, a byte for the format.
    CHECK(size(llama + int8 + R"(["lm_head"]})", q) == 128 * 128 + 4 * 128 + 1);
    CHECK(size(llama + int8 + R"(["lm_head"]})", head) == 320 * 128 * 2);
    CHECK(size(llama + int8 + R"(["q_proj"]})", q) == 128 * 128 * 2);
    // A list replaces the default, which keeps the head.
    CHECK(size(llama + int8 + R"(["q_proj"]})", head) == 320 * 128 + 4 * 320 + 1);
    CHECK(size(llama + int8 + R"(["model.layers.1"]})", q) == 128 * 128 * 2);
    CHECK(size(llama + int8 + R"(["layers.1"]})", q) == 128 * 128 * 2);
    CHECK(size(llama + int8 + R"(["ayers.1.self"]})", q) == 128 * 128 + 4 * 128 + 1);
    std::string const awq = R"({"quant_method": "awq", "bits": 4, "group_size": 32, "modules_to_not_convert": )";
    CHECK(size(llama + awq + R"(["ayers.1.self"]})", q) == 128 * 128 * 2);
    CHECK(size(llama + awq + R"(["x"]})", q) == 128 * 128 / 2 + 4 * 128 / 2 + 4 * 128 * 2);
    CHECK(size(llama + awq + R"(["x"]})", head) == 320 * 128 * 2);
}

TEST_CASE("config.json alone: what cannot be read of compressed-tensors is an error that names it") {
    auto const message = [](std::string const& config) {
        auto const checkpoint = describe_text(config);
        REQUIRE_FALSE(checkpoint);
        return checkpoint.error().message();
    };
    auto const contains = [](std::string const& text, std::string_view part) {
        return text.find(part) != std::string::npos;
    };
    auto const marlin = message(compressed("marlin-24", linear(R"("num_bits": 4, "group_size": 128)")));
    CHECK(contains(marlin, "quantization_config.config_groups.group_0.format"));
    CHECK(contains(marlin, "marlin-24"));
    CHECK(contains(
        message(compressed("pack-quantized", linear(R"("num_bits": 4, "group_size": 0, "strategy": "group")"))),
        "weights.group_size"));
    CHECK(contains(message(compressed("pack-quantized", linear(R"("num_bits": 99)"))), "weights.num_bits"));
    CHECK(contains(message(compressed("pack-quantized", linear(R"("strategy": "token")"))), "strategy"));
    CHECK(contains(message(compressed("pack-quantized", R"("g": {"weights": {}})")), "config_groups.g.targets"));
    CHECK(contains(message(llama + R"({"quant_method": "compressed-tensors"})"), "config_groups"));
    CHECK(contains(message(llama + R"({"quant_method": "compressed-tensors", "config_groups": {},
                                       "sparsity_config": {"format": "sparse-24-bitmask"}})"),
                   "sparsity_config.format"));
    CHECK(contains(message(compressed("dense", "", R"(["re:(?!lm_head).*"])")), "(?!lm_head).*"));
    std::string groups;
    for (int i = 0; i < 65; ++i) groups += (i > 0 ? "," : "") + ("\"g" + std::to_string(i)) + R"(": {"targets": []})";
    CHECK(contains(message(compressed("dense", groups)), "more groups than"));
}

TEST_SUITE("timing") {
    TEST_CASE("config.json alone: patterns that take too long are refused") {
        std::string patterns = "[";
        for (int i = 0; i < 200; ++i) patterns += std::string(i > 0 ? "," : "") + R"("re:.*.*.*.*.*.*.*.*.*.*.*.*z$")";
        auto const many =
            R"({"model_type": "qwen3_moe", "num_experts": 2000, "num_hidden_layers": 40, "quantization_config":
            {"quant_method": "compressed-tensors", "config_groups": {}, "ignore": )" +
            patterns + "]}";
        auto const checkpoint = describe_text(many);
        REQUIRE_FALSE(checkpoint);
        CHECK(checkpoint.error().message().find("take too long") != std::string::npos);
    }
}
