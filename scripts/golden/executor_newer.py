#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/executor/newer.json: as executor_logits.py, with the families that begin in transformers 5. Needs 5.23.0.

    executor_newer.py OUTPUT
"""
import sys

import torch

from executor_logits import COMMON, formula, write_decoders

CASES = {
    "minimax_m2": dict(COMMON, model_type="minimax_m2", intermediate_size=20, head_dim=8, rotary_dim=4, num_local_experts=8,
                       num_experts_per_tok=3),
    "minimax_m2_whole": dict(COMMON, model_type="minimax_m2", num_hidden_layers=2, intermediate_size=20, head_dim=6,
                             num_key_value_heads=6, num_local_experts=4, num_experts_per_tok=2, tie_word_embeddings=True),
}


def fill_unstacked(model, seed=0):
    """Experts are stacked in version 5: each gets what it has under the published name."""
    def put(place, name):
        place.copy_(torch.from_numpy(formula(name, tuple(place.shape), seed)))
    with torch.no_grad():
        for name, tensor in list(model.named_parameters()) + list(model.named_buffers()):
            if name.endswith("inv_freq"):
                continue
            name = name.replace(".mlp.", ".block_sparse_moe.")
            if ".experts." not in name:
                put(tensor, name)
                continue
            for expert, whole in enumerate(tensor):
                at = f"{name[:name.rindex('.')]}.{expert}"
                if name.endswith("gate_up_proj"):
                    gate, up = whole.chunk(2)
                    put(gate, f"{at}.w1.weight")
                    put(up, f"{at}.w3.weight")
                else:
                    put(whole, f"{at}.w2.weight")
    return model


if __name__ == "__main__":
    write_decoders(CASES, sys.argv[1], "5.23", fill_unstacked)
