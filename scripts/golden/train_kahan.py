#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/train/kahan.txt: 200 steps of AdamW on weights in bf16 with a compensation in bf16, by exact arithmetic.

Needs Python alone. Each operation of AdamW is computed in double and rounded to float32, which gives what float32 arithmetic does
(53 digits are more than twice 24, so that rounding twice changes nothing). Beside it the same steps in float64, on float32 weights
(masters) and on weights in bf16 without compensation; the errors of these against float64 are printed.
"""

import math
import pathlib
import struct

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/train/kahan.txt"
COUNT, STEPS = 24, 200
LR, BETA1, BETA2, EPSILON, DECAY = 1e-3, 0.9, 0.95, 1e-8, 0.1


def numbers(first, count):
    """As in train_parts.py: multiples of 2^-24 in [-1/2, 1/2)."""
    return [(((i * 2654435761 + 12345) % 2**32) >> 8) / 2**24 - 0.5 for i in range(first, first + count)]


def single(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def bf16_bits(value):
    """The nearest bfloat16 of a float, ties to even."""
    bits = struct.unpack("I", struct.pack("f", value))[0]
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) & 0xFFFF


def bf16(value):
    return struct.unpack("f", struct.pack("I", bf16_bits(value) << 16))[0]


def exact(value):
    return value


def adamw(weight, gradient, state, number, rounded):
    """One step of an element; `rounded` rounds each operation. What does not depend on the element is computed in double."""
    kept, first_share = rounded(1.0 - LR * DECAY), rounded(1.0 - BETA1)
    beta2, second_share = rounded(BETA2), rounded(1.0 - BETA2)
    root_factor = rounded(1.0 / math.sqrt(1.0 - BETA2**number))
    epsilon, size = rounded(EPSILON), rounded(LR / (1.0 - BETA1**number))
    first, second = state
    first = rounded(first + rounded(first_share * rounded(gradient - first)))
    second = rounded(rounded(beta2 * second) + rounded(second_share * rounded(gradient * gradient)))
    root = rounded(rounded(rounded(math.sqrt(second)) * root_factor) + epsilon)
    state[:] = [first, second]
    return rounded(rounded(weight * kept) - rounded(size * rounded(first / root)))


def main():
    start = [bf16(value) for value in numbers(0, COUNT)]
    true, master, plain, weights = list(start), list(start), list(start), list(start)
    lost = [0.0] * COUNT
    states = [[[0.0, 0.0] for _ in range(COUNT)] for _ in range(4)]
    for step in range(1, STEPS + 1):
        # A gradient has a mean of its own and some noise.
        drawn = numbers(1000 * step, COUNT)
        for i in range(COUNT):
            gradient = drawn[i] * 0.5 + (0.25 if i % 2 == 0 else -0.125)
            true[i] = adamw(true[i], gradient, states[0][i], step, exact)
            master[i] = adamw(master[i], gradient, states[1][i], step, single)
            plain[i] = bf16(adamw(plain[i], gradient, states[2][i], step, single))
            moved = adamw(single(weights[i] + lost[i]), gradient, states[3][i], step, single)
            weights[i] = bf16(moved)
            lost[i] = bf16(single(moved - weights[i]))
    joined = [weight + rest for weight, rest in zip(weights, lost)]
    for name, values in (("float32 masters", master), ("kahan, w + c", joined), ("kahan, w", weights), ("bf16 alone", plain)):
        worst = max(abs(a - b) for a, b in zip(values, true))
        print(f"{name}: largest error {worst:.3g}, of a change of {max(abs(a - b) for a, b in zip(true, start)):.3g}")
    lines = ["# steps lr beta1 beta2 epsilon decay | weights in float64 | bits of weights in bf16 | bits of their compensation",
             " | ".join([f"{STEPS} {LR} {BETA1} {BETA2} {EPSILON} {DECAY}", " ".join(value.hex() for value in true),
                         " ".join(str(bf16_bits(value)) for value in weights),
                         " ".join(str(bf16_bits(value)) for value in lost)])]
    OUT.write_text("\n".join(lines) + "\n")


main()
