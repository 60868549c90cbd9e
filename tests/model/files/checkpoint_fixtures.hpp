// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/files/checkpoint.hpp>
#include <shardwise/model/tree_totals.hpp>
#include <shardwise/model/walk.hpp>

#include <doctest/doctest.h>

#include "checkpoint_files.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// A tiny llama as files, and what tests ask of checkpoints.
namespace shardwise::testing {

inline Result<Checkpoint> read(std::string const& path) {
    auto const source = find_model(path, {}, HubCache(HubEnvironment{}));
    if (!source) return source.error();
    return read_checkpoint(*source);
}
/// Names and shapes of everything that checkpoints store.
inline std::vector<std::pair<std::string, Shape>> entries(ModuleTree const& tree) {
    std::vector<std::pair<std::string, Shape>> out;
    walk_tensors(tree, [&](std::string_view name, Tensor const& tensor) {
        if (tensor.kind != TensorKind::transient_buffer) out.emplace_back(name, tensor.shape);
    });
    return out;
}
inline std::int64_t stored_bytes(ModuleTree const& tree) {
    return sum_tensors(tree, [](Tensor const& tensor) {
        return tensor.kind == TensorKind::transient_buffer ? 0 : tensor.bytes().count();
    });
}
inline Tensor tensor_of(Checkpoint const& checkpoint, std::string_view name) {
    auto const* tensor = find_tensor(checkpoint.model.tree, name);
    REQUIRE_MESSAGE(tensor != nullptr, std::string(name));
    return *tensor;
}

inline constexpr auto tiny_llama =
    R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 8, "hidden_size": 4,
    "intermediate_size": 6, "num_hidden_layers": 3, "num_attention_heads": 2, "num_key_value_heads": 1,
    "tie_word_embeddings": false, "torch_dtype": "bfloat16"})";

/// The tensors of tiny_llama in bf16.
inline std::vector<WrittenTensor> tiny_tensors() {
    std::vector<WrittenTensor> out;
    auto const add = [&out](std::string name, std::vector<std::int64_t> shape) {
        std::int64_t elements = 1;
        for (auto const extent : shape) elements *= extent;
        out.push_back({std::move(name), "BF16", std::move(shape), elements * 2});
    };
    add("model.embed_tokens.weight", {8, 4});
    for (int i = 0; i < 3; ++i) {
        auto const layer = "model.layers." + std::to_string(i) + ".";
        add(layer + "self_attn.q_proj.weight", {4, 4});
        add(layer + "self_attn.k_proj.weight", {2, 4});
        add(layer + "self_attn.v_proj.weight", {2, 4});
        add(layer + "self_attn.o_proj.weight", {4, 4});
        add(layer + "mlp.gate_proj.weight", {6, 4});
        add(layer + "mlp.up_proj.weight", {6, 4});
        add(layer + "mlp.down_proj.weight", {4, 6});
        add(layer + "input_layernorm.weight", {4});
        add(layer + "post_attention_layernorm.weight", {4});
    }
    add("model.norm.weight", {4});
    add("lm_head.weight", {8, 4});
    return out;
}
inline std::int64_t total(std::vector<WrittenTensor> const& tensors) {
    std::int64_t sum = 0;
    for (auto const& tensor : tensors) sum += tensor.bytes;
    return sum;
}
inline WrittenTensor& named(std::vector<WrittenTensor>& tensors, std::string_view name) {
    return *std::find_if(tensors.begin(), tensors.end(), [&](auto const& tensor) { return tensor.name == name; });
}
inline void write_model(TemporaryFolder const& folder, std::vector<WrittenTensor> const& tensors,
                        std::string_view config = tiny_llama) {
    folder.write("config.json", config);
    write_safetensors(folder.path("model.safetensors"), tensors);
}

}  // namespace shardwise::testing
