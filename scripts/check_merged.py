#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the model that `shardwise train --lora R --merge` wrote with what PEFT's merge_and_unload makes of base and adapter.

transformers loads the merged folder as it is, and the names of both models' weights are the same. A weight that differs by more than
float32's rounding of the sum (1e-6 of its largest element), or in a weight that the adapter does not change at all, is an error.
Needs peft, transformers and torch; the suite runs it with the Python that SHARDWISE_PYTHON names.

    check_merged.py BASE ADAPTER MERGED
"""
import sys

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM


def main(base, adapter, merged):
    plain = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32).state_dict()
    wanted = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32), adapter)
    wanted = wanted.merge_and_unload().state_dict()
    found = AutoModelForCausalLM.from_pretrained(merged, dtype=torch.float32).state_dict()
    if set(wanted) != set(found):
        sys.exit(f"{merged}: other weights than PEFT's: {sorted(set(wanted) ^ set(found))}")
    changed, worst = 0, 0.0
    for name, value in wanted.items():
        error = float((found[name] - value).abs().max()) / max(float(value.abs().max()), 1e-30)
        moved = not torch.equal(plain[name], value)
        changed += moved
        worst = max(worst, error)
        if error > (1e-6 if moved else 0.0):
            sys.exit(f"{merged}: {name} differs by {error} of its largest element")
        if moved and torch.equal(plain[name], found[name]):
            sys.exit(f"{merged}: {name} is the base's")
    if changed == 0:
        sys.exit(f"{merged}: the adapter changes nothing")
    print(f"{merged}: {len(found)} weights, {changed} of them merged, within {worst:.1e} of PEFT's")


if __name__ == "__main__":
    main(*sys.argv[1:])
