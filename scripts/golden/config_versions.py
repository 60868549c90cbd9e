#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/versions: what transformers 4 and 5 save of the small models of tests/golden/configs, and every key of their configuration classes.

Run once with each version (4.57.6 and 5.23.0; torch 2.9.1, safetensors):

    VENV4/bin/python scripts/golden/config_versions.py && VENV5/bin/python scripts/golden/config_versions.py

`saved-<version>.jsonl` has a row for each configuration: its name, the config.json that save_pretrained writes and, for one configuration of each family,
the names, dtypes and shapes of the checkpoint's tensors. `keys-<version>.json` has of each family every key that its class knows (attribute_map's too) with its default,
under "" what all families share. `harmless.json`, by either, lists the keys that the library need not read, and why.
"""

import json
import os
import pathlib
import sys
import tempfile

PINNED = ("4.57.6", "5.23.0")

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import safetensors  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIGS = ROOT / "tests/golden/configs"
OUT = ROOT / "tests/golden/versions"

TYPES = [
    "llama", "mistral", "qwen2", "qwen3", "qwen2_moe", "qwen3_moe", "mixtral", "gemma", "gemma2", "gemma3_text", "gemma3", "phi", "phi3",
    "gpt2", "gpt_neox", "opt", "bloom", "falcon", "bert", "roberta", "t5", "deepseek_v2", "deepseek_v3", "gpt_oss",
    "granite", "cohere", "cohere2", "olmo2", "olmo3", "exaone4", "glm4", "nemotron", "glm4_moe", "phimoe",
    "smollm3", "stablelm", "starcoder2", "seed_oss", "ernie4_5", "hunyuan_v1_dense",
    "xlm-roberta", "distilbert", "modernbert", "mpnet", "llama4_text", "apertus", "minimax_m2",
    "qwen2_vl_text", "qwen2_5_vl_text", "qwen3_vl_text", "qwen3_vl_moe_text", "qwen3_next",
]

# Why a key need not be read; "family.key" is for one family.
GENERATION = ("bad_words_ids begin_suppress_tokens bos_token_id decoder_start_token_id diversity_penalty do_sample early_stopping encoder_no_repeat_ngram_size "
              "exponential_decay_length_penalty forced_bos_token_id forced_eos_token_id length_penalty max_length min_length no_repeat_ngram_size "
              "num_beam_groups num_beams num_return_sequences pad_token_id eos_token_id eod_token_id remove_invalid_values repetition_penalty return_dict_in_generate sep_token_id "
              "suppress_tokens temperature top_k top_p typical_p use_cache output_scores prefix")
TRAINING = ("initializer_range init_std initializer_factor attention_dropout hidden_dropout dropout activation_dropout resid_pdrop embd_pdrop attn_pdrop dropout_rate "
            "classifier_dropout embedding_dropout residual_dropout qa_dropout seq_classif_dropout mlp_dropout initializer_cutoff_factor attention_probs_dropout_prob hidden_dropout_prob layerdrop router_aux_loss_coef router_jitter_noise output_router_logits "
            "aux_loss_alpha seq_aux summary_first_dropout problem_type")
OUTPUTS = "output_attentions output_hidden_states return_dict label2id finetuning_task task_specific_params tokenizer_class transformers_version _name_or_path"
OTHERS = {
    "chunk_size_feed_forward": "the same sums in pieces", "is_encoder_decoder": "a statement about the class", "torchscript": "how it is exported",
    "tf_legacy_loss": "TensorFlow", "use_bfloat16": "TensorFlow", "tie_encoder_decoder": "read for t5; elsewhere the class ignores it",
    "cross_attention_hidden_size": "cross-attention is refused", "add_cross_attention": "refused for bert, roberta and gpt2; elsewhere the class ignores it",
    "is_decoder": "the class ignores it", "pretraining_tp": "how it was trained; the sums are the same", "slow_but_exact": "the same sums in another order",
    "bert.is_decoder": None, "roberta.is_decoder": None, "xlm-roberta.is_decoder": None, "gpt2.reorder_and_upcast_attn": "the precision of the scores",
    "gpt2.summary_activation": "a head that is not described", "gpt2.summary_proj_to_labels": "a head that is not described",
    "gpt2.summary_type": "a head that is not described", "gpt2.summary_use_proj": "a head that is not described",
    "distilbert.sinusoidal_pos_embds": "how the table of positions begins", "modernbert.cls_token_id": "a token", "modernbert.sep_token_id": "a token",
    "modernbert.rope_theta": "written beside global_rope_theta",
    "modernbert.deterministic_flash_attn": "how it is computed",
    "modernbert.sparse_prediction": "which scores are computed", "modernbert.sparse_pred_ignore_index": "which scores are computed",
    "modernbert.reference_compile": "how it is computed", "modernbert.repad_logits_with_grad": "how it is computed",
    "llama4_text.attention_bias": "the class has none",
    "gemma.hidden_activation": "the class reads hidden_act", "gpt_oss.hidden_act": "the class has its own activation",
    "gpt_neox.partial_rotary_factor": "written beside rotary_pct", "gpt_neox.rope_theta": "written beside rotary_emb_base",
    "deepseek_v2.head_dim": "the class derives it from qk_rope_head_dim", "deepseek_v2.qk_head_dim": "a sum of two others", "deepseek_v3.qk_head_dim": "a sum of two others",
    "deepseek_v2.num_key_value_heads": "latent attention has none of its own", "deepseek_v3.num_key_value_heads": "latent attention has none of its own",
    "deepseek_v3.num_nextn_predict_layers": "the class leaves these layers out", "deepseek_v3.num_mtp_layers": "the class leaves these layers out",
    "gemma3.vision_config": "of a text model with other inputs the text part counts, and the answer says so",
    "gemma3.boi_token_index": "vision", "gemma3.eoi_token_index": "vision", "gemma3.image_token_index": "vision", "gemma3.boi_token_id": "vision",
    "gemma3.eoi_token_id": "vision", "gemma3.image_token_id": "vision", "gemma3.mm_tokens_per_image": "vision",
    "gemma3_text.attn_logit_softcapping": "the class keeps it and never uses it",
    "qwen3_vl_moe_text.norm_topk_prob": "chosen weights are divided by their sum whatever it says",
    "qwen3_vl_moe_text.sliding_window": "the class has none",
    "phimoe.input_jitter_noise": "how it was trained",
    "cohere2._sliding_window_pattern": "written beside layer_types, which is read",
    "glm4_moe.num_nextn_predict_layers": "the class leaves these layers out", "glm4_moe.num_mtp_layers": "the class leaves these layers out",
    "gemma3_text._sliding_window_pattern": "written beside layer_types, which is read",
}


def class_keys():
    families = {}
    for model_type in filter(transformers.CONFIG_MAPPING.__contains__, TYPES):
        config = transformers.AutoConfig.for_model(model_type)
        known = json.loads(config.to_json_string(use_diff=False))
        keys = {key: value for key, value in known.items() if not isinstance(value, (dict, list)) or not value}
        keys |= {key: "a structure" for key, value in known.items() if isinstance(value, (dict, list)) and value}
        keys |= {key: "an alias" for key in config.attribute_map if key not in keys}
        families[model_type] = keys
    shared = {k: v for k, v in families[TYPES[0]].items() if all(k in f and f[k] == v for f in families.values())}
    return {"": shared} | {t: {k: v for k, v in keys.items() if k not in shared} for t, keys in families.items()}


def harmless():
    reasons = {}
    for words, why in ((GENERATION, "generation"), (TRAINING, "training"), (OUTPUTS, "what is returned, or a label")):
        reasons |= dict.fromkeys(words.split(), why)
    return reasons | OTHERS


def saved():
    seen = set()
    for path in sorted(CONFIGS.glob("small-*.json"), key=lambda path: path.stem):
        fields = json.loads(path.read_text())
        fields.pop("quantization_config", None)
        torch.manual_seed(0)
        row = {"case": path.stem}
        try:
            model = getattr(transformers, fields["architectures"][0])(transformers.AutoConfig.for_model(**fields))
            with tempfile.TemporaryDirectory() as folder:
                model.save_pretrained(folder)
                row["config"] = json.loads((pathlib.Path(folder) / "config.json").read_text())
                if fields["model_type"] not in seen:
                    with safetensors.safe_open(f"{folder}/model.safetensors", "pt") as file:
                        row["tensors"] = [[k, file.get_slice(k).get_dtype(), file.get_slice(k).get_shape()] for k in file.keys()]
        except Exception as error:  # noqa: BLE001
            print(f"{path.stem}: this version cannot build it: {type(error).__name__}", file=sys.stderr)
            continue
        seen.add(fields["model_type"])
        yield row


def main():
    version = transformers.__version__
    if version not in PINNED:
        sys.exit(f"config_versions.py: the golden data is pinned to {PINNED}, this Python has {version}")
    OUT.mkdir(exist_ok=True)
    dump = lambda value: json.dumps(value, separators=(",", ":"))  # noqa: E731
    (OUT / f"saved-{version}.jsonl").write_text("".join(dump(row) + "\n" for row in saved()))
    (OUT / f"keys-{version}.json").write_text("{\n" + ",\n".join(f"{dump(t)}:{dump(k)}" for t, k in class_keys().items()) + "\n}\n")
    (OUT / "harmless.json").write_text(json.dumps(harmless(), indent=0) + "\n")


if __name__ == "__main__":
    main()
