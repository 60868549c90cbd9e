#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/tokenizer/scores.txt: the numbers that PyPI tokenizers reads as scores, and cuts that depend on their last bit.

A line is `number TEXT BITS`, the double that tokenizers makes of the text, or `digits TEXT ID...`, the ids of a run of digits by
unigram.json: its cuts have equal sums but for roundings. Run with a Python that has tokenizers 0.22.2 or 0.23.3 (they agree).
"""

import json
import pathlib
import random
import struct
import sys

import tokenizers
from tokenizers import Tokenizer

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/tokenizer"
EDGES = ["0.0", "-0.0", "1e0", "18446744073709551615.5", "18446744073709551616.5", "184467440737095516159.1", "1844674407370955161.6",
         "99999999999999999999", "-99999999999999999999.75e-3", "4.9e-324", "-1e-330", "1e-400", "1.7976931348623157e308", "0e999999999999",
         "1e-99999999999", "0.00000000000000000000000000000000000001e30", "123456789012345678e-320", "-1.9701822821267259"]


def random_number(rng):
    digits = lambda low, high: "".join(rng.choice("0123456789") for _ in range(rng.randrange(low, high)))  # noqa: E731
    kind = rng.random()
    if kind < 0.4:
        return repr(-20 * rng.random())
    if kind < 0.7:
        return rng.choice(["", "-"]) + rng.choice("123456789") + digits(0, 24) + "." + digits(1, 24)
    return rng.choice(["", "-"]) + rng.choice("0123456789") + "." + digits(1, 22) + rng.choice("eE") + rng.choice(["", "+", "-"]) + str(rng.randrange(300))


def read_by_tokenizers(numbers):
    vocabulary = ",".join(f'["t{index}",{number}]' for index, number in enumerate(numbers))
    text = ('{"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,"pre_tokenizer":null,"post_processor":null,'
            '"decoder":null,"model":{"type":"Unigram","unk_id":null,"byte_fallback":false,"vocab":[' + vocabulary + "]}}")
    return [score for _, score in json.loads(Tokenizer.from_str(text).to_str())["model"]["vocab"]]


def main():
    if tokenizers.__version__ not in ("0.22.2", "0.23.3"):
        sys.exit("tokenizers 0.22.2 or 0.23.3 is wanted")
    rng = random.Random(18)
    numbers = EDGES + [random_number(rng) for _ in range(300)]
    lines = [f"number {text} {struct.pack('>d', float(value)).hex()}" for text, value in zip(numbers, read_by_tokenizers(numbers), strict=True)]
    tokenizer = Tokenizer.from_file(str(OUT / "unigram.json"))
    runs = [digit * count for digit in "0123456789" for count in range(2, 12)]
    runs += ["".join(rng.choice("0448") for _ in range(rng.randrange(2, 14))) for _ in range(100)]
    for text in runs:
        lines.append(f"digits {text} " + " ".join(map(str, tokenizer.encode(text).ids)))
    (OUT / "scores.txt").write_text("\n".join(lines) + "\n", encoding="ascii")


main()
