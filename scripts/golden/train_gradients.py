#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/train/gradients.txt and losses.txt: what torch computes, in float64, when small models of many families are trained.

Weights follow from their names (executor_logits.py), tokens and directions from a formula, so that none are stored. gradients.txt has a
case a line, `case | NAME | config.json`, its mean loss, and behind it a line for each parameter: the norm of its gradient, the norm of
the error of torch's float32, and the products with four directions. losses.txt has the losses of 20 steps of AdamW, in float64 and
the largest error so far of float32 over four orders of the batch. Needs transformers==4.57.6 and torch.

    train_gradients.py FOLDER
"""
import json
import math
import sys

import numpy
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from executor_logits import COMMON, fill, formula

BASE = dict(COMMON, num_hidden_layers=2, attention_dropout=0.0)
CASES = {
    "llama": dict(BASE, model_type="llama"),
    "llama_biases": dict(BASE, model_type="llama", attention_bias=True, mlp_bias=True, head_dim=8),
    "llama_tied": dict(BASE, model_type="llama", tie_word_embeddings=True, num_key_value_heads=6),
    "mistral_window": dict(BASE, model_type="mistral", sliding_window=7, head_dim=6),
    "qwen2": dict(BASE, model_type="qwen2"),
    "qwen3": dict(BASE, model_type="qwen3", head_dim=8),
    "gemma": dict(BASE, model_type="gemma", head_dim=8),
    "gemma2": dict(BASE, model_type="gemma2", head_dim=8, query_pre_attn_scalar=8, sliding_window=6),
    "gemma3": dict(BASE, model_type="gemma3_text", head_dim=8, query_pre_attn_scalar=8, sliding_window=6,
                   num_hidden_layers=7),
    "phi": dict(BASE, model_type="phi", hidden_size=48, partial_rotary_factor=0.5, num_key_value_heads=6),
    "phi3": dict(BASE, model_type="phi3"),
    "gpt2": dict(model_type="gpt2", vocab_size=97, n_embd=36, n_layer=2, n_head=6, n_positions=256),
    "gpt2_scaled": dict(model_type="gpt2", vocab_size=97, n_embd=36, n_layer=2, n_head=6, n_positions=256,
                        scale_attn_by_inverse_layer_idx=True, tie_word_embeddings=False),
    "gpt_neox": dict(model_type="gpt_neox", vocab_size=97, hidden_size=48, intermediate_size=52, num_hidden_layers=2,
                     num_attention_heads=6, max_position_embeddings=256, rotary_pct=0.5),
    "opt": dict(model_type="opt", vocab_size=97, hidden_size=36, ffn_dim=52, num_hidden_layers=2, num_attention_heads=6,
                max_position_embeddings=256, word_embed_proj_dim=36),
    "opt_projected": dict(model_type="opt", vocab_size=97, hidden_size=36, ffn_dim=52, num_hidden_layers=2,
                          num_attention_heads=6, max_position_embeddings=256, word_embed_proj_dim=24,
                          do_layer_norm_before=False),
    "falcon_multi_query": dict(model_type="falcon", vocab_size=97, hidden_size=36, num_hidden_layers=2,
                               num_attention_heads=6, multi_query=True, parallel_attn=True, bias=False, alibi=False),
    "falcon_groups": dict(model_type="falcon", vocab_size=97, hidden_size=36, num_hidden_layers=2, num_attention_heads=6,
                          num_kv_heads=2, new_decoder_architecture=True, bias=False, alibi=False),
    "granite": dict(BASE, model_type="granite", embedding_multiplier=12.0, residual_multiplier=0.22,
                    attention_multiplier=0.125, logits_scaling=0.25),
    "olmo2": dict(BASE, model_type="olmo2", attention_bias=True),
}
SEQUENCES, CONTEXT, DIRECTIONS = 3, 20, 4


def tokens_of(count, vocabulary):
    return [(7 * i + i * i // 11 + i // 5 + 3) % vocabulary for i in range(count)]


def batch():
    """Windows of CONTEXT + 1 tokens, CONTEXT apart; some targets have no loss."""
    ids = tokens_of(SEQUENCES * CONTEXT + 1, 97)
    inputs = torch.tensor(ids[:-1]).reshape(SEQUENCES, CONTEXT)
    targets = torch.tensor(ids[1:]).reshape(SEQUENCES, CONTEXT).clone()
    targets[1, :5] = -100
    targets[2, 17:] = -100
    return inputs, targets


def make(config, dtype):
    made = AutoConfig.for_model(**config)
    made._attn_implementation = "eager"
    torch.manual_seed(0)
    model = fill(AutoModelForCausalLM.from_config(made, torch_dtype=torch.float32).eval()).to(dtype)
    for module in model.modules():
        # The padding token's row has no gradient in torch. There is no padding here: that id is a token as any other.
        if isinstance(module, torch.nn.Embedding):
            module.padding_idx = None
    return model


def loss_of(model, inputs, targets):
    logits = model(inputs, use_cache=False).logits
    return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1), ignore_index=-100)


def gradients(config, dtype):
    model = make(config, dtype)
    loss = loss_of(model, *batch())
    loss.backward()
    return type(model).__name__, loss.item(), {
        name: parameter.grad.double().numpy().reshape(-1) for name, parameter in model.named_parameters()
    }


def write_gradients(path):
    with open(path, "w") as file:
        file.write("# case | config: train_gradients.py; then loss | ...; then parameter | norm float32_error products\n")
        for case, config in CASES.items():
            name, loss, exact = gradients(config, torch.float64)
            _, _, single = gradients(config, torch.float32)
            file.write(f"case | {case} | {json.dumps(config | {'architectures': [name]}, separators=(',', ':'))}\n")
            file.write(f"loss | {loss:.15g}\n")
            for parameter, values in exact.items():
                error = numpy.linalg.norm(single[parameter] - values)
                products = [
                    float(numpy.dot(values, formula(f"{k}:{parameter}", (1, values.size)).astype(numpy.float64).reshape(-1)))
                    for k in range(DIRECTIONS)
                ]
                numbers = [float(numpy.linalg.norm(values)), float(error)] + products
                file.write(f"{parameter} | " + " ".join(f"{number:.9g}" for number in numbers) + "\n")
            print(case, loss)


STEPS, BATCH = 20, 4
CURVE = dict(BASE, model_type="llama", num_attention_heads=4, hidden_size=32, num_key_value_heads=2)


def rate(step):
    """Cosine to a tenth, two steps of warm-up."""
    if step < 2:
        return 3e-3 * step / 2
    return 3e-3 * (0.1 + 0.9 * 0.5 * (1.0 + math.cos(math.pi * (step - 2) / (STEPS - 2))))


def losses(dtype, order):
    model = make(CURVE, dtype)
    groups = [dict(params=[p for p in model.parameters() if p.dim() >= 2], weight_decay=0.1),
              dict(params=[p for p in model.parameters() if p.dim() < 2], weight_decay=0.0)]
    optimizer = torch.optim.AdamW(groups, lr=3e-3, betas=(0.9, 0.95), eps=1e-8)
    ids = tokens_of(STEPS * BATCH * CONTEXT + 1, 97)
    inputs = torch.tensor(ids[:-1]).reshape(STEPS, BATCH, CONTEXT)
    targets = torch.tensor(ids[1:]).reshape(STEPS, BATCH, CONTEXT)
    found = []
    norms = []
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        optimizer.zero_grad()
        loss = loss_of(model, inputs[step][order], targets[step][order])
        loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)))
        optimizer.step()
        found.append(loss.item())
    return found, norms


def write_losses(path):
    exact, norms = losses(torch.float64, [0, 1, 2, 3])
    spread = [0.0] * STEPS
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1]):
        single, _ = losses(torch.float32, order)
        for step in range(STEPS):
            spread[step] = max(spread[step], abs(single[step] - exact[step]))
    with open(path, "w") as file:
        file.write("# the config; then a line for each step: loss, norm before clipping, float32's largest error so far\n")
        file.write(json.dumps(CURVE | {"architectures": ["LlamaForCausalLM"]}, separators=(",", ":")) + "\n")
        for step in range(STEPS):
            file.write(f"{exact[step]:.15g} {norms[step]:.15g} {max(spread[:step + 1]):.6g}\n")
    print(exact[0], exact[-1], spread)


if __name__ == "__main__":
    torch.set_num_threads(1)
    write_gradients(sys.argv[1] + "/gradients.txt")
    write_losses(sys.argv[1] + "/losses.txt")
