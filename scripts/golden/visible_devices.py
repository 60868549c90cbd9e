# SPDX-License-Identifier: Apache-2.0
"""Writes cuda.tsv: what PyTorch, which follows NVIDIA's driver, makes of values of CUDA_VISIBLE_DEVICES.

Run with torch 2.9 installed: python scripts/golden/visible_devices.py > tests/golden/visible_devices/cuda.tsv
Columns: value, numbers of the visible GPUs in order ("-" for none), for the four UUIDs below.
"""

import os
import random

import torch.cuda as cuda

UUIDS = ["GPU-9e8d35e3-0001", "GPU-9e8d35e3-0002", "GPU-1f2e3d4c-0003", "GPU-aaaaaaaa-0004"]


def visible(value):
    os.environ["CUDA_VISIBLE_DEVICES"] = value
    parsed = cuda._parse_visible_devices()
    if parsed and isinstance(parsed[0], str):
        return cuda._transform_uuid_to_ordinals(parsed, UUIDS)
    shown = []
    for number in parsed:
        if number >= len(UUIDS):
            break
        shown.append(number)
    return shown


def values():
    yield from ["", ",", "0", "3,1", "0,1,2,3", "0,2,-1,1", "-1", "0, 1, 2, -1, 3", "0, 1, 2, 1", "2, +3, -0, 1", "one,two,3", "3,2,two,1", "1gpu2,2ampere"]
    yield from ["4", "0,4,1", "0,9,9", "0,9,1,0", " 2 ,\t1", "00,1", "00,0", "01,02", "0,,1", "1,", "99999999999999999999,1", "0,99999999999999999999"]
    yield from ["0x1", "1.5", "1-2", "GPU-", "GPU-9", "GPU-9e8d35e3-0002", "GPU-1", "gpu-1", "GPU-1,GPU-a", "GPU-a,GPU-1f,GPU-9", "GPU-1,2", "2,GPU-1"]
    yield from ["GPU-1,GPU-1", "GPU-1,GPU-1f", "GPU-1, GPU-a", " GPU-1", "GPU-1,GPU-zz,GPU-a", "GPU-1,GPU-zz,GPU-1", "GPU-a,,GPU-1", "GPU-aaaaaaaa-0004x"]
    numbers = ["0", "1", "2", "3", "4", "-1", "7", "", " 1", "+2", "x", "2b", "GPU-1", "-0", "03"]
    uuids = ["GPU-1", "GPU-9", "GPU-9e8d35e3-0001", "GPU-9e8d35e3-0002", "GPU-a", "GPU-aaaa", "GPU-z", "1", ""]
    chosen = random.Random(4)
    for words in [numbers] * 120 + [uuids] * 80:
        yield ",".join(chosen.choice(words) for _ in range(chosen.randint(1, 5)))


seen = set()
for value in values():
    if value in seen:
        continue
    seen.add(value)
    shown = visible(value)
    print(value.replace("\t", "\\t"), " ".join(map(str, shown)) or "-", sep="\t")
