# SPDX-License-Identifier: Apache-2.0
"""The peer of bench_load: times the safetensors package copying every byte of a file into fresh memory.

load_peer.py FILE THREADS ROUNDS cold|warm prints {"version"} and then {"seconds", "form"}: the shortest round and its form. Forms:
load_file, whose tensors are views of the mapped file, and a clone of each; load of the bytes that one read gives. Cold rounds ask
the system to forget the file's pages first. Start and imports are not timed.
"""

import json
import os
import sys
import time

import safetensors
import safetensors.torch
import torch

path, threads, rounds, is_cold = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "cold"
torch.set_num_threads(threads)


def forget():
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def clones():
    return {name: tensor.clone() for name, tensor in safetensors.torch.load_file(path).items()}


def read():
    with open(path, "rb") as file:
        return safetensors.torch.load(file.read())


best, best_form = None, ""
print(json.dumps({"version": safetensors.__version__}), flush=True)
for turn in range(rounds):
    for form in (clones, read):
        if is_cold:
            forget()
        start = time.perf_counter()
        tensors = form()
        seconds = time.perf_counter() - start
        del tensors
        if best is None or seconds < best:
            best, best_form = seconds, form.__name__
print(json.dumps({"seconds": best, "form": best_form}), flush=True)
