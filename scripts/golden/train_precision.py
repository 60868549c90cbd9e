#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/train/precision.txt: how far gradients are from float64's where torch trains small models in 16 bits.

Weights are float32 and the loss is computed under torch.autocast, in fp16 times 1024, by which gradients are divided. The models are
those of train_gradients.py. A case is a line `case | NAME`, and behind it a line for each parameter: the norms of the errors in bf16 and
in fp16. Needs transformers==4.57.6 and torch.

    train_precision.py FOLDER
"""
import sys

import numpy
import torch

from train_gradients import CASES, batch, gradients, loss_of, make

MODELS = ["llama", "gemma2", "gpt2", "phi3", "falcon_groups", "olmo2"]


def half_gradients(config, dtype, scale):
    model = make(config, torch.float32)
    with torch.autocast("cpu", dtype=dtype):
        loss = loss_of(model, *batch())
    (loss * scale).backward()
    return {name: parameter.grad.double().numpy().reshape(-1) / scale for name, parameter in model.named_parameters()}


def main(folder):
    with open(folder + "/precision.txt", "w") as file:
        file.write("# case | name; then parameter | norms of the errors in bf16 and fp16: train_precision.py\n")
        for case in MODELS:
            _, loss, exact = gradients(CASES[case], torch.float64)
            bf16 = half_gradients(CASES[case], torch.bfloat16, 1.0)
            fp16 = half_gradients(CASES[case], torch.float16, 1024.0)
            file.write(f"case | {case}\n")
            for parameter, values in exact.items():
                errors = [float(numpy.linalg.norm(half[parameter] - values)) for half in (bf16, fp16)]
                file.write(f"{parameter} | " + " ".join(f"{error:.6g}" for error in errors) + "\n")
            print(case, loss)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(sys.argv[1])
