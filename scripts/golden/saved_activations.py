#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/saved_activations.tsv: what torch keeps of one transformer layer for the backward pass.

Small random models of transformers run a forward pass in bf16 while torch.autograd.graph.saved_tensors_hooks counts
each storage once; parameters do not count. One layer is the difference of models with two layers and one. The convention
"shardwise" has norms that keep their input in the model's type and one statistic of each row (a fused kernel) in place of
transformers' own, which compute in fp32. No dropout.

usage: python saved_activations.py (torch 2.9.1, transformers 4.57.6)
"""
import pathlib

import torch
import transformers
from transformers import GPT2Config, LlamaConfig, MixtralConfig

LENGTHS = (128, 256, 512)
BATCH = 2


class FusedNorm(torch.autograd.Function):
    """RMSNorm that keeps its input and one fp32 number of each row."""

    @staticmethod
    def forward(context, values, weight, epsilon):
        scale = torch.rsqrt(values.float().pow(2).mean(-1, keepdim=True) + epsilon)
        context.save_for_backward(values, weight, scale)
        return (values.float() * scale).to(values.dtype) * weight

    @staticmethod
    def backward(context, gradient):
        raise NotImplementedError


def fuse_norms(model):
    for module in model.modules():
        if module.__class__.__name__.endswith("RMSNorm"):
            module.forward = lambda x, m=module: FusedNorm.apply(x, m.weight, m.variance_epsilon)


def saved_bytes(config, length, attention, is_fused):
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=attention).to(torch.bfloat16)
    model.train()
    if is_fused:
        fuse_norms(model)
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    own |= {b.untyped_storage().data_ptr() for b in model.buffers()}
    kept = {}
    held = []

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
            held.append(tensor)
        return tensor

    ids = torch.randint(0, config.vocab_size, (BATCH, length))
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        out = model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=ids, use_cache=False)
    del out
    return sum(kept.values())


def main():
    models = {
        "llama": lambda n: LlamaConfig(vocab_size=512, hidden_size=128, intermediate_size=448, num_hidden_layers=n,
                                       num_attention_heads=8, num_key_value_heads=2, max_position_embeddings=2048),
        "gpt2": lambda n: GPT2Config(vocab_size=512, n_embd=128, n_layer=n, n_head=8, n_positions=2048,
                                     resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0),
        "mixtral": lambda n: MixtralConfig(vocab_size=512, hidden_size=128, intermediate_size=448, num_hidden_layers=n,
                                           num_attention_heads=8, num_key_value_heads=2, num_local_experts=8,
                                           num_experts_per_tok=2, max_position_embeddings=2048, sliding_window=None),
    }
    cases = []
    for name, config_of in models.items():
        for length in LENGTHS:
            row = {"model": name, "batch": BATCH, "context": length}
            for attention, word in (("sdpa", "blocked"), ("eager", "eager")):
                for is_fused, convention in ((True, "shardwise"), (False, "transformers")):
                    two = saved_bytes(config_of(2), length, attention, is_fused)
                    one = saved_bytes(config_of(1), length, attention, is_fused)
                    row[f"{convention}.{word}"] = two - one
                    row[f"{convention}.{word}.rest"] = 2 * one - two
            cases.append(row)
            print(row)
    path = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/saved_activations.tsv"
    columns = list(cases[0])
    lines = [f"# scripts/golden/saved_activations.py, torch {torch.__version__.split('+')[0]}, transformers {transformers.__version__}",
             "\t".join(columns)]
    lines += ["\t".join(str(row[column]) for column in columns) for row in cases]
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
