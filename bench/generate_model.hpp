// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

/// A llama of 1.1 billion parameters (TinyLlama's shape) with random bfloat16 weights, as a folder.
namespace bench {

struct LlamaShape {
    std::int64_t vocabulary = 32000;
    std::int64_t width = 2048;
    std::int64_t ffn = 5632;
    std::int64_t layers = 22;
    std::int64_t heads = 32;
    std::int64_t kv_heads = 4;

    [[nodiscard]] std::int64_t kv_width() const { return width / heads * kv_heads; }
};

/// One weight [outputs, inputs]; a norm has one output.
struct NamedMatrix {
    std::string name;
    std::int64_t outputs;
    std::int64_t inputs;
};

inline std::vector<NamedMatrix> matrices_of(LlamaShape const& shape) {
    std::vector<NamedMatrix> all{{"model.embed_tokens.weight", shape.vocabulary, shape.width}};
    for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
        auto const at = "model.layers." + std::to_string(layer) + ".";
        all.push_back({at + "input_layernorm.weight", 1, shape.width});
        all.push_back({at + "self_attn.q_proj.weight", shape.width, shape.width});
        all.push_back({at + "self_attn.k_proj.weight", shape.kv_width(), shape.width});
        all.push_back({at + "self_attn.v_proj.weight", shape.kv_width(), shape.width});
        all.push_back({at + "self_attn.o_proj.weight", shape.width, shape.width});
        all.push_back({at + "post_attention_layernorm.weight", 1, shape.width});
        all.push_back({at + "mlp.gate_proj.weight", shape.ffn, shape.width});
        all.push_back({at + "mlp.up_proj.weight", shape.ffn, shape.width});
        all.push_back({at + "mlp.down_proj.weight", shape.width, shape.ffn});
    }
    all.push_back({"model.norm.weight", 1, shape.width});
    all.push_back({"lm_head.weight", shape.vocabulary, shape.width});
    return all;
}

/// Writes config.json and model.safetensors; false where there is no room. A block of random values is repeated: what a product
/// takes does not depend on them.
inline bool write_llama(std::string const& folder, LlamaShape const& shape) {
    std::filesystem::create_directories(folder);
    std::ofstream config(folder + "/config.json");
    config << R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","torch_dtype":"bfloat16",)"
           << R"("hidden_act":"silu","rms_norm_eps":1e-5,"rope_theta":10000.0,"tie_word_embeddings":false,)"
           << R"("max_position_embeddings":4096,"bos_token_id":1,"eos_token_id":2,"vocab_size":)" << shape.vocabulary
           << ",\"hidden_size\":" << shape.width << ",\"intermediate_size\":" << shape.ffn
           << ",\"num_hidden_layers\":" << shape.layers << ",\"num_attention_heads\":" << shape.heads
           << ",\"num_key_value_heads\":" << shape.kv_heads << "}";
    config.close();
    std::string header = "{";
    std::int64_t end = 0;
    auto const all = matrices_of(shape);
    for (auto const& matrix : all) {
        auto const bytes = matrix.outputs * matrix.inputs * 2;
        auto const extents = matrix.outputs == 1 ? std::to_string(matrix.inputs)
                                                 : std::to_string(matrix.outputs) + "," + std::to_string(matrix.inputs);
        header += (header.size() > 1 ? ",\"" : "\"") + matrix.name + R"(":{"dtype":"BF16","shape":[)" + extents +
                  "],\"data_offsets\":[" + std::to_string(end) + "," + std::to_string(end + bytes) + "]}";
        end += bytes;
    }
    header += "}";
    header.resize((header.size() + 7) / 8 * 8, ' ');
    // Of magnitude 2^-6 to 2^-5, so that activations stay finite through all layers.
    std::vector<std::uint16_t> values(std::size_t{1} << 22U);
    std::uint64_t state = 88172645463325252U;
    for (auto& value : values) {
        state ^= state << 13U;
        state ^= state >> 7U;
        state ^= state << 17U;
        value = static_cast<std::uint16_t>(0x3C80U | (state & 0x807FU));
    }
    std::ofstream file(folder + "/model.safetensors", std::ios::binary);
    auto const length = static_cast<std::uint64_t>(header.size());
    std::array<char, 8> prefix{};
    for (std::size_t i = 0; i < 8; ++i) prefix[i] = static_cast<char>(static_cast<unsigned char>(length >> (8 * i)));
    file.write(prefix.data(), 8).write(header.data(), static_cast<std::streamsize>(header.size()));
    auto const most = static_cast<std::int64_t>(values.size() * 2);
    for (std::int64_t done = 0; done < end && file; done += most) {
        file.write(reinterpret_cast<char const*>(values.data()),
                   static_cast<std::streamsize>(end - done < most ? end - done : most));
    }
    file.close();
    return static_cast<bool>(file) && static_cast<bool>(config);
}

}  // namespace bench
