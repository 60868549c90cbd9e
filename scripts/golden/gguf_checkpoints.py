#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small models as transformers and as llama.cpp's converter write them, and what transformers computes with them.

Writes FOLDER/<case>/ (safetensors), FOLDER/<case>-<type>.gguf for f32, bf16 and q8_0, and FOLDER/golden.json. Weights are those
of executor_logits.py's formula, rounded so that every type holds the same values: what transformers computes with them in fp32
is right for all three files. The converter is llama.cpp's own; only its set_vocab is replaced, for the models have no
tokenizer. A sample of the files goes to KEEP (tests/golden/gguf; - for none). Needs transformers==4.57.6 (5.23.0 for the families
that begin there, each named as CASE), torch, and a checkout of llama.cpp (the source distribution of llama-cpp-python 0.3.36 has
0c1e570).

    gguf_checkpoints.py LLAMA_CPP FOLDER KEEP [CASE...]
"""
import json
import pathlib
import sys

LLAMA_CPP = pathlib.Path(sys.argv[1]).resolve()
sys.path.insert(0, str(LLAMA_CPP / "gguf-py"))
sys.path.insert(0, str(LLAMA_CPP))

import gguf  # noqa: E402
import numpy  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from conversion import get_model_class  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
from transformers import (AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForImageTextToText,  # noqa: E402
                          T5EncoderModel, T5ForConditionalGeneration, UMT5ForConditionalGeneration)
from transformers.integrations.mxfp4 import convert_moe_packed_tensors  # noqa: E402

from executor_logits import as_published, fill, initialising  # noqa: E402


VOCABULARY = 64
COMMON = dict(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
              num_key_value_heads=2, max_position_embeddings=256, bos_token_id=1, eos_token_id=2, pad_token_id=0)
ALONE = dict(COMMON, num_key_value_heads=4)
EXPERTS = dict(COMMON, intermediate_size=32, moe_intermediate_size=32, num_experts=4, num_experts_per_tok=2)
LATENT = dict(ALONE, kv_lora_rank=32, qk_nope_head_dim=32, qk_rope_head_dim=8, v_head_dim=16, first_k_dense_replace=1,
              moe_intermediate_size=32, n_routed_experts=4, num_experts_per_tok=2, n_shared_experts=1)
YARN = dict(rope_type="yarn", factor=8.0, original_max_position_embeddings=32, beta_fast=32, beta_slow=1)
CASES = {
    "llama": dict(COMMON, model_type="llama", attention_bias=True, head_dim=16, rope_theta=500000.0,
                  rope_scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                    original_max_position_embeddings=32)),
    "llama_linear": dict(COMMON, model_type="llama", tie_word_embeddings=True, rope_theta=20000.0,
                         rope_scaling=dict(rope_type="linear", factor=4.0)),
    "llama_yarn": dict(COMMON, model_type="llama", rope_scaling=dict(YARN, factor=4.0)),
    "llama_yarn_factor": dict(COMMON, model_type="llama", rope_scaling=dict(YARN, factor=4.0, attention_factor=1.3)),
    "mistral": dict(COMMON, model_type="mistral", head_dim=16, rope_theta=1e6, sliding_window=None),
    "mixtral": dict(COMMON, model_type="mixtral", intermediate_size=32, num_local_experts=4, num_experts_per_tok=2,
                    rope_theta=1e6, sliding_window=None),
    "qwen2": dict(COMMON, model_type="qwen2", tie_word_embeddings=True, rope_theta=1e6),
    "qwen2_moe": dict(EXPERTS, model_type="qwen2_moe", shared_expert_intermediate_size=64, norm_topk_prob=False),
    "qwen3": dict(COMMON, model_type="qwen3", head_dim=16, rope_theta=1e6),
    "qwen3_moe": dict(EXPERTS, model_type="qwen3_moe", head_dim=16, norm_topk_prob=True, rope_theta=1e6),
    "phi": dict(ALONE, model_type="phi", intermediate_size=128, partial_rotary_factor=0.5),
    "phi3": dict(COMMON, model_type="phi3", sliding_window=6),
    "phi3_longrope": dict(COMMON, model_type="phi3", original_max_position_embeddings=8, sliding_window=None,
                          rope_scaling=dict(type="longrope", short_factor=[1.0, 1.5, 2.0, 3.0],
                                            long_factor=[1.0, 4.0, 9.0, 20.0])),
    "phi3_partial": dict(COMMON, model_type="phi3", partial_rotary_factor=0.5, sliding_window=None),
    "gemma": dict(COMMON, model_type="gemma", head_dim=16),
    "gemma2": dict(COMMON, model_type="gemma2", head_dim=16, query_pre_attn_scalar=16, sliding_window=6),
    "gemma3": dict(COMMON, model_type="gemma3_text", intermediate_size=32, head_dim=16, query_pre_attn_scalar=16,
                   sliding_window=6, num_hidden_layers=6, rope_scaling=dict(rope_type="linear", factor=8.0)),
    "gpt2": dict(model_type="gpt2", vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=64),
    "gpt_neox": dict(ALONE, model_type="gpt_neox", rotary_pct=0.5, use_parallel_residual=True),
    "gpt_neox_sequential": dict(ALONE, model_type="gpt_neox", rotary_pct=0.25, use_parallel_residual=False),
    "bloom": dict(ALONE, model_type="bloom", n_head=4, n_layer=2),
    "falcon_one_key": dict(ALONE, model_type="falcon", multi_query=True, parallel_attn=True, bias=False, num_kv_heads=1),
    "falcon_groups": dict(ALONE, model_type="falcon", num_kv_heads=2, new_decoder_architecture=True, bias=False),
    "gpt_oss": dict(COMMON, model_type="gpt_oss", intermediate_size=32, head_dim=16, num_local_experts=4,
                    num_experts_per_tok=2, sliding_window=6, max_position_embeddings=256,
                    rope_scaling=dict(YARN, truncate=False)),
    # As published: the experts in blocks of MXFP4, which the converter takes over as they are.
    "gpt_oss_mxfp4": dict(COMMON, model_type="gpt_oss", hidden_size=64, intermediate_size=96, head_dim=16,
                          num_local_experts=3, num_experts_per_tok=2, sliding_window=6, max_position_embeddings=256,
                          rope_scaling=dict(YARN, truncate=False)),
    "deepseek_v2": dict(LATENT, model_type="deepseek_v2", q_lora_rank=None, topk_method="greedy",
                        norm_topk_prob=False, routed_scaling_factor=1.5),
    "deepseek_v2_groups": dict(LATENT, model_type="deepseek_v2", q_lora_rank=32, topk_method="group_limited_greedy",
                               n_group=2, topk_group=1, norm_topk_prob=False, routed_scaling_factor=4.0,
                               rope_scaling=dict(YARN, mscale=0.707, mscale_all_dim=0.707)),
    "deepseek_v3": dict(LATENT, model_type="deepseek_v3", q_lora_rank=32, n_group=2, topk_group=1, norm_topk_prob=True,
                        routed_scaling_factor=2.5, rope_scaling=dict(YARN, mscale=1.0, mscale_all_dim=1.0)),
    "granite": dict(COMMON, model_type="granite", embedding_multiplier=12.0, residual_multiplier=0.25,
                    attention_multiplier=0.125, logits_scaling=8.0, tie_word_embeddings=True, rope_theta=1e7),
    "cohere": dict(ALONE, model_type="cohere", logit_scale=0.0625),
    "cohere_heads": dict(COMMON, model_type="cohere", use_qk_norm=True, logit_scale=0.25),
    "cohere2": dict(COMMON, model_type="cohere2", num_hidden_layers=5, sliding_window=6, logit_scale=0.25),
    "olmo2": dict(ALONE, model_type="olmo2", rope_theta=5e5),
    "olmo3": dict(COMMON, model_type="olmo3", num_hidden_layers=5, sliding_window=6,
                  rope_scaling=dict(YARN, attention_factor=1.2)),
    "glm4": dict(COMMON, model_type="glm4", head_dim=16),
    "nemotron": dict(COMMON, model_type="nemotron", head_dim=8),
    "glm4_moe": dict(COMMON, model_type="glm4_moe", head_dim=16, moe_intermediate_size=32, n_routed_experts=4,
                     num_experts_per_tok=2, attention_bias=True, use_qk_norm=True, routed_scaling_factor=1.5,
                     num_nextn_predict_layers=0),
    "apertus": dict(COMMON, model_type="apertus", head_dim=16),
    "exaone4": dict(COMMON, model_type="exaone4", num_hidden_layers=5, sliding_window=6, head_dim=16),
    "exaone4_full": dict(COMMON, model_type="exaone4", sliding_window=None, layer_types=["full_attention"] * 2,
                         rope_scaling=dict(rope_type="llama3", factor=16.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                           original_max_position_embeddings=32)),
    "smollm3": dict(COMMON, model_type="smollm3", num_hidden_layers=5),
    "stablelm": dict(COMMON, model_type="stablelm", head_dim=8, partial_rotary_factor=0.5, use_qkv_bias=True,
                     use_parallel_residual=False),
    "stablelm_parallel": dict(COMMON, model_type="stablelm", partial_rotary_factor=0.25, use_parallel_residual=True),
    "stablelm_heads": dict(COMMON, model_type="stablelm", partial_rotary_factor=0.5, qk_layernorm=True, use_parallel_residual=True),
    "starcoder2": dict(COMMON, model_type="starcoder2", rope_theta=1e5),
    "seed_oss": dict(COMMON, model_type="seed_oss", head_dim=16, rope_theta=1e7),
    "ernie4_5": dict(COMMON, model_type="ernie4_5", head_dim=16),
    "hunyuan": dict(COMMON, model_type="hunyuan_v1_dense", head_dim=16, tie_word_embeddings=True),
    # Its files state neither chunks nor what scores grow with: they are as published. Experts weigh their inputs.
    "llama4": dict(COMMON, model_type="llama4_text", head_dim=8, intermediate_size=32, intermediate_size_mlp=32,
                   num_hidden_layers=4, num_local_experts=2, num_experts_per_tok=1, interleave_moe_layer_step=4,
                   rope_scaling=dict(rope_type="llama3", factor=16.0, low_freq_factor=1.0, high_freq_factor=1.0,
                                     original_max_position_embeddings=32)),
    "qwen3_next": dict(EXPERTS, model_type="qwen3_next", num_experts=2, num_experts_per_tok=1, head_dim=16, num_attention_heads=2,
                       num_key_value_heads=1, intermediate_size=32, shared_expert_intermediate_size=32,
                       linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=8, linear_value_head_dim=8,
                       linear_conv_kernel_dim=4, partial_rotary_factor=0.5, layer_types=["linear_attention", "full_attention"]),
    "bert": dict(ALONE, model_type="bert", type_vocab_size=2, max_position_embeddings=32),
    "roberta": dict(ALONE, model_type="roberta", type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=1,
                    max_position_embeddings=32),
    "xlm_roberta": dict(ALONE, model_type="xlm-roberta", type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=1,
                        max_position_embeddings=32),
    "distilbert": dict(model_type="distilbert", vocab_size=VOCABULARY, dim=32, hidden_dim=64, n_layers=2, n_heads=4,
                       max_position_embeddings=32, pad_token_id=0),
    "modernbert": dict(ALONE, model_type="modernbert", num_hidden_layers=5, local_attention=6, max_position_embeddings=64,
                       cls_token_id=1, sep_token_id=2),
    "t5": dict(model_type="t5", vocab_size=VOCABULARY, d_model=32, d_kv=16, d_ff=64, num_layers=2, num_decoder_layers=2,
               num_heads=4, feed_forward_proj="relu", decoder_start_token_id=0, pad_token_id=0),
    "umt5": dict(model_type="umt5", vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_decoder_layers=2,
                 num_heads=4, tie_word_embeddings=False, decoder_start_token_id=0, pad_token_id=0),
    "t5_encoder": dict(model_type="t5", architectures=["T5EncoderModel"], vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=32,
                       num_layers=2, num_heads=4, feed_forward_proj="relu", tie_word_embeddings=False,
                       decoder_start_token_id=0, pad_token_id=0),
    "t5_gated": dict(model_type="t5", vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=64, num_layers=2,
                     num_decoder_layers=1, num_heads=4, feed_forward_proj="gated-gelu", tie_word_embeddings=False,
                     decoder_start_token_id=2, pad_token_id=0),
}
# Whole models of text and images, of which the converter writes the text model.
IMAGES = dict(image_token_id=61, video_token_id=62, vision_start_token_id=59, vision_end_token_id=63)
CASES |= {
    "qwen2_vl": dict(COMMON, model_type="qwen2_vl", tie_word_embeddings=True, rope_theta=1e6, **IMAGES,
                     rope_scaling=dict(type="mrope", mrope_section=[1, 1, 2]),
                     vision_config=dict(depth=1, embed_dim=32, hidden_size=32, num_heads=2, patch_size=4)),
    "qwen3_vl": dict(model_type="qwen3_vl", **IMAGES,
                     text_config=dict(COMMON, model_type="qwen3_vl_text", head_dim=16,
                                      rope_scaling=dict(rope_type="default", mrope_section=[4, 2, 2], mrope_interleaved=True)),
                     vision_config=dict(depth=1, hidden_size=32, out_hidden_size=32, intermediate_size=32, num_heads=2,
                                        patch_size=4, num_position_embeddings=16, deepstack_visual_indexes=[0])),
}
CASES["qwen3_vl_moe"] = dict(
    CASES["qwen3_vl"], model_type="qwen3_vl_moe",
    text_config=dict(CASES["qwen3_vl"]["text_config"], model_type="qwen3_vl_moe_text", num_attention_heads=2,
                     num_key_value_heads=1, num_hidden_layers=1, num_experts=3, num_experts_per_tok=2, moe_intermediate_size=32))
# Families that begin in transformers 5.
NEWER = {
    "minimax_m2": dict(COMMON, model_type="minimax_m2", intermediate_size=32, head_dim=16, rotary_dim=8, num_local_experts=4,
                       num_experts_per_tok=2),
}
if transformers.__version__ == "5.23.0":
    CASES = NEWER
else:
    assert transformers.__version__.startswith("4.57"), transformers.__version__
ENCODERS = ("bert", "roberta", "xlm-roberta", "distilbert", "modernbert")
SEQ2SEQ = {"t5": T5ForConditionalGeneration, "umt5": UMT5ForConditionalGeneration}
COMMITTED = """gemma-f32 gpt_neox-f32 phi3_partial-f32 gpt_oss-bf16 qwen3_moe-bf16 mistral-bf16 falcon_groups-bf16 gemma2-bf16
    llama-q8_0 llama_yarn_factor-q8_0 mixtral-q8_0 qwen2-q8_0 qwen2_moe-q8_0 qwen3-q8_0 phi-q8_0 phi3-q8_0 phi3_longrope-q8_0
    gemma3-q8_0 gpt2-q8_0 bloom-q8_0 gpt_neox_sequential-q8_0 falcon_one_key-q8_0 deepseek_v2-q8_0 deepseek_v2_groups-q8_0
    deepseek_v3-q8_0 bert-q8_0 roberta-q8_0 gpt_oss_mxfp4-q8_0 granite-q8_0
    cohere-q8_0 cohere_heads-q8_0 stablelm_heads-q8_0 cohere2-q8_0 olmo2-q8_0 olmo3-q8_0 exaone4-q8_0 exaone4_full-q8_0
    glm4-q8_0 nemotron-q8_0 glm4_moe-q8_0 apertus-q8_0 minimax_m2-q8_0 qwen2_vl-q8_0 qwen3_vl-q8_0
    smollm3-q8_0 stablelm-q8_0 stablelm_parallel-q8_0 starcoder2-q8_0 seed_oss-q8_0 ernie4_5-q8_0 hunyuan-q8_0
    xlm_roberta-q8_0 distilbert-q8_0 modernbert-q8_0 llama4-q8_0 qwen3_next-q8_0 qwen3_vl_moe-q8_0 t5_encoder-q8_0
    t5-q8_0 umt5-q8_0 t5_gated-q8_0""".split()
# Keys that the published configs have as well, which transformers' class does not save.
ALSO = {"minimax_m2": dict(rotary_dim=8, scoring_func="sigmoid"), "gpt2": dict(n_ctx=64), "cohere2": dict(rotary_pct=1.0)}
TYPES = {"f32": gguf.LlamaFileType.ALL_F32, "bf16": gguf.LlamaFileType.MOSTLY_BF16, "q8_0": gguf.LlamaFileType.MOSTLY_Q8_0}


def rounded(values, is_transposed):
    """Values that bf16 and, by rows of inputs, Q8_0 hold exactly: at most 127 times a power of two, once 127 in a block."""
    blocks = values.transpose(-1, -2) if is_transposed else values
    shape = blocks.shape
    if shape[-1] % 32 != 0:
        return values.bfloat16().float()
    blocks = blocks.reshape(-1, 32)
    # Q8_0's scale is the largest / 127 in fp16: with 127 * 2^-n as the largest, all are whole multiples of 2^-n.
    unit = 2.0 ** torch.ceil(torch.log2(blocks.abs().amax(1, keepdim=True) / 127))
    whole = torch.round(blocks / unit).clamp(-127, 127)
    first = whole.abs().argmax(1, keepdim=True)
    whole.scatter_(1, first, 127.0 * torch.sign(whole.gather(1, first)))
    blocks = (whole * unit).reshape(shape)
    return (blocks.transpose(-1, -2) if is_transposed else blocks).contiguous()


def make(config):
    made = AutoConfig.for_model(**config)
    made._attn_implementation = "eager"
    torch.manual_seed(0)
    if config["model_type"] in SEQ2SEQ:
        kind = SEQ2SEQ[config["model_type"]]
        model = (T5EncoderModel if "architectures" in config else kind)(made)
    else:
        kind = AutoModel if config["model_type"] in ENCODERS else AutoModelForCausalLM
        kind = AutoModelForImageTextToText if "vision_config" in config else kind
        with initialising(config):
            model = kind.from_config(made)
    model = as_published(fill(model.float().eval()))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            # [inputs, outputs]: gpt2's Conv1D and stacked experts.
            is_transposed = (config["model_type"] == "gpt2" and ".c_" in name or
                             config["model_type"] in ("gpt_oss", "llama4_text", "qwen3_vl_moe") and ".experts." in name)
            if "kv_b_proj" in name:
                # Blocks run along its inputs in one half and along its outputs in the other.
                parameter.copy_(torch.sign(parameter) * 127 / 512)
            elif parameter.dim() > 1:
                parameter.copy_(rounded(parameter, is_transposed and "bias" not in name))
    return model


def pack_experts(model):
    """Makes the experts' weights such as MXFP4 holds, any code in any place; returns the tensors as they are published."""
    packed = {}
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".experts." not in name or "bias" in name:
                continue
            experts, inputs, outputs = parameter.shape
            blocks = torch.randint(0, 256, (experts, outputs, inputs // 32, 16), dtype=torch.uint8, generator=generator)
            scales = torch.randint(121, 124, (experts, outputs, inputs // 32), dtype=torch.uint8, generator=generator)
            parameter.copy_(convert_moe_packed_tensors(blocks, scales, dtype=torch.float32))
            packed |= {name: None, name + "_blocks": blocks, name + "_scales": scales}
    return packed


def save_packed(place, packed):
    path = place / "model.safetensors"
    tensors = load_file(path) | packed
    save_file({name: tensor for name, tensor in tensors.items() if tensor is not None}, path, {"format": "pt"})
    config = json.loads((place / "config.json").read_text()) | {"quantization_config": {"quant_method": "mxfp4"}}
    (place / "config.json").write_text(json.dumps(config, indent=1))


def set_vocab(self):
    tokens = ["<unk>", "<s>", "</s>"] + [chr(ord("A") + i) for i in range(VOCABULARY - 3)]
    # The kind of vocabulary that the class's own set_vocab writes: the reader knows roberta by merges, xlm-roberta by scores.
    family = self.hparams["model_type"]
    kind = {"bert": "bert", "distilbert": "bert", "roberta": "gpt2", "modernbert": "gpt2", "xlm-roberta": "t5"}.get(family, "llama")
    self.gguf_writer.add_tokenizer_model(kind)
    if kind == "gpt2":
        self.gguf_writer.add_token_merges(["A B"])
    self.gguf_writer.add_tokenizer_pre("default")
    self.gguf_writer.add_token_list(tokens)
    if kind in ("llama", "t5"):
        self.gguf_writer.add_token_scores([float(-i) for i in range(VOCABULARY)])
    self.gguf_writer.add_token_types([2, 3, 3] + [1] * (VOCABULARY - 3))
    self.gguf_writer.add_bos_token_id(1)
    self.gguf_writer.add_eos_token_id(2)
    # What these classes write besides the vocabulary.
    if family in ("bert", "roberta", "xlm-roberta", "distilbert"):
        self.gguf_writer.add_token_type_count(self.hparams.get("type_vocab_size", 1))


def stack_head_norms(original):
    """0c1e570 has `return` in a generator where it means `yield from`, so that it fails for stablelm's norms of heads."""
    def keep(self, *of):
        self.kept = list(original._stack_qk_norm(self, *of))

    def modify_tensors(self, data_torch, name, bid):
        self.kept = []
        yield from original.modify_tensors(self, data_torch, name, bid)
        yield from self.kept

    return {"_stack_qk_norm": keep, "modify_tensors": modify_tensors} if hasattr(original, "_stack_qk_norm") else {}


def convert(folder, kind, path):
    original = get_model_class(json.loads((folder / "config.json").read_text())["architectures"][0])
    # Layers that predict further tokens are not asked for: the models have none.
    made = type(original.__name__, (original,), {"set_vocab": set_vocab, "model_arch": original.model_arch, "no_mtp": True}
                | stack_head_norms(original))
    made(folder, TYPES[kind], path).write()


def main(folder, keep, wanted):
    folder.mkdir(parents=True, exist_ok=True)
    golden = {}
    for case, config in CASES.items():
        if wanted and case not in wanted:
            continue
        model = make(config)
        place = folder / case
        packed = pack_experts(model) if case.endswith("mxfp4") else None
        model.save_pretrained(place)
        if packed is not None:
            save_packed(place, packed)
        saved = json.loads((place / "config.json").read_text()) | ALSO.get(case, {})
        # 4.57 puts those of a whole model into its text_config (qwen2_vl).
        saved["architectures"] = [type(model).__name__]
        (place / "config.json").write_text(json.dumps(saved, indent=1))
        # Gemma3Model.modify_tensors counts the tokens of this file.
        (place / "tokenizer.json").write_text(json.dumps({"model": {"vocab": {str(i): i for i in range(VOCABULARY)}},
                                                          "added_tokens": []}))
        for kind in TYPES:
            convert(place, kind, folder / f"{case}-{kind}.gguf")
        (place / "tokenizer.json").unlink()
        ids = [(7 * i + i // 5 + 3) % VOCABULARY for i in range(14)]
        # An encoder's decoder is given some tokens of its own.
        target = [config["decoder_start_token_id"], 9, 4, 60, 33] if type(model) in SEQ2SEQ.values() else []
        also = dict(decoder_input_ids=torch.tensor([target])) if target else {}
        with torch.no_grad():
            got = model(torch.tensor([ids]), **also)
        # Of a decoder what follows the last token, of an encoder the states of all.
        rows = got.logits[0, -1:] if "logits" in got else got.last_hidden_state[0]
        golden[case] = {"ids": ids, "output": [float("%.8g" % value) for value in rows.double().flatten()]}
        if target:
            golden[case]["target"] = target
        print(case, float(rows.abs().max()), flush=True)
    if keep is not None:
        path = keep / "golden.json"
        committed = json.loads(path.read_text()) if wanted else {}
        for name in COMMITTED:
            case, kind = name.rsplit("-", 1)
            if case not in golden:
                continue
            committed[name] = golden[case]
            (keep / f"{name}.gguf").write_bytes((folder / f"{name}.gguf").read_bytes())
        rows = [f"{json.dumps(name)}:{json.dumps(row, separators=(',', ':'))}" for name, row in committed.items()]
        path.write_text("{\n" + ",\n".join(rows) + "\n}\n")
    path = folder / "golden.json"
    if wanted and path.exists():
        golden = json.loads(path.read_text()) | golden
    path.write_text(json.dumps(golden, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    import logging
    logging.disable(logging.INFO)
    main(pathlib.Path(sys.argv[2]), None if sys.argv[3] == "-" else pathlib.Path(sys.argv[3]), sys.argv[4:])
