#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/compressed/: one-layer llamas as compressed-tensors checkpoints of integers and fp8, what each weight decodes to, and the logits.

Versions: torch 2.15.0, transformers 4.57.6, compressed-tensors 0.20.0. Run: VENV/bin/python scripts/golden/compressed_checkpoints.py

compressed-tensors chooses scales and zero points, packs and saves. Weights are decoded from the saved tensors by its own
unpack_from_int32, in fp32; the logits are transformers' with these. Hashes are FNV-1a over the fp32 bytes of [out, in].
"""
import json
import pathlib
import shutil

import torch
from compressed_tensors import ModelCompressor
from compressed_tensors.compressors import unpack_from_int32
from compressed_tensors.quantization import QuantizationConfig, QuantizationScheme, QuantizationStatus, apply_quantization_config
from compressed_tensors.quantization.utils import calculate_qparams
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/compressed"
IDS = [3, 17, 8, 30, 1, 22, 9]


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


# The format that is saved, and the arguments of the weights.
CASES = {
    "w4_group": ("pack-quantized", dict(num_bits=4, strategy="group", group_size=32, symmetric=True)),
    "w4_asymmetric": ("pack-quantized", dict(num_bits=4, strategy="group", group_size=32, symmetric=False)),
    "w4_order": ("pack-quantized", dict(num_bits=4, strategy="group", group_size=32, symmetric=True)),
    "w4_channel": ("pack-quantized", dict(num_bits=4, strategy="channel", symmetric=True)),
    "w3_group": ("pack-quantized", dict(num_bits=3, strategy="group", group_size=32, symmetric=True)),
    "w8_group": ("pack-quantized", dict(num_bits=8, strategy="group", group_size=32, symmetric=True)),
    "w8_channel": ("pack-quantized", dict(num_bits=8, strategy="channel", symmetric=True)),
    "int8_channel": ("int-quantized", dict(num_bits=8, strategy="channel", symmetric=True)),
    "int8_tensor": ("int-quantized", dict(num_bits=8, strategy="tensor", symmetric=False)),
    "fp8_channel": ("float-quantized", dict(num_bits=8, type="float", strategy="channel", symmetric=True)),
    "fp8_tensor": ("float-quantized", dict(num_bits=8, type="float", strategy="tensor", symmetric=True)),
}


def groups_of(weight, arguments):
    """The least and the greatest value of what shares a scale, in the shape of the scales."""
    if arguments.strategy == "tensor":
        return weight.min().reshape(1), weight.max().reshape(1)
    if arguments.strategy == "channel":
        return weight.amin(1, keepdim=True), weight.amax(1, keepdim=True)
    parts = weight.reshape(weight.shape[0], -1, arguments.group_size)
    return parts.amin(2), parts.amax(2)


def decoded(tensors, name, bits):
    """scale * (q - zero) in fp32, from the tensors that were saved."""
    scale = tensors[name + ".weight_scale"].float()
    zero = tensors.get(name + ".weight_zero_point")
    if name + ".weight_packed" in tensors:
        shape = torch.Size(tensors[name + ".weight_shape"].tolist())
        values = unpack_from_int32(tensors[name + ".weight_packed"], bits, shape)
        if zero is not None and zero.dtype == torch.int32:
            zero = unpack_from_int32(zero, bits, scale.shape, packed_dim=0)
    else:
        values = tensors[name + ".weight"]
    rows, inputs = values.shape
    if scale.numel() == 1:
        index = torch.zeros(inputs, dtype=torch.long)
        scale, zero = scale.reshape(1, 1).expand(rows, 1), None if zero is None else zero.reshape(1, 1).expand(rows, 1)
    elif name + ".weight_g_idx" in tensors:
        index = tensors[name + ".weight_g_idx"].long()
    else:
        index = torch.arange(inputs) // (inputs // scale.shape[1])
    values = values.float()
    if zero is not None:
        values = values - zero.float()[:, index]
    return scale[:, index] * values


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    expected = {}
    for case, (form, arguments) in CASES.items():
        config = LlamaConfig(hidden_size=64, intermediate_size=128, vocab_size=32, num_hidden_layers=1,
                             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
                             tie_word_embeddings=False, bos_token_id=1, eos_token_id=2, torch_dtype="bfloat16")
        config._attn_implementation = "eager"
        torch.manual_seed(len(expected))
        model = LlamaForCausalLM(config).bfloat16().eval()
        with torch.no_grad():
            for parameter in model.parameters():
                torch.nn.init.normal_(parameter, 1.0 if parameter.dim() == 1 else 0.02, 0.15)
            scheme = QuantizationScheme(targets=["Linear"], weights=arguments)
            apply_quantization_config(model, QuantizationConfig(
                config_groups={"group_0": scheme}, ignore=["lm_head"], format=form,
                quantization_status=QuantizationStatus.INITIALIZED))
            for module in model.modules():
                if getattr(module, "quantization_scheme", None) is None:
                    continue
                wanted = module.quantization_scheme.weights
                scale, zero = calculate_qparams(*groups_of(module.weight, wanted), wanted)
                module.weight_scale.copy_(scale)
                if hasattr(module, "weight_zero_point"):
                    module.weight_zero_point.copy_(zero)
                module.quantization_status = QuantizationStatus.FROZEN
        folder = OUT / case
        folder.mkdir(parents=True)
        compressor = ModelCompressor.from_pretrained_model(model, quantization_format=form)
        compressor.compress_model(model)
        model.save_pretrained(folder)
        compressor.update_config(folder)
        (folder / "generation_config.json").unlink(missing_ok=True)

        tensors = load_file(folder / "model.safetensors")
        if case == "w4_order":  # what versions before 0.20 wrote for actorder "group"
            for name in [name for name in tensors if name.endswith(".weight_packed")]:
                inputs = int(tensors[name.replace("_packed", "_shape")][1])
                order = (torch.arange(inputs) // 32)[torch.randperm(inputs)]
                tensors[name.replace("_packed", "_g_idx")] = order.to(torch.int32)
            save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        plain = LlamaForCausalLM(config).float().eval()
        hashes = {}
        with torch.no_grad():
            for name, parameter in plain.named_parameters():
                module = name.removesuffix(".weight")
                if module + ".weight_scale" not in tensors:
                    parameter.copy_(tensors[name].float())
                    continue
                values = decoded(tensors, module, arguments["num_bits"])
                parameter.copy_(values)
                hashes[name] = fnv1a(values.contiguous().numpy().tobytes())
            logits = plain(torch.tensor([IDS])).logits[0, -1]
        expected[case] = {"hashes": hashes, "logits": [float(value) for value in logits]}
    (OUT / "expected.json").write_text(json.dumps({"ids": IDS, "cases": expected}, indent=1) + "\n")


if __name__ == "__main__":
    main()
