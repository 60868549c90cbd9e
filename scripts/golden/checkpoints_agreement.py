#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/checkpoints: tiny models, each as config.json + model.safetensors by transformers and as GGUF by gguf-py.

Versions: torch 2.9.1, transformers 4.57.6, safetensors 0.8, gguf 0.19. Run: VENV/bin/python scripts/golden/checkpoints_agreement.py
The weights are zeros: only names, shapes, dtypes and sizes matter.
"""
import json
import pathlib
import re
import shutil

import gguf
import torch
import transformers

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/checkpoints"
DECODER = dict(vocab_size=40, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
               num_key_value_heads=2, max_position_embeddings=64)
CASES = {
    "llama-tied": (transformers.LlamaForCausalLM, gguf.MODEL_ARCH.LLAMA, dict(DECODER, tie_word_embeddings=True)),
    "mixtral": (transformers.MixtralForCausalLM, gguf.MODEL_ARCH.LLAMA,
                dict(DECODER, num_local_experts=3, num_experts_per_tok=2, tie_word_embeddings=False)),
    "gpt2": (transformers.GPT2LMHeadModel, gguf.MODEL_ARCH.GPT2,
             dict(vocab_size=40, n_embd=32, n_layer=2, n_head=4, n_positions=64)),
}


def write_gguf(path, arch, config, tensors):
    names = gguf.get_tensor_name_map(arch, config.num_hidden_layers)
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[arch])
    writer.add_block_count(config.num_hidden_layers)
    writer.add_embedding_length(config.hidden_size)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_head_count(config.num_attention_heads)
    writer.add_feed_forward_length(getattr(config, "intermediate_size", None) or 4 * config.hidden_size)
    if hasattr(config, "num_key_value_heads"):
        writer.add_head_count_kv(config.num_key_value_heads)
    if hasattr(config, "num_local_experts"):
        writer.add_expert_count(config.num_local_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
    experts = {}
    for name, tensor in tensors.items():
        found = re.match(r"(.*\.experts)\.(\d+)\.(.*)", name)
        if found:
            experts.setdefault(f"{found[1]}.{found[3]}", []).append(tensor)
            continue
        if config.model_type == "gpt2" and re.search(r"(c_attn|c_proj|c_fc)\.weight$", name):
            tensor = tensor.t()  # Conv1D, as llama.cpp's converter writes it
        add(writer, names, name, tensor)
    for name, stack in experts.items():
        add(writer, names, name, torch.stack(stack))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add(writer, names, name, tensor):
    gguf_name = names.get_name(name, try_suffixes=(".weight", ".bias"))
    assert gguf_name, name
    # llama.cpp keeps vectors in fp32.
    array = tensor.float().contiguous().numpy()
    if tensor.dim() < 2:
        writer.add_tensor(gguf_name, array)
    elif array.shape[-1] % 32 == 0 and "attn_output" in gguf_name:
        packed = gguf.quants.quantize(array, gguf.GGMLQuantizationType.Q8_0)
        writer.add_tensor(gguf_name, packed, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    else:
        writer.add_tensor(gguf_name, array.astype("float16"))


for case, (model_class, arch, fields) in CASES.items():
    folder = OUT / case
    shutil.rmtree(folder, ignore_errors=True)
    config = model_class.config_class(**fields)
    model = model_class(config).to(torch.bfloat16)
    for parameter in model.parameters():
        torch.nn.init.zeros_(parameter)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    state = {k: v for k, v in model.state_dict().items() if k not in ("lm_head.weight",) or not config.tie_word_embeddings}
    write_gguf(str(folder / "model.gguf"), arch, config, state)
    facts = {"parameters": model.num_parameters(), "tensors": [[n, list(t.shape)] for n, t in model.state_dict().items()]}
    (folder / "expected.json").write_text(json.dumps(facts) + "\n")
