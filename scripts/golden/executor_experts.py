#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/executor/experts.json: as executor_logits.py, for models with experts.

    executor_experts.py OUTPUT
"""
import sys

from executor_latent import LATENT
from executor_logits import COMMON, write_decoders

QWEN = dict(COMMON, moe_intermediate_size=20)
DEEPSEEK = dict(LATENT, first_k_dense_replace=1, moe_intermediate_size=12, n_routed_experts=6, num_experts_per_tok=3)
CASES = {
    "mixtral": dict(COMMON, model_type="mixtral", num_local_experts=5, num_experts_per_tok=2),
    "mixtral_window": dict(COMMON, model_type="mixtral", num_local_experts=4, num_experts_per_tok=3, sliding_window=6,
                           formula_seed=1),
    "qwen3_moe": dict(QWEN, model_type="qwen3_moe", head_dim=8, num_experts=7, num_experts_per_tok=3,
                      norm_topk_prob=True, num_hidden_layers=4, decoder_sparse_step=2, mlp_only_layers=[3]),
    "qwen3_moe_plain": dict(QWEN, model_type="qwen3_moe", head_dim=6, num_experts=6, num_experts_per_tok=2,
                            norm_topk_prob=False, formula_seed=1),
    "qwen2_moe": dict(QWEN, model_type="qwen2_moe", num_experts=6, num_experts_per_tok=3,
                      shared_expert_intermediate_size=28, norm_topk_prob=False),
    "qwen2_moe_normed": dict(QWEN, model_type="qwen2_moe", num_experts=5, num_experts_per_tok=2,
                             shared_expert_intermediate_size=22, norm_topk_prob=True, mlp_only_layers=[1],
                             formula_seed=1),
    "gpt_oss": dict(COMMON, model_type="gpt_oss", head_dim=8, num_local_experts=5, num_experts_per_tok=2,
                    sliding_window=6, num_hidden_layers=4, intermediate_size=20, max_position_embeddings=512,
                    rope_scaling=dict(rope_type="yarn", factor=8.0, beta_fast=32.0, beta_slow=1.0, truncate=False,
                                      original_max_position_embeddings=8)),
    "gpt_oss_defaults": dict(COMMON, model_type="gpt_oss", head_dim=10, num_local_experts=4, num_experts_per_tok=3,
                             sliding_window=9, intermediate_size=14, max_position_embeddings=131072, formula_seed=1),
    "deepseek_v2_experts": dict(DEEPSEEK, model_type="deepseek_v2", n_shared_experts=1, routed_scaling_factor=1.5,
                                norm_topk_prob=True),
    "deepseek_v2_groups": dict(DEEPSEEK, model_type="deepseek_v2", topk_method="group_limited_greedy", n_group=3,
                               topk_group=2, n_shared_experts=2, routed_scaling_factor=4.0, formula_seed=1),
    "deepseek_v3_experts": dict(DEEPSEEK, model_type="deepseek_v3", n_routed_experts=8, n_group=4, topk_group=2,
                                n_shared_experts=1),
    "deepseek_v3_plain": dict(DEEPSEEK, model_type="deepseek_v3", norm_topk_prob=False, routed_scaling_factor=1.25,
                              n_shared_experts=2, formula_seed=1),
}

if __name__ == "__main__":
    write_decoders(CASES, sys.argv[1])
