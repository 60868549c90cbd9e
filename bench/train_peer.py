# SPDX-License-Identifier: Apache-2.0
"""The peer of bench_train: torch on the CPU. Start, imports and compiling are not timed.

train_peer.py JOB, JOB a JSON object with "kind", "threads", and
  "step"     {"config": {...}, "batch", "context", "ranks", "compiled"}: a training step of a llama: forward, loss, backward, clipping by
             norm, fused AdamW; with 2 ranks DistributedDataParallel over gloo, a process of its own each
  "adamw"    {"elements"}: a step of fused AdamW
  "product"  {"m", "n", "k", "form"}: NT in * weight^T, NN gradient * weight, TN gradient^T * in
  "attention" {"tokens", "heads", "kv_heads", "head_dim"}: the backward pass of causal scaled_dot_product_attention
  "head"     {"tokens", "hidden", "vocabulary"}: a head's product and cross entropy, forwards and backwards
  "checkpoint" {"config": {...}, "batch", "context"}: steps beside which torch.distributed.checkpoint.async_save writes weights and moments;
             the answer to a number of steps has "factor", how much longer these took than as many without, and "total", seconds until
             the checkpoint was written
It prints {"version"} and answers each line with {"seconds", "peak"}: the shortest of as many calls as the line says, and the bytes by
which the process has grown at most since before the job was made.
"""

import json
import os
import sys
import time

import torch
from torch import nn
from torch.nn import functional as f


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        width, ffn = c["hidden_size"], c["intermediate_size"]
        self.heads, self.kv_heads = c["num_attention_heads"], c["num_key_value_heads"]
        self.head_dim = width // self.heads
        self.before = nn.RMSNorm(width, eps=c["rms_norm_eps"])
        self.after = nn.RMSNorm(width, eps=c["rms_norm_eps"])
        self.qkv = nn.Linear(width, (self.heads + 2 * self.kv_heads) * self.head_dim, bias=False)
        self.o = nn.Linear(width, width, bias=False)
        self.gate_up = nn.Linear(width, 2 * ffn, bias=False)
        self.down = nn.Linear(ffn, width, bias=False)

    def forward(self, x, cos, sin):
        batch, tokens, width = x.shape
        q, k, v = self.qkv(self.before(x)).view(batch, tokens, -1, self.head_dim).transpose(1, 2).split(
            [self.heads, self.kv_heads, self.kv_heads], 1)

        def rotate(y):
            low, high = y.chunk(2, -1)
            return y * cos + torch.cat((-high, low), -1) * sin

        out = f.scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True, enable_gqa=self.heads != self.kv_heads)
        x = x + self.o(out.transpose(1, 2).reshape(batch, tokens, width))
        gate, up = self.gate_up(self.after(x)).chunk(2, -1)
        return x + self.down(f.silu(gate) * up)


class Llama(nn.Module):
    """Products of the same input are one, as a careful engineer writes it."""

    def __init__(self, c, context):
        super().__init__()
        self.embed = nn.Embedding(c["vocab_size"], c["hidden_size"])
        self.blocks = nn.ModuleList(Block(c) for _ in range(c["num_hidden_layers"]))
        self.norm = nn.RMSNorm(c["hidden_size"], eps=c["rms_norm_eps"])
        self.head = nn.Linear(c["hidden_size"], c["vocab_size"], bias=False)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)
        if c["tie_word_embeddings"]:
            self.head.weight = self.embed.weight
        half = c["hidden_size"] // c["num_attention_heads"] // 2
        angles = torch.outer(torch.arange(context), c["rope_theta"] ** (-torch.arange(half) / half)).repeat(1, 2)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, ids, targets):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return f.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


def make_step(job, rank=0):
    torch.manual_seed(1)
    c, ranks = job["config"], job["ranks"]
    plain = Llama(c, job["context"])
    model = nn.parallel.DistributedDataParallel(plain, static_graph=True, gradient_as_bucket_view=True) if ranks > 1 else plain
    if job["compiled"]:
        model = torch.compile(model)
    optimizer = torch.optim.AdamW(plain.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    ids = torch.randint(0, c["vocab_size"], (job["batch"] // ranks, job["context"] + 1))

    def step():
        optimizer.zero_grad(set_to_none=True)
        model(ids[:, :-1], ids[:, 1:]).backward()
        nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
        optimizer.step()

    return step


def make_adamw(job):
    weights = [nn.Parameter(torch.randn(job["elements"]))]
    weights[0].grad = torch.randn(job["elements"])
    return torch.optim.AdamW(weights, lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True).step


def make_product(job):
    m, n, k = job["m"], job["n"], job["k"]
    x, w, g = torch.randn(m, k), torch.randn(n, k), torch.randn(m, n)
    return {"NT": lambda: torch.matmul(x, w.t()), "NN": lambda: torch.matmul(g, w), "TN": lambda: torch.matmul(g.t(), x)}[job["form"]]


def make_attention(job):
    shapes = [(1, h, job["tokens"], job["head_dim"]) for h in (job["heads"], job["kv_heads"], job["kv_heads"])]
    q, k, v = (torch.randn(*shape, requires_grad=True) for shape in shapes)
    out = f.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=job["heads"] != job["kv_heads"])
    gradient = torch.randn_like(out)
    return lambda: torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True)


def make_head(job):
    x = torch.randn(job["tokens"], job["hidden"], requires_grad=True)
    w = torch.randn(job["vocabulary"], job["hidden"], requires_grad=True)
    targets = torch.randint(0, job["vocabulary"], (job["tokens"],))

    def run():
        x.grad = w.grad = None
        f.cross_entropy(x @ w.t(), targets).backward()

    return run


def save_beside(job):
    """Answers lines by itself: a save spans several steps."""
    import shutil
    import tempfile

    import torch.distributed.checkpoint as dcp

    torch.manual_seed(1)
    c = job["config"]
    model = Llama(c, job["context"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    ids = torch.randint(0, c["vocab_size"], (job["batch"], job["context"] + 1))

    def step():
        optimizer.zero_grad(set_to_none=True)
        model(ids[:, :-1], ids[:, 1:]).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    step()
    step()
    print(json.dumps({"version": torch.__version__.split("+")[0]}), flush=True)
    for line in sys.stdin:
        steps = int(line)
        begin = time.perf_counter()
        for _ in range(steps):
            step()
        alone = time.perf_counter() - begin
        folder = tempfile.mkdtemp()
        begin = time.perf_counter()
        written = dcp.async_save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, checkpoint_id=folder)
        total = []
        written.add_done_callback(lambda _: total.append(time.perf_counter() - begin))
        for _ in range(steps):
            step()
        beside = time.perf_counter() - begin
        written.result()
        while not total:
            time.sleep(0.001)
        shutil.rmtree(folder)
        print(json.dumps({"factor": beside / alone, "total": total[0]}), flush=True)


MAKERS = {"step": make_step, "adamw": make_adamw, "product": make_product, "attention": make_attention, "head": make_head}


def of_process(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(name + ":"))


def follow(job, rank, address):
    """The other ranks: as many calls as the first one says."""
    torch.set_num_threads(job["threads"])
    torch.distributed.init_process_group("gloo", init_method=address, rank=rank, world_size=job["ranks"])
    step = make_step(job, rank)
    calls = torch.zeros(1, dtype=torch.int64)
    while True:
        torch.distributed.broadcast(calls, 0)
        if calls.item() == 0:
            return
        for _ in range(calls.item()):
            step()


def main():
    job = json.loads(sys.argv[1])
    ranks = job.get("ranks", 1)
    if ranks > 1:
        import tempfile

        address = "file://" + os.path.join(tempfile.mkdtemp(), "meet")
        context = torch.multiprocessing.get_context("spawn")
        others = [context.Process(target=follow, args=(job, rank, address), daemon=True) for rank in range(1, ranks)]
        for other in others:
            other.start()
        torch.distributed.init_process_group("gloo", init_method=address, rank=0, world_size=ranks)
    torch.set_num_threads(job["threads"])
    if job["kind"] == "checkpoint":
        return save_beside(job)
    before = of_process("VmRSS")
    run = MAKERS[job["kind"]](job)

    def several(calls):
        if ranks > 1:
            torch.distributed.broadcast(torch.tensor([calls]), 0)
        best = float("inf")
        for _ in range(calls):
            begin = time.perf_counter()
            run()
            best = min(best, time.perf_counter() - begin)
        return best

    several(3)
    print(json.dumps({"version": torch.__version__.split("+")[0]}), flush=True)
    for line in sys.stdin:
        seconds = several(int(line))
        print(json.dumps({"seconds": seconds, "peak": of_process("VmHWM") - before, "process": of_process("VmHWM")}), flush=True)
    if ranks > 1:
        torch.distributed.broadcast(torch.tensor([0]), 0)


if __name__ == "__main__":
    main()
