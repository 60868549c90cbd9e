#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/executor/text_parts.json: as executor_logits.py, with whole models of text and images that are asked about
text alone. The text model's weights are those of the names that it has without the rest.

    executor_text_parts.py OUTPUT
"""
import json
import sys

import torch
import transformers
from transformers import AutoConfig, AutoModelForImageTextToText

from executor_logits import COMMON, formula

TEXT = {key: value for key, value in COMMON.items() if not key.endswith("token_id")}
MROPE = dict(rope_type="default", mrope_section=[1, 1, 1])
IMAGES = dict(image_token_id=90, video_token_id=91, vision_start_token_id=92, vision_end_token_id=93)
QWEN2_IMAGES = dict(depth=1, embed_dim=16, hidden_size=36, num_heads=2, patch_size=4)
QWEN25_IMAGES = dict(depth=1, hidden_size=16, out_hidden_size=36, intermediate_size=20, num_heads=2, patch_size=4,
                     fullatt_block_indexes=[0])
QWEN3_IMAGES = dict(depth=2, hidden_size=16, out_hidden_size=36, intermediate_size=20, num_heads=2, patch_size=4,
                    num_position_embeddings=16, deepstack_visual_indexes=[0])
CLIP = dict(model_type="clip_vision_model", hidden_size=16, intermediate_size=20, num_hidden_layers=2, num_attention_heads=2,
            image_size=8, patch_size=4, projection_dim=16)
CASES = {
    "qwen2_vl": dict(model_type="qwen2_vl", text_config=dict(TEXT, model_type="qwen2_vl_text", rope_scaling=MROPE),
                     vision_config=QWEN2_IMAGES, **IMAGES),
    # As it is published: the text model's keys stand in the config.json itself.
    "qwen2_vl_flat": dict(TEXT, model_type="qwen2_vl", tie_word_embeddings=True, use_sliding_window=False,
                          rope_scaling=dict(type="mrope", mrope_section=[1, 1, 1]), vision_config=QWEN2_IMAGES, **IMAGES),
    "qwen2_5_vl": dict(TEXT, model_type="qwen2_5_vl", rope_scaling=dict(type="mrope", mrope_section=[1, 1, 1]),
                       vision_config=QWEN25_IMAGES, **IMAGES),
    "qwen3_vl": dict(model_type="qwen3_vl", vision_config=QWEN3_IMAGES, **IMAGES,
                     text_config=dict(TEXT, model_type="qwen3_vl_text", head_dim=12,
                                      rope_scaling=dict(MROPE, mrope_section=[2, 2, 2], mrope_interleaved=True))),
    "qwen3_vl_moe": dict(model_type="qwen3_vl_moe", vision_config=QWEN3_IMAGES, **IMAGES,
                         text_config=dict(TEXT, model_type="qwen3_vl_moe_text", head_dim=12, num_experts=8,
                                          num_experts_per_tok=3, moe_intermediate_size=20, mlp_only_layers=[1],
                                          rope_scaling=dict(MROPE, mrope_section=[2, 2, 2], mrope_interleaved=True))),
    "gemma3": dict(model_type="gemma3", vision_config=dict(CLIP, model_type="siglip_vision_model"), mm_tokens_per_image=4,
                   image_token_index=90, boi_token_index=91, eoi_token_index=92,
                   text_config=dict(TEXT, model_type="gemma3_text", head_dim=8, query_pre_attn_scalar=8, sliding_window=6,
                                    num_hidden_layers=7)),
    "llava": dict(model_type="llava", vision_config=CLIP, image_token_index=90, text_config=dict(TEXT, model_type="llama")),
    "llava_unnamed": dict(model_type="llava", vision_config=CLIP, image_token_index=90, text_config=dict(TEXT)),
    "mistral3": dict(model_type="mistral3", image_token_index=90, text_config=dict(TEXT, model_type="mistral", head_dim=8),
                     vision_config=dict(model_type="pixtral", hidden_size=16, intermediate_size=20, num_hidden_layers=2,
                                        num_attention_heads=2, image_size=8, patch_size=4)),
}


def fill_text(model):
    text = model.model.language_model
    named = [(f"model.{name}", parameter) for name, parameter in text.named_parameters()]
    named.append(("lm_head.weight", model.lm_head.weight))
    with torch.no_grad():
        # Of tied ones the first.
        seen = set()
        for name, parameter in named:
            if id(parameter) not in seen:
                parameter.copy_(torch.from_numpy(formula(name, tuple(parameter.shape))))
                seen.add(id(parameter))


def main(output):
    assert transformers.__version__.startswith("4.57"), transformers.__version__
    out = {}
    for case, config in CASES.items():
        made = AutoConfig.for_model(**json.loads(json.dumps(config)))
        made._attn_implementation = "eager"
        torch.manual_seed(0)
        model = AutoModelForImageTextToText.from_config(made).float().eval()
        fill_text(model)
        ids = [(7 * i + i // 5 + 3) % 89 for i in range(24)]
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([ids]), attention_mask=torch.ones(1, 24, dtype=torch.long)).logits[0].double()
        out[case] = {"config": json.dumps(config | {"architectures": [type(model).__name__]}), "seed": 0, "ids": ids,
                     "logits": {str(n): [float("%.8g" % value) for value in logits[n - 1]] for n in (4, 12, 24)}}
        print(case, type(model).__name__, float(logits.abs().max()))
    with open(output, "w") as file:
        json.dump(out, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main(sys.argv[1])
