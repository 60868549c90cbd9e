#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/tp_plans.tsv: the tp_plan of every family that has one, as transformers puts it together.

Rows are family, full name, style: base_model_tp_plan of the configuration class under the base model's prefix, then the
_tp_plan of the class with a head. The last rows ("styles") are the styles that this version knows.

Run with the Python that has transformers 4.57: scripts/golden/tp_plans.py > tests/golden/tp_plans.tsv
"""
import transformers
from transformers import MODEL_FOR_CAUSAL_LM_MAPPING
from transformers.integrations.tensor_parallel import ALL_PARALLEL_STYLES

FAMILIES = ("deepseek_v2 deepseek_v3 falcon gemma gemma2 gemma3_text gpt2 gpt_neox gpt_oss llama mistral mixtral opt phi phi3 "
            "qwen2 qwen2_moe qwen3 qwen3_moe bloom smollm3 starcoder2 seed_oss ernie4_5 hunyuan_v1_dense").split()

FAMILIES += "granite cohere cohere2 olmo2 olmo3 exaone4 glm4 nemotron glm4_moe apertus qwen3_next".split()

# The class says "language_model", its parameters are named "model...".
PREFIXES = {"gemma3_text": "model"}

print(f"# transformers {transformers.__version__}")
for family in FAMILIES:
    config = transformers.CONFIG_MAPPING[family]
    head = MODEL_FOR_CAUSAL_LM_MAPPING[config]
    prefix = PREFIXES.get(family, head.base_model_prefix)
    plan = {f"{prefix}.{name}": style for name, style in (config.base_model_tp_plan or {}).items()}
    if plan:
        plan |= head._tp_plan or {}
    for name, style in plan.items():
        print(f"{family}\t{name}\t{style}")
for style in sorted(ALL_PARALLEL_STYLES.keys()):
    print(f"styles\t{style}\t")
