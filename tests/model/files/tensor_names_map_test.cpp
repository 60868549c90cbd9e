// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/architectures.hpp>
#include <shardwise/model/files/config_json.hpp>
#include <shardwise/model/files/tensor_names_map.hpp>
#include <shardwise/model/walk.hpp>

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace shardwise;

Model model_of(std::string const& name) {
    auto const config = read_config_file(std::string(SHARDWISE_SOURCE_DIR) + "/tests/golden/configs/" + name + ".json");
    REQUIRE_MESSAGE(config.has_value(), name);
    auto model = describe(config->config);
    REQUIRE_MESSAGE(model.has_value(), name);
    return *std::move(model);
}
/// The names in the tree that a file's name stands for.
std::vector<std::string> mapped(Model const& model, std::string_view name) {
    TreeTensors const tensors(model.tree);
    auto const match = TensorNameMap(tensors, model.family).find(name);
    std::vector<std::string> out;
    for (std::size_t i = 0; i < match.set_count; ++i) {
        auto const& set = match.sets[i];
        for (std::int64_t k = 0; k < set.count; ++k) out.push_back(tensors.name_of(set.first + k * set.stride));
    }
    return out;
}
using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("every tensor of every golden configuration is found under its name and number") {
    for (auto const& entry :
         std::filesystem::directory_iterator(std::string(SHARDWISE_SOURCE_DIR) + "/tests/golden/configs")) {
        auto const name = entry.path().stem().string();
        if (name.substr(0, 6) != "small-") continue;
        CAPTURE(name);
        auto const model = model_of(name);
        TreeTensors const tensors(model.tree);
        std::int64_t number = 0;
        walk_tensors(model.tree, [&](std::string_view tensor_name, Tensor const& tensor) {
            auto const found = tensors.find(tensor_name);
            REQUIRE(found.has_value());
            CHECK(found->first == number);
            CHECK(found->tensor == &tensor);
            CHECK(tensors.name_of(number) == tensor_name);
            ++number;
        });
        CHECK(number == tensors.size());
        CHECK_FALSE(tensors.find("no.such.tensor").has_value());
        CHECK_FALSE(tensors.find("").has_value());
    }
}

TEST_CASE("published names map to those of transformers") {
    // https://huggingface.co/openai-community/gpt2, bigscience/bloom-560m: no base prefix
    CHECK(mapped(model_of("gpt2"), "h.3.attn.c_attn.weight") == Names{"transformer.h.3.attn.c_attn.weight"});
    CHECK(mapped(model_of("bloom-560m"), "word_embeddings.weight") == Names{"transformer.word_embeddings.weight"});
    // google-bert/bert-base-uncased: gamma and beta; the bare model lacks the prefix of the file
    CHECK(mapped(model_of("bert-base-uncased"), "bert.encoder.layer.1.output.LayerNorm.gamma") ==
          Names{"bert.encoder.layer.1.output.LayerNorm.weight"});
    CHECK(mapped(model_of("bert-base-model"), "bert.embeddings.LayerNorm.beta") == Names{"embeddings.LayerNorm.bias"});
    // google/gemma-3-4b-it, and the same in transformers 5
    CHECK(mapped(model_of("gemma-3-1b"), "language_model.model.norm.weight") == Names{"model.norm.weight"});
    CHECK(mapped(model_of("gemma-3-1b"), "model.language_model.norm.weight") == Names{"model.norm.weight"});
    CHECK(mapped(model_of("gemma-3-1b"), "vision_tower.norm.weight").empty());
    // openai/gpt-oss-20b: MXFP4
    CHECK(mapped(model_of("gpt-oss-20b"), "model.layers.7.mlp.experts.down_proj_scales") ==
          Names{"model.layers.7.mlp.experts.down_proj"});
}

TEST_CASE("a bare model's names map from files of the model with a head, whose base its family names") {
    auto const bare = [](std::string const& name, char const* model_class) {
        auto config = model_of(name).config;
        config.model_class = model_class;
        auto model = describe(config);
        REQUIRE_MESSAGE(model.has_value(), name);
        return *std::move(model);
    };
    auto const gpt2 = bare("gpt2", "GPT2Model");
    CHECK(mapped(gpt2, "transformer.h.3.attn.c_attn.weight") == Names{"h.3.attn.c_attn.weight"});
    CHECK(mapped(gpt2, "module.transformer.h.3.attn.c_attn.weight") == Names{"h.3.attn.c_attn.weight"});
    auto const bert = model_of("bert-base-model");
    CHECK(mapped(bert, "bert.embeddings.LayerNorm.weight") == Names{"embeddings.LayerNorm.weight"});
    // The base of another family is none of its own.
    for (auto const* other : {"roberta.embeddings.LayerNorm.weight", "transformer.embeddings.LayerNorm.weight"}) {
        CAPTURE(other);
        CHECK(mapped(bert, other).empty());
    }
    // A model that no family describes has the names of its tree.
    TreeTensors const tensors(bert.tree);
    TensorNameMap const names(tensors, nullptr);
    CHECK(names.find("embeddings.LayerNorm.weight").is_found());
    CHECK(names.find("module.embeddings.LayerNorm.weight").is_found());
    CHECK_FALSE(names.find("bert.embeddings.LayerNorm.weight").is_found());
}

TEST_CASE("stacked experts of transformers 5 map to those of the tree, by the family's own ends where it has some") {
    auto const mixtral = mapped(model_of("mixtral-8x7b"), "model.layers.2.mlp.experts.gate_up_proj");
    REQUIRE(mixtral.size() == 16);
    CHECK(mixtral[0] == "model.layers.2.block_sparse_moe.experts.0.w1.weight");
    CHECK(mixtral[8] == "model.layers.2.block_sparse_moe.experts.0.w3.weight");
    CHECK(mapped(model_of("mixtral-8x7b"), "layers.2.mlp.gate.weight") ==
          Names{"model.layers.2.block_sparse_moe.gate.weight"});
    auto const qwen = mapped(model_of("qwen3-30b-a3b"), "model.layers.2.mlp.experts.gate_up_proj");
    REQUIRE(qwen.size() == 256);
    CHECK(qwen[128] == "model.layers.2.mlp.experts.0.up_proj.weight");
    CHECK(mapped(model_of("qwen3-30b-a3b"), "model.layers.2.mlp.experts.down_proj").size() == 128);
}

TEST_CASE("GGUF's names map to those of transformers, stacked experts to all of them") {
    CHECK(mapped(model_of("llama-3-8b"), "blk.31.ffn_down.weight") == Names{"model.layers.31.mlp.down_proj.weight"});
    CHECK(mapped(model_of("llama-3-8b"), "blk.32.ffn_down.weight").empty());
    auto const experts = mapped(model_of("mixtral-8x7b"), "blk.2.ffn_up_exps.weight");
    REQUIRE(experts.size() == 8);
    CHECK(experts[0] == "model.layers.2.block_sparse_moe.experts.0.w3.weight");
    CHECK(experts[7] == "model.layers.2.block_sparse_moe.experts.7.w3.weight");
    // falcon has one norm in one layout and two in the other under one name of GGUF
    CHECK(mapped(model_of("falcon-7b"), "blk.0.attn_norm.weight") == Names{"transformer.h.0.input_layernorm.weight"});
    CHECK(mapped(model_of("falcon-40b"), "blk.0.attn_norm.weight") == Names{"transformer.h.0.ln_mlp.weight"});
}

TEST_CASE("names of packed parts belong to their parameter") {
    struct Row {
        std::string_view file;
        std::string_view parameter;
        bool holds_values;
    };
    for (auto const& row :
         {Row{"a.weight.absmax", "a.weight", false}, Row{"a.weight.quant_state.bitsandbytes__nf4", "a.weight", false},
          Row{"a.weight.nested_quant_map", "a.weight", false}, Row{"a.SCB", "a.weight", false},
          Row{"a.qweight", "a.weight", true}, Row{"a.g_idx", "a.weight", false},
          Row{"a.weight_scale_inv", "a.weight", false}, Row{"a.weight_packed", "a.weight", true},
          Row{"x.gate_up_proj_blocks", "x.gate_up_proj", true},
          Row{"x.gate_up_proj_scales", "x.gate_up_proj", false}}) {
        CAPTURE(std::string(row.file));
        auto const encoded = encoded_name(row.file);
        REQUIRE(encoded.has_value());
        CHECK(encoded->parameter == row.parameter);
        CHECK(encoded->holds_values == row.holds_values);
    }
    CHECK_FALSE(encoded_name("a.weight").has_value());
    CHECK_FALSE(encoded_name("weight").has_value());
    CHECK_FALSE(encoded_name("a.weight.quant_map.b").has_value());
}

TEST_CASE("tables and masks that files repeat are no part of a model") {
    for (auto const* name : {"rope_freqs.weight", "model.layers.0.self_attn.rotary_emb.inv_freq", "h.0.attn.bias",
                             "gpt_neox.layers.3.attention.masked_bias", "bert.embeddings.position_ids"}) {
        CHECK_MESSAGE(is_harmless_extra(name), name);
    }
    CHECK_FALSE(is_harmless_extra("h.0.attn.c_attn.bias"));
    CHECK_FALSE(is_harmless_extra("model.norm.weight"));
}

TEST_CASE("a GGUF of phi-2 that keeps queries, keys and values in one tensor names all three") {
    auto const phi = model_of("small-phi");
    CHECK(mapped(phi, "blk.1.attn_qkv.weight") == Names{"model.layers.1.self_attn.q_proj.weight",
                                                        "model.layers.1.self_attn.k_proj.weight",
                                                        "model.layers.1.self_attn.v_proj.weight"});
    CHECK(mapped(phi, "blk.1.attn_qkv.bias").size() == 3);
}
