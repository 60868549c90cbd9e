#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/train/adapters.txt: losses and norms of low-rank adapters that PEFT trains, in float64.

    python3 -m venv VENV && VENV/bin/pip install peft==0.21.2 transformers==4.57.6 torch==2.15.0
    VENV/bin/python scripts/golden/train_adapters.py tests/golden/train

Base and adapter begin with the formula of executor_logits.py, by the names that PEFT's file has; tokens are those of train_gradients.py.
A case is a line `case | NAME | config.json | RANK ALPHA TARGETS`, and behind it a line for each step: the loss, the norm before it is
clipped, and the largest error so far of torch's float32 over four orders of the batch.
"""
import json
import sys

import torch
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict

from executor_logits import formula
from train_gradients import BATCH, CASES, CONTEXT, loss_of, make, rate, tokens_of

STEPS = 12
ADAPTERS = {
    "llama": ("llama", 4, 8, ["q_proj", "v_proj"]),
    "llama_all": ("llama_biases", 3, 7, []),
    "gpt2": ("gpt2", 4, 8, ["c_attn", "mlp.c_proj"]),
    "phi3": ("phi3", 2, 8, ["qkv_proj", "gate_up_proj"]),
    "gpt_neox": ("gpt_neox", 4, 8, ["query_key_value", "dense"]),
    "gemma2": ("gemma2", 4, 4, ["k_proj", "o_proj", "down_proj"]),
    "falcon_groups": ("falcon_groups", 4, 8, ["query_key_value", "dense_4h_to_h"]),
    "opt": ("opt", 4, 8, []),
}


def adapted(config, rank, alpha, targets, dtype):
    base = make(config, dtype)
    name = type(base).__name__
    turned = config["model_type"] == "gpt2"
    lora = LoraConfig(r=rank, lora_alpha=alpha, target_modules=targets or "all-linear", fan_in_fan_out=turned)
    # The head has no adapter: PEFT's all-linear leaves it, too.
    model = get_peft_model(base, lora).eval().to(dtype)
    with torch.no_grad():
        trained = {key: value for key, value in model.named_parameters() if value.requires_grad}
        for key, value in trained.items():
            value.copy_(torch.from_numpy(formula(key.replace(".default.", "."), tuple(value.shape))))
    assert len(trained) == len(get_peft_model_state_dict(model))
    return model, name


def losses(config, rank, alpha, targets, dtype, order):
    model, name = adapted(config, rank, alpha, targets, dtype)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=3e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    ids = tokens_of(20 * BATCH * CONTEXT + 1, 97)
    inputs = torch.tensor(ids[:-1]).reshape(20, BATCH, CONTEXT)
    targets = torch.tensor(ids[1:]).reshape(20, BATCH, CONTEXT)
    found, norms = [], []
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        optimizer.zero_grad()
        loss = loss_of(model, inputs[step][order], targets[step][order])
        loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(trained, 1.0)))
        optimizer.step()
        found.append(loss.item())
    return found, norms, name


def main(folder):
    with open(folder + "/adapters.txt", "w") as file:
        file.write("# case | name | config | rank alpha targets: train_adapters.py; then loss, norm, float32's largest error so far\n")
        for case, (model, rank, alpha, targets) in ADAPTERS.items():
            how = (CASES[model], rank, alpha, targets)
            exact, norms, name = losses(*how, torch.float64, [0, 1, 2, 3])
            spread = [0.0] * STEPS
            for order in ([0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1]):
                single, _, _ = losses(*how, torch.float32, order)
                for step in range(STEPS):
                    spread[step] = max(spread[step], abs(single[step] - exact[step]))
            config = json.dumps(CASES[model] | {"architectures": [name]}, separators=(",", ":"))
            file.write(f"case | {case} | {config} | {rank} {alpha} {' '.join(targets)}\n")
            for step in range(STEPS):
                file.write(f"{exact[step]:.15g} {norms[step]:.15g} {max(spread[:step + 1]):.6g}\n")
            print(case, exact[0], exact[-1], max(spread))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(sys.argv[1])
