# SPDX-License-Identifier: Apache-2.0
"""The peer of bench_attention: times torch's scaled_dot_product_attention on the cases that it is given.

attention_peer.py CASES reads CASES, a list of {"queries", "keys", "heads", "kv_heads", "head_dim", "dtype", "threads", "bytes",
"seconds"}, and prints {"version"}, then for each case {"seconds", "form"}: the shortest call and the form that it was. Each form is
tried: grouped heads as they are, the heads of a group as queries (decoding), keys and values repeated for every head. Tensors are
taken in turn from as many copies as fill "bytes", so that no cache holds them. Start and imports are not timed.
"""

import json
import sys
import time

import torch
from torch.nn.functional import scaled_dot_product_attention as attention


def forms(case):
    queries, heads, kv_heads = case["queries"], case["heads"], case["kv_heads"]
    is_causal = queries > 1
    found = {"grouped": lambda q, k, v: attention(q, k, v, is_causal=is_causal, enable_gqa=True)}
    if queries == 1:
        found["group as queries"] = lambda q, k, v: attention(q.view(1, kv_heads, heads // kv_heads, -1), k, v)
    found["repeated"] = lambda q, k, v: attention(q, k, v, is_causal=is_causal)
    return found


def run(case):
    torch.set_num_threads(case["threads"])
    dtype = getattr(torch, case["dtype"])
    shape = (1, case["kv_heads"], case["keys"], case["head_dim"])
    size = 2 * shape[1] * shape[2] * shape[3] * dtype.itemsize
    copies = max(1, -(-case["bytes"] // size))
    generator = torch.Generator().manual_seed(1)
    q = torch.randn(1, case["heads"], case["queries"], case["head_dim"], generator=generator).to(dtype)
    kept = [torch.randn(2, *shape, generator=generator).to(dtype)]
    kept += [kept[0].clone() for _ in range(copies - 1)]
    best, best_form = None, ""
    for form, call in forms(case).items():
        pairs = [(both[0], both[1]) for both in kept]
        if form == "repeated":
            group = case["heads"] // case["kv_heads"]
            pairs = [tuple(x.repeat_interleave(group, 1) for x in both) for both in pairs[:max(1, copies // group)]]
        try:
            call(q, *pairs[0])
        except RuntimeError:
            continue
        begin, turn = time.perf_counter(), 0
        while turn < 5 or time.perf_counter() - begin < case["seconds"]:
            start = time.perf_counter()
            call(q, *pairs[turn % len(pairs)])
            seconds = time.perf_counter() - start
            turn += 1
            if best is None or seconds < best:
                best, best_form = seconds, form
    return {"seconds": best, "form": best_form}


with torch.inference_mode():
    print(json.dumps({"version": torch.__version__.split("+")[0]}), flush=True)
    for one in json.loads(sys.argv[1]):
        print(json.dumps(run(one)), flush=True)
