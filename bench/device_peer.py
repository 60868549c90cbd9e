#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What torch does on this device, beside bench_device_*: rates of its copy, norms, softmax, products and attention.

device_peer.py [--json] [--quick]. Rows have torch's figures as `ours`, by the copy rate of this run where memory binds: they are to be
read beside those of the benchmark of the same name.
"""
import json
import sys

import torch
import torch.nn.functional as functional

quick = "--quick" in sys.argv
as_json = "--json" in sys.argv
rows = []
device = torch.device("cuda")
MEBI = 1 << 20


def time_call(call, batches=5 if quick else 15):
    """Seconds of a call: the median of batches, each long enough for events."""
    for i in range(3):
        call(i)
    torch.cuda.synchronize()

    def batch(calls):
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        first.record()
        for i in range(calls):
            call(i)
        last.record()
        last.synchronize()
        return first.elapsed_time(last) * 1e-3 / calls

    calls = int(min(max(2e-3 / max(batch(4), 1e-6), 1), 500))
    return sorted(batch(calls) for _ in range(batches))[batches // 2]


def time_graph(call, calls=64):
    """Seconds of a call among many in a graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        call(0)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(calls):
            call(i)
    return time_call(lambda _: graph.replay()) / calls


def add(case, ours, unit, peer="", theirs=None, ratio=None):
    rows.append({"case": case, "ours": float(f"{ours:.6g}"), "peer": peer,
                 "theirs": None if theirs is None else float(f"{theirs:.4g}"), "unit": unit,
                 "ratio": None if ratio is None else float(f"{ratio:.4g}"), "goal": 0, "met": None})
    if not as_json:
        print(f"{case:58} {ours:10.4g} {unit:7}" + (f" {ratio:.3f} of the copy" if ratio else ""))


def attempt(case, body):
    try:
        body()
    except Exception as error:  # a peer that cannot is no failure of ours
        print(f"{case}: {error}", file=sys.stderr)


def measure_memory(copy_rate):
    for dtype, name in ((torch.float32, ""), (torch.bfloat16, ", bf16")):
        count = 64 * MEBI // dtype.itemsize
        sets = [torch.rand(count // 4096, 4096, device=device).to(dtype) for _ in range(8)]
        others = [torch.rand(count // 4096, 4096, device=device).to(dtype) for _ in range(8)]
        out = [torch.empty_like(sets[0]) for _ in range(8)]
        weight = torch.rand(4096, device=device).to(dtype)
        rms = getattr(functional, "rms_norm", None)
        cases = {
            "torch rms_norm": (2, lambda i: rms(sets[i % 8], (4096,), weight, 1e-5)),
            "torch layer_norm": (2, lambda i: functional.layer_norm(sets[i % 8], (4096,), weight, weight, 1e-5)),
            "torch softmax": (2, lambda i: torch.softmax(sets[i % 8], -1)),
            "torch add": (3, lambda i: torch.add(sets[i % 8], others[i % 8], out=out[i % 8])),
            "torch silu": (2, lambda i: functional.silu(sets[i % 8])),
        }
        for case, (passes, call) in cases.items():
            if case == "torch rms_norm" and rms is None:
                continue

            def measure(case=case, passes=passes, call=call):
                rate = passes * 64 * MEBI / time_call(call)
                add(f"{case}{name}, 64 MiB", rate * 1e-9, "GB/s", "copy in this run", copy_rate * 1e-9, rate / copy_rate)

            attempt(case, measure)
        one = sets[0][:1]
        attempt("torch rms_norm", lambda: add(f"torch rms_norm{name}, a row of 4096 in a graph",
                                              time_graph(lambda _: rms(one, (4096,), weight, 1e-5)) * 1e6, "us"))
        attempt("torch softmax", lambda: add(f"torch softmax{name}, a row of 4096 in a graph",
                                             time_graph(lambda _: torch.softmax(one, -1)) * 1e6, "us"))


def measure_products():
    for rows_in in (1, 8, 256, 4096):
        copies = 4
        weights = [torch.rand(4096, 14336, device=device).to(torch.bfloat16) for _ in range(copies)]
        x = torch.rand(rows_in, 14336, device=device).to(torch.bfloat16)
        seconds = time_call(lambda i: functional.linear(x, weights[i % copies]))
        if rows_in <= 8:
            add(f"torch linear bf16, {rows_in} rows, 4096 x 14336", weights[0].numel() * 2 / seconds * 1e-9, "GB/s")
        else:
            add(f"torch linear bf16, {rows_in} rows, 4096 x 14336",
                2 * rows_in * weights[0].numel() / seconds * 1e-12, "TFLOP/s")
    for allowed in (False, True):
        torch.backends.cuda.matmul.allow_tf32 = allowed
        a, b = (torch.rand(4096, 4096, device=device) for _ in range(2))
        seconds = time_call(lambda _: a @ b)
        add("torch matmul " + ("tf32" if allowed else "fp32") + ", 4096 x 4096 x 4096", 2 * 4096**3 / seconds * 1e-12, "TFLOP/s")
    torch.backends.cuda.matmul.allow_tf32 = False


def measure_attention():
    for dtype, name in ((torch.bfloat16, "bf16"), (torch.float32, "fp32")):
        for batch, keys in ((1, 1024), (1, 8192), (16, 4096)):
            q = torch.rand(batch, 32, 1, 128, device=device).to(dtype)
            k, v = (torch.rand(batch, 8, keys, 128, device=device).to(dtype) for _ in range(2))
            seconds = time_graph(lambda _: functional.scaled_dot_product_attention(q, k, v, enable_gqa=True), 16)
            add(f"torch sdpa decode {name}, {batch} x {keys} keys, 32 / 8 heads of 128", seconds * 1e6, "us")
    for keys in (2048, 4096):
        q, k, v = (torch.rand(1, 32, keys, 128, device=device).to(torch.bfloat16) for _ in range(3))
        seconds = time_call(lambda _: functional.scaled_dot_product_attention(q, k, v, is_causal=True))
        add(f"torch sdpa prefill bf16, {keys} tokens, causal, 32 heads of 128", 2 * keys * keys * 32 * 128 / seconds * 1e-12,
            "TFLOP/s")


def main():
    source = torch.empty(512 * MEBI, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    copy_rate = 2 * 512 * MEBI / time_call(lambda _: target.copy_(source))
    del source, target
    add("torch copy, 512 MiB, read and written", copy_rate * 1e-9, "GB/s")
    attempt("memory", lambda: measure_memory(copy_rate))
    attempt("products", measure_products)
    attempt("attention", measure_attention)
    if as_json:
        print(json.dumps({"schema": "shardwise.bench/1", "name": "device_peer", "rows": rows}, separators=(",", ":")))


main()
