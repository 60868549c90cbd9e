#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/train/{optimizers,schedules,scaler,sampler,buckets,batch_norm}.txt: what torch and transformers make of
the parts of a training loop.

Run with a Python that has torch 2.9.1 and transformers 4.57.6. Numbers are hexadecimal floats. Inputs are `numbers(first, count)`,
which the tests compute by the same rule.
"""

import pathlib
import sys
from importlib.metadata import version

import torch
import torch.distributed as dist
from torch.utils.data import DistributedSampler
from transformers import optimization

PINNED = {"torch": "2.9.1", "transformers": "4.57.6"}
OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/train"


def numbers(first, count):
    """Multiples of 2^-24 in [-1/2, 1/2): exact in float."""
    return [(((i * 2654435761 + 12345) % 2**32) >> 8) / 2**24 - 0.5 for i in range(first, first + count)]


def hexed(values):
    return " ".join(float(value).hex() for value in values)


def write(name, head, lines):
    (OUT / name).write_text("\n".join([f"# {head}", *lines]) + "\n")


def optimizers():
    """Three steps of 37 elements in float64."""
    cases = [
        ("adamw", dict(lr=0.01, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)),
        ("adamw", dict(lr=3e-3, betas=(0.8, 0.999), eps=1e-6, weight_decay=0.0)),
        ("sgd", dict(lr=0.1, momentum=0.0, weight_decay=0.01, nesterov=False)),
        ("sgd", dict(lr=0.1, momentum=0.9, weight_decay=0.0, nesterov=False)),
        ("sgd", dict(lr=0.05, momentum=0.9, weight_decay=0.01, nesterov=True)),
    ]
    lines = []
    for name, settings in cases:
        weight = torch.nn.Parameter(torch.tensor(numbers(0, 37), dtype=torch.float64))
        made = (torch.optim.AdamW if name == "adamw" else torch.optim.SGD)([weight], **settings)
        for step in range(3):
            weight.grad = torch.tensor(numbers(1000 * (step + 1), 37), dtype=torch.float64)
            made.step()
        words = [str(settings["lr"]), *(str(x) for x in settings.get("betas", ())), str(settings.get("eps", "")),
                 str(settings.get("momentum", "")), str(settings["weight_decay"]), str(int(settings.get("nesterov", 0)))]
        lines.append(f"{name} {' '.join(word for word in words if word)} | {hexed(weight.detach())}")
    write("optimizers.txt", "adamw lr beta1 beta2 epsilon decay 0 / sgd lr momentum decay nesterov | weights after three steps", lines)


def schedules():
    """The factors at every step to beyond the end."""
    weight = torch.nn.Parameter(torch.zeros(1))
    lines = []
    for warm_up, total, decay, floor in [(10, 100, 20, 0.0), (0, 37, 7, 0.1), (5, 23, 18, 0.25)]:
        made = {
            "constant": lambda o: optimization.get_constant_schedule_with_warmup(o, warm_up),
            "cosine": lambda o: optimization.get_cosine_with_min_lr_schedule_with_warmup(o, warm_up, total, min_lr_rate=floor),
            "wsd": lambda o: optimization.get_wsd_schedule(o, warm_up, decay, num_training_steps=total, min_lr_ratio=floor),
        }
        if floor == 0:
            made["linear"] = lambda o: optimization.get_linear_schedule_with_warmup(o, warm_up, total)
        made["inverse_sqrt"] = lambda o: optimization.get_inverse_sqrt_schedule(o, warm_up, timescale=warm_up or 10_000)
        for name, make in made.items():
            optimizer = torch.optim.SGD([weight], lr=1.0)
            schedule = make(optimizer)
            factors = []
            for _ in range(total):
                factors.append(schedule.get_last_lr()[0])
                optimizer.step()
                schedule.step()
            lines.append(f"{name} {warm_up} {total} {decay} {floor} | {hexed(factors)}")
    write("schedules.txt", "schedule warm-up total decay floor | the factor at each step", lines)


def scaler():
    """GradScaler's scale after each step; the bits say which step had an infinite gradient."""
    lines = []
    for interval, initial, bad in [(3, 65536.0, [3, 6, 7]), (2, 2.0**126, []), (4, 1024.0, [0, 1, 2, 3, 9])]:
        made = torch.amp.GradScaler("cpu", init_scale=initial, growth_interval=interval)
        weight = torch.nn.Parameter(torch.zeros(1))
        optimizer = torch.optim.SGD([weight], lr=0.1)
        scales = []
        for step in range(14):
            made.scale(torch.zeros(1))
            weight.grad = torch.tensor([float("inf") if step in bad else 1.0])
            made.step(optimizer)
            made.update()
            scales.append(made.get_scale())
        lines.append(f"{interval} {initial} {' '.join(str(int(step in bad)) for step in range(14))} | {hexed(scales)}")
    write("scaler.txt", "interval initial bad... | the scale after each step", lines)


def sampler():
    lines = []
    for samples, ranks, drop, shuffle, seed, epoch in [
            (10, 4, 0, 0, 0, 0), (11, 3, 0, 0, 0, 0), (11, 3, 1, 0, 0, 0), (11, 3, 0, 1, 7, 2), (2, 5, 0, 1, 0, 0), (1, 3, 0, 0, 0, 0),
            (2, 5, 1, 1, 0, 0), (97, 8, 0, 1, 123456789, 3), (97, 8, 1, 1, 4294967295, 1), (64, 4, 1, 1, 0, 11)]:
        for rank in range(ranks):
            made = DistributedSampler(range(samples), ranks, rank, shuffle=bool(shuffle), seed=seed, drop_last=bool(drop))
            made.set_epoch(epoch)
            lines.append(f"{samples} {ranks} {drop} {shuffle} {seed} {epoch} {rank} | {' '.join(map(str, made))}")
    generator = torch.Generator()
    generator.manual_seed(2**40 + 5)
    permutation = torch.randperm(5000, generator=generator).tolist()
    lines.append(f"5000 1 0 1 {2**40 + 5} 0 0 | {' '.join(map(str, permutation))}")
    write("sampler.txt", "samples ranks drop_last shuffles seed epoch rank | indices", lines)


def buckets():
    lines = []
    dtypes = {"f32": torch.float32, "f64": torch.float64}
    generator = torch.Generator().manual_seed(3)
    cases = [([("f32", 50, 0), ("f64", 25, 0)] * 3, [400]), ([("f32", 10, 0)] * 4, [40, 80]),
             ([("f32", 10, 0), ("f32", 10, 1), ("f32", 10, 0)], [80])]
    for limits in ([400], [100, 1000], [2**62]):
        made = []
        for _ in range(20):
            kind, size, sparse = (int(torch.randint(n, (1,), generator=generator)) for n in (2, 200, 10))
            made.append((["f32", "f64"][kind], size + 1, int(sparse == 0)))
        cases.append((made, limits))
    for tensors, limits in cases:
        made, _ = dist._compute_bucket_assignment_by_size([torch.empty(n, dtype=dtypes[kind]) for kind, n, _ in tensors], limits,
                                                          [bool(sparse) for _, _, sparse in tensors])
        words = " ".join(f"{kind}:{n}:{sparse}" for kind, n, sparse in tensors)
        lines.append(f"{' '.join(map(str, limits))} | {words} | {' '.join(','.join(map(str, bucket)) for bucket in made)}")
    write("buckets.txt", "limits | dtype:elements:is_sparse... | buckets", lines)


def batch_norm():
    """A batch of 23 rows and 5 channels, joined, in float64: two steps."""
    rows, channels = 23, 5
    made = torch.nn.BatchNorm1d(channels, dtype=torch.float64)
    with torch.no_grad():
        made.weight.copy_(torch.tensor(numbers(50, channels)))
        made.bias.copy_(torch.tensor(numbers(60, channels)))
    lines = []
    for step in range(2):
        data = torch.tensor(numbers(100 + 1000 * step, rows * channels), dtype=torch.float64).reshape(rows, channels) * 8 + 3
        data.requires_grad_()
        made.zero_grad()
        out = made(data)
        out.backward(torch.tensor(numbers(700 + 1000 * step, rows * channels), dtype=torch.float64).reshape(rows, channels))
        for name, values in [("out", out), ("in_gradient", data.grad), ("weight_gradient", made.weight.grad),
                             ("bias_gradient", made.bias.grad), ("running_mean", made.running_mean),
                             ("running_variance", made.running_var)]:
            lines.append(f"{name} | {hexed(values.detach().flatten())}")
    made.eval()
    lines.append(f"evaluated | {hexed(made(data).detach().flatten())}")
    write("batch_norm.txt", "what | values", lines)


def main():
    found = {name: version(name).split("+")[0] for name in PINNED}
    if found != PINNED:
        sys.exit(f"train_parts.py: the golden data is pinned to {PINNED}, this Python has {found}")
    OUT.mkdir(exist_ok=True)
    optimizers()
    schedules()
    scaler()
    sampler()
    buckets()
    batch_norm()


main()
