#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""transformers on this device, beside bench_device_generate: greedy decoding of a llama of the same shape with random bf16 weights.

device_generate_peer.py CONFIG.json TOKENS [BATCH]: prints {"version", "decode", "prefill"}, tokens per second; eager attention through
torch's scaled dot product, with its cache.
"""
import json
import sys
import time

import torch
import transformers

config = transformers.AutoConfig.for_model("llama", **{k: v for k, v in json.load(open(sys.argv[1])).items()
                                                       if k not in ("architectures", "model_type", "torch_dtype")})
tokens = int(sys.argv[2])
batch = int(sys.argv[3]) if len(sys.argv) > 3 else 1
torch.set_default_dtype(torch.bfloat16)
with torch.device("cuda"):
    model = transformers.LlamaForCausalLM(config).eval()


def decode(ids, count):
    cache = transformers.DynamicCache()
    out = model(ids, past_key_values=cache, use_cache=True)
    next_ids = out.logits[:, -1:].argmax(-1)
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(count):
        out = model(next_ids, past_key_values=cache, use_cache=True)
        next_ids = out.logits[:, -1:].argmax(-1)
        next_ids.cpu()
    torch.cuda.synchronize()
    return count * batch / (time.perf_counter() - begin)


def prefill(length):
    ids = torch.randint(0, config.vocab_size, (1, length), device="cuda")
    best = 0.0
    for _ in range(3):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        model(ids, use_cache=True).logits[:, -1:].argmax(-1).cpu()
        best = max(best, length / (time.perf_counter() - begin))
    return best


with torch.inference_mode():
    prompt = torch.randint(0, config.vocab_size, (batch, 16), device="cuda")
    decode(prompt, 4)
    rates = [decode(prompt, tokens) for _ in range(2)]
    print(json.dumps({"version": transformers.__version__, "decode": max(rates), "prefill": prefill(1024)}))
