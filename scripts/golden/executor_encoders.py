#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/executor/encoders.json and embed.json: what transformers 4.57 computes with small encoders.

Weights are those of executor_logits.py's formula. Each sequence is computed alone; "output" is what the class gives: of a
masked language model the scores of every token, of a classifier those of the text or of every token, of a model with a pooler what it
makes, else the states. embed.json has texts, their ids by
tests/golden/tokenizer/bert.json, and the pooled states of a bert. Needs transformers==4.57.6 and torch.

    executor_encoders.py FOLDER [CASE...]
"""
import json
import pathlib
import sys

import torch
from transformers import (AutoConfig, AutoModel, AutoModelForMaskedLM, AutoModelForMultipleChoice,
                          AutoModelForQuestionAnswering, AutoModelForSequenceClassification,
                          AutoModelForTokenClassification, Gemma3TextForSequenceClassification,
                          PreTrainedTokenizerFast, T5EncoderModel)

from executor_logits import fill

COMMON = dict(vocab_size=61, hidden_size=36, intermediate_size=52, num_hidden_layers=3, num_attention_heads=6,
              max_position_embeddings=40)
DISTILBERT = dict(model_type="distilbert", vocab_size=61, dim=36, hidden_dim=52, n_layers=3, n_heads=6, max_position_embeddings=40)
MODERNBERT = dict(model_type="modernbert", local_attention=6, pad_token_id=0, cls_token_id=1, sep_token_id=2, bos_token_id=1,
                  eos_token_id=2)
SMALL = dict(COMMON, hidden_size=16, intermediate_size=20, num_hidden_layers=2, num_attention_heads=4)
FEW = dict(vocab_size=61, hidden_size=16, num_hidden_layers=2, num_attention_heads=4)
GPT2 = dict(model_type="gpt2", vocab_size=61, n_embd=16, n_layer=2, n_head=4, n_positions=40)
NEOX = dict(SMALL, model_type="gpt_neox", rotary_pct=0.5)
GPT_OSS = dict(model_type="gpt_oss", num_key_value_heads=2, head_dim=8, num_local_experts=3, num_experts_per_tok=2,
               sliding_window=6)
T5 = dict(model_type="t5", vocab_size=61, d_model=16, d_kv=4, d_ff=20, num_layers=2, num_heads=4)
CASES = {
    "bert": (AutoModel, 0, dict(COMMON, model_type="bert")),
    "bert_seed": (AutoModel, 1, dict(COMMON, model_type="bert", hidden_act="gelu_new", type_vocab_size=1)),
    "bert_masked": (AutoModelForMaskedLM, 2, dict(COMMON, model_type="bert", num_hidden_layers=1)),
    "roberta": (AutoModel, 0, dict(COMMON, model_type="roberta", type_vocab_size=1, layer_norm_eps=1e-5)),
    "roberta_seed": (AutoModel, 3, dict(COMMON, model_type="roberta", hidden_act="relu", num_attention_heads=4)),
    "gemma3_encoder": (AutoModel, 5, dict(COMMON, model_type="gemma3_text", num_key_value_heads=2, head_dim=8,
                                          query_pre_attn_scalar=8, sliding_window=6, use_bidirectional_attention=True,
                                          layer_types=["sliding_attention", "full_attention", "sliding_attention"])),
    "llama_headless": (AutoModel, 6, dict(COMMON, model_type="llama", num_key_value_heads=2, num_hidden_layers=2)),
    "roberta_masked": (AutoModelForMaskedLM, 4, dict(COMMON, model_type="roberta", num_hidden_layers=1)),
    "xlm_roberta": (AutoModel, 0, dict(COMMON, model_type="xlm-roberta", type_vocab_size=1, layer_norm_eps=1e-5)),
    "xlm_roberta_masked": (AutoModelForMaskedLM, 2, dict(COMMON, model_type="xlm-roberta", num_hidden_layers=1)),
    "distilbert": (AutoModel, 0, DISTILBERT),
    "distilbert_masked": (AutoModelForMaskedLM, 3, dict(DISTILBERT, n_layers=1, activation="relu")),
    "modernbert": (AutoModel, 0, dict(COMMON, **MODERNBERT, num_hidden_layers=5)),
    "modernbert_biases": (AutoModel, 4, dict(COMMON, **MODERNBERT, attention_bias=True, mlp_bias=True, hidden_activation="silu",
                                             global_attn_every_n_layers=2)),
    "mpnet": (AutoModel, 0, dict(COMMON, model_type="mpnet")),
    "mpnet_masked": (AutoModelForMaskedLM, 5, dict(COMMON, model_type="mpnet", num_hidden_layers=1)),
    "modernbert_masked": (AutoModelForMaskedLM, 1, dict(COMMON, **MODERNBERT)),
    # Classes of texts and of tokens.
    "bert_texts": (AutoModelForSequenceClassification, 2, dict(COMMON, model_type="bert", num_labels=3)),
    "bert_tokens": (AutoModelForTokenClassification, 3, dict(COMMON, model_type="bert", num_labels=5)),
    "roberta_texts": (AutoModelForSequenceClassification, 4, dict(COMMON, model_type="roberta", type_vocab_size=1, num_labels=3)),
    "xlm_roberta_texts": (AutoModelForSequenceClassification, 1,
                          dict(COMMON, model_type="xlm-roberta", type_vocab_size=1, num_labels=1)),
    "distilbert_texts": (AutoModelForSequenceClassification, 2, dict(DISTILBERT, num_labels=3)),
    "distilbert_tokens": (AutoModelForTokenClassification, 1, dict(DISTILBERT, num_labels=4)),
    "roberta_tokens": (AutoModelForTokenClassification, 2, dict(COMMON, model_type="roberta", type_vocab_size=1, num_labels=4)),
    "mpnet_tokens": (AutoModelForTokenClassification, 1, dict(COMMON, model_type="mpnet", num_labels=4)),
    "mpnet_texts": (AutoModelForSequenceClassification, 3, dict(COMMON, model_type="mpnet", num_labels=3)),
    "llama_tokens": (AutoModelForTokenClassification, 4,
                     dict(COMMON, model_type="llama", num_key_value_heads=2, num_hidden_layers=2, num_labels=3)),
    # What a decoder says of its last token.
    "llama_texts": (AutoModelForSequenceClassification, 1, dict(SMALL, model_type="llama", num_key_value_heads=1, num_labels=3)),
    # Classes of decoders, whose heads have other names; opt's reads narrower states.
    "gpt2_texts": (AutoModelForSequenceClassification, 2, dict(GPT2, num_labels=3)),
    "gpt2_tokens": (AutoModelForTokenClassification, 3, dict(GPT2, num_labels=4)),
    "gpt_neox_texts": (AutoModelForSequenceClassification, 3, dict(NEOX, num_labels=3)),
    "gpt_neox_tokens": (AutoModelForTokenClassification, 4, dict(NEOX, num_labels=2)),
    "bloom_texts": (AutoModelForSequenceClassification, 1, dict(model_type="bloom", **FEW, num_labels=3)),
    "bloom_tokens": (AutoModelForTokenClassification, 2, dict(model_type="bloom", **FEW, num_labels=3)),
    "falcon_texts": (AutoModelForSequenceClassification, 3, dict(model_type="falcon", **FEW, num_labels=3)),
    "falcon_tokens": (AutoModelForTokenClassification, 4, dict(model_type="falcon", **FEW, new_decoder_architecture=True,
                                                               num_kv_heads=2, num_labels=5)),
    "opt_texts": (AutoModelForSequenceClassification, 5, dict(model_type="opt", **FEW, ffn_dim=20, max_position_embeddings=40,
                                                              word_embed_proj_dim=12, do_layer_norm_before=False,
                                                              num_labels=3, pad_token_id=60)),
    "phi_texts": (AutoModelForSequenceClassification, 1, dict(SMALL, model_type="phi", num_labels=3)),
    "phi_tokens": (AutoModelForTokenClassification, 2, dict(SMALL, model_type="phi", num_labels=3)),
    "gpt_oss_texts": (AutoModelForSequenceClassification, 3, dict(SMALL, **GPT_OSS, num_labels=3, pad_token_id=60)),
    "gpt_oss_tokens": (AutoModelForTokenClassification, 4, dict(SMALL, **GPT_OSS, num_labels=3)),
    "gemma3_texts": (Gemma3TextForSequenceClassification, 5,
                     dict(SMALL, model_type="gemma3_text", num_key_value_heads=2, head_dim=8, query_pre_attn_scalar=8,
                          sliding_window=6, num_labels=3, pad_token_id=60)),
    "modernbert_texts": (AutoModelForSequenceClassification, 2, dict(COMMON, **MODERNBERT, num_labels=3)),
    "modernbert_means": (AutoModelForSequenceClassification, 4,
                         dict(COMMON, **MODERNBERT, num_hidden_layers=2, num_labels=2, classifier_pooling="mean")),
    "modernbert_tokens": (AutoModelForTokenClassification, 3,
                          dict(COMMON, **MODERNBERT, num_hidden_layers=2, num_labels=4, classifier_bias=True, norm_bias=True)),
    # Where an answer begins and ends, and how well a choice fits.
    "bert_answers": (AutoModelForQuestionAnswering, 1, dict(SMALL, model_type="bert")),
    "distilbert_answers": (AutoModelForQuestionAnswering, 3, dict(DISTILBERT, dim=16, hidden_dim=20, n_layers=2, n_heads=4)),
    "mpnet_answers": (AutoModelForQuestionAnswering, 4, dict(SMALL, model_type="mpnet")),
    "bert_choices": (AutoModelForMultipleChoice, 1, dict(SMALL, model_type="bert")),
    # T5's encoder alone.
    "t5_gated": (T5EncoderModel, 1, dict(T5, d_kv=3, feed_forward_proj="gated-gelu", relative_attention_num_buckets=8,
                                         relative_attention_max_distance=9)),
}


# Classes that no AutoModel makes of their configuration.
ALONE = (T5EncoderModel, Gemma3TextForSequenceClassification)


def rows(values):
    return [float("%.8g" % value) for value in values.double().flatten()]


def write(out, path):
    path.write_text("{\n" + ",\n".join(f"{json.dumps(k)}:{json.dumps(v, separators=(',', ':'))}" for k, v in out.items()) + "\n}\n")


def scores(model, ids):
    """What the class gives of one sequence."""
    if "MultipleChoice" in type(model).__name__:
        return model(torch.tensor([[ids]])).logits
    got = model(torch.tensor([ids]))
    if "start_logits" in got:
        return torch.stack([got.start_logits, got.end_logits], -1)
    last = got.get("logits", got.get("pooler_output"))
    return got.last_hidden_state if last is None else last


def embed(folder):
    config = dict(COMMON, model_type="bert", vocab_size=600, hidden_size=12, intermediate_size=20, num_attention_heads=4)
    model = fill(AutoModel.from_config(AutoConfig.for_model(**config)).eval(), 5)
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder.parent / "tokenizer" / "bert.json"))
    texts = ["The quick brown fox", "", "Hello, world! \u00e9t\u00e9"]
    out = {"config": json.dumps(config | {"architectures": ["BertModel"]}), "seed": 5, "texts": []}
    for text in texts:
        ids = tokenizer(text)["input_ids"]
        with torch.no_grad():
            states = model(torch.tensor([ids])).last_hidden_state[0]
        mean = states.mean(0)
        out["texts"].append({"text": text, "ids": ids, "mean": rows(mean), "cls": rows(states[0]), "none": rows(states),
                             "normalized": rows(torch.nn.functional.normalize(mean, dim=0))})
    # What classes score of the same texts, with the names that the config has.
    out["classes"] = []
    named = {"id2label": {"0": "calm", "1": "a storm", "2": "fog"}}
    for kind, seed, more in ((AutoModelForSequenceClassification, 1, named), (AutoModelForTokenClassification, 2, named),
                             (AutoModelForQuestionAnswering, 3, {})):
        made = AutoConfig.for_model(**dict(config, num_hidden_layers=1, **more))
        model = fill(kind.from_config(made).eval(), seed)
        with torch.no_grad():
            got = [rows(scores(model, one["ids"])) for one in out["texts"]]
        names = dict(config, num_hidden_layers=1, architectures=[type(model).__name__], **more)
        out["classes"].append({"config": json.dumps(names), "seed": seed, "scores": got})
    write(out, folder / "embed.json")


def main(folder, wanted):
    embed(folder)
    out = json.loads((folder / "encoders.json").read_text()) if wanted else {}
    for case, (kind, seed, config) in CASES.items():
        if wanted and case not in wanted:
            continue
        made = AutoConfig.for_model(**config)
        made._attn_implementation = "eager"
        made_model = kind(made) if kind in ALONE else kind.from_config(made, torch_dtype=torch.float32)
        model = fill(made_model.float().eval(), seed)
        sequences = [[(5 * i + 3 * n + 2) % 61 for i in range(n)] for n in (1, 7, 12)]
        # An id of roberta's padding does not count as a position.
        if config["model_type"] in ("roberta", "xlm-roberta", "mpnet"):
            sequences[1][3] = 1
        hidden, result = [], []
        with torch.no_grad():
            for ids in sequences:
                # The last of modernbert's hidden_states lacks the last norm.
                base = model if kind is T5EncoderModel else getattr(model, model.base_model_prefix, model)
                hidden += rows(base(torch.tensor([ids])).last_hidden_state)
                result += rows(scores(model, ids))
        out[case] = {
            "config": json.dumps(config | {"architectures": [type(model).__name__]}),
            "seed": seed,
            "sequences": sequences,
            "hidden": hidden,
            "output": result,
        }
        print(case, max(map(abs, hidden)), max(map(abs, result)))
    write(out, folder / "encoders.json")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), sys.argv[2:])
