# SPDX-License-Identifier: Apache-2.0
"""The peers of bench_generate: llama.cpp (llama-cpp-python) and transformers. Start and imports are not timed.

generate_peer.py JOB, JOB a JSON object with "kind":
  "gguf"          {"model", "threads", "prompt", "new"}: llama.cpp on a GGUF file -> load_s, first_s, prefill, decode
  "llama"         {"folder", "type", "threads"}: llama.cpp on the shape of config.json, random blocks of a type
  "transformers"  {"folder", "dtype", "threads"}: the shape of config.json, random weights
The last two say their version, then answer each line with a number of tokens by their rate of decoding as many -> decode.
Rates are tokens per second, the best of some runs. Decoding is greedy by the C functions, without Python's sampling.
"""

import json
import os
import sys
import tempfile
import time


def open_llama(path, threads):
    """A model, and what feeds it tokens and gives the next."""
    import ctypes

    import llama_cpp
    import numpy

    llama = llama_cpp.Llama(path, n_ctx=1024, n_batch=512, n_ubatch=512, n_threads=threads, n_threads_batch=threads,
                            verbose=False)
    context, vocabulary = llama.ctx, llama.n_vocab()

    def feed(ids):
        array = (llama_cpp.llama_token * len(ids))(*ids)
        if llama_cpp.llama_decode(context, llama_cpp.llama_batch_get_one(array, len(ids))) != 0:
            sys.exit("llama_decode failed")
        logits = llama_cpp.llama_get_logits_ith(context, -1)
        pointer = ctypes.cast(logits, ctypes.POINTER(ctypes.c_float))
        return int(numpy.ctypeslib.as_array(pointer, (vocabulary,)).argmax())

    return llama, feed


def llama_rates(path, threads, prompt, new, runs):
    import llama_cpp
    import numpy  # noqa: F401 (its import is not timed)

    begin = time.perf_counter()
    llama, feed = open_llama(path, threads)
    load = time.perf_counter() - begin

    def clear():
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(llama.ctx), True)

    short = [(i * 7) % 30000 + 100 for i in range(16)]
    begin = time.perf_counter()
    feed(short)
    first = time.perf_counter() - begin
    decode = prefill = 0.0
    for _ in range(runs):
        clear()
        token = feed(short)
        begin = time.perf_counter()
        for _ in range(new):
            token = feed([token])
        decode = max(decode, new / (time.perf_counter() - begin))
        if prompt:
            clear()
            ids = [(i * 7) % 30000 + 100 for i in range(prompt)]
            begin = time.perf_counter()
            feed(ids)
            prefill = max(prefill, prompt / (time.perf_counter() - begin))
    return {"version": llama_cpp.__version__, "load_s": load, "first_s": first, "prefill": prefill, "decode": decode}


def write_gguf(path, config, type_name):
    import gguf
    import numpy

    kind = gguf.GGMLQuantizationType[type_name]
    width, ffn, layers = config["hidden_size"], config["intermediate_size"], config["num_hidden_layers"]
    heads, kv_heads, vocabulary = (config["num_attention_heads"], config["num_key_value_heads"], config["vocab_size"])
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(2048)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(ffn)
    writer.add_block_count(layers)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_rope_dimension_count(width // heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(vocabulary)
    writer.add_tokenizer_model("no_vocab")
    random = numpy.random.default_rng(1)
    row = {}

    def matrix(name, outputs, inputs):
        if inputs not in row:
            values = (random.random((16, inputs), dtype=numpy.float32) - 0.5) / 32
            row[inputs] = gguf.quants.quantize(values, kind)
        rows = row[inputs]
        writer.add_tensor(name, numpy.tile(rows, (-(-outputs // 16), 1))[:outputs], raw_dtype=kind)

    def norm(name):
        writer.add_tensor(name, numpy.ones(width, dtype=numpy.float32))

    matrix("token_embd.weight", vocabulary, width)
    kv = width // heads * kv_heads
    for i in range(layers):
        norm(f"blk.{i}.attn_norm.weight")
        norm(f"blk.{i}.ffn_norm.weight")
        for name, outputs, inputs in (("attn_q", width, width), ("attn_k", kv, width), ("attn_v", kv, width),
                                      ("attn_output", width, width), ("ffn_gate", ffn, width), ("ffn_up", ffn, width),
                                      ("ffn_down", width, ffn)):
            matrix(f"blk.{i}.{name}.weight", outputs, inputs)
    norm("output_norm.weight")
    if type_name == "Q4_0":
        # As llama-quantize has it: the head in Q6_K, blocks of 210 bytes that end with their scale.
        kind = gguf.GGMLQuantizationType.Q6_K
        blocks = random.integers(0, 256, (16, width // 256, 210), dtype=numpy.uint8)
        blocks[..., 208:] = numpy.array([1e-5], dtype=numpy.float16).view(numpy.uint8)
        rows = blocks.reshape(16, -1)
        writer.add_tensor("output.weight", numpy.tile(rows, (-(-vocabulary // 16), 1))[:vocabulary], raw_dtype=kind)
    else:
        matrix("output.weight", vocabulary, width)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def take_turns(version, feed, token):
    """Answers each line, a number of tokens, by the rate of decoding them behind one that wakes the threads."""
    print(json.dumps({"version": version}), flush=True)
    for line in sys.stdin:
        new = int(line)
        token = feed(token)
        begin = time.perf_counter()
        for _ in range(new):
            token = feed(token)
        print(json.dumps({"decode": new / (time.perf_counter() - begin)}), flush=True)


def transformers_turns(folder, dtype, threads):
    import torch
    import transformers

    torch.set_num_threads(threads)
    config = transformers.AutoConfig.from_pretrained(folder)
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype))
    # Buffers (the rotation's frequencies) are made anew: of what is on "meta" only the shape is known.
    model = model.to_empty(device="cpu")
    for parameter in model.parameters():
        parameter.data.fill_(1.0 / 64)
    model.model.rotary_emb = type(model.model.rotary_emb)(config)
    known = None

    def feed(ids):
        nonlocal known
        out = model(ids, past_key_values=known, use_cache=True)
        known = out.past_key_values
        return out.logits[:, -1:].argmax(-1)

    with torch.inference_mode():
        take_turns(transformers.__version__, feed, feed(torch.arange(100, 116)[None]))


def llama_turns(folder, kind, threads):
    import llama_cpp

    with open(os.path.join(folder, "config.json")) as file:
        shape = json.load(file)
    with tempfile.TemporaryDirectory(dir=folder) as made:
        path = os.path.join(made, "model.gguf")
        write_gguf(path, shape, kind)
        llama, feed = open_llama(path, threads)
        first = feed([(i * 7) % 30000 + 100 for i in range(16)])
        take_turns(llama_cpp.__version__, lambda token: feed([token]), first)


job = json.loads(sys.argv[1])
if job["kind"] == "gguf":
    print(json.dumps(llama_rates(job["model"], job["threads"], job["prompt"], job["new"], 3)))
elif job["kind"] == "llama":
    llama_turns(job["folder"], job["type"], job["threads"])
else:
    transformers_turns(job["folder"], job["dtype"], job["threads"])
