// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/threads.hpp>
#include <shardwise/executor/predict_memory.hpp>
#include <shardwise/executor/rank_executor.hpp>
#include <shardwise/model/files/checkpoint.hpp>
#include <shardwise/model/walk.hpp>

#include <doctest/doctest.h>

#include "allocations.hpp"
#include "checkpoint_files.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace {

using namespace shardwise;
using namespace shardwise::testing;

/// A checkpoint whose tensors are zeros: only sizes matter.
struct EmptyModel {
    TemporaryFolder folder;
    ModelSource source;
    Model model;

    EmptyModel(std::string const& config, std::string const& dtype) {
        (void)folder.write("config.json", config);
        auto const only = find_model(folder / "config.json", {}, HubCache(HubEnvironment{}));
        REQUIRE(only);
        auto const described = read_checkpoint(*only);
        REQUIRE_MESSAGE(described, (described ? "" : described.error().message()));
        std::vector<WrittenTensor> tensors;
        walk_tensors(described->model.tree, [&](std::string_view name, Tensor const& tensor) {
            for (auto const& tie : described->model.tree.ties()) {
                if (tie.other == name) return;
            }
            if (!tensor.is_parameter()) return;
            std::vector<std::int64_t> shape;
            for (std::size_t i = 0; i < tensor.shape.rank(); ++i) shape.push_back(tensor.shape[i]);
            tensors.push_back({std::string(name), dtype, shape, tensor.shape.elements() * (dtype == "F32" ? 4 : 2)});
        });
        write_safetensors(folder / "model.safetensors", tensors);
        source = *find_model(folder.path(), {}, HubCache(HubEnvironment{}));
        auto read = read_checkpoint(source);
        REQUIRE_MESSAGE(read, (read ? "" : read.error().message()));
        model = std::move(read->model);
    }
};

struct Combination {
    char const* config;
    char const* dtype;
    std::int32_t tp;
    ExecutorLimits limits;
    /// What weights are packed into while they are loaded; empty: nothing.
    char const* quant = "";
    /// By block, the embedding's first.
    std::vector<LayerHome> homes{};
};

/// Loads and runs the largest step and the shortest one, and holds the prediction against the counting allocator.
template <class Policy>
void check(EmptyModel const& model, Combination const& one) {
    auto const parameters = StoredParameters::open(model.source, model.model);
    REQUIRE(parameters);
    LoadOptions load;
    if (*one.quant != 0) load.quant = *parse_quant_scheme(one.quant);
    auto const done = run_threads(one.tp, [&](Threads& comm) -> Result<> {
        HostContext context({.threads = 1});
        auto stream = context.make_stream();
        TensorPlace const place{comm.size(), comm.rank()};
        StageBlocks stage;
        stage.homes = one.homes;
        auto const predicted = predict_memory<Host, Policy>(model.model, formats_of(*parameters, load), place,
                                                            one.limits, *stream.isa(), {}, stage);
        if (!predicted) return predicted.error();
        auto executor =
            RankExecutor<Host, Policy>::create(context, model.model, *parameters, place, one.limits, {}, load, stage);
        if (!executor) return executor.error();
        CHECK(executor->weight_bytes() == predicted->weights);
        CHECK(executor->cache_bytes() == predicted->kv_cache);
        CHECK(executor->activation_bytes() == predicted->activations + predicted->scratch);
        CHECK(executor->product_bytes() == predicted->products);
        std::vector<float> logits(static_cast<std::size_t>(one.limits.sequences * model.model.config.vocab_size));
        std::int64_t past = 0;
        auto const whole = one.limits.step_tokens / one.limits.sequences;
        for (auto const tokens : {whole, std::int64_t{1}, std::int64_t{1}}) {
            if (past + tokens > one.limits.context) break;
            std::vector<SequencePart> parts;
            for (std::int64_t slot = 0; slot < one.limits.sequences; ++slot) parts.push_back({slot, past, tokens});
            std::vector<std::int32_t> const ids(static_cast<std::size_t>(tokens * one.limits.sequences), 3);
            TensorView<float, 2, Host> const out(logits.data(), {one.limits.sequences, model.model.config.vocab_size});
            auto const before = allocations_of_thread();
            if (auto const ran = executor->forward(ids, parts, out, comm, stream); !ran) return ran;
            if (auto const ended = stream.synchronize(Deadline::after(std::chrono::seconds(60))); !ended) return ended;
            // A step of one token each, which is not the first, asks for no memory.
            if (past > whole && one.homes.empty()) CHECK(allocations_of_thread() == before);
            past += tokens;
        }
        auto const peak = context.memory().peak().count();
        CHECK(peak <= predicted->total().count());
        CHECK(predicted->total().count() <= peak + peak / 50);
        return {};
    });
    CHECK_MESSAGE(done, (done ? "" : done.error().message()));
}

constexpr char const* llama =
    R"({"model_type":"llama","architectures":["LlamaForCausalLM"],"vocab_size":501,"hidden_size":72,)"
    R"("num_hidden_layers":2,"intermediate_size":172,"num_attention_heads":9,"num_key_value_heads":3})";
constexpr char const* llama_biases =
    R"({"model_type":"llama","architectures":["LlamaForCausalLM"],"vocab_size":100,"hidden_size":64,)"
    R"("num_hidden_layers":2,"intermediate_size":100,"num_attention_heads":4,"num_key_value_heads":2,)"
    R"("attention_bias":true,"mlp_bias":true,"tie_word_embeddings":true})";
constexpr char const* mistral =
    R"({"model_type":"mistral","architectures":["MistralForCausalLM"],"vocab_size":300,"hidden_size":64,)"
    R"("num_hidden_layers":3,"intermediate_size":96,"num_attention_heads":4,"num_key_value_heads":2,)"
    R"("sliding_window":20})";
constexpr char const* gemma2 =
    R"({"model_type":"gemma2","architectures":["Gemma2ForCausalLM"],"vocab_size":300,"hidden_size":48,)"
    R"("num_hidden_layers":4,"intermediate_size":96,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":16,)"
    R"("sliding_window":24})";
constexpr char const* qwen2 =
    R"({"model_type":"qwen2","architectures":["Qwen2ForCausalLM"],"vocab_size":401,"hidden_size":96,)"
    R"("num_hidden_layers":2,"intermediate_size":130,"num_attention_heads":6,"num_key_value_heads":2})";
constexpr char const* qwen3 =
    R"({"model_type":"qwen3","architectures":["Qwen3ForCausalLM"],"vocab_size":201,"hidden_size":40,)"
    R"("num_hidden_layers":2,"intermediate_size":88,"num_attention_heads":5,"num_key_value_heads":1,"head_dim":24})";
constexpr char const* phi3 =
    R"({"model_type":"phi3","architectures":["Phi3ForCausalLM"],"vocab_size":333,"hidden_size":64,)"
    R"("num_hidden_layers":2,"intermediate_size":96,"num_attention_heads":4,"num_key_value_heads":4,"pad_token_id":0})";
constexpr char const* gpt2 =
    R"({"model_type":"gpt2","architectures":["GPT2LMHeadModel"],"vocab_size":257,"n_embd":48,"n_layer":2,"n_head":4,)"
    R"("n_positions":256})";
constexpr char const* opt =
    R"({"model_type":"opt","architectures":["OPTForCausalLM"],"vocab_size":99,"hidden_size":32,"ffn_dim":72,)"
    R"("num_hidden_layers":2,"num_attention_heads":4,"max_position_embeddings":256,"word_embed_proj_dim":32})";
constexpr char const* gpt_neox =
    R"({"model_type":"gpt_neox","architectures":["GPTNeoXForCausalLM"],"vocab_size":130,"hidden_size":64,)"
    R"("intermediate_size":128,"num_hidden_layers":2,"num_attention_heads":4,"max_position_embeddings":256,)"
    R"("rotary_pct":0.25})";

constexpr char const* deepseek =
    R"({"model_type":"deepseek_v2","architectures":["DeepseekV2ForCausalLM"],"vocab_size":197,"hidden_size":48,)"
    R"("intermediate_size":52,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":4,"q_lora_rank":null,)"
    R"("kv_lora_rank":32,"qk_nope_head_dim":16,"qk_rope_head_dim":8,"v_head_dim":16,"first_k_dense_replace":2,)"
    R"("n_routed_experts":4,"num_experts_per_tok":2,"moe_intermediate_size":16,"max_position_embeddings":256})";

constexpr char const* cohere_heads =
    R"({"model_type":"cohere","architectures":["CohereForCausalLM"],"vocab_size":130,"hidden_size":40,"use_qk_norm":true,)"
    R"("intermediate_size":52,"num_hidden_layers":2,"num_attention_heads":6,"num_key_value_heads":2,"head_dim":14,)"
    R"("max_position_embeddings":256})";
constexpr char const* stablelm_heads =
    R"({"model_type":"stablelm","architectures":["StableLmForCausalLM"],"vocab_size":130,"hidden_size":48,)"
    R"("intermediate_size":52,"num_hidden_layers":2,"num_attention_heads":6,"num_key_value_heads":2,"qk_layernorm":true,)"
    R"("partial_rotary_factor":0.5,"max_position_embeddings":256})";

constexpr char const* mixtral =
    R"({"model_type":"mixtral","architectures":["MixtralForCausalLM"],"vocab_size":130,"hidden_size":48,)"
    R"("intermediate_size":52,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,)"
    R"("num_local_experts":5,"num_experts_per_tok":2,"max_position_embeddings":256})";

TEST_CASE(
    "predict_memory: weights and cache to the byte, the peak within 2 %, never under; decoding allocates nothing") {
    using enum LayerHome;
    Combination const combinations[] = {
        {llama, "F32", 1, {1, 33, 33}},
        {llama, "F32", 2, {2, 100, 64}},
        {llama, "BF16", 3, {4, 200, 32, 0, Dtype::bf16}},
        {llama, "F16", 4, {1, 300, 128, 0, Dtype::i8}},
        {llama, "BF16", 9, {2, 17, 16}},
        {llama_biases, "F32", 1, {3, 64, 48, 100}},
        {llama_biases, "BF16", 2, {1, 64, 64, 0, Dtype::i8}},
        {llama_biases, "F16", 4, {8, 40, 80}},
        {mistral, "F32", 1, {1, 200, 10}},
        {mistral, "BF16", 2, {3, 200, 30, 0, Dtype::bf16}},
        {mistral, "F32", 4, {2, 64, 64, 0, Dtype::i8}},
        {gemma2, "F32", 1, {2, 128, 16}},
        {gemma2, "BF16", 2, {1, 128, 128, 0, Dtype::bf16}},
        {qwen2, "F32", 1, {1, 512, 256}},
        {qwen2, "BF16", 2, {5, 64, 50}},
        {qwen2, "F16", 6, {2, 64, 32, 64, Dtype::i8}},
        {qwen3, "F32", 1, {1, 20, 20}},
        {qwen3, "BF16", 5, {2, 90, 40}},
        {phi3, "F32", 1, {1, 64, 64, 0, Dtype::bf16}},
        {phi3, "BF16", 3, {2, 64, 32}},
        {gpt2, "F32", 1, {1, 128, 64}},
        {gpt2, "F32", 2, {4, 64, 64, 0, Dtype::i8}},
        {opt, "F16", 2, {2, 50, 20}},
        {gpt_neox, "F32", 1, {1, 80, 40}},
        {gpt_neox, "BF16", 4, {2, 80, 40, 0, Dtype::bf16}},
        {deepseek, "F32", 1, {2, 80, 40}},
        {mistral, "BF16", 1, {2, 64, 32}, "int8"},
        {mistral, "BF16", 2, {2, 64, 32}, "int8"},
        {mistral, "F32", 2, {1, 64, 64}, "Q4_0"},
        {mistral, "F32", 1, {1, 64, 64}, "Q8_0"},
        {phi3, "BF16", 2, {3, 64, 30, 0, Dtype::i8}, "int4"},
        {phi3, "BF16", 1, {1, 64, 30}, "Q5_1"},
        {gpt_neox, "BF16", 1, {1, 100, 99}, "nf4"},
        {cohere_heads, "F32", 1, {2, 80, 40}},
        {cohere_heads, "BF16", 3, {2, 80, 40}},
        {cohere_heads, "F32", 6, {1, 80, 40}},
        {stablelm_heads, "F32", 4, {2, 80, 40}},
        {stablelm_heads, "BF16", 2, {1, 80, 40}},
        {mixtral, "F32", 2, {2, 80, 40}},
        {mixtral, "BF16", 3, {1, 80, 20, 0, Dtype::bf16}},
        {deepseek, "BF16", 3, {2, 80, 40, 0, Dtype::i8}},
        {llama, "F32", 1, {1, 33, 33}, "", {resident, disk, cpu}},
        {llama, "BF16", 2, {1, 200, 150}, "", {resident, resident, disk, disk}},
        {mistral, "BF16", 2, {2, 64, 32}, "int8", {resident, disk, disk, disk}},
        {deepseek, "F32", 1, {1, 80, 40}, "", {resident, cpu, disk}},
        {mixtral, "F32", 2, {2, 200, 160}, "", {resident, disk}},
        {mixtral, "BF16", 1, {1, 80, 20}, "", {disk, disk, disk}},
    };
    int count = 0;
    for (auto const& one : combinations) {
        CAPTURE(std::string(one.config));
        CAPTURE(std::string(one.dtype));
        CAPTURE(one.tp);
        EmptyModel const model(one.config, one.dtype);
        // Deterministic and Fast hold row-parallel weights differently.
        if (count++ % 2 == 0)
            check<Fast>(model, one);
        else
            check<Deterministic>(model, one);
    }
}

}  // namespace
