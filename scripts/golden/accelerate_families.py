# SPDX-License-Identifier: Apache-2.0
"""Device maps of transformers 5.23.0 (torch 2.9.1, accelerate 1.15.0) for small models of real families.

  accelerate_families.py --out tests/golden/accelerate/families.jsonl

Families, strategies and budgets are those for which 5.0's rules gave other maps; `regression` is transformers' own test case
(tests/utils/test_device_map.py, #46823: a large embedding and ample budgets over eight GPUs). An empty tree line means: the
same tree as before.
"""

import argparse
import json

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

import accelerate_transformers
import accelerate_tree

assert transformers.__version__ == "5.23.0", transformers.__version__
DENSE = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
             vocab_size=512, max_position_embeddings=64)
MODELS = {
    "llama": ("llama", DENSE | {"tie_word_embeddings": False}),
    "qwen3": ("qwen3", DENSE | {"tie_word_embeddings": True}),
    "gemma3": ("gemma3_text", DENSE | {"layer_types": ["sliding_attention", "full_attention"] * 2}),
    "mixtral": ("mixtral", DENSE | {"num_local_experts": 4, "num_experts_per_tok": 2}),
    "deepseek": ("deepseek_v3", dict(hidden_size=32, intermediate_size=96, moe_intermediate_size=16, num_hidden_layers=3, num_attention_heads=4,
                                     num_key_value_heads=4, n_routed_experts=8, n_group=2, topk_group=1, num_experts_per_tok=2,
                                     q_lora_rank=16, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8,
                                     first_k_dense_replace=1, vocab_size=512, max_position_embeddings=64)),
    "gpt2": ("gpt2", dict(n_embd=32, n_layer=4, n_head=4, n_positions=64, vocab_size=512)),
    "opt": ("opt", dict(hidden_size=32, ffn_dim=64, num_hidden_layers=4, num_attention_heads=4, word_embed_proj_dim=32, vocab_size=512,
                        max_position_embeddings=64)),
    "t5": ("t5", dict(d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, vocab_size=512)),
    "regression": ("llama", DENSE | {"num_hidden_layers": 8, "vocab_size": 4096, "hidden_size": 64, "head_dim": 16, "tie_word_embeddings": False}),
}
STRATEGIES = ["auto", "balanced", "balanced_low_0", "sequential"]


def tree_of(model):
    groups = {}
    for other, source in model.all_tied_weights_keys.items():
        groups.setdefault(source, [source]).append(other)
    tree = accelerate_tree.describe(model)
    return tree | {"tied": list(groups.values())} if groups else tree


def budgets(total):
    yield {str(i): 3 * total // 8 for i in range(8)} | {"cpu": 10 * total}
    yield {str(i): int(total * 0.55) for i in range(2)} | {"cpu": 10 * total}
    yield {str(i): int(total * 0.8) for i in range(2)}
    yield {str(i): int(total * 0.4) for i in range(4)} | {"cpu": total}
    yield {"0": total // 10, "1": total // 2, "2": total} | {"cpu": total}
    yield {"0": total // 5, "cpu": total // 3}


def cases():
    for name, (kind, options) in MODELS.items():
        config = transformers.AutoConfig.for_model(kind, **options)
        maker = AutoModelForSeq2SeqLM if kind == "t5" else AutoModelForCausalLM
        with torch.device("meta"):
            model = maker.from_config(config)
        tree = tree_of(model)
        total = int(accelerate_transformers.fork.compute_module_sizes(model)[0][""])
        is_first = True
        for limits in budgets(total):
            for strategy in STRATEGIES:
                case = {"family": name, "strategy": strategy, "no_split": sorted(model._no_split_modules), "max_memory": limits}
                case["expect"] = accelerate_transformers.answer_of(model, tree, case)
                yield case, tree if is_first else None
                is_first = False


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    with open(parser.parse_args().out, "w") as file:
        for case, tree in cases():
            file.write(json.dumps(case, separators=(",", ":")) + "\n")
            file.write((json.dumps(tree, separators=(",", ":")) if tree else "") + "\n")
