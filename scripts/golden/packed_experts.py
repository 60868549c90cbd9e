#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/packed_experts/: gpt_oss checkpoints as they are published (experts stacked, in MXFP4 or bf16), and their logits.

Versions: torch 2.9.1, transformers 4.57.6. Run: VENV/bin/python scripts/golden/packed_experts.py

The logits are transformers' with the weights in fp32, MXFP4 decoded by its convert_moe_packed_tensors.
"""
import json
import pathlib
import shutil

import torch
from safetensors.torch import save_file
from transformers import GptOssConfig, GptOssForCausalLM
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/packed_experts"
IDS = [3, 17, 8, 30, 1, 22, 9]
COMMON = dict(vocab_size=32, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
              num_local_experts=3, num_experts_per_tok=2, sliding_window=4, max_position_embeddings=64,
              bos_token_id=1, eos_token_id=2, pad_token_id=0, tie_word_embeddings=False)
CASES = {
    "gpt_oss_mxfp4": dict(hidden_size=64, intermediate_size=96),
    "gpt_oss_bf16": dict(hidden_size=24, intermediate_size=20),
}


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    expected = {}
    for case, sizes in CASES.items():
        fields = dict(COMMON, **sizes)
        config = GptOssConfig(**fields)
        config._attn_implementation = "eager"
        torch.manual_seed(len(expected))
        model = GptOssForCausalLM(config).eval().float()
        state = {}
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                stored = (torch.randn(parameter.shape) * 0.25 + float(name.endswith("norm.weight"))).bfloat16()
                if case.endswith("mxfp4") and name.endswith("_proj"):
                    experts, inputs, outputs = parameter.shape
                    blocks = torch.randint(0, 256, (experts, outputs, inputs // 32, 16), dtype=torch.uint8)
                    scales = torch.randint(121, 124, (experts, outputs, inputs // 32), dtype=torch.uint8)
                    parameter.copy_(convert_moe_packed_tensors(blocks, scales, dtype=torch.float32))
                    state |= {name + "_blocks": blocks, name + "_scales": scales}
                else:
                    parameter.copy_(stored.float())
                    state[name] = stored
            logits = model(torch.tensor([IDS])).logits[0, -1].double()
        folder = OUT / case
        folder.mkdir(parents=True)
        quantization = {"quantization_config": {"quant_method": "mxfp4"}} if case.endswith("mxfp4") else {}
        fields |= {"model_type": "gpt_oss", "architectures": ["GptOssForCausalLM"], "torch_dtype": "bfloat16"}
        (folder / "config.json").write_text(json.dumps(fields | quantization, indent=1) + "\n")
        save_file(state, folder / "model.safetensors")
        expected[case] = {"logits": [float("%.8g" % value) for value in logits]}
        print(case, float(logits.abs().max()))
    (OUT / "expected.json").write_text(json.dumps({"ids": IDS, "cases": expected}) + "\n")


if __name__ == "__main__":
    main()
