#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/sampling.txt: the distributions that transformers' logits processors leave.

Run with a Python that has torch 2.9.1 and transformers 4.57.6. One line per case: penalty temperature top_k top_p min_p | history
| logits | probabilities; logits and probabilities as hexadecimal floats.
"""

import pathlib
import sys
from importlib.metadata import version

import torch
from transformers.generation.logits_process import (LogitsProcessorList, MinPLogitsWarper, RepetitionPenaltyLogitsProcessor,
                                                    TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper)

PINNED = {"torch": "2.9.1", "transformers": "4.57.6"}
OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/sampling.txt"
# penalty, temperature, top_k, top_p, min_p
CASES = [(1.0, 1.0, 0, 1.0, 0.0), (1.3, 1.0, 0, 1.0, 0.0), (0.7, 0.8, 0, 1.0, 0.0), (1.0, 0.5, 5, 1.0, 0.0), (1.0, 1.7, 1, 1.0, 0.0),
         (1.0, 1.0, 0, 0.9, 0.0), (1.0, 1.0, 0, 0.05, 0.0), (1.0, 1.0, 0, 0.0, 0.0), (1.0, 2.0, 0, 0.5, 0.0), (1.0, 1.0, 0, 1.0, 0.1),
         (1.0, 1.0, 0, 1.0, 1.0), (1.1, 0.7, 20, 0.8, 0.05), (1.2, 1.5, 50, 0.95, 0.02), (1.05, 0.3, 8, 0.99, 0.2)]


def main():
    found = {name: version(name).split("+")[0] for name in PINNED}
    if found != PINNED:
        sys.exit(f"sampling.py: the golden data is pinned to {PINNED}, this Python has {found}")
    generator = torch.Generator().manual_seed(7)
    lines = ["# penalty temperature top_k top_p min_p | history | logits | probabilities"]
    for penalty, temperature, top_k, top_p, min_p in CASES:
        logits = torch.randn(1, 40, generator=generator) * 2.5
        logits[0, 11] = logits[0, 23]  # equal ones
        logits[0, 7] = -float("inf")
        history = torch.tensor([[3, 11, 3, int(logits.argmax()), 7]])
        processors = LogitsProcessorList()
        if penalty != 1.0:
            processors.append(RepetitionPenaltyLogitsProcessor(penalty))
        processors.append(TemperatureLogitsWarper(temperature))
        if top_k:
            processors.append(TopKLogitsWarper(top_k))
        if top_p < 1.0:
            processors.append(TopPLogitsWarper(top_p))
        if min_p:
            processors.append(MinPLogitsWarper(min_p))
        left = processors(history, logits.clone()).double().softmax(-1)
        words = [f"{penalty} {temperature} {top_k} {top_p} {min_p}", " ".join(str(int(i)) for i in history[0])]
        words += [" ".join(float(value).hex() for value in row[0]) for row in (logits, left)]
        lines.append(" | ".join(words))
    OUT.write_text("\n".join(lines) + "\n")


main()
