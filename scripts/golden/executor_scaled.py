#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/executor/scaled.json: as executor_logits.py, for models with scaled rotary positions.

    executor_scaled.py OUTPUT
"""
import sys

from executor_logits import COMMON, write_decoders

PHI3 = dict(COMMON, model_type="phi3", hidden_size=48, num_hidden_layers=2)
CASES = {
    "llama_linear": dict(COMMON, model_type="llama", num_hidden_layers=2, rope_scaling=dict(rope_type="linear", factor=4.0)),
    "llama_yarn": dict(COMMON, model_type="llama", num_hidden_layers=2,
                       rope_scaling=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=64)),
    "phi3_longrope": dict(PHI3, original_max_position_embeddings=8,
                          rope_scaling=dict(type="longrope", short_factor=[1.0, 1.5, 2.0, 3.0],
                                            long_factor=[1.0, 4.0, 9.0, 20.0])),
    "phi3_longrope_short": dict(PHI3, original_max_position_embeddings=64, partial_rotary_factor=0.5,
                                rope_scaling=dict(type="longrope", short_factor=[1.0, 1.5], long_factor=[2.0, 9.0])),
}

if __name__ == "__main__":
    write_decoders(CASES, sys.argv[1])
