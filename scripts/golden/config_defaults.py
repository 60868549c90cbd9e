#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/config_defaults.json: the values that transformers' configuration classes give to absent fields.

    python scripts/golden/config_defaults.py

Needs the versions below. Values come from the constructors' signatures and from configurations built here; the notes say what the modelling
code does on its own, and those that can be checked on a configuration or a small model are asserted below.
"""

import inspect
import json
import os
import pathlib
import sys

PINNED = {"torch": "2.9.1", "transformers": "4.57.6"}

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import torch  # noqa: E402
from families import OTHER_CLASS  # noqa: E402
import transformers  # noqa: E402
from transformers.models.auto import modeling_auto as auto  # noqa: E402

OUTPUT = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/config_defaults.json"

TYPES = [
    "llama", "mistral", "qwen2", "qwen3", "qwen2_moe", "qwen3_moe", "mixtral", "gemma", "gemma2", "gemma3_text", "gemma3", "phi", "phi3",
    "gpt2", "gpt_neox", "opt", "bloom", "falcon", "bert", "roberta", "t5", "mt5", "umt5", "deepseek_v2", "deepseek_v3", "gpt_oss",
    "granite", "cohere", "cohere2", "olmo2", "olmo3", "exaone4", "glm4", "nemotron", "glm4_moe", "phimoe",
    "smollm3", "stablelm", "starcoder2", "seed_oss", "ernie4_5", "hunyuan_v1_dense",
    "xlm-roberta", "distilbert", "modernbert", "mpnet", "llama4_text", "apertus",
    "qwen2_vl_text", "qwen2_5_vl_text", "qwen3_vl_text", "qwen3_vl_moe_text", "qwen3_next",
]

# Nothing of these changes a size, a name or a generation's end.
LEFT_OUT = {
    "self", "kwargs", "initializer_range", "init_std", "initializer_factor", "attention_dropout", "hidden_dropout", "dropout", "activation_dropout",
    "resid_pdrop", "embd_pdrop", "attn_pdrop", "dropout_rate", "classifier_dropout", "attention_probs_dropout_prob", "hidden_dropout_prob", "layerdrop",
    "router_aux_loss_coef", "router_jitter_noise", "output_router_logits", "aux_loss_alpha", "seq_aux", "summary_type", "summary_use_proj",
    "summary_activation", "summary_proj_to_labels", "summary_first_dropout", "use_cache", "pretraining_tp", "slow_but_exact",
}

# Fields whose explicit null the constructors or the models replace.
NULLS = ["num_key_value_heads", "num_kv_heads", "head_dim", "sliding_window", "mlp_only_layers", "n_inner", "ffn_hidden_size", "num_decoder_layers",
         "word_embed_proj_dim", "q_lora_rank", "num_ln_in_parallel_attn", "hidden_activation", "n_shared_experts"]

HEAD_DIM = "head_dim null or absent: hidden_size // num_attention_heads"
NOTES = {
    "llama": ["num_key_value_heads null or absent: num_attention_heads", HEAD_DIM, "attention_bias is for q, k, v and o; mlp_bias for gate, up and down",
              "a config without tie_word_embeddings is untied"],
    "mistral": [HEAD_DIM, "num_key_value_heads absent: 8; null: num_attention_heads", "no biases whatever the config says"],
    "mixtral": [HEAD_DIM, "num_key_value_heads absent: 8; null: num_attention_heads", "no biases whatever the config says"],
    "qwen2": ["q, k and v have biases, o has none, no field switches it", "head_dim is read when present and not null-checked; absent: hidden_size // num_attention_heads",
              "num_key_value_heads absent: 32, null: num_attention_heads", "layer_types absent: layers i >= max_window_layers slide when use_sliding_window and sliding_window is not null, else all are full"],
    "qwen3": ["head_dim absent: 128", "attention_bias is for q, k, v and o; q_norm and k_norm are over head_dim", "num_key_value_heads absent: 32, null: num_attention_heads",
              "layer_types absent: layers i >= max_window_layers slide when use_sliding_window and sliding_window is not null, else all are full"],
    "qwen2_moe": ["layer i is sparse when i not in mlp_only_layers and num_experts > 0 and (i + 1) % decoder_sparse_step == 0", "qkv_bias is for q, k and v; o has none",
                  "dense layers use intermediate_size", "num_key_value_heads absent: 16; null is an error",
                  "hidden_size must be head_dim * num_attention_heads, also when head_dim is given"],
    "qwen3_moe": ["layer i is sparse when i not in mlp_only_layers and num_experts > 0 and (i + 1) % decoder_sparse_step == 0", "dense layers use intermediate_size",
                  "head_dim is no field of the class: read when present, else hidden_size // num_attention_heads", "num_key_value_heads absent: 4; null is an error",
                  "attention_bias is for q, k, v and o", "the window is for all layers when use_sliding_window"],
    "gemma": ["head_dim absent: 256, whatever hidden_size is", "attention_bias is for q, k, v and o", "tied unless the config says otherwise", "num_key_value_heads absent: 16"],
    "gemma2": ["head_dim absent: 256", "attention_bias is for q, k, v and o", "tied unless the config says otherwise", "layer_types absent: even layers (0, 2, ...) slide",
               "num_key_value_heads absent: 4"],
    "gemma3_text": ["head_dim absent: 256", "attention_bias is for q, k, v and o; q_norm and k_norm are over head_dim", "tied unless the config says otherwise",
                    "layer_types absent: layer i is full when (i + 1) % sliding_window_pattern == 0, the pattern absent: 6", "use_bidirectional_attention halves the window: w // 2 + 1"],
    "gemma3": ["text_config is read with gemma3_text's defaults; absent it is gemma3_text's defaults", "text_config takes the whole config's dtype when it has none"],
    "phi": ["num_key_value_heads null or absent: num_attention_heads", "every linear layer and lm_head has a bias, no field switches it", "qk_layernorm adds norms of hidden_size // num_attention_heads with bias"],
    "phi3": ["num_key_value_heads null or absent: num_attention_heads", "no biases whatever the config says", "qkv_proj rows: heads * head_dim + 2 * kv_heads * head_dim; gate_up_proj rows: 2 * intermediate_size",
             "head_dim is no field of the class: read when present, else hidden_size // num_attention_heads", "pad_token_id absent: 32000, which must be below vocab_size"],
    "gpt2": ["n_inner null or absent: 4 * n_embd", "tied unless the config says otherwise", "Conv1D weights are [in, out]", "n_ctx is not read"],
    "gpt_neox": ["attention_bias is for query_key_value and dense; the MLP always has biases; embed_out has none", "hidden_size must be a multiple of num_attention_heads",
                 "rotary_pct, rotary_emb_base are set on the config as partial_rotary_factor, rope_theta by the constructor"],
    "opt": ["word_embed_proj_dim absent: hidden_size; when it differs project_in and project_out appear, without biases", "embed_positions has max_position_embeddings + 2 rows",
            "decoder.final_layer_norm exists only with do_layer_norm_before and without _remove_final_layer_norm", "enable_bias is for attention, fc1 and fc2",
            "layer_norm_elementwise_affine false: norms without weights", "tied unless the config says otherwise"],
    "bloom": ["n_embed, when given, replaces hidden_size", "the MLP has 4 * hidden_size; n_inner is not read", "tied unless the config says otherwise", "no positions: seq_length is not read"],
    "falcon": ["n_embed, when given, replaces hidden_size, but ffn_hidden_size is computed from hidden_size", "ffn_hidden_size null or absent: 4 * hidden_size", "num_kv_heads null or absent: num_attention_heads",
               "query_key_value rows: new_decoder_architecture (2 * num_kv_heads + heads) * head_dim; else multi_query hidden_size + 2 * head_dim; else 3 * hidden_size",
               "kv heads: num_kv_heads when new_decoder_architecture or not multi_query, else 1", "num_ln_in_parallel_attn null and new_decoder_architecture: 2",
               "norms: parallel_attn with two norms ln_attn, ln_mlp; with one input_layernorm; not parallel post_attention_layernorm then input_layernorm", "bias is for all linear layers, lm_head has none",
               "tied unless the config says otherwise", "n_head, n_layer, n_head_kv of RefinedWeb configs are not read (model_type RefinedWeb is unknown)"],
    "bert": ["tied unless the config says otherwise", "the pooler is in BertModel only; BertForMaskedLM has none", "position_embedding_type relative_key[_query] adds distance_embedding [2 * max_position_embeddings - 1, head_dim] to every layer"],
    "roberta": ["tied unless the config says otherwise", "the pooler is in RobertaModel only; RobertaForMaskedLM has none", "type_vocab_size absent: 2 (published configs say 1)"],
    "t5": ["num_decoder_layers null or absent: num_layers", "attention width is num_heads * d_kv, not d_model", "feed_forward_proj gated-X: wi_0, wi_1 in place of wi; gated-gelu means gelu_new",
           "relative_attention_bias only in block 0 of encoder and decoder", "tied (lm_head with shared) unless the config says otherwise; shared and both embed_tokens are one tensor in any case"],
    "deepseek_v2": ["layer i is sparse when i >= first_k_dense_replace; moe_layer_freq is not read", "q_lora_rank null: q_proj in place of q_a_proj, q_a_layernorm, q_b_proj; absent: 1536",
                    "attention_bias is for q_a_proj, kv_a_proj_with_mqa and o_proj; mlp_bias for all MLPs", "n_shared_experts null: no shared experts; else one MLP of n_shared_experts * moe_intermediate_size",
                    "num_key_value_heads null or absent: num_attention_heads", "num_experts_per_tok absent: null", "head_dim is overwritten with qk_rope_head_dim"],
    "deepseek_v3": ["layer i is sparse when i >= first_k_dense_replace; moe_layer_freq is not read", "q_lora_rank null: q_proj in place of q_a_proj, q_a_layernorm, q_b_proj; absent: 1536",
                    "attention_bias is for q_a_proj, kv_a_proj_with_mqa and o_proj; MLPs have none", "n_shared_experts null is an error; one MLP of n_shared_experts * moe_intermediate_size",
                    "num_nextn_predict_layers is not read: no MTP layers", "head_dim is qk_rope_head_dim unless given, and then changes only inv_freq"],
    "gpt_oss": ["attention_bias is no parameter of the constructor: absent true, else as given; for q, k, v and o", "layer_types sets windows only", "head_dim absent: 64; null: hidden_size // num_attention_heads", "layer_types absent: even layers (0, 2, ...) slide",
                "num_local_experts absent: 128; experts_per_token is not read, num_experts_per_tok is"],
}
NOTES |= {
    "mt5": ["as t5, with a gate and an untied head unless the config says otherwise"],
    "umt5": ["as mt5, with a table of positions in each block and a tied head unless the config says otherwise"],
    "xlm-roberta": ["tied unless the config says otherwise", "the pooler is in XLMRobertaModel only", "type_vocab_size absent: 2 (published configs say 1)"],
    "distilbert": ["tied unless the config says otherwise", "no token types, no pooler", "norms add 1e-12 to the variance, no field says so"],
    "qwen2_vl_text": ["q, k and v have biases, o has none, no field switches it", "head_dim is not read", "layer_types absent: layers i >= max_window_layers slide when use_sliding_window and sliding_window is not null, else all are full"],
    "qwen2_5_vl_text": ["q, k and v have biases, o has none, no field switches it", "head_dim is not read", "layer_types absent: layers i >= max_window_layers slide when use_sliding_window and sliding_window is not null, else all are full"],
    "qwen3_vl_text": ["head_dim absent: 128", "attention_bias is for q, k, v and o; q_norm and k_norm are over head_dim", "layer_types is not read"],
    "qwen3_vl_moe_text": ["head_dim absent or null: hidden_size // num_attention_heads", "attention_bias is for q, k, v and o", "norm_topk_prob is not read: chosen weights are divided by their sum"],
    "qwen3_next": ["layer_types absent: layer i has an attention when (i + 1) % full_attention_interval == 0, the interval absent: 4; the others linear_attention",
                   "attention_bias is for q, k, v and o; q makes a query and a gate of each head", "layer i is sparse when i not in mlp_only_layers and num_experts > 0 and (i + 1) % decoder_sparse_step == 0"],
    "apertus": ["num_key_value_heads null or absent: num_attention_heads", "head_dim is no field of the class: read when present, else hidden_size // num_attention_heads",
                "attention_bias is for q, k, v and o; the MLP has none", "rope_scaling absent: llama3's with factor 8; null: none", "q_norm and k_norm are over head_dim"],
    "llama4_text": ["num_key_value_heads null: num_attention_heads", "head_dim absent: 128; null: hidden_size // num_attention_heads", "no biases", "intermediate_size is an expert's and the shared expert's, intermediate_size_mlp that of layers without experts",
                    "moe_layers absent: i with (i + 1) % interleave_moe_layer_step == 0", "no_rope_layers absent or empty: all but each no_rope_layer_interval-th turn", "layer_types absent: layers that turn are chunked"],
    "mpnet": ["tied unless the config says otherwise", "the pooler is in MPNetModel only", "the padding id is 1 and the buckets are 32, whatever the config says"],
    "modernbert": ["tied unless the config says otherwise", "layer i sees everything when i % global_attn_every_n_layers == 0, the others local_attention // 2 tokens on each side and themselves",
                   "layer 0 has no attn_norm", "attention_bias is for Wqkv and Wo, mlp_bias for Wi and Wo", "Wi: first the half that is activated"],
    "granite": ["num_key_value_heads null or absent: num_attention_heads", HEAD_DIM, "attention_bias is for q, k, v and o; mlp_bias for gate, up and down",
                "multipliers: of embeddings, of what attention and MLP add, of scores (in place of 1 / sqrt(head_dim)); logits are divided by logits_scaling"],
    "cohere": [HEAD_DIM, "attention_bias is for q, k, v and o", "use_qk_norm: norms of heads with a weight for each head", "neighbours turn together", "tied unless the config says otherwise"],
    "cohere2": [HEAD_DIM, "attention_bias is for q, k, v and o", "layer_types absent: layer i is full when (i + 1) % sliding_window_pattern == 0, the pattern absent: 4", "full layers do not turn",
                "neighbours turn together", "tied unless the config says otherwise"],
    "olmo2": [HEAD_DIM, "attention_bias is for q, k, v and o", "q_norm and k_norm are over all heads"],
    "olmo3": [HEAD_DIM, "attention_bias is for q, k, v and o", "q_norm and k_norm are over all heads", "layer_types absent: layer i is full when (i + 1) % 4 == 0",
              "rope_scaling is for full layers"],
    "glm4": ["head_dim absent: 128", "attention_bias is for q, k and v", "partial_rotary_factor absent: 0.5", "neighbours turn together"],
    "nemotron": ["num_key_value_heads null or absent: num_attention_heads here; the class needs it", "head_dim null or absent: hidden_size // num_attention_heads",
                 "attention_bias is for q, k, v and o; mlp_bias for up and down", "norms have biases, and weights that are one less", "rope_scaling is not read"],
    "glm4_moe": [HEAD_DIM, "attention_bias is for q, k and v", "use_qk_norm: norms over head_dim", "layer i is sparse when i >= first_k_dense_replace",
                 "num_nextn_predict_layers is not read"],
    "phimoe": ["num_key_value_heads null: num_attention_heads", "head_dim is not read", "attention_bias is for q, k, v and o", "intermediate_size is an expert's", "two experts are chosen",
               "rope_scaling's short_mscale or long_mscale multiplies cosine and sine", "norms have biases"],
    "exaone4": [HEAD_DIM, "no biases whatever the config says", "layer_types absent: layer i is full when (i + 1) % sliding_window_pattern == 0", "where there is a window full layers do not turn"],
    "smollm3": ["num_key_value_heads null: num_attention_heads", "head_dim is no field of the class: read when present, else hidden_size // num_attention_heads",
                "no_rope_layers: 1 for a layer that turns; null or absent: all but each no_rope_layer_interval-th", "attention_bias is for q, k, v and o; mlp_bias for gate, up and down",
                "layer_types absent: layers that do not turn slide when use_sliding_window and sliding_window is not null, else all are full", "tied unless the config says otherwise"],
    "stablelm": ["head_dim is not read", "use_qkv_bias is for q, k and v; o and the MLP have none", "use_parallel_residual: no post_attention_layernorm", "qk_layernorm: a layer norm for each head, without bias"],
    "starcoder2": ["use_bias is for all linear layers of a block", "norms have biases in any case", "the window is for all layers", "tied unless the config says otherwise"],
    "seed_oss": ["num_key_value_heads null: num_attention_heads", "head_dim absent: 128; null: hidden_size // num_attention_heads", "attention_bias is for q, k and v, attention_out_bias for o"],
    "ernie4_5": ["num_key_value_heads null: num_attention_heads", "head_dim absent: 128; null: hidden_size // num_attention_heads", "use_bias is for all linear layers of a block",
                 "neighbours turn together", "tied unless the config says otherwise"],
    "hunyuan_v1_dense": ["num_key_value_heads null or absent: num_attention_heads", "head_dim null is an error", "attention_bias is for q, k, v and o", "query_layernorm and key_layernorm are over head_dim, after the rotation",
                         "rope_scaling of type dynamic with alpha: theta * alpha ** (head_dim / (head_dim - 2)) for every sequence"],
}
ATTRIBUTES = ["head_dim", "num_key_value_heads", "tie_word_embeddings", "attention_bias", "is_gated_act", "partial_rotary_factor", "rope_theta", "qk_head_dim", "max_position_embeddings"]
BASE = ["tie_word_embeddings", "is_encoder_decoder", "is_decoder", "add_cross_attention", "chunk_size_feed_forward", "architectures", "dtype", "pad_token_id", "bos_token_id", "eos_token_id", "num_labels"]


def check_versions():
    found = {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__}
    if found != PINNED:
        sys.exit(f"config_defaults.py: the golden data is pinned to {PINNED}, this Python has {found}")


def plain(value):
    return json.loads(json.dumps(value, default=str))


def attempt(function):
    try:
        return plain(function())
    except Exception as error:  # the answer is what the constructor says
        return {"error": f"{type(error).__name__}: {error}"}


def spelled(cls, alias, field, default):
    """What the field becomes when the alias is given alone, and beside the field."""
    if not isinstance(default, int):
        return None
    alone, first, second = default * 2, default * 4, default * 8
    kept = {alone: alias, default: "default"}
    got_alone = attempt(lambda: getattr(cls.from_dict({alias: alone}), field))
    got_both = attempt(lambda: getattr(cls.from_dict({field: first, alias: second}), field))
    return {"field": field, "alone": kept.get(got_alone, got_alone) if isinstance(got_alone, int) else got_alone,
            "both": {first: field, second: alias}.get(got_both, got_both) if isinstance(got_both, int) else got_both}


def describe(model_type):
    cls = transformers.CONFIG_MAPPING[model_type]
    signature = inspect.signature(cls.__init__).parameters
    fields = {name: plain(p.default) for name, p in signature.items() if name not in LEFT_OUT and not hasattr(p.default, "to_dict")}
    built = cls()
    resolved = {}
    for name, default in fields.items():
        if name == "layer_types" or name.endswith("_config"):
            continue  # as long as the model is deep; NOTES has the rule
        if (value := plain(getattr(built, name, None))) != default:
            resolved[name] = value
    base = transformers.PretrainedConfig()
    for name in ATTRIBUTES + BASE:
        if name not in fields and hasattr(built, name) and (name in ATTRIBUTES or getattr(built, name) != getattr(base, name, None)):
            resolved[name] = plain(getattr(built, name))
    aliases = {}
    pairs = list(getattr(cls, "attribute_map", {}).items())
    if model_type in ("bloom", "falcon"):
        pairs.append(("n_embed", "hidden_size"))
    for alias, field in pairs:
        if (found := spelled(cls, alias, field, getattr(built, field))) is not None:
            aliases[alias] = found
    null = {}
    for name in NULLS:
        if name in fields and (value := attempt(lambda: getattr(cls.from_dict({name: None}), name))) is not None:
            null[name] = value
    mapping = auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    if model_type in ("bert", "roberta", "xlm-roberta", "distilbert", "modernbert", "mpnet"):
        mapping = auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    if model_type in ("t5", "mt5", "umt5"):
        mapping = auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES
    return {"config_class": cls.__name__, "default_class": mapping.get(model_type), "fields": fields, "resolved": resolved,
            "attribute_map": dict(getattr(cls, "attribute_map", {})), "aliases": aliases, "null": null, "notes": NOTES[model_type]}


def shapes(model_type, cls, **fields):
    config = transformers.CONFIG_MAPPING[model_type].from_dict(fields)
    with torch.device("meta"):
        model = getattr(transformers, cls)(config)
    return {name: tuple(t.shape) for name, t in model.state_dict().items()}


def check_notes():
    """Those rules of NOTES that a tiny model shows."""
    tiny = dict(vocab_size=64, hidden_size=48, intermediate_size=80, num_hidden_layers=2, num_attention_heads=6)
    assert shapes("llama", "LlamaForCausalLM", **tiny)["model.layers.0.self_attn.k_proj.weight"] == (48, 48)
    assert shapes("qwen3", "Qwen3ForCausalLM", **tiny, num_key_value_heads=2)["model.layers.0.self_attn.q_proj.weight"] == (768, 48)
    assert shapes("qwen3_moe", "Qwen3MoeForCausalLM", **tiny, num_key_value_heads=2)["model.layers.0.self_attn.q_proj.weight"] == (48, 48)
    assert shapes("gemma", "GemmaForCausalLM", **tiny)["model.layers.0.self_attn.k_proj.weight"] == (4096, 48)
    assert shapes("gpt_oss", "GptOssForCausalLM", **tiny, num_local_experts=2)["model.layers.0.self_attn.q_proj.weight"] == (384, 48)
    gpt2 = shapes("gpt2", "GPT2LMHeadModel", vocab_size=64, n_embd=48, n_head=6, n_layer=2)
    assert gpt2["transformer.h.0.mlp.c_fc.weight"] == (48, 192)
    falcon = shapes("falcon", "FalconForCausalLM", vocab_size=64, hidden_size=48, num_hidden_layers=2, num_attention_heads=6)
    assert falcon["transformer.h.0.self_attention.query_key_value.weight"] == (64, 48)
    bloom = shapes("bloom", "BloomForCausalLM", vocab_size=64, n_embed=48, num_hidden_layers=3, num_attention_heads=6, n_inner=10)
    assert bloom["transformer.h.2.mlp.dense_h_to_4h.weight"] == (192, 48)
    deepseek = shapes("deepseek_v3", "DeepseekV3ForCausalLM", **tiny, num_key_value_heads=6, n_routed_experts=8, num_nextn_predict_layers=1, first_k_dense_replace=9)
    assert deepseek["model.layers.1.self_attn.q_a_proj.weight"] == (1536, 48) and not any(".layers.2." in n for n in deepseek)
    assert transformers.GptOssConfig.from_dict({"attention_bias": False}).attention_bias is False
    assert transformers.DeepseekV2Config.from_dict({"head_dim": 7}).head_dim == 64 and transformers.DeepseekV3Config.from_dict({"head_dim": 7}).head_dim == 7
    for name, cls in (("phi3", "Phi3ForCausalLM"), ("qwen2", "Qwen2ForCausalLM"), ("phi", "PhiForCausalLM")):
        given = shapes(name, cls, **tiny, num_key_value_heads=2, head_dim=10, pad_token_id=0)
        out = "dense" if name == "phi" else "o_proj"
        assert given[f"model.layers.0.self_attn.{out}.weight"] == (48, 60), name
    assert shapes("mistral", "MistralForCausalLM", **tiny, num_key_value_heads=2, attention_bias=True).keys() == shapes("mistral", "MistralForCausalLM", **tiny, num_key_value_heads=2).keys()
    for name, cls in (("deepseek_v3", "DeepseekV3ForCausalLM"), ("qwen2_moe", "Qwen2MoeForCausalLM"), ("qwen3_moe", "Qwen3MoeForCausalLM")):
        field = {"n_shared_experts": None} if name == "deepseek_v3" else {"num_key_value_heads": None}
        try:
            shapes(name, cls, **tiny, **field, first_k_dense_replace=0, n_routed_experts=2, num_experts=2)
        except TypeError:
            continue
        raise AssertionError(name)
    relative = transformers.T5Config.from_dict({"feed_forward_proj": "gated-gelu"})
    assert relative.is_gated_act and relative.dense_act_fn == "gelu_new"


def main():
    check_versions()
    check_notes()
    base = transformers.PretrainedConfig()
    result = {"versions": PINNED, "base": {name: plain(getattr(base, name, None)) for name in BASE}, "types": {t: describe(t) for t in TYPES} | {t: describe(kin) for t, kin in OTHER_CLASS.items()}}
    lines = [f"\"versions\": {json.dumps(PINNED)}", f"\"base\": {json.dumps(result['base'])}"]
    types = []
    for name, entry in result["types"].items():
        body = ",\n   ".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in entry.items())
        types.append(f"  {json.dumps(name)}: {{\n   {body}\n  }}")
    OUTPUT.write_text("{\n " + ",\n ".join(lines) + ",\n \"types\": {\n" + ",\n".join(types) + "\n }\n}\n")


if __name__ == "__main__":
    main()
