// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/dtype.hpp>
#include <shardwise/core/fixed_text.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/model/layer_set.hpp>
#include <shardwise/model/own_numbers.hpp>
#include <shardwise/op/operation.hpp>
#include <shardwise/op/rope_layout.hpp>
#include <shardwise/op/rope_parameters.hpp>
#include <shardwise/op/router_score.hpp>
#include <shardwise/quant/scheme.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The hyper-parameters of a model of any family, under the field's standard names: a literal type, filled by presets
/// and by the readers of config.json and GGUF metadata. A field that a family does not have stays at its zero.
///
/// Units  elements, heads, layers or tokens
struct ModelConfig {
    /// config.json's `model_type` ("llama"); names the architecture policy.
    FixedText<32> model_type;
    /// The class that is counted, `architectures[0]` ("LlamaForCausalLM"); empty: the family's usual one.
    FixedText<64> model_class;
    /// What to call the model in reports.
    FixedText<96> name;
    Optional<Dtype> dtype;
    /// How the published weights are packed, all by one scheme; nothing: plainly, or the tree holds the stored sizes.
    Optional<QuantScheme> quant;

    std::int64_t vocab_size = 0;
    std::int64_t hidden_size = 0;
    std::int64_t intermediate_size = 0;
    std::int64_t layers = 0;
    std::int64_t heads = 0;
    std::int64_t kv_heads = 0;
    std::int64_t head_dim = 0;
    std::int64_t max_positions = 0;
    std::int64_t rotary_dim = 0;        // GGUF's rope.dimension_count; 0: from partial_rotary_factor
    std::int64_t position_buckets = 0;  // t5: relative_attention_num_buckets
    std::int64_t decoder_start = -1;    // t5: decoder_start_token_id, what a decoder begins with; -1: none is named
    std::int64_t labels = 0;  // id2label, num_labels; after `complete` the width of a classifying head, else 0

    std::int64_t experts = 0;
    std::int64_t experts_per_token = 0;
    std::int64_t expert_intermediate_size = 0;
    std::int64_t shared_expert_intermediate_size = 0;
    std::int64_t expert_groups = 0;        // deepseek: n_group; 0: experts are chosen from all
    std::int64_t kept_expert_groups = 0;   // deepseek: topk_group
    std::int64_t decoder_sparse_step = 1;  // qwen moe: every n-th layer has experts
    LayerSet dense_layers;                 // qwen moe: mlp_only_layers; after `complete`: every layer without experts

    std::int64_t q_lora_rank = 0;
    std::int64_t kv_lora_rank = 0;
    std::int64_t qk_nope_head_dim = 0;
    std::int64_t qk_rope_head_dim = 0;
    std::int64_t v_head_dim = 0;

    std::int64_t sliding_window = 0;
    LayerSet
        local_layers;  // layers that see what is near: by a window, a chunk, or a state (the family says which); after
                       // `complete` the truth of every layer
    LayerSet rope_free_layers;  // layers whose queries and keys do not turn (smollm3: where no_rope_layers has a 0)
    std::int64_t rope_list_count = 0;     // entries of no_rope_layers; 0: absent, families derive it
    std::int64_t rope_free_interval = 0;  // smollm3: no_rope_layer_interval, every n-th layer does not turn
    std::int64_t layer_types_count =
        0;  // entries of layer_types, which filled local_layers; 0: absent, families derive it

    bool tie_word_embeddings = false;
    bool attention_bias = false;
    bool attention_out_bias = false;
    bool mlp_bias = false;
    bool qk_norm = false;
    bool alibi = false;               // bloom, falcon
    bool use_sliding_window = true;   // qwen2, qwen3
    bool norm_expert_weights = true;  // qwen moe: norm_topk_prob: chosen weights are divided by their sum
    bool interleaved_rope = false;    // deepseek: neighbours of a head turn together, not its halves
    bool is_text_part = false;        // the text part of a model with other inputs, whose parts are not counted
    bool active_embedding = true;     // deepseek, gpt_oss: active parameters leave the input table out, as the cards do

    ActivationKind activation = ActivationKind::silu;
    RouterScore router_score = RouterScore::softmax;
    GroupRank group_rank = GroupRank::best;
    double routed_scale = 1.0;  // deepseek: routed_scaling_factor, multiplies the chosen weights
    double norm_epsilon = 1e-6;
    double embedding_scale = 1.0;  // multiplies embeddings: gemma's sqrt(hidden_size), granite
    double residual_scale = 1.0;   // granite: multiplies what attention and mlp add to the residual
    double logit_scale = 1.0;      // cohere: multiplies logits; granite's logits_scaling divides them
    double query_scale = 0.0;      // gemma2: query_pre_attn_scalar; scores are divided by its root
    double score_scale = 0.0;      // granite: attention_multiplier; 0: from query_scale or the heads' width
    double logit_softcap = 0.0;
    RopeParameters rope{};
    /// What one family alone reads, by its own keys.
    OwnNumbers own{};

    [[nodiscard]] constexpr Dtype dtype_or(Dtype fallback) const { return dtype.value_or(fallback); }
};

/// How the pairs of a head lie that turn together.
[[nodiscard]] constexpr RopeLayout rope_layout(ModelConfig const& config) {
    return config.interleaved_rope ? RopeLayout::interleaved : RopeLayout::half;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
