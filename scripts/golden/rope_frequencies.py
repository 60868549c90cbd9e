#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/rope_frequencies.txt: the frequencies and attention factors of transformers' scaled rotary positions.

Run with a Python that has torch 2.9.1 and transformers 4.57.6. One line per case: the members of RopeParameters and RopeExtent
as name=value, short and long factors as comma-separated values, the attention factor, the frequencies as hexadecimal floats.
"""

import logging
import pathlib
import sys
from importlib.metadata import version

import numpy as np

logging.disable(logging.WARNING)

from transformers import PretrainedConfig  # noqa: E402
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS  # noqa: E402

PINNED = {"torch": "2.9.1", "transformers": "4.57.6"}
OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/rope_frequencies.txt"

FACTORS = [round(1.0 + 0.031 * i * i, 3) for i in range(48)]

# name, kind, head_dim, theta, max_positions, sequence, further keys of the configuration, rope_scaling
CASES = [
    ("llama", "default", 128, 10000.0, 4096, None, {}, {}),
    ("qwen", "default", 64, 1000000.0, 32768, None, {}, {}),
    ("neox", "default", 96, 10000.0, 2048, None, {"partial_rotary_factor": 0.25}, {}),
    ("linear", "linear", 256, 1000000.0, 131072, None, {}, {"factor": 8.0}),
    ("dynamic_short", "dynamic", 128, 10000.0, 2048, 100, {}, {"factor": 2.0}),
    ("dynamic_long", "dynamic", 128, 10000.0, 2048, 5000, {}, {"factor": 2.0}),
    ("dynamic_partial", "dynamic", 80, 10000.0, 2048, 9000, {"partial_rotary_factor": 0.4}, {"factor": 4.0}),
    ("llama31", "llama3", 128, 500000.0, 131072, None, {},
     {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}),
    ("llama32", "llama3", 64, 500000.0, 131072, None, {},
     {"factor": 32.0, "low_freq_factor": 1.5, "high_freq_factor": 4.5, "original_max_position_embeddings": 8192}),
    ("yarn_plain", "yarn", 128, 1000000.0, 32768, None, {}, {"factor": 4.0}),
    ("yarn_deepseek", "yarn", 64, 10000.0, 163840, None, {},
     {"factor": 40.0, "mscale": 0.707, "mscale_all_dim": 1.0, "beta_fast": 32, "beta_slow": 1,
      "original_max_position_embeddings": 4096}),
    ("yarn_gpt_oss", "yarn", 64, 150000.0, 131072, None, {},
     {"factor": 32.0, "truncate": False, "beta_fast": 32.0, "beta_slow": 1.0, "original_max_position_embeddings": 4096}),
    ("yarn_own_factor", "yarn", 96, 10000.0, 8192, None, {"partial_rotary_factor": 0.5},
     {"factor": 2.0, "attention_factor": 0.75, "beta_fast": 16.0, "beta_slow": 2.0}),
    ("longrope_short", "longrope", 96, 10000.0, 131072, 4096, {"original_max_position_embeddings": 4096},
     {"short_factor": FACTORS[::-1], "long_factor": FACTORS}),
    ("longrope_long", "longrope", 96, 10000.0, 131072, 4097, {"original_max_position_embeddings": 4096},
     {"short_factor": FACTORS[::-1], "long_factor": FACTORS}),
    ("longrope_own_factor", "longrope", 128, 10000.0, 4096, 1, {"partial_rotary_factor": 0.75},
     {"short_factor": FACTORS, "long_factor": FACTORS, "factor": 32.0}),
    ("longrope_attention", "longrope", 96, 10000.0, 4096, 5000, {},
     {"short_factor": FACTORS, "long_factor": FACTORS, "factor": 32.0, "attention_factor": 1.25}),
]

MEMBERS = {
    "factor": "factor", "low_freq_factor": "low_frequency_factor", "high_freq_factor": "high_frequency_factor",
    "attention_factor": "attention_factor", "beta_fast": "beta_fast", "beta_slow": "beta_slow", "mscale": "mscale",
    "mscale_all_dim": "mscale_all_dim", "truncate": "truncates", "original_max_position_embeddings": "original_max_positions",
    "partial_rotary_factor": "partial_rotary_factor",
}


def main():
    found = {name: version(name).split("+")[0] for name in PINNED}
    if found != PINNED:
        sys.exit(f"rope_frequencies.py: the golden data is pinned to {PINNED}, this Python has {found}")
    lines = ["# case kind member=value ... | attention factor | frequencies"]
    for name, kind, head_dim, theta, positions, sequence, keys, scaling in CASES:
        config = PretrainedConfig(hidden_size=4 * head_dim, num_attention_heads=4, head_dim=head_dim, rope_theta=theta,
                                  max_position_embeddings=positions, rope_scaling={"rope_type": kind, **scaling}, **keys)
        frequencies, attention = ROPE_INIT_FUNCTIONS[kind](config, "cpu", seq_len=sequence)
        words = [name, kind, f"head_dim={head_dim}", f"theta={theta}", f"max_positions={positions}", f"sequence={sequence or 0}"]
        for key, value in {**keys, **scaling}.items():
            if isinstance(value, list):
                words.append(f"{key}={','.join(str(factor) for factor in value)}")
            else:
                words.append(f"{MEMBERS[key]}={float(value)}")
        values = " ".join(float(value).hex() for value in frequencies.numpy().astype(np.float32))
        lines.append(f"{' '.join(words)} | {float(attention).hex()} | {values}")
    OUT.write_text("\n".join(lines) + "\n")


main()
