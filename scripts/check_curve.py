#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small llama by `shardwise train` and by torch, from the same weights and over the same batches, and compares the losses.

    check_curve.py PROGRAM [--demo] [--steps 200] [FLAGS of train]

Torch trains in float64, and in float32 with each batch in four orders. At each step the largest difference so far between the program's loss
and float64's may be four times the largest so far of float32's, and 1e-6; the validation loss after the last step differs by less than float32's largest difference over the four orders. With --demo
the model is that of share/shardwise/demo; a smaller one else. Needs torch and transformers.
"""
import argparse
import csv
import json
import math
import os
import subprocess
import sys
import tempfile

import numpy
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

DEMO = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "share", "shardwise", "demo")
RATE, WARM_UP, FLOOR, SEED = 3e-3, 20, 0.1, 5


def rate(step, steps):
    if step < WARM_UP:
        return RATE * step / WARM_UP
    return RATE * (FLOOR + (1 - FLOOR) * 0.5 * (1 + math.cos(math.pi * (step - WARM_UP) / (steps - WARM_UP))))


def windows(ids, context):
    count = (len(ids) - 1) // context
    return torch.stack([ids[i * context:(i + 1) * context + 1] for i in range(count)])


def batches(samples, batch, steps):
    """Members of each batch, as torch's DistributedSampler draws them for one rank; an epoch's last ones that make no batch are dropped."""
    out, epoch = [], 0
    while len(out) < steps:
        order = torch.randperm(len(samples), generator=torch.Generator().manual_seed(SEED + epoch))
        out += [samples[order[i * batch:(i + 1) * batch]] for i in range(len(samples) // batch)]
        epoch += 1
    return out[:steps]


def loss_of(model, samples):
    logits = model(samples[:, :-1], use_cache=False).logits
    return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), samples[:, 1:].reshape(-1))


def train(folder, dtype, order, samples, held_out):
    model = LlamaForCausalLM.from_pretrained(folder, torch_dtype=torch.float32, attn_implementation="eager").to(dtype)
    groups = [dict(params=[p for p in model.parameters() if p.dim() >= 2], weight_decay=0.1),
              dict(params=[p for p in model.parameters() if p.dim() < 2], weight_decay=0.0)]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.95), eps=1e-8)
    losses = []
    for step, batch in enumerate(samples):
        for group in optimizer.param_groups:
            group["lr"] = rate(step, len(samples))
        optimizer.zero_grad()
        loss = loss_of(model, batch[order])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        valid = numpy.mean([loss_of(model, held_out[i:i + 8]).item() for i in range(0, len(held_out), 8)])
    return numpy.array(losses), valid


def run_program(program, folder, work, flags, steps, context, batch):
    out = os.path.join(work, "run")
    # On processors with a unit for bf16 the precision is another one where none is named.
    words = [program, "train", folder, "--precision", "fp32", "--data", os.path.join(work, "ids.u16"), "--valid",
             os.path.join(work, "valid.u16"), "--context", context, "--batch", batch, "--steps", steps, "--lr", RATE, "--warmup", WARM_UP,
             "--seed", SEED, "--out", out, "--csv", os.path.join(work, "loss.csv"), "--json"]
    said = subprocess.run([str(word) for word in words] + flags, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if said.returncode != 0:
        sys.exit(said.stderr.decode())
    with open(os.path.join(work, "loss.csv")) as file:
        losses = [float(row["loss"]) for row in csv.DictReader(file)]
    return numpy.array(losses), json.loads(said.stdout)["loss"]["valid"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--demo", action="store_true")
    parser.add_argument("--steps", type=int, default=200)
    given, flags = parser.parse_known_args()
    torch.set_num_threads(2)
    with open(os.path.join(DEMO, "config.json")) as file:
        config = json.load(file)
    context, batch = 128, 16
    if not given.demo:
        config |= {"num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 176}
        context, batch = 32, 8
    with open(os.path.join(DEMO, "shakespeare.txt")) as file:
        text = file.read()
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=os.path.join(DEMO, "tokenizer.json"))
    # A batch and a half more than two thirds of the steps: there are two epochs, and the first drops some.
    count = context * (batch * (2 * given.steps // 3) + batch // 2) + 1
    ids = torch.tensor(tokenizer(text[:8 * count])["input_ids"])
    ids, valid = ids[:count], ids[count:count + 24 * context + 1]
    assert len(valid) == 24 * context + 1
    with tempfile.TemporaryDirectory() as work:
        folder = os.path.join(work, "model")
        torch.manual_seed(1)
        LlamaForCausalLM(LlamaConfig(**config)).save_pretrained(folder)
        for name, part in (("ids", ids), ("valid", valid)):
            part.numpy().astype("<u2").tofile(os.path.join(work, name + ".u16"))
        ours, our_valid = run_program(given.program, folder, work, flags, given.steps, context, batch)
        samples, held_out = batches(windows(ids, context), batch, given.steps), windows(valid, context)
        members = torch.arange(batch)
        exact, exact_valid = train(folder, torch.float64, members, samples, held_out)
        spread, valid_spread = numpy.zeros(given.steps), 0.0
        for order in (members, members.flip(0), members.roll(3), torch.cat([members[1::2], members[::2]])):
            losses, loss = train(folder, torch.float32, order, samples, held_out)
            spread = numpy.maximum(spread, numpy.maximum.accumulate(abs(losses - exact)))
            valid_spread = max(valid_spread, abs(loss - exact_valid))
    off = numpy.maximum.accumulate(abs(ours - exact))
    allowed = 4 * spread + 1e-6
    for step in sorted({0, given.steps // 10, given.steps // 2, given.steps - 1}):
        print(f"step {step}: loss {ours[step]:.6f}, off by at most {off[step]:.2e} so far, float32 in torch by {spread[step]:.2e}")
    print(f"validation {our_valid:.6f}, off by {abs(our_valid - exact_valid):.2e}, float32 in torch by {valid_spread:.2e}")
    is_good = len(ours) == given.steps and (off <= allowed).all() and abs(our_valid - exact_valid) < valid_spread
    print("as torch" if is_good else "NOT as torch")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
