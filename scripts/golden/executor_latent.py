#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/executor/latent.json: as executor_logits.py, for models with multi-head latent attention and no experts.

    executor_latent.py OUTPUT
"""
import sys

from executor_logits import COMMON, write_decoders

LATENT = dict(COMMON, num_key_value_heads=6, kv_lora_rank=20, q_lora_rank=14, qk_nope_head_dim=10, qk_rope_head_dim=6,
              v_head_dim=8, first_k_dense_replace=3, moe_intermediate_size=8, n_routed_experts=4, num_experts_per_tok=2,
              n_group=1, topk_group=1, rms_norm_eps=0.01)
YARN = dict(rope_type="yarn", factor=8.0, original_max_position_embeddings=32, beta_fast=32, beta_slow=1, mscale=0.8,
            mscale_all_dim=0.6)
CASES = {
    "deepseek_v2": dict(LATENT, model_type="deepseek_v2"),
    "deepseek_v2_lite": dict(LATENT, model_type="deepseek_v2", q_lora_rank=None, rope_scaling=YARN, formula_seed=1),
    "deepseek_v3": dict(LATENT, model_type="deepseek_v3", rope_scaling=YARN, attention_bias=True, formula_seed=2),
    "deepseek_v3_halves": dict(LATENT, model_type="deepseek_v3", q_lora_rank=None, rope_interleave=False,
                               num_attention_heads=3, num_key_value_heads=3, kv_lora_rank=16, qk_rope_head_dim=16,
                               formula_seed=3),
}

if __name__ == "__main__":
    write_decoders(CASES, sys.argv[1])
