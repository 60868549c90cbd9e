#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Loads checkpoints of training by transformers, as anybody would, and compares every weight with the file's.

A weight that transformers misses, does not know, gives another shape or reads as other numbers is an error. Needs transformers and
torch; the suite runs it with the Python that SHARDWISE_PYTHON names.

    check_checkpoint.py OUT/step-000004...
"""
import json
import pathlib
import sys

import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM


def check(folder):
    model, info = AutoModelForCausalLM.from_pretrained(folder, torch_dtype="auto", output_loading_info=True)
    problems = {kind: names for kind, names in info.items() if names}
    if problems:
        sys.exit(f"{folder}: {problems}")
    index = folder / "model.safetensors.index.json"
    names = json.loads(index.read_text())["weight_map"].values() if index.exists() else ["model.safetensors"]
    loaded = model.state_dict()
    seen = set()
    for name in sorted(set(names)):
        with safe_open(folder / name, framework="pt") as file:
            for key in file.keys():
                stored = file.get_tensor(key)
                # transformers 5 renames some as it loads: gpt_neox's embed_out is its lm_head.
                same = [loaded[key]] if key in loaded else list(loaded.values())
                same = [tensor for tensor in same if tensor.dtype == stored.dtype and torch.equal(tensor, stored)]
                if not same:
                    sys.exit(f"{folder}: {key} is another tensor in transformers")
                seen.update(tensor.data_ptr() for tensor in same)
    # What no file holds is tied to what one holds.
    for key, value in model.named_parameters():
        if value.data_ptr() not in seen:
            sys.exit(f"{folder}: {key} is in no file")
    tokens = torch.arange(1, 9).reshape(1, 8)
    logits = model(tokens).logits
    if not torch.isfinite(logits).all():
        sys.exit(f"{folder}: its logits are no numbers")
    print(f"{folder}: {len(loaded)} tensors in {stored.dtype} are transformers'")


for argument in sys.argv[1:]:
    check(pathlib.Path(argument))
