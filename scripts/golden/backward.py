#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/backward.txt: gradients that torch's autograd has in float64 for the kernels of kernels/backward/.

    python3 -m venv VENV && VENV/bin/pip install torch==2.9.1
    VENV/bin/python scripts/golden/backward.py tests/golden/backward.txt

Inputs are numbered, not stored: `values` is numbered_matrix of tests/kernels/gradients.hpp, and each case has the shapes and seeds
of its test. One line per gradient: its name and its elements, row by row.
"""
import math
import sys

import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
lines = []


def values(rows, width, seed, factor=1.0):
    """Multiples of 2^-14 in [-2, 2), times a factor that float holds."""
    out = []
    for i in range(rows * width):
        mixed = (seed * 1000003 + i * 7919 + 12345) & 0xFFFFFFFF
        mixed ^= mixed >> 16
        mixed = (mixed * 0x45D9F3B) & 0xFFFFFFFF
        mixed ^= mixed >> 16
        out.append(factor * ((mixed & 0xFFFF) - 32768) / 16384.0)
    return torch.tensor(out).reshape(rows, width).requires_grad_()


def float32(number):
    """What a float literal of the tests is in float64."""
    return float(torch.tensor(number, dtype=torch.float32))


def write(name, *tensors):
    for part, tensor in tensors:
        key = name if part is None else f"{name}.{part}"
        lines.append(key + " " + " ".join(repr(float(x)) for x in tensor.grad.flatten()))


def linear():
    x, w, b = values(5, 7, 1), values(3, 7, 2), torch.zeros(3, requires_grad=True)
    F.linear(x, w, b).backward(values(5, 3, 3).detach())
    write("linear", ("in", x), ("weight", w), ("bias", b))


def norms():
    for name, offset in (("rms_norm", 0.0), ("rms_norm_offset", 1.0), ("layer_norm", 0.0)):
        x, w, b = values(3, 10, 11), values(1, 10, 12), torch.zeros(10, requires_grad=True)
        eps = float32(1e-5)
        if name == "layer_norm":
            y = F.layer_norm(x, (10,), w.flatten(), b, eps)
        else:
            y = F.rms_norm(x, (10,), (w + offset).flatten(), eps)
        y.backward(values(3, 10, 13).detach())
        write(name, ("in", x), ("weight", w))
        if name == "layer_norm":
            write(name, ("bias", b))


def rope():
    """The formula of transformers' apply_rotary_pos_emb, and of GPT-J's for neighbours; partial, scaled as yarn does."""
    tokens, heads, dim, pairs, scale = 4, 3, 10, 4, 1.5
    angle = torch.arange(tokens)[:, None] * 7 * (0.5 ** torch.arange(pairs))
    cos, sin = (angle.cos() * scale)[:, None], (angle.sin() * scale)[:, None]
    for layout in ("half", "interleaved"):
        x = values(tokens, heads * dim, 22)
        head = x.reshape(tokens, heads, dim)
        turning, rest = head[..., :2 * pairs], head[..., 2 * pairs:]
        if layout == "half":
            a, b = turning[..., :pairs], turning[..., pairs:]
            turned = torch.cat((a * cos - b * sin, b * cos + a * sin), -1)
        else:
            a, b = turning[..., 0::2], turning[..., 1::2]
            turned = torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)
        torch.cat((turned, rest), -1).reshape(tokens, heads * dim).backward(values(tokens, heads * dim, 21).detach())
        write("rope", (layout, x))


def activations():
    kinds = {
        "silu": F.silu,
        "gelu": F.gelu,
        "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
        "relu": F.relu,
        "tanh": torch.tanh,
        "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
        "sigmoid": torch.sigmoid,
        "relu_squared": lambda x: F.relu(x) ** 2,
    }
    for name, function in kinds.items():
        x = values(2, 12, 31, 2.0)
        function(x).backward(values(2, 12, 32).detach())
        write("activation", (name, x))
    for name in ("silu", "clamped"):
        gate, up = values(2, 12, 34, 5.0), values(2, 12, 35, 5.0)
        if name == "silu":
            y = F.silu(gate) * up
        else:
            # transformers' GptOssExperts
            g, u = gate.clamp(max=7.0), up.clamp(min=-7.0, max=7.0)
            y = (u + 1) * (g * torch.sigmoid(1.702 * g))
        y.backward(values(2, 12, 36).detach())
        write("gated." + name, ("gate", gate), ("up", up))
    x = values(2, 12, 38, 20.0)
    (30.0 * torch.tanh(x / 30.0)).backward(values(2, 12, 39).detach())
    write("soft_cap", (None, x))


def embedding():
    table = torch.zeros(6, 4, requires_grad=True)
    F.embedding(torch.tensor([2, 0, 2, 5, 2]), table).backward(values(5, 4, 51).detach())
    write("embedding", (None, table))


def attention():
    cases = {
        "causal": dict(heads=4, kv_heads=2, key_dim=6, value_dim=5, queries=7, keys=7),
        "window": dict(heads=3, kv_heads=1, key_dim=4, value_dim=4, queries=9, keys=9, window=3),
        "past": dict(heads=2, kv_heads=2, key_dim=4, value_dim=3, queries=3, keys=8),
        "whole": dict(heads=2, kv_heads=2, key_dim=5, value_dim=4, queries=5, keys=5, is_causal=False, window=3),
        "capped": dict(heads=2, kv_heads=1, key_dim=6, value_dim=6, queries=6, keys=6, scale=0.25, soft_cap=2.0),
        "alibi": dict(heads=4, kv_heads=4, key_dim=4, value_dim=4, queries=6, keys=6, has_slopes=True),
    }
    for name, c in cases.items():
        heads, kv_heads, queries, keys = c["heads"], c["kv_heads"], c["queries"], c["keys"]
        q, k = values(queries, heads * c["key_dim"], 61), values(keys, kv_heads * c["key_dim"], 62)
        v = values(keys, kv_heads * c["value_dim"], 63)
        group = heads // kv_heads
        qh = q.reshape(queries, heads, -1).transpose(0, 1)
        kh = k.reshape(keys, kv_heads, -1).transpose(0, 1).repeat_interleave(group, 0)
        vh = v.reshape(keys, kv_heads, -1).transpose(0, 1).repeat_interleave(group, 0)
        scores = qh @ kh.transpose(1, 2) * c.get("scale", 1.0 / math.sqrt(c["key_dim"]))
        if "soft_cap" in c:
            scores = c["soft_cap"] * torch.tanh(scores / c["soft_cap"])
        distance = torch.arange(keys - queries, keys)[:, None] - torch.arange(keys)[None]
        if "has_slopes" in c:
            slopes = 2.0 ** (-2.0 * torch.arange(1, heads + 1))
            scores = scores - slopes[:, None, None] * distance.abs()
        hidden = torch.zeros(queries, keys, dtype=torch.bool)
        if c.get("is_causal", True):
            hidden |= distance < 0
        if "window" in c:
            hidden |= distance.abs() >= c["window"]
        weights = torch.softmax(scores.masked_fill(hidden, -math.inf), -1)
        out = (weights @ vh).transpose(0, 1).reshape(queries, -1)
        out.backward(values(queries, heads * c["value_dim"], 64).detach())
        write("attention." + name, ("q", q), ("k", k), ("v", v))


def cross_entropy():
    targets = torch.tensor([3, -100, 0, 10, 3])
    for name, scale, cap, has_bias in (("plain", 1.0, 0.0, False), ("capped", 0.5, 3.0, True)):
        x, w = values(5, 6, 71), values(11, 6, 72)
        b = values(1, 11, 73)
        token = values(1, 5, 74).detach().flatten().abs()
        logits = F.linear(x, w, b.flatten() if has_bias else None) * scale
        if cap > 0.0:
            logits = cap * torch.tanh(logits / cap)
        loss = F.cross_entropy(logits, targets, reduction="none")
        (loss * token).sum().backward()
        lines.append(f"cross_entropy.{name}.loss " + " ".join(repr(float(one)) for one in loss.detach()))
        write("cross_entropy." + name, ("in", x), ("head", w))
        if has_bias:
            write("cross_entropy." + name, ("bias", b))


for case in (linear, norms, rope, activations, embedding, attention, cross_entropy):
    case()
with open(sys.argv[1], "w") as file:
    file.write(f"# scripts/golden/backward.py, torch {torch.__version__.split('+')[0]}\n")
    file.write("\n".join(lines) + "\n")
