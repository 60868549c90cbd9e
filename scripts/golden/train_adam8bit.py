#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/train/adam8bit.txt: the maps of bitsandbytes, and three steps of its 8-bit AdamW on the processor.

The library's quantisation for processors looks small numbers up in a coarse table and misses the nearest code (10 % of numbers that are
small within their block); its CUDA kernels and its fallback in torch take the nearest, which stands here in its place.

Run with a Python that has torch 2.9.1 and bitsandbytes 0.50.2. The inputs are those of train_parts.py; the parameter has 4,200
elements, whose last block is not full.
"""

import pathlib
import sys
from importlib.metadata import version

import bitsandbytes
import bitsandbytes.backends.cpu.ops as processor
import torch
from bitsandbytes.functional import create_dynamic_map

PINNED = {"torch": "2.9.1", "bitsandbytes": "0.50.2"}
OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/train/adam8bit.txt"
ELEMENTS = 4200


def numbers(first, count):
    """Multiples of 2^-24 in [-1/2, 1/2): exact in float."""
    return [(((i * 2654435761 + 12345) % 2**32) >> 8) / 2**24 - 0.5 for i in range(first, first + count)]


def hexed(values):
    return " ".join(float(value).hex() for value in values)


def quantize_nearest(values, code, absmax_out, codes_out, block):
    padded = torch.nn.functional.pad(values.flatten(), (0, -values.numel() % block)).reshape(-1, block)
    absmax = padded.abs().max(dim=1).values
    scaled = padded.double() / absmax.double().unsqueeze(1)
    codes = (scaled.unsqueeze(-1) - code.double()).abs().argmin(dim=-1)
    codes_out.copy_(codes.flatten()[:values.numel()].to(torch.uint8).reshape(codes_out.shape))
    absmax_out.copy_(absmax)


def main():
    found = {name: version(name).split("+")[0] for name in PINNED}
    if found != PINNED:
        sys.exit(f"train_adam8bit.py: the golden data is pinned to {PINNED}, this Python has {found}")
    lines = ["# what | values", f"signed | {hexed(create_dynamic_map(True))}", f"unsigned | {hexed(create_dynamic_map(False))}"]
    processor._quant_blockwise_fp32_direct = quantize_nearest
    weight = torch.nn.Parameter(torch.tensor(numbers(0, ELEMENTS)))
    optimizer = bitsandbytes.optim.AdamW8bit([weight], lr=0.01, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    for step in range(3):
        weight.grad = torch.tensor(numbers(10000 * (step + 1), ELEMENTS))
        optimizer.step()
    state = optimizer.state[weight]
    lines.append(f"weights | {hexed(weight.detach()[::8])}")
    for name in ("state1", "state2"):
        lines.append(f"{name} | {bytes(state[name].tolist()).hex()}")
    for name in ("absmax1", "absmax2"):
        lines.append(f"{name} | {hexed(state[name])}")
    OUT.write_text("\n".join(lines) + "\n")


main()
