#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/alias_configs.jsonl: configurations that give a value under a second name, and what transformers builds.

    python scripts/golden/alias_configs.py            writes all cases anew
    python scripts/golden/alias_configs.py CASE       prints the expanded tree of one case, to compare by hand

The Python must have the versions of families.py; the rows are those of random_configs.py. Each second name is given alone, with
its key, and, where that is legal, as null beside its key: transformers sets names of an attribute_map after its constructor has
derived absent values, and the constructors of bloom, falcon, gemma3 and gpt_neox have habits of their own. Values that no
constructor knows but the model reads (t5's is_gated_act, phi's head_dim) are here too.
"""

import sys

import families
import random_configs

OUT = families.ROOT / "tests/golden/alias_configs.jsonl"
# Second name, key, value of the second name, value of the key, is null legal.
NAMES = {
    "gpt2": ("GPT2LMHeadModel", {}, [
        ("hidden_size", "n_embd", 96, 48, False),
        ("num_hidden_layers", "n_layer", 3, 5, False),
        ("num_attention_heads", "n_head", 4, 6, False),
        ("max_position_embeddings", "n_positions", 40, 30, False)]),
    "bloom": ("BloomForCausalLM", {}, [
        ("n_embed", "hidden_size", 96, 48, True),
        ("num_hidden_layers", "n_layer", 3, 5, False),
        ("num_attention_heads", "n_head", 4, 16, False)]),
    "falcon": ("FalconForCausalLM", {"num_hidden_layers": 2}, [("n_embed", "hidden_size", 142, 284, True)]),
    "t5": ("T5ForConditionalGeneration", {}, [
        ("hidden_size", "d_model", 96, 48, False),
        ("head_dim", "d_kv", 16, 32, False),
        ("num_hidden_layers", "num_layers", 3, 5, False),
        ("num_attention_heads", "num_heads", 4, 2, False)]),
    "gpt_neox": ("GPTNeoXForCausalLM", {"num_hidden_layers": 2}, [
        ("partial_rotary_factor", "rotary_pct", 0.5, 1.0, True),
        ("rope_theta", "rotary_emb_base", 50000.0, 20000.0, True)]),
    "gemma3_text": ("Gemma3ForCausalLM", {"num_hidden_layers": 7}, [
        ("_sliding_window_pattern", "sliding_window_pattern", 2, 3, True)]),
}


def configurations():
    for model_type, (name, others, rows) in NAMES.items():
        for second, key, value, key_value, may_be_null in rows:
            fields = {"model_type": model_type, "architectures": [name], **others}
            case = f"{model_type}-{second}"
            yield f"{case}-alone", {**fields, second: value}
            yield f"{case}-beside", {**fields, key: key_value, second: value}
            yield f"{case}-before", {**fields, second: value, key: key_value}
            if may_be_null:
                yield f"{case}-null", {**fields, key: key_value, second: None}
    derived = {"model_type": "falcon", "architectures": ["FalconModel"], "num_hidden_layers": 2, "n_embed": 142}
    yield "falcon-n_embed-ffn", {**derived, "ffn_hidden_size": 100}
    yield "falcon-n_embed-ffn-null", {**derived, "ffn_hidden_size": None}
    layers = {"model_type": "t5", "architectures": ["T5Model"]}
    yield "t5-layers", {**layers, "num_layers": 3}
    yield "t5-decoder", {**layers, "num_hidden_layers": 3, "num_decoder_layers": 2}
    yield "t5-gated", {**layers, "is_gated_act": True}
    yield "t5-not-gated", {**layers, "feed_forward_proj": "gated-gelu", "is_gated_act": False}
    yield "t5-dense-act", {**layers, "is_gated_act": True, "dense_act_fn": "gelu_new", "feed_forward_proj": "relu"}
    yield "phi-head_dim", {"model_type": "phi", "architectures": ["PhiForCausalLM"], "num_hidden_layers": 2, "head_dim": 48}
    yield "t5-decoder-null", {**layers, "num_hidden_layers": 3, "num_decoder_layers": None}


if __name__ == "__main__":
    random_configs.write(OUT, configurations(), sys.argv[1:])
