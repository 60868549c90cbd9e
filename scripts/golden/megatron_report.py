#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/megatron_report.tsv: what Megatron-LM's report of theoretical memory says of four models.

usage: python megatron_report.py CHECKOUT_OF_MEGATRON_LM (d98e8a6; nothing of it is copied, its functions are called)

States of the most loaded rank, and activations of the first stage: with sequence parallelism and selective
recomputation, and without. 4 micro-batches of one sequence of 4096 tokens; the vocabulary is not padded.
"""
import pathlib
import sys
import types

MODELS = {  # vocabulary, hidden, layers, heads, key-value heads, feed-forward
    "llama-2-7b": (32000, 4096, 32, 32, 32, 11008),
    "llama-3-8b": (128256, 4096, 32, 32, 8, 14336),
    "llama-3-70b": (128256, 8192, 80, 64, 8, 28672),
    "mistral-7b": (32000, 4096, 32, 32, 8, 14336),
}


def load(checkout):
    package = types.ModuleType("megatron_training")
    package.__path__ = []
    utils = types.ModuleType("megatron_training.utils")
    utils.print_rank_0 = lambda *words: None
    utils.is_hybrid_model = lambda args: False
    sys.modules.update({"megatron_training": package, "megatron_training.utils": utils})
    path = pathlib.Path(checkout) / "megatron/training/theoretical_memory_usage.py"
    source = path.read_text()
    module = types.ModuleType("megatron_training.report")
    module.__package__ = "megatron_training"
    lines = [line for line in source.splitlines() if not line.startswith("from megatron")]
    exec(compile("\n".join(lines), str(path), "exec"), module.__dict__)
    return module


def main():
    report = load(sys.argv[1])
    rows = ["model\ttp\tpp\tdp\tzero\tstates\tselective\tplain"]
    for name, (vocabulary, hidden, layers, heads, groups, width) in MODELS.items():
        for tp in (1, 2, 4, 8):
            for pp in (1, 2, 4):
                for dp, zero in ((1, 0), (8, 0), (8, 1)):
                    args = types.SimpleNamespace(
                        kv_channels=hidden // heads, num_attention_heads=heads, hidden_size=hidden,
                        group_query_attention=True, num_query_groups=groups, num_experts=None, swiglu=True,
                        moe_shared_expert_intermediate_size=None, moe_latent_size=None, moe_router_topk=2,
                        add_bias_linear=False, num_layers=layers, mtp_num_layers=None, normalization="RMSNorm",
                        multi_latent_attention=False, ffn_hidden_size=width, padded_vocab_size=vocabulary,
                        untie_embeddings_and_output_weights=True, pipeline_model_parallel_size=pp,
                        tensor_model_parallel_size=tp, expert_tensor_parallel_size=tp, expert_model_parallel_size=1,
                        world_size=tp * pp * dp, data_parallel_size=dp, use_distributed_optimizer=zero == 1,
                        seq_length=4096, micro_batch_size=1, virtual_pipeline_model_parallel_size=None)
                    states = report.compute_weight_and_optimizer_memory(args)
                    selective = report.compute_activation_memory(args, 4)
                    plain = report.compute_activation_memory_without_sp(args, 4)
                    rows.append(f"{name}\t{tp}\t{pp}\t{dp}\t{zero}\t{states:.1f}\t{selective:.1f}\t{plain:.1f}")
    path = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/megatron_report.tsv"
    path.write_text("# scripts/golden/megatron_report.py, Megatron-LM d98e8a6\n" + "\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
