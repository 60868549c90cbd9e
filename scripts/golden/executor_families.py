#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/executor/families.json: as executor_logits.py, a case or more for each of further families.

    executor_families.py OUTPUT
"""
import sys

from executor_logits import COMMON, write_decoders

CASES = {
    "granite": dict(COMMON, model_type="granite", embedding_multiplier=12.0, residual_multiplier=0.22,
                    attention_multiplier=0.125, logits_scaling=0.25),
    "granite_biases": dict(COMMON, model_type="granite", num_hidden_layers=2, attention_bias=True, mlp_bias=True,
                           embedding_multiplier=0.5, attention_multiplier=0.3, tie_word_embeddings=True),
    "cohere": dict(COMMON, model_type="cohere", logit_scale=2.0),
    "cohere_biases": dict(COMMON, model_type="cohere", num_hidden_layers=2, attention_bias=True, head_dim=8, logit_scale=3.0,
                          tie_word_embeddings=False, num_key_value_heads=6),
    # Each head has a norm of its own.
    "cohere_heads": dict(COMMON, model_type="cohere", use_qk_norm=True, logit_scale=2.0),
    "cohere_heads_biases": dict(COMMON, model_type="cohere", num_hidden_layers=2, use_qk_norm=True, attention_bias=True, head_dim=8,
                                logit_scale=1.5, num_key_value_heads=6, tie_word_embeddings=False),
    "cohere2": dict(COMMON, model_type="cohere2", num_hidden_layers=5, sliding_window=6, logit_scale=2.5),
    "olmo2": dict(COMMON, model_type="olmo2", attention_bias=True),
    "olmo3": dict(COMMON, model_type="olmo3", num_hidden_layers=5, sliding_window=6, max_position_embeddings=64,
                  rope_scaling=dict(rope_type="yarn", factor=8.0, original_max_position_embeddings=8, beta_fast=32.0,
                                    beta_slow=1.0, attention_factor=1.2)),
    "glm4": dict(COMMON, model_type="glm4", num_hidden_layers=2, head_dim=8),
    "nemotron": dict(COMMON, model_type="nemotron", num_hidden_layers=2, hidden_size=48),
    "nemotron_biases": dict(COMMON, model_type="nemotron", num_hidden_layers=2, head_dim=8, attention_bias=True,
                            mlp_bias=True, partial_rotary_factor=1.0, num_key_value_heads=6),
    "glm4_moe": dict(COMMON, model_type="glm4_moe", hidden_size=48, moe_intermediate_size=20, n_routed_experts=8,
                     num_experts_per_tok=2, n_shared_experts=2, attention_bias=True, use_qk_norm=True, n_group=1,
                     topk_group=1, routed_scaling_factor=1.5),
    "phimoe": dict(COMMON, model_type="phimoe", num_local_experts=4, attention_bias=True, lm_head_bias=True),
    "phimoe_longrope": dict(COMMON, model_type="phimoe", num_hidden_layers=2, num_local_experts=6, sliding_window=9,
                            router_jitter_noise=0.3,
                            rope_scaling=dict(type="longrope", short_factor=[1.0, 1.5, 2.0], long_factor=[1.0, 4.0, 9.0],
                                              short_mscale=1.2, long_mscale=1.2, original_max_position_embeddings=8)),
    "exaone4": dict(COMMON, model_type="exaone4", num_hidden_layers=5, sliding_window=6),
    "exaone4_full": dict(COMMON, model_type="exaone4", num_hidden_layers=2, head_dim=8, sliding_window=None,
                         layer_types=["full_attention"] * 2, tie_word_embeddings=True,
                         rope_scaling=dict(rope_type="llama3", factor=16.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                           original_max_position_embeddings=32)),
    # Chunks of six tokens in layers that turn; two of four experts, whose inputs are weighed; scores that grow in the others.
    "llama4": dict(COMMON, model_type="llama4_text", head_dim=8, num_hidden_layers=4, intermediate_size=20,
                   intermediate_size_mlp=28, num_local_experts=4, num_experts_per_tok=2, interleave_moe_layer_step=2,
                   attention_chunk_size=6, floor_scale=4, attn_scale=0.3, rope_scaling=dict(
                       rope_type="llama3", factor=16.0, low_freq_factor=1.0, high_freq_factor=1.0,
                       original_max_position_embeddings=32)),
    "llama4_plain": dict(COMMON, model_type="llama4_text", head_dim=6, num_hidden_layers=2, intermediate_size=20,
                         intermediate_size_mlp=28, num_local_experts=3, num_experts_per_tok=1, attention_chunk_size=9,
                         use_qk_norm=False, attn_temperature_tuning=False, no_rope_layers=[0, 1],
                         tie_word_embeddings=True),
    # deepseek_v3 by another name.
    "kimi_k2": dict(COMMON, model_type="deepseek_v3", published_as="kimi_k2", num_key_value_heads=6, num_hidden_layers=2,
                    q_lora_rank=20, kv_lora_rank=24, qk_nope_head_dim=10, qk_rope_head_dim=4, v_head_dim=6,
                    first_k_dense_replace=1, moe_intermediate_size=20, n_routed_experts=6, num_experts_per_tok=3,
                    n_shared_experts=1, n_group=1, topk_group=1, routed_scaling_factor=2.827, norm_topk_prob=True,
                    rope_scaling=dict(rope_type="yarn", factor=8.0, original_max_position_embeddings=8, beta_fast=1.0,
                                      beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0)),
    # Eager attention adds the biases twice: they are in its mask, too.
    "falcon_alibi": dict(COMMON, model_type="falcon", computed_by="sdpa", num_hidden_layers=2,
                         num_key_value_heads=6, alibi=True, bias=True, multi_query=False, parallel_attn=False),
    "apertus": dict(COMMON, model_type="apertus"),
    "apertus_biases": dict(COMMON, model_type="apertus", num_hidden_layers=2, head_dim=8, attention_bias=True,
                           tie_word_embeddings=True, rope_scaling=None, num_key_value_heads=6),
}

if __name__ == "__main__":
    write_decoders(CASES, sys.argv[1])
