#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/quant/encoded.txt: weights quantised by gguf, bitsandbytes and torch.

Run with the Python of quant_blocks.py (torch 2.9.1, gguf 0.19.0, bitsandbytes 0.50.2). Small cases are written out; of many
values, which `sweep` makes and the test makes again, only the FNV-1a hash of the bytes.
"""

import pathlib
import sys

import bitsandbytes
import gguf
import numpy as np
import torch
from importlib.metadata import version

PINNED = {"torch": "2.9.1", "gguf": "0.19.0", "bitsandbytes": "0.50.2"}
OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/quant/encoded.txt"
GGML = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "MXFP4", "BF16", "F16"]
SWEEP = 64 * 1024


def hex_of(array):
    return np.ascontiguousarray(array).tobytes().hex()


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def sweep(count):
    """A linear congruential generator's upper bits as values of [-4, 4), each block of 64 scaled by another power of two."""
    state, values = 1, np.empty(count, dtype=np.float32)
    for i in range(count):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        values[i] = ((state >> 8) - 2**23) * 2.0**-21 * 2.0 ** ((i // 64) % 24 - 16)
    return values


def edges():
    """Blocks of 64: zeros (gguf and ggml differ for negative ones), a constant, equal extremes of both signs, small integers (ties), tiny and large."""
    ramp = np.arange(64, dtype=np.float32)
    signs = np.where(np.arange(64) % 2 == 0, 1, -1).astype(np.float32)
    blocks = [np.zeros(64), np.full(64, -1.5), 3.0 * signs, -3.0 * signs, ramp - 32, (ramp - 32) / 2, ramp,
              ramp * 1e-6, (ramp - 20) * 900.0, np.where(ramp == 5, 127.0, ramp / 64 + 0.5) * signs,
              np.where(ramp == 5, 2.0, np.float32(2) - np.float32(2**-22) * ramp) * signs,
              np.where(ramp == 33, np.float32(2.0**20 * (1 - 2**-24)), ramp)]
    return np.concatenate([np.asarray(block, dtype=np.float32) for block in blocks])


def ggml(lines, name, values):
    kind = gguf.GGMLQuantizationType[name]
    with np.errstate(all="ignore"):
        return gguf.quantize(values.reshape(1, -1), kind).view(np.uint8)


def nf4(values):
    # The path of its own CPU code, one rounding of the reciprocal and one of the product.
    packed, state = bitsandbytes.functional.quantize_4bit(torch.from_numpy(values.copy()), blocksize=64, quant_type="nf4")
    return packed.numpy().ravel(), state.absmax.numpy()


def int8(values, width):
    rows = torch.from_numpy(values.copy()).reshape(-1, width)
    quantised, stats, _ = bitsandbytes.functional.int8_vectorwise_quant(rows)
    return quantised.numpy(), stats.numpy()


def main():
    found = {name: version(name).split("+")[0] for name in PINNED}
    if found != PINNED:
        sys.exit(f"quant_encode.py: the golden data is pinned to {PINNED}, this Python has {found}")
    small, many = edges(), sweep(SWEEP)
    lines = ["# edges VALUES | TYPE of-the-edges fnv1a-of-the-sweep | nf4 packed absmax fnv1a fnv1a | int8 ... | e4m3 values bytes",
             f"edges {hex_of(small)}", f"sweep {SWEEP} {fnv1a(many.tobytes())}"]
    for name in GGML:
        lines.append(f"{name} {hex_of(ggml(lines, name, small))} {fnv1a(ggml(lines, name, many).tobytes())}")
    packed, absmax = nf4(small)
    many_packed, many_absmax = nf4(many)
    lines.append(f"nf4 {hex_of(packed)} {hex_of(absmax)} {fnv1a(many_packed.tobytes())} {fnv1a(many_absmax.tobytes())}")
    # The first block is zeros, which bitsandbytes divides by.
    quantised, stats = int8(small[64:], 64)
    many_quantised, many_stats = int8(many, 256)
    lines.append(f"int8 {hex_of(quantised)} {hex_of(stats)} {fnv1a(many_quantised.tobytes())} {fnv1a(many_stats.tobytes())}")
    every = torch.arange(256, dtype=torch.int32).to(torch.uint8).view(torch.float8_e4m3fn).to(torch.float32)
    numbers = every[~torch.isnan(every)].sort().values.numpy()
    middles = (numbers[1:] + numbers[:-1]) / 2
    near = np.concatenate([middles, np.nextafter(middles, np.float32(1e9)), np.nextafter(middles, np.float32(-1e9)),
                           np.array([464, 464.00003, 480, 1e9, -464, -465, 2**-10, 2**-11, 1e-30, 0.0, -0.0], np.float32)])
    near = near.astype(np.float32)
    lines.append(f"e4m3 {hex_of(near)} {hex_of(torch.from_numpy(near).to(torch.float8_e4m3fn).view(torch.uint8).numpy())}")
    OUT.write_text("\n".join(lines) + "\n")


main()
