#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/executor/sharded_norms.json: as executor_logits.py, for models that normalise all heads together.

    executor_sharded_norms.py OUTPUT
"""
import sys

from executor_logits import COMMON, write_decoders

CASES = {
    "olmo2": dict(COMMON, model_type="olmo2", num_hidden_layers=2),
    "olmo2_whole_heads": dict(COMMON, model_type="olmo2", num_hidden_layers=2, num_key_value_heads=6),
}

if __name__ == "__main__":
    write_decoders(CASES, sys.argv[1])
