#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/quant/: sizes of GGUF types, decoded blocks, decoded weights of bitsandbytes, GPTQ, AWQ and fp8.

Run with a Python that has exactly the versions below (tests/golden/quant/README.md says how to get them):

    python scripts/golden/quant_blocks.py

The inputs are random bytes of a fixed seed; floats are written as their bits in hexadecimal.
"""

import pathlib
import sys

import bitsandbytes
import gguf
import numpy as np
import torch
import transformers
from importlib.metadata import version

PINNED = {"torch": "2.9.1", "transformers": "4.57.6", "gguf": "0.19.0", "bitsandbytes": "0.50.2"}
OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/quant"
RANDOM = np.random.default_rng(20261121)

# Byte offsets of the halves in a block: random bits there would mostly be NaN, infinite or huge.
HALVES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
    "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0], "TQ1_0": [52], "TQ2_0": [64],
    "MXFP4": [], "NVFP4": [],
}
# Usual scales, then a negative, a subnormal, a zero and the largest half.
SCALES = [0.0123, 1.5, -0.37, 3e-7, 0.0, 65504.0]


def check_versions():
    found = {name: version(name).split("+")[0] for name in PINNED}
    if found != PINNED:
        sys.exit(f"quant_blocks.py: the golden data is pinned to {PINNED}, this Python has {found}")


def hex_of(array):
    return np.ascontiguousarray(array).tobytes().hex()


def write(name, lines):
    (OUT / name).write_text("\n".join(lines) + "\n")


def ggml_types():
    lines = ["# number name elements bytes"]
    for kind, (elements, size) in sorted(gguf.GGML_QUANT_SIZES.items()):
        lines.append(f"{int(kind)} {kind.name} {elements} {size}")
    write("ggml_types.txt", lines)
    write("ggml_file_types.txt", ["# number name"] + [
        f"{int(kind)} {kind.name.removeprefix('MOSTLY_').removeprefix('ALL_')}"
        for kind in gguf.LlamaFileType if kind.name != "GUESSED"])


def ggml_blocks():
    lines = ["# type block decoded"]
    for name, halves in HALVES.items():
        kind = gguf.GGMLQuantizationType[name]
        for turn in range(4):
            block = RANDOM.integers(0, 256, gguf.GGML_QUANT_SIZES[kind][1], dtype=np.uint8)
            for k, at in enumerate(halves):
                scale = np.float16(SCALES[(turn + 3 * k) % len(SCALES)])
                block[at:at + 2] = np.frombuffer(scale.tobytes(), dtype=np.uint8)
            if name == "MXFP4":
                block[0] = [120, 0, 1, 255][turn]
            if name == "NVFP4":
                block[:4] = [[0x38, 0x01, 0x07, 0x7E], [0x00, 0x7F, 0x08, 0x80], [0xFF, 0x10, 0x77, 0x40],
                             [0x2B, 0x03, 0x6C, 0x55]][turn]
            with np.errstate(all="ignore"):
                decoded = gguf.dequantize(block.reshape(1, -1), kind).astype(np.float32)
            lines.append(f"{name} {hex_of(block)} {hex_of(decoded)}")
    write("ggml_blocks.txt", lines)


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def floats():
    """All values of the small floats, and FNV-1a hashes over all values of the sixteen-bit ones and back."""
    lines = ["# format: all values in order as bits, or fnv1a over them"]
    every_byte = torch.arange(256, dtype=torch.int32).to(torch.uint8)
    for name, dtype in (("e4m3", torch.float8_e4m3fn), ("e5m2", torch.float8_e5m2), ("e8m0", torch.float8_e8m0fnu)):
        lines.append(f"{name} {hex_of(every_byte.view(dtype).to(torch.float32).numpy())}")
    every_half = np.arange(65536, dtype=np.uint16)
    for name, dtype in (("f16", torch.float16), ("bf16", torch.bfloat16)):
        values = torch.from_numpy(every_half.view(np.int16)).view(dtype).to(torch.float32).numpy()
        lines.append(f"{name} {fnv1a(values.tobytes())}")
    # Rounding: floats around every boundary of a half and of a bfloat16, without NaN.
    bits = RANDOM.integers(0, 2**32, 20000, dtype=np.uint32)
    near = (RANDOM.integers(0, 2**16, 20000, dtype=np.uint32) << 13) + 0x38000000 - 0x8000000
    near += RANDOM.integers(0, 3, 20000, dtype=np.uint32) - 1 + (RANDOM.integers(0, 2, 20000, dtype=np.uint32) << 12)
    values = np.concatenate([bits, near]).view(np.float32)
    values = values[~np.isnan(values)][:1000]
    values = np.concatenate([values, near.view(np.float32)[:1000]])
    values = values[~np.isnan(values)]
    tensor = torch.from_numpy(values.copy())
    lines.append(f"round {hex_of(values)} {hex_of(tensor.to(torch.float16).view(torch.int16).numpy())} "
                 f"{hex_of(tensor.to(torch.bfloat16).view(torch.int16).numpy())}")
    write("floats.txt", lines)


def bnb_state(lines, name, weight, quant, double):
    linear = bitsandbytes.nn.Linear4bit(weight.shape[1], weight.shape[0], bias=False, quant_type=quant,
                                        compress_statistics=double)
    linear.weight = bitsandbytes.nn.Params4bit(weight, requires_grad=False, quant_type=quant,
                                               compress_statistics=double).to("cpu")
    state = linear.state_dict()
    sizes = {key: value.numel() * value.element_size() for key, value in state.items() if "quant_state" not in key}
    lines.append(f"size {name} {weight.shape[0]} {weight.shape[1]} {sum(sizes.values())}")
    return linear.weight, state


def bitsandbytes_weights():
    lines = ["# code NAME values | size SCHEME out in bytes | 4bit NAME packed absmax decoded | absmax ..., see README"]
    functional = bitsandbytes.functional
    for quant in ("nf4", "fp4"):
        lines.append(f"code {quant} {hex_of(functional.get_4bit_type(quant, 'cpu').numpy())}")
    generator = torch.Generator().manual_seed(20261121)
    shapes = [(16, 64), (12, 100), (48, 352), (3, 5), (256, 256)]
    for rows, columns in shapes:
        weight = torch.randn(rows, columns, generator=generator)
        for quant in ("nf4", "fp4"):
            for double in (False, True):
                name = quant + ("-dq" if double else "")
                packed, state = bnb_state(lines, name, weight, quant, double)
                if (rows, columns) == (12, 100):
                    decoded = functional.dequantize_4bit(packed.data, packed.quant_state)
                    nested = packed.quant_state
                    absmax = functional.dequantize_blockwise(nested.absmax, nested.state2) if double else nested.absmax
                    if double:
                        absmax = absmax + nested.offset
                        lines.append(f"absmax {hex_of(nested.absmax.numpy())} {hex_of(nested.state2.absmax.numpy())} "
                                     f"{hex_of(nested.state2.code.numpy())} "
                                     f"{hex_of(np.float32(nested.offset.item()))} {hex_of(absmax.numpy())}")
                    lines.append(f"4bit {quant} {hex_of(packed.data.numpy().ravel())} {hex_of(absmax.numpy())} "
                                 f"{hex_of(decoded.numpy())}")
        linear = bitsandbytes.nn.Linear8bitLt(columns, rows, bias=False, has_fp16_weights=False)
        linear.weight = bitsandbytes.nn.Int8Params(weight.half(), requires_grad=False, has_fp16_weights=False).to("cpu")
        state = linear.state_dict()
        total = sum(value.numel() * value.element_size() for value in state.values())
        lines.append(f"size int8 {rows} {columns} {total}")
        if (rows, columns) == (12, 100):
            decoded = functional.int8_vectorwise_dequant(state["weight"], state["SCB"])
            lines.append(f"int8 {hex_of(state['weight'].numpy())} {hex_of(state['SCB'].numpy())} {hex_of(decoded.numpy())}")
    write("bitsandbytes.txt", lines)


def pack_columns(values, bits):
    """GPTQ: integers [rows, columns] packed down the rows, a stream of bits from the lowest."""
    stream = (values[:, None, :] >> np.arange(bits)[None, :, None]) & 1  # [rows, bits, columns]
    stream = stream.reshape(-1, 32, values.shape[1]).astype(np.uint64)
    return (stream << np.arange(32, dtype=np.uint64)[None, :, None]).sum(axis=1).astype(np.uint32)


def gptq_weights():
    lines = ["# bits in out groups qweight qzeros scales g_idx decoded[out, in]"]
    for bits, act_order in ((2, False), (3, False), (4, True), (8, False)):
        inputs, outputs, group = 64, 32, 32
        groups = inputs // group
        q = RANDOM.integers(0, 2**bits, (inputs, outputs))
        zeros = RANDOM.integers(1, 2**bits + 1, (groups, outputs))
        scales = RANDOM.normal(0, 0.01, (groups, outputs)).astype(np.float16)
        g_idx = (np.arange(inputs) // group).astype(np.int32)
        if act_order:
            g_idx = RANDOM.permutation(g_idx)
        decoded = scales.astype(np.float32)[g_idx] * (q - zeros[g_idx]).astype(np.float32)
        qzeros = pack_columns(np.ascontiguousarray((zeros - 1).T), bits).T
        lines.append(f"{bits} {inputs} {outputs} {groups} {hex_of(pack_columns(q, bits))} {hex_of(qzeros)} "
                     f"{hex_of(scales)} {hex_of(g_idx)} {hex_of(decoded.T)}")
    write("gptq.txt", lines)


def awq_weights():
    lines = ["# in out group qweight qzeros scales decoded[out, in]"]
    order = [0, 2, 4, 6, 1, 3, 5, 7]
    inputs, outputs, group = 64, 24, 32

    def pack(values):
        packed = np.zeros((values.shape[0], values.shape[1] // 8), dtype=np.uint32)
        for word in range(packed.shape[1]):
            for nibble, column in enumerate(order):
                packed[:, word] |= values[:, word * 8 + column].astype(np.uint32) << np.uint32(4 * nibble)
        return packed

    q = RANDOM.integers(0, 16, (inputs, outputs))
    zeros = RANDOM.integers(0, 16, (inputs // group, outputs))
    scales = RANDOM.normal(0, 0.01, (inputs // group, outputs)).astype(np.float16)
    rows = np.arange(inputs) // group
    decoded = scales.astype(np.float32)[rows] * (q - zeros[rows]).astype(np.float32)
    lines.append(f"{inputs} {outputs} {group} {hex_of(pack(q))} {hex_of(pack(zeros))} {hex_of(scales)} {hex_of(decoded.T)}")
    write("awq.txt", lines)


def fp8_and_mxfp4():
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    rows, columns, block = 5, 12, (2, 8)
    bits = RANDOM.integers(0, 127, rows * columns, dtype=np.uint8) | (RANDOM.integers(0, 2, rows * columns, dtype=np.uint8) << 7)
    scales = RANDOM.normal(0, 1, (3, 2)).astype(np.float32)
    full = np.repeat(np.repeat(scales, block[0], 0), block[1], 1)[:rows, :columns]
    values = torch.from_numpy(bits).view(torch.float8_e4m3fn).to(torch.float32).numpy().reshape(rows, columns)
    lines = ["# fp8 rows columns block_rows block_columns weight scales decoded | mxfp4 blocks scales decoded",
             f"fp8 {rows} {columns} {block[0]} {block[1]} {hex_of(bits)} {hex_of(scales)} {hex_of(values * full)}"]
    blocks = torch.from_numpy(RANDOM.integers(0, 256, (1, 2, 3, 16), dtype=np.uint8))
    exponents = torch.from_numpy(RANDOM.integers(110, 140, (1, 2, 3), dtype=np.uint8))
    decoded = convert_moe_packed_tensors(blocks, exponents, dtype=torch.float32)  # [experts, in, out]
    lines.append(f"mxfp4 {hex_of(blocks.numpy())} {hex_of(exponents.numpy())} "
                 f"{hex_of(decoded.transpose(1, 2).contiguous().numpy())}")
    write("fp8_mxfp4.txt", lines)


def main():
    check_versions()
    OUT.mkdir(parents=True, exist_ok=True)
    ggml_types()
    ggml_blocks()
    floats()
    bitsandbytes_weights()
    gptq_weights()
    awq_weights()
    fp8_and_mxfp4()


if __name__ == "__main__":
    main()
