#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/random_configs.jsonl: random small configurations and what transformers builds from them.

    python scripts/golden/random_configs.py            writes all cases anew
    python scripts/golden/random_configs.py CASE       prints the expanded tree of one case, to compare by hand

The Python must have the versions of families.py. One line per case: {"case", "config", "lines", "parameters", "hash"}; `hash` is
FNV-1a with 64 bits over the lines of the expanded tree (tests/golden/README.md), then sorted "T TAB first TAB other" for each tie
and sorted "S TAB class" for each class that is kept whole, every line with its newline; `lines` is how many these are.
"""

import json
import random
import sys

import families

SEED = 20261121
CASES_PER_FAMILY = 30
OUT = families.ROOT / "tests/golden/random_configs.jsonl"
ABSENT = object()
ACTIVATIONS = ("gelu", "gelu_new", "relu", "silu", "gelu_pytorch_tanh", "quick_gelu", "gelu_fast")


class Draw:
    """Draws one configuration."""

    def __init__(self, generator):
        self.one_of = lambda *values: generator.choice(values)
        self.size = generator.randint
        self.heads = self.one_of(1, 2, 3, 4, 6)
        self.hidden = self.heads * self.one_of(2, 4, 6, 8, 10)
        self.kv_heads = self.one_of(*(n for n in range(1, self.heads + 1) if self.heads % n == 0))
        self.fields = {}

    def set(self, **fields):
        self.fields.update(fields)

    def maybe(self, key, *values):
        """One of the values, or no such key."""
        value = self.one_of(*values, ABSENT)
        if value is not ABSENT:
            self.fields[key] = value

    def flags(self, *keys):
        for key in keys:
            self.maybe(key, True, False)


def common(d, layers=4):
    d.set(hidden_size=d.hidden, num_attention_heads=d.heads, num_hidden_layers=d.size(1, layers),
          intermediate_size=d.size(1, 90))


def gpt2(d):
    d.set(**{d.one_of("n_embd", "hidden_size"): d.hidden, d.one_of("n_head", "num_attention_heads"): d.heads,
             d.one_of("n_layer", "num_hidden_layers"): d.size(1, 4)})
    d.maybe("n_positions", d.size(1, 50))
    d.maybe("n_inner", None, d.size(1, 90))
    d.maybe("activation_function", *ACTIVATIONS)


def gpt_neox(d):
    common(d)
    d.maybe("rotary_pct", 0.25, 0.5, 1.0)
    d.flags("use_parallel_residual", "attention_bias")
    d.maybe("hidden_act", *ACTIVATIONS)


def opt(d):
    d.set(hidden_size=d.hidden, num_attention_heads=d.heads, num_hidden_layers=d.size(1, 4), ffn_dim=d.size(1, 90))
    d.maybe("word_embed_proj_dim", None, d.hidden, d.size(1, 40))
    d.flags("do_layer_norm_before", "_remove_final_layer_norm", "enable_bias", "layer_norm_elementwise_affine")
    d.maybe("max_position_embeddings", d.size(1, 99))
    d.maybe("activation_function", *ACTIVATIONS)


def bloom(d):
    d.set(**{d.one_of("hidden_size", "n_embed"): d.hidden, d.one_of("n_head", "num_attention_heads"): d.heads,
             d.one_of("n_layer", "num_hidden_layers"): d.size(1, 4)})
    d.flags("apply_residual_connection_post_layernorm")


def falcon(d):
    d.set(hidden_size=d.hidden, num_attention_heads=d.heads, num_hidden_layers=d.size(1, 4))
    d.maybe("num_kv_heads", None, d.kv_heads)
    d.flags("new_decoder_architecture", "multi_query", "parallel_attn", "alibi", "bias")
    d.maybe("num_ln_in_parallel_attn", None, 1, 2)
    d.maybe("ffn_hidden_size", None, d.size(1, 90))
    d.maybe("activation", *ACTIVATIONS)


def bert(d):
    common(d)
    d.maybe("max_position_embeddings", d.size(3, 99))
    d.maybe("type_vocab_size", 1, 2, 5)
    d.maybe("position_embedding_type", "absolute", "relative_key", "relative_key_query")
    d.maybe("hidden_act", *ACTIVATIONS)


def t5(d):
    d.set(d_model=d.size(2, 60), d_ff=d.size(1, 90), num_layers=d.size(1, 4),
          **{d.one_of("d_kv", "head_dim"): d.size(1, 12), d.one_of("num_heads", "num_attention_heads"): d.heads})
    d.maybe("num_decoder_layers", None, d.size(1, 5))
    d.maybe("feed_forward_proj", "relu", "gated-gelu", "gated-silu", "gelu", "gated-relu", "gelu_new")
    d.maybe("relative_attention_num_buckets", 8, 32)


def phi(d):
    common(d)
    d.maybe("num_key_value_heads", None, d.kv_heads)
    d.maybe("partial_rotary_factor", 0.4, 0.5, 1.0)
    d.flags("qk_layernorm")
    d.maybe("hidden_act", *ACTIVATIONS)


def deepseek(d):
    common(d, 5)
    d.set(moe_intermediate_size=d.size(1, 30), kv_lora_rank=d.size(1, 20), qk_nope_head_dim=d.size(1, 12),
          qk_rope_head_dim=d.one_of(2, 4, 6), v_head_dim=d.size(1, 12), n_routed_experts=d.one_of(2, 4, 8),
          num_experts_per_tok=d.one_of(1, 2), n_group=1, topk_group=1)
    d.maybe("q_lora_rank", None, d.size(1, 20))
    d.maybe("first_k_dense_replace", 0, 1, 2, 7)
    d.flags("attention_bias", "mlp_bias")
    d.maybe("n_shared_experts", 1, 2, 3)
    d.maybe("head_dim", 4, 8)
    d.maybe("num_key_value_heads", d.heads)


def deepseek_v2(d):
    deepseek(d)
    d.maybe("n_shared_experts", None)


def decoder(*flags, head_dim=True, window=(None, 8, 16)):
    """llama's layout; gemma2, gemma3 and gpt_oss need a window."""
    def draw(d):
        common(d, 7)
        d.set(num_key_value_heads=d.kv_heads, pad_token_id=0)
        if head_dim:
            d.maybe("head_dim", 2, 4, 8)
        d.flags(*flags)
        d.maybe("hidden_act", "silu", "gelu", "gelu_pytorch_tanh")
        if window:
            d.set(sliding_window=d.one_of(*window))
    return draw


def with_window_layers(draw):
    def drawn(d):
        draw(d)
        d.flags("use_sliding_window")
        d.maybe("max_window_layers", 0, 1, 2)
    return drawn


def with_experts(draw, key="num_experts"):
    def drawn(d):
        draw(d)
        d.set(**{key: d.one_of(2, 4), "num_experts_per_tok": d.one_of(1, 2)})
        if key == "num_experts":
            d.set(moe_intermediate_size=d.size(1, 20))
            d.maybe("decoder_sparse_step", 1, 2)
            d.maybe("mlp_only_layers", [], [0], [0, 2])
    return drawn


def qwen2_moe(d):
    with_experts(with_window_layers(decoder("qkv_bias", head_dim=False)))(d)
    d.maybe("shared_expert_intermediate_size", d.size(1, 30))


def gemma3_text(d):
    decoder("attention_bias", window=(8,))(d)
    d.maybe("sliding_window_pattern", 1, 2, 3)


FAMILIES = {
    "gpt2": (gpt2, "GPT2LMHeadModel GPT2Model"),
    "gpt_neox": (gpt_neox, "GPTNeoXForCausalLM GPTNeoXModel"),
    "opt": (opt, "OPTForCausalLM OPTModel"),
    "bloom": (bloom, "BloomForCausalLM BloomModel"),
    "falcon": (falcon, "FalconForCausalLM FalconModel"),
    "bert": (bert, "BertForMaskedLM BertModel"),
    "roberta": (bert, "RobertaForMaskedLM RobertaModel"),
    "t5": (t5, "T5ForConditionalGeneration T5Model T5EncoderModel"),
    "phi": (phi, "PhiForCausalLM PhiModel"),
    "deepseek_v2": (deepseek_v2, "DeepseekV2ForCausalLM DeepseekV2Model"),
    "deepseek_v3": (deepseek, "DeepseekV3ForCausalLM DeepseekV3Model"),
    "llama": (decoder("attention_bias", "mlp_bias", window=()), "LlamaForCausalLM LlamaModel"),
    "mistral": (decoder(), "MistralForCausalLM MistralModel"),
    "qwen2": (with_window_layers(decoder()), "Qwen2ForCausalLM Qwen2Model"),
    "qwen3": (with_window_layers(decoder("attention_bias")), "Qwen3ForCausalLM Qwen3Model"),
    "qwen2_moe": (qwen2_moe, "Qwen2MoeForCausalLM Qwen2MoeModel"),
    "qwen3_moe": (with_experts(decoder("attention_bias")), "Qwen3MoeForCausalLM Qwen3MoeModel"),
    "mixtral": (with_experts(decoder(), "num_local_experts"), "MixtralForCausalLM MixtralModel"),
    "gemma": (decoder("attention_bias", window=()), "GemmaForCausalLM GemmaModel"),
    "gemma2": (decoder("attention_bias", window=(8,)), "Gemma2ForCausalLM Gemma2Model"),
    "gemma3_text": (gemma3_text, "Gemma3ForCausalLM Gemma3TextModel"),
    "phi3": (decoder(head_dim=False), "Phi3ForCausalLM Phi3Model"),
    "gpt_oss": (with_experts(decoder("attention_bias", window=(8,)), "num_local_experts"), "GptOssForCausalLM GptOssModel"),
}


def distilbert(d):
    d.set(**{d.one_of("dim", "hidden_size"): d.hidden, d.one_of("n_heads", "num_attention_heads"): d.heads,
             d.one_of("n_layers", "num_hidden_layers"): d.size(1, 4)}, hidden_dim=d.size(1, 90))
    d.maybe("max_position_embeddings", d.size(3, 99))
    d.maybe("activation", "gelu", "relu")


def llama4_text(d):
    decoder(window=())(d)
    d.set(num_local_experts=d.one_of(2, 4), num_experts_per_tok=1)
    d.maybe("intermediate_size_mlp", d.size(1, 50))
    d.maybe("interleave_moe_layer_step", 1, 2)
    d.maybe("no_rope_layer_interval", 1, 2, 3)
    d.flags("use_qk_norm")


def mpnet(d):
    common(d)
    d.maybe("max_position_embeddings", d.size(3, 99))
    d.maybe("hidden_act", *ACTIVATIONS)


def modernbert(d):
    common(d)
    d.set(pad_token_id=0)
    d.flags("attention_bias", "mlp_bias", "decoder_bias")
    d.maybe("global_attn_every_n_layers", 1, 2, 3)
    d.maybe("local_attention", 4, 9)
    d.maybe("hidden_activation", *ACTIVATIONS)


def smollm3(d):
    decoder("attention_bias", "mlp_bias", "use_sliding_window")(d)
    d.maybe("no_rope_layer_interval", 1, 2, 3)


def stablelm(d):
    decoder("use_qkv_bias", "use_parallel_residual", head_dim=False, window=())(d)
    d.maybe("partial_rotary_factor", 0.4, 0.5, 1.0)


def with_head_dim(draw):
    def drawn(d):
        draw(d)
        d.set(head_dim=d.one_of(2, 4, 8))
    return drawn


def multipliers(*keys, draw):
    def drawn(d):
        draw(d)
        for key in keys:
            d.maybe(key, 0.25, 2.0)
    return drawn


def with_pattern(draw):
    def drawn(d):
        draw(d)
        d.maybe("sliding_window_pattern", 2, 3)
    return drawn


def partial(draw):
    def drawn(d):
        draw(d)
        d.maybe("partial_rotary_factor", 0.4, 0.5, 1.0)
    return drawn


def glm4_moe(d):
    partial(decoder("attention_bias", "use_qk_norm", window=()))(d)
    d.set(moe_intermediate_size=d.size(1, 30), n_routed_experts=d.one_of(2, 4, 8), num_experts_per_tok=d.one_of(1, 2))
    d.maybe("first_k_dense_replace", 0, 1, 2, 7)
    d.maybe("n_shared_experts", 1, 2, 3)


def phimoe(d):
    decoder("attention_bias", "lm_head_bias", head_dim=False)(d)
    d.set(num_local_experts=d.one_of(2, 4), num_experts_per_tok=2)


def along_axes(draw):
    """transformers' text models of three axes need to hear of them."""
    def drawn(d):
        draw(d)
        d.set(rope_scaling=dict(rope_type="default", mrope_section=[1, 1, 1]))
    return drawn


def qwen3_next(d):
    with_experts(decoder("attention_bias", window=()))(d)
    d.set(head_dim=d.one_of(2, 4, 8), shared_expert_intermediate_size=d.size(1, 20), linear_key_head_dim=d.size(1, 9),
          linear_value_head_dim=d.size(1, 9), linear_num_key_heads=d.one_of(1, 2, 3))
    d.set(linear_num_value_heads=d.fields["linear_num_key_heads"] * d.one_of(1, 2, 3))
    d.maybe("linear_conv_kernel_dim", 1, 2, 4)
    d.maybe("full_attention_interval", 1, 2, 3)
    d.maybe("partial_rotary_factor", 0.5, 1.0)


# Each has a generator of its own: a family more leaves the rows of the others.
SEPARATE = {
    "xlm-roberta": (bert, "XLMRobertaForMaskedLM XLMRobertaModel"),
    "distilbert": (distilbert, "DistilBertForMaskedLM DistilBertModel"),
    "modernbert": (modernbert, "ModernBertForMaskedLM ModernBertModel"),
    "mpnet": (mpnet, "MPNetForMaskedLM MPNetModel"),
    "llama4_text": (llama4_text, "Llama4ForCausalLM Llama4TextModel"),
    "granite": (multipliers("embedding_multiplier", "residual_multiplier", "attention_multiplier", "logits_scaling",
                            draw=decoder("attention_bias", "mlp_bias", window=())), "GraniteForCausalLM GraniteModel"),
    "cohere": (multipliers("logit_scale", draw=decoder("attention_bias", window=())), "CohereForCausalLM CohereModel"),
    "cohere2": (with_pattern(decoder("attention_bias", window=(8,))), "Cohere2ForCausalLM Cohere2Model"),
    "olmo2": (decoder("attention_bias", window=()), "Olmo2ForCausalLM Olmo2Model"),
    "olmo3": (decoder("attention_bias", window=(8,)), "Olmo3ForCausalLM Olmo3Model"),
    "glm4": (partial(decoder("attention_bias", window=())), "Glm4ForCausalLM Glm4Model"),
    "nemotron": (partial(decoder("attention_bias", "mlp_bias", window=())), "NemotronForCausalLM NemotronModel"),
    "glm4_moe": (glm4_moe, "Glm4MoeForCausalLM Glm4MoeModel"),
    "phimoe": (phimoe, "PhimoeForCausalLM PhimoeModel"),
    "exaone4": (with_pattern(decoder(window=(8,))), "Exaone4ForCausalLM Exaone4Model"),
    "apertus": (decoder("attention_bias", window=()), "ApertusForCausalLM ApertusModel"),
    "qwen2_vl_text": (along_axes(with_window_layers(decoder(head_dim=False))), "Qwen2VLTextModel"),
    "qwen2_5_vl_text": (along_axes(with_window_layers(decoder(head_dim=False))), "Qwen2_5_VLTextModel"),
    "qwen3_vl_text": (along_axes(decoder("attention_bias", window=())), "Qwen3VLTextModel"),
    "qwen3_vl_moe_text": (along_axes(with_experts(decoder("attention_bias", window=()))), "Qwen3VLMoeTextModel"),
    "qwen3_next": (qwen3_next, "Qwen3NextForCausalLM Qwen3NextModel"),
    "smollm3": (smollm3, "SmolLM3ForCausalLM SmolLM3Model"),
    "stablelm": (stablelm, "StableLmForCausalLM StableLmModel"),
    "starcoder2": (decoder("use_bias"), "Starcoder2ForCausalLM Starcoder2Model"),
    "seed_oss": (decoder("attention_bias", "attention_out_bias", "mlp_bias", window=()), "SeedOssForCausalLM SeedOssModel"),
    "ernie4_5": (decoder("use_bias", window=()), "Ernie4_5ForCausalLM Ernie4_5Model"),
    "hunyuan_v1_dense": (with_head_dim(decoder("attention_bias", head_dim=False, window=())),
                         "HunYuanDenseV1ForCausalLM HunYuanDenseV1Model"),
}


def configurations():
    generator = random.Random(SEED)
    for model_type, (draw, classes) in (FAMILIES | SEPARATE).items():
        if model_type in SEPARATE:
            generator = random.Random(f"{SEED} {model_type}")
        for number in range(CASES_PER_FAMILY):
            d = Draw(generator)
            d.set(model_type=model_type, architectures=[d.one_of(*classes.split())], vocab_size=d.size(5, 120))
            d.flags("tie_word_embeddings")
            d.maybe("torch_dtype", "float16", "bfloat16", "float32")
            draw(d)
            yield f"{model_type}-{number}", d.fields


def lines_of(model):
    lines = []
    families.describe(model, "", lines)
    ties = families.groups(model.state_dict(keep_vars=True).items())
    lines += sorted(f"T\t{names[0]}\t{other}\n" for names in ties for other in names[1:])
    return lines + [f"S\t{name}\n" for name in sorted(model._get_no_split_modules("auto"))]


def fnv1a(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def write(out, cases, wanted):
    """One row per case; with `wanted` cases their trees are printed instead."""
    families.check_versions()
    rows = []
    for case, fields in cases:
        if wanted and case not in wanted:
            continue
        model, _, _ = families.build(fields)
        lines = lines_of(model)
        if wanted:
            print(json.dumps(fields))
            sys.stdout.writelines(lines)
            continue
        parameters = sum(p.numel() for p in {id(p): p for p in model.parameters()}.values())
        rows.append({"case": case, "config": fields, "lines": len(lines), "parameters": parameters,
                     "hash": fnv1a("".join(lines))})
    if not wanted:
        out.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows))


if __name__ == "__main__":
    write(OUT, configurations(), sys.argv[1:])
