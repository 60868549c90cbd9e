#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/executor/logits.json: what transformers 4.57 computes with small models of many families.

Weights follow from their names by a formula that the test repeats (tests/executor/formula.hpp), so that none are stored:
element i of the tensor `name` is made of splitmix64(fnv1a(name) + i). Needs transformers==4.57.6 and torch.

    executor_logits.py OUTPUT
"""
import contextlib
import json
import math
import sys

import numpy
import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

COMMON = dict(vocab_size=97, hidden_size=36, intermediate_size=52, num_hidden_layers=3, num_attention_heads=6,
              num_key_value_heads=2, max_position_embeddings=256, bos_token_id=1, eos_token_id=2, pad_token_id=0)
CASES = {
    "llama": dict(COMMON, model_type="llama"),
    "llama_biases": dict(COMMON, model_type="llama", attention_bias=True, mlp_bias=True, head_dim=8),
    "llama3_scaled": dict(COMMON, model_type="llama", rope_theta=500000.0,
                          rope_scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                            original_max_position_embeddings=32)),
    "llama_tied": dict(COMMON, model_type="llama", tie_word_embeddings=True, num_key_value_heads=6),
    "mistral_window": dict(COMMON, model_type="mistral", sliding_window=7, head_dim=6),
    "qwen2": dict(COMMON, model_type="qwen2"),
    "qwen3": dict(COMMON, model_type="qwen3", head_dim=8),
    "phi3": dict(COMMON, model_type="phi3"),
    "phi": dict(COMMON, model_type="phi", hidden_size=48, partial_rotary_factor=0.5, num_key_value_heads=6),
    "gemma": dict(COMMON, model_type="gemma", head_dim=8),
    "gemma2": dict(COMMON, model_type="gemma2", head_dim=8, query_pre_attn_scalar=8, sliding_window=6),
    "gemma3": dict(COMMON, model_type="gemma3_text", head_dim=8, query_pre_attn_scalar=8, sliding_window=6,
                   num_hidden_layers=7, attn_logit_softcapping=5.0),
    "gpt2": dict(model_type="gpt2", vocab_size=97, n_embd=36, n_layer=3, n_head=6, n_positions=256),
    "opt": dict(model_type="opt", vocab_size=97, hidden_size=36, ffn_dim=52, num_hidden_layers=3, num_attention_heads=6,
                max_position_embeddings=256, word_embed_proj_dim=36),
    "gpt_neox": dict(model_type="gpt_neox", vocab_size=97, hidden_size=48, intermediate_size=52, num_hidden_layers=3,
                     num_attention_heads=6, max_position_embeddings=256, rotary_pct=0.5),
}


def fnv1a(name):
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def formula(name, shape, seed=0):
    """Uniform in [-0.5, 0.5), times a scale; around 1 for vectors called weight."""
    count = int(numpy.prod(shape))
    start = (fnv1a(name) + seed * 0xD1342543DE82EF95) % 2**64
    with numpy.errstate(over="ignore"):
        x = numpy.uint64(start) + numpy.arange(count, dtype=numpy.uint64)
        x = x + numpy.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        x = x ^ (x >> numpy.uint64(31))
    unit = (x >> numpy.uint64(40)).astype(numpy.float64) / 2.0**24 - 0.5
    if len(shape) >= 2:
        return (unit * 0.5).astype(numpy.float32).reshape(shape)
    if name.endswith("weight"):
        return (1.0 + unit * 0.5).astype(numpy.float32)
    return (unit * 0.25).astype(numpy.float32)


def fill(model, seed=0):
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(formula(name, tuple(parameter.shape), seed)))
        # The only buffers of a checkpoint: how deepseek_v3's routers are corrected, and what apertus' activations multiply with.
        for name, buffer in model.named_buffers():
            if name.endswith(("e_score_correction_bias", "act_fn.beta", "act_fn.eps")):
                buffer.copy_(torch.from_numpy(formula(name, tuple(buffer.shape), seed)).reshape(buffer.shape))
    return model


def initialising(config):
    """4.57 cannot initialise stablelm's norms of heads, which have no biases: there nothing is, and ties are missing."""
    if not config.get("qk_layernorm"):
        return contextlib.nullcontext()
    from transformers.modeling_utils import no_init_weights
    return no_init_weights()


def as_published(model):
    """Scores of deepseek_v2 under yarn grow by mscale_all_dim in the publisher's code, llama.cpp and transformers 5 (5.23, models/
    deepseek_v2/modeling_deepseek_v2.py, yarn_apply_mscale); 4.57 leaves that out."""
    scaling = getattr(model.config, "rope_scaling", None) or {}
    if model.config.model_type == "deepseek_v2" and scaling.get("mscale_all_dim"):
        growth = 0.1 * scaling["mscale_all_dim"] * math.log(scaling["factor"]) + 1.0
        for module in model.modules():
            if type(module).__name__ == "DeepseekV2Attention":
                module.scaling *= growth * growth
    return model


def write_decoders(cases, output, version="4.57", fill=fill):
    """With `fill(model, seed)` for the classes of another version, whose parameters have other names."""
    assert transformers.__version__.startswith(version), transformers.__version__
    out = {}
    for case, config in cases.items():
        seed = config.get("formula_seed", 0)
        published = config.get("published_as", config["model_type"])
        attention = config.get("computed_by", "eager")
        config = {key: value for key, value in config.items() if key not in ("formula_seed", "published_as", "computed_by")}
        made = AutoConfig.for_model(**config)
        made._attn_implementation = attention
        torch.manual_seed(0)
        with initialising(config):
            model = AutoModelForCausalLM.from_config(made, torch_dtype=torch.float32)
        model.tie_weights()
        model = fill(model.float().eval(), seed)
        model = as_published(model)
        ids = [(7 * i + i // 5 + 3) % 97 for i in range(24)]
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0].double()
        out[case] = {
            # As text: the test writes it as config.json.
            "config": json.dumps(config | {"model_type": published, "architectures": [type(model).__name__]}),
            "seed": seed,
            "ids": ids,
            # The rows behind tokens 4, 12 and 24: windows and scaling matter in the last ones.
            "logits": {str(n): [float("%.8g" % value) for value in logits[n - 1]] for n in (4, 12, 24)},
        }
        print(case, float(logits.abs().max()))
    with open(output, "w") as file:
        json.dump(out, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    write_decoders(CASES, sys.argv[1])
