#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/executor/classic.json: as executor_logits.py, for older families and their switches.

    executor_classic.py OUTPUT
"""
import sys

from executor_logits import write_decoders

COMMON = dict(vocab_size=97, hidden_size=36, num_hidden_layers=2, num_attention_heads=6)
GPT2 = dict(model_type="gpt2", vocab_size=97, n_embd=36, n_layer=3, n_head=6, n_positions=64)
CASES = {
    "bloom": dict(COMMON, model_type="bloom"),
    "falcon_one_key": dict(COMMON, model_type="falcon", multi_query=True, parallel_attn=True, bias=False),
    "falcon_groups": dict(COMMON, model_type="falcon", num_kv_heads=2, new_decoder_architecture=True, bias=False),
    "falcon_sequential": dict(COMMON, model_type="falcon", multi_query=False, parallel_attn=False, bias=True),
    "gpt2_by_layer": dict(GPT2, n_inner=40, scale_attn_by_inverse_layer_idx=True),
    "gpt2_unscaled": dict(GPT2, scale_attn_weights=False),
}

if __name__ == "__main__":
    write_decoders(CASES, sys.argv[1])
