#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/executor/families.json: as executor_logits.py, a case or more for each of further families.

    executor_families.py OUTPUT
"""
import sys

from executor_logits import COMMON, write_decoders

CASES = {
    "granite": dict(COMMON, model_type="granite", embedding_multiplier=12.0, residual_multiplier=0.22,
                    attention_multiplier=0.125, logits_scaling=0.25),
    "granite_biases": dict(COMMON, model_type="granite", num_hidden_layers=2, attention_bias=True, mlp_bias=True,
                           embedding_multiplier=0.5, attention_multiplier=0.3, tie_word_embeddings=True),
}

if __name__ == "__main__":
    write_decoders(CASES, sys.argv[1])
