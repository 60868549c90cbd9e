#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/executor/layouts.json: as executor_logits.py, for decoders near llama's layout.

    executor_layouts.py OUTPUT
"""
import sys

from executor_logits import COMMON, write_decoders

CASES = {
    "smollm3": dict(COMMON, model_type="smollm3", no_rope_layer_interval=2),
    "smollm3_list": dict(COMMON, model_type="smollm3", no_rope_layers=[0, 1, 0], use_sliding_window=True, sliding_window=7,
                         attention_bias=True, mlp_bias=True, tie_word_embeddings=False),
    "stablelm": dict(COMMON, model_type="stablelm", hidden_size=48, partial_rotary_factor=0.5),
    "stablelm_parallel": dict(COMMON, model_type="stablelm", hidden_size=48, num_key_value_heads=6, use_qkv_bias=True,
                              use_parallel_residual=True),
    "stablelm_heads": dict(COMMON, model_type="stablelm", hidden_size=48, qk_layernorm=True, num_key_value_heads=3,
                           partial_rotary_factor=0.5),
    "stablelm_heads_parallel": dict(COMMON, model_type="stablelm", num_hidden_layers=2, hidden_size=48, qk_layernorm=True,
                                    num_key_value_heads=1, use_qkv_bias=True, use_parallel_residual=True),
    "starcoder2": dict(COMMON, model_type="starcoder2"),
    "starcoder2_window": dict(COMMON, model_type="starcoder2", use_bias=False, sliding_window=7, tie_word_embeddings=False),
    "seed_oss": dict(COMMON, model_type="seed_oss", head_dim=8),
    "seed_oss_biases": dict(COMMON, model_type="seed_oss", head_dim=8, attention_out_bias=True, mlp_bias=True),
    "ernie4_5": dict(COMMON, model_type="ernie4_5", head_dim=8),
    "ernie4_5_bias": dict(COMMON, model_type="ernie4_5", head_dim=8, use_bias=True, tie_word_embeddings=False),
    "hunyuan": dict(COMMON, model_type="hunyuan_v1_dense", head_dim=8),
    "hunyuan_alpha": dict(COMMON, model_type="hunyuan_v1_dense", head_dim=8, attention_bias=True,
                          rope_scaling=dict(type="dynamic", alpha=1000.0, factor=1.0)),
}

if __name__ == "__main__":
    write_decoders(CASES, sys.argv[1])
