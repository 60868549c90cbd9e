#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/windows.tsv: the attention window of every layer of the decoder configurations of tests/golden/configs/.

Run with the Python of scripts/golden/families.py, whose versions are pinned there. One line per case: its name, then runs
`count x window`, 0 for a layer that sees everything. Modules that keep their window as an attribute are asked for it; the
others read the configuration in `forward`, by the rule that is repeated here.
"""

import json

import families

FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "qwen2_moe", "qwen3_moe", "mixtral", "gemma", "gemma2", "gemma3_text",
            "phi3", "gpt_oss")
FAMILIES += ("granite", "cohere", "cohere2", "olmo2", "olmo3", "exaone4", "glm4", "nemotron", "glm4_moe", "phimoe")
FAMILIES += ("smollm3", "stablelm", "starcoder2", "seed_oss", "ernie4_5", "hunyuan_v1_dense", "apertus")
FAMILIES += ("qwen2_vl_text", "qwen2_5_vl_text", "qwen3_vl_text", "qwen3_vl_moe_text")


def window_of(attention, config, layer):
    # exaone4's attention keeps the window of the model.
    if not getattr(attention, "is_sliding", True):
        return 0
    if hasattr(attention, "sliding_window"):
        return attention.sliding_window or 0
    window = getattr(config, "sliding_window", None) or 0
    if config.model_type == "qwen2_moe":
        return window if config.use_sliding_window and layer >= config.max_window_layers else 0
    # mistral, mixtral and phi3 hand config.sliding_window to every layer's attention; llama and gemma have none.
    return window if config.model_type in ("mistral", "mixtral", "phi3", "phimoe", "starcoder2") else 0


def runs(windows):
    folded = []
    for window in windows:
        if folded and folded[-1][1] == window:
            folded[-1][0] += 1
        else:
            folded.append([1, window])
    return " ".join(f"{count}x{window}" for count, window in folded)


def main():
    families.check_versions()
    rows = []
    for path in filter(families.is_known, sorted(families.CONFIGS.glob("*.json"))):
        model, config, _ = families.build(json.loads(path.read_text()))
        if config.model_type not in FAMILIES:
            continue
        base = getattr(model, "model", model)
        rows.append(f"{path.stem}\t{runs(window_of(l.self_attn, config, i) for i, l in enumerate(base.layers))}\n")
    (families.ROOT / "tests/golden/windows.tsv").write_text("".join(rows))


if __name__ == "__main__":
    main()
