#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/executor/states.json: as executor_logits.py, with families that keep a state of each sequence.

    executor_states.py OUTPUT
"""
import sys

from executor_logits import COMMON, write_decoders

NEXT = dict(COMMON, model_type="qwen3_next", head_dim=8, linear_num_key_heads=3, linear_num_value_heads=6,
            linear_key_head_dim=6, linear_value_head_dim=4, linear_conv_kernel_dim=4, moe_intermediate_size=20,
            shared_expert_intermediate_size=28, num_experts=8, num_experts_per_tok=3, partial_rotary_factor=0.5)
CASES = {
    # Of a seed with which transformers' own two forms of the rule agree within 3e-5.
    "qwen3_next": dict(NEXT, num_hidden_layers=5, full_attention_interval=4, formula_seed=2),
    "qwen3_next_mixed": dict(NEXT, num_hidden_layers=4, linear_num_key_heads=4, linear_num_value_heads=4,
                             linear_conv_kernel_dim=2, mlp_only_layers=[1], norm_topk_prob=False, attention_bias=True,
                             tie_word_embeddings=True,
                             layer_types=["linear_attention", "full_attention", "full_attention", "linear_attention"]),
    # Ranks without a key head.
    "qwen3_next_one_head": dict(NEXT, num_hidden_layers=2, linear_num_key_heads=1, linear_num_value_heads=3,
                                layer_types=["linear_attention", "full_attention"]),
}

if __name__ == "__main__":
    write_decoders(CASES, sys.argv[1])
