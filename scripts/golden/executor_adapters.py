#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/executor/adapters.json and adapter_peft/: what PEFT computes with low-rank adapters of small models.

    python3 -m venv VENV && VENV/bin/pip install peft==0.21.2 transformers==4.57.6 torch==2.15.0
    VENV/bin/python scripts/golden/executor_adapters.py tests/golden/executor

The weights of base and adapter follow from their names by the formula of executor_logits.py; those of the adapter from their names in
the file that PEFT saves. Of one case that file itself is kept, as adapter_peft/.
"""
import json
import os
import shutil
import sys
import tempfile

import peft
import safetensors
import torch
from peft import LoraConfig, get_peft_model, set_peft_model_state_dict
from transformers import AutoConfig, AutoModelForCausalLM

from executor_logits import COMMON, fill, formula

SMALL = dict(COMMON, num_hidden_layers=2)
LLAMA = dict(SMALL, model_type="llama")
CASES = {
    "llama": (LLAMA, dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"])),
    "llama_expression": (LLAMA, dict(r=3, lora_alpha=7, use_rslora=True,
                                     target_modules=r".*layers\.1\.(mlp\.(gate|up|down)_proj|self_attn\.o_proj)")),
    "llama_patterns": (LLAMA, dict(r=4, lora_alpha=4, target_modules=["k_proj", "o_proj", "down_proj"],
                                   rank_pattern={"layers.0.mlp.down_proj": 2}, alpha_pattern={"o_proj": 12},
                                   layers_to_transform=[0])),
    "llama_tables": (LLAMA, dict(r=2, lora_alpha=4, target_modules=["embed_tokens", "lm_head", "up_proj"])),
    "llama_saved": (dict(LLAMA, attention_bias=True),
                    dict(r=2, lora_alpha=2, target_modules=["q_proj"], bias="all",
                         modules_to_save=["lm_head", "norm", "embed_tokens"])),
    "gpt2": (dict(model_type="gpt2", vocab_size=97, n_embd=36, n_layer=2, n_head=6, n_positions=256),
             dict(r=4, lora_alpha=8, target_modules=["c_attn", "c_proj", "c_fc"], fan_in_fan_out=True)),
    "phi3": (dict(SMALL, model_type="phi3"), dict(r=4, lora_alpha=8, target_modules="all-linear")),
    "gpt_neox": (dict(model_type="gpt_neox", vocab_size=97, hidden_size=48, intermediate_size=52, num_hidden_layers=2,
                      num_attention_heads=6, max_position_embeddings=256, rotary_pct=0.5),
                 dict(r=4, lora_alpha=8, target_modules=["query_key_value", "dense"])),
    "gemma2": (dict(SMALL, model_type="gemma2", head_dim=8, query_pre_attn_scalar=8, sliding_window=6),
               dict(r=4, lora_alpha=8, target_modules=["q_proj", "gate_proj"])),
    "mixtral": (dict(SMALL, model_type="mixtral", num_local_experts=4, num_experts_per_tok=2),
                dict(r=2, lora_alpha=4, target_modules=["w1", "w2", "gate", "k_proj"])),
    "deepseek_v2": (dict(SMALL, model_type="deepseek_v2", num_key_value_heads=6, kv_lora_rank=16, q_lora_rank=None,
                         qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=8, n_routed_experts=4, num_experts_per_tok=2,
                         first_k_dense_replace=2, moe_intermediate_size=16),
                    dict(r=2, lora_alpha=4, target_modules=["kv_b_proj", "q_proj", "kv_a_proj_with_mqa"])),
}


def adapted(config, lora):
    made = AutoConfig.for_model(**config)
    made._attn_implementation = "eager"
    torch.manual_seed(0)
    base = fill(AutoModelForCausalLM.from_config(made, torch_dtype=torch.float32).float().eval())
    name = type(base).__name__
    model = get_peft_model(base, LoraConfig(**lora)).eval()
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        # As PEFT names and shapes them, with values of the formula.
        with safetensors.safe_open(os.path.join(folder, "adapter_model.safetensors"), "pt") as file:
            shapes = {key: list(file.get_slice(key).get_shape()) for key in file.keys()}
        state = {key: torch.from_numpy(formula(key, shape)) for key, shape in shapes.items()}
        # The base's own copy of an adapted table keeps its values.
        for key in shapes:
            if ".base_layer." in key:
                state[key] = torch.from_numpy(formula(key.removeprefix("base_model.model.").replace(".base_layer.", "."),
                                                      shapes[key]))
    loaded = set_peft_model_state_dict(model, dict(state))
    assert not loaded.unexpected_keys, loaded.unexpected_keys
    return model, name, shapes, state


def main(output):
    out = {}
    for case, (config, lora) in CASES.items():
        model, name, shapes, state = adapted(config, lora)
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            settings = open(os.path.join(folder, "adapter_config.json")).read()
            with safetensors.safe_open(os.path.join(folder, "adapter_model.safetensors"), "pt") as file:
                assert all(torch.equal(file.get_tensor(key), value) for key, value in state.items()), case
            if case == "llama":
                kept = os.path.join(output, "adapter_peft")
                os.makedirs(kept, exist_ok=True)
                for part in ("adapter_config.json", "adapter_model.safetensors"):
                    shutil.copy(os.path.join(folder, part), kept)
        ids = [(7 * i + i // 5 + 3) % 97 for i in range(24)]
        with torch.no_grad():
            logits = model.double()(torch.tensor([ids])).logits[0]
            with model.disable_adapter():
                moved = (model(torch.tensor([ids])).logits[0] - logits).abs().max()
        out[case] = {
            "config": json.dumps(config | {"architectures": [name]}),
            "adapter": settings,
            "tensors": shapes,
            "ids": ids,
            "logits": {str(n): [float("%.8g" % value) for value in logits[n - 1]] for n in (12, 24)},
        }
        print(case, float(logits.abs().max()), "without the adapter off by", float(moved))
    with open(os.path.join(output, "adapters.json"), "w") as file:
        json.dump(out, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    assert peft.__version__ == "0.21.2", peft.__version__
    main(sys.argv[1])
