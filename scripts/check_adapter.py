#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Loads an adapter that `shardwise train --lora` wrote by PEFT, as anybody would, and compares logits with those of `shardwise run`.

A tensor that PEFT misses or does not know is an error, and so are logits that differ by more than 1e-4. LOGITS is the file of
`run BASE --adapter ADAPTER --prompt-ids IDS --max-new-tokens 1 --logits LOGITS`. Needs peft, transformers and torch; the suite runs it
with the Python that SHARDWISE_PYTHON names.

    check_adapter.py BASE ADAPTER LOGITS 3,10,17
"""
import pathlib
import sys

import torch
from peft import PeftModel, get_peft_model_state_dict
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM


def main(base, adapter, logits, ids):
    model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base, dtype=torch.float64), adapter)
    wanted = get_peft_model_state_dict(model)
    stored = load_file(pathlib.Path(adapter) / "adapter_model.safetensors")
    if set(wanted) != set(stored):
        sys.exit(f"{adapter}: PEFT asks for other tensors: {sorted(set(wanted) ^ set(stored))}")
    for name, value in stored.items():
        if not torch.equal(wanted[name].float(), value):
            sys.exit(f"{adapter}: {name} is another tensor in PEFT")
    tokens = torch.tensor([[int(word) for word in ids.split(",")]])
    with torch.no_grad():
        expected = model.double()(tokens).logits[0, -1]
        with model.disable_adapter():
            plain = model(tokens).logits[0, -1]
    found = torch.frombuffer(bytearray(pathlib.Path(logits).read_bytes()), dtype=torch.float32).reshape(-1, expected.numel())[0]
    worst, moved = float((found - expected).abs().max()), float((plain - expected).abs().max())
    if worst > 1e-4 or moved < 10 * worst:
        sys.exit(f"{adapter}: logits differ by {worst}; the adapter moves them by {moved}")
    print(f"{adapter}: {len(stored)} tensors, logits within {worst:.1e}; the adapter moves them by {moved:.1e}")


if __name__ == "__main__":
    main(*sys.argv[1:])
