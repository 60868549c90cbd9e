#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/packed/: one-layer llamas as quantised checkpoints, what each weight decodes to, and the logits.

Versions: torch 2.9.1, transformers 4.57.6, bitsandbytes 0.50.2. Run: VENV/bin/python scripts/golden/packed_checkpoints.py

bitsandbytes packs and decodes its own formats; GPTQ's and AWQ's packing is AutoGPTQ's and AutoAWQ's written anew. The logits
are transformers' with the decoded weights in fp32. Hashes are FNV-1a over the fp32 bytes of [out, in].
"""
import json
import pathlib
import shutil

import bitsandbytes
import numpy as np
import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/packed"
RANDOM = np.random.default_rng(20261122)
IDS = [3, 17, 8, 30, 1, 22, 9]
SMALL = dict(hidden_size=64, intermediate_size=128)
LARGE = dict(hidden_size=128, intermediate_size=192)


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def bnb_4bit(quant, double):
    def pack(weight):
        linear = bitsandbytes.nn.Linear4bit(weight.shape[1], weight.shape[0], bias=False, quant_type=quant,
                                            compress_statistics=double)
        linear.weight = bitsandbytes.nn.Params4bit(weight, requires_grad=False, quant_type=quant,
                                                   compress_statistics=double).to("cpu")
        decoded = bitsandbytes.functional.dequantize_4bit(linear.weight.data, linear.weight.quant_state)
        return dict(linear.state_dict()), decoded.reshape(weight.shape)
    return pack


def bnb_int8(weight):
    linear = bitsandbytes.nn.Linear8bitLt(weight.shape[1], weight.shape[0], bias=False, has_fp16_weights=False)
    linear.weight = bitsandbytes.nn.Int8Params(weight.half(), requires_grad=False, has_fp16_weights=False).to("cpu")
    state = dict(linear.state_dict())
    return state, bitsandbytes.functional.int8_vectorwise_dequant(state["weight"], state["SCB"])


def int_tensor(array):
    return torch.from_numpy(np.ascontiguousarray(array).astype(np.uint32).view(np.int32))


def pack_columns(values, bits):
    """GPTQ: integers [rows, columns] packed down the rows, a stream of bits from the lowest."""
    stream = (values[:, None, :] >> np.arange(bits)[None, :, None]) & 1
    stream = stream.reshape(-1, 32, values.shape[1]).astype(np.uint64)
    return (stream << np.arange(32, dtype=np.uint64)[None, :, None]).sum(axis=1).astype(np.uint32)


def gptq(bits, group, symmetric, act_order, offset=1):
    def pack(weight):
        outputs, inputs = weight.shape
        size = inputs if group == -1 else group
        groups = inputs // size
        g_idx = (np.arange(inputs) // size).astype(np.int32)
        if act_order:
            g_idx = RANDOM.permutation(g_idx)
        q = RANDOM.integers(0, 2**bits, (inputs, outputs))
        zeros = np.full((groups, outputs), 2**(bits - 1)) if symmetric else RANDOM.integers(1, 2**bits, (groups, outputs))
        scales = RANDOM.normal(0, 0.2 / 2**bits, (groups, outputs)).astype(np.float16)
        decoded = scales.astype(np.float32)[g_idx] * (q - zeros[g_idx]).astype(np.float32)
        qzeros = pack_columns(np.ascontiguousarray((zeros - offset).T), bits).T
        return {"qweight": int_tensor(pack_columns(q, bits)), "qzeros": int_tensor(qzeros),
                "scales": torch.from_numpy(scales), "g_idx": torch.from_numpy(g_idx)}, torch.from_numpy(decoded.T.copy())
    return pack


def awq(group):
    def words(values):
        packed = np.zeros((values.shape[0], values.shape[1] // 8), dtype=np.uint32)
        for word in range(packed.shape[1]):
            for nibble, column in enumerate([0, 2, 4, 6, 1, 3, 5, 7]):
                packed[:, word] |= values[:, word * 8 + column].astype(np.uint32) << np.uint32(4 * nibble)
        return packed

    def pack(weight):
        outputs, inputs = weight.shape
        q = RANDOM.integers(0, 16, (inputs, outputs))
        zeros = RANDOM.integers(0, 16, (inputs // group, outputs))
        scales = RANDOM.normal(0, 0.0125, (inputs // group, outputs)).astype(np.float16)
        rows = np.arange(inputs) // group
        decoded = scales.astype(np.float32)[rows] * (q - zeros[rows]).astype(np.float32)
        return {"qweight": int_tensor(words(q)), "qzeros": int_tensor(words(zeros)),
                "scales": torch.from_numpy(scales)}, torch.from_numpy(decoded.T.copy())
    return pack


def fp8(block, name, scale_dtype):
    """A scale for each block; block of one row: for each row."""
    def pack(weight):
        outputs, inputs = weight.shape
        rows, columns = block[0], block[1] or inputs
        down, across = -(-outputs // rows), -(-inputs // columns)
        scales = torch.from_numpy(RANDOM.uniform(0.002, 0.004, (down, across)).astype(np.float32)).to(scale_dtype)
        full = scales.float().repeat_interleave(rows, 0)[:outputs].repeat_interleave(columns, 1)[:, :inputs]
        values = (weight / full).to(torch.float8_e4m3fn)
        return {"weight": values, name: scales}, values.float() * full
    return pack


def bnb_config(**fields):
    return dict(quant_method="bitsandbytes", **fields)


CASES = {
    "nf4": (SMALL, bnb_config(load_in_4bit=True, bnb_4bit_quant_type="nf4"), bnb_4bit("nf4", False)),
    "nf4_double": (LARGE, bnb_config(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True),
                   bnb_4bit("nf4", True)),
    "fp4": (SMALL, bnb_config(load_in_4bit=True, bnb_4bit_quant_type="fp4"), bnb_4bit("fp4", False)),
    "int8": (SMALL, bnb_config(load_in_8bit=True), bnb_int8),
    "gptq": (SMALL, dict(quant_method="gptq", bits=4, group_size=32, desc_act=False, sym=True),
             gptq(4, 32, True, False)),
    "gptq_rows": (LARGE, dict(quant_method="gptq", bits=3, group_size=-1, desc_act=False, sym=True),
                  gptq(3, -1, True, False)),
    "gptq_order": (SMALL, dict(quant_method="gptq", bits=4, group_size=32, desc_act=True, sym=False),
                   gptq(4, 32, False, True)),
    "gptq_v2": (SMALL, dict(quant_method="gptq", bits=8, group_size=64, desc_act=False, sym=False,
                            checkpoint_format="gptq_v2"), gptq(8, 64, False, False, 0)),
    "awq": (SMALL, dict(quant_method="awq", bits=4, group_size=32, zero_point=True, version="gemm"), awq(32)),
    "fp8": (LARGE, dict(quant_method="fp8", weight_block_size=[128, 128], activation_scheme="dynamic"),
            fp8((128, 128), "weight_scale_inv", torch.float32)),
    "fp8_rows": (SMALL, dict(quant_method="compressed-tensors", format="float-quantized", ignore=["lm_head"],
                             config_groups={"group_0": {
                                 "targets": ["Linear"],
                                 "weights": dict(num_bits=8, type="float", strategy="channel", symmetric=True)}}),
                 fp8((1, None), "weight_scale", torch.bfloat16)),
}


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    expected = {}
    for case, (sizes, quantization, pack) in CASES.items():
        fields = dict(sizes, vocab_size=32, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2,
                      max_position_embeddings=64, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2)
        config = LlamaConfig(**fields)
        config._attn_implementation = "eager"
        torch.manual_seed(len(expected))
        model = LlamaForCausalLM(config).float().eval()
        tensors, hashes = {}, {}
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                torch.nn.init.normal_(parameter, 1.0 if parameter.dim() == 1 else 0.0, 0.15)
                if "_proj" not in name:
                    tensors[name] = parameter.bfloat16()
                    parameter.copy_(tensors[name].float())
                    continue
                packed, decoded = pack(parameter.detach().clone())
                for part, tensor in packed.items():
                    tensors[name.removesuffix("weight") + part] = tensor.contiguous()
                parameter.copy_(decoded.float())
                hashes[name] = fnv1a(decoded.float().contiguous().numpy().tobytes())
            logits = model(torch.tensor([IDS])).logits[0, -1]
        folder = OUT / case
        folder.mkdir(parents=True)
        save_file(tensors, str(folder / "model.safetensors"))
        written = dict(fields, model_type="llama", architectures=["LlamaForCausalLM"], torch_dtype="bfloat16",
                       rope_theta=config.rope_theta, quantization_config=quantization)
        (folder / "config.json").write_text(json.dumps(written, indent=1) + "\n")
        expected[case] = {"hashes": hashes, "logits": [float(value) for value in logits]}
    (OUT / "expected.json").write_text(json.dumps({"ids": IDS, "cases": expected}, indent=1) + "\n")


if __name__ == "__main__":
    main()
