#!/usr/bin/env python3
"""Writes tests/golden/executor/encoders.json: what transformers 4.57 computes with small encoders.

Weights are those of executor_logits.py's formula. Each sequence is computed alone; "output" is what the class gives: of a
masked language model the scores of every token, of a model with a pooler what it makes, else nothing. Needs
transformers==4.57.6 and torch.

    executor_encoders.py OUTPUT
"""
import json
import sys

import torch
from transformers import AutoConfig, AutoModel, AutoModelForMaskedLM

from executor_logits import fill

COMMON = dict(vocab_size=61, hidden_size=36, intermediate_size=52, num_hidden_layers=3, num_attention_heads=6,
              max_position_embeddings=40)
CASES = {
    "bert": (AutoModel, 0, dict(COMMON, model_type="bert")),
    "bert_seed": (AutoModel, 1, dict(COMMON, model_type="bert", hidden_act="gelu_new", type_vocab_size=1)),
    "bert_masked": (AutoModelForMaskedLM, 2, dict(COMMON, model_type="bert", num_hidden_layers=1)),
    "roberta": (AutoModel, 0, dict(COMMON, model_type="roberta", type_vocab_size=1, layer_norm_eps=1e-5)),
    "roberta_seed": (AutoModel, 3, dict(COMMON, model_type="roberta", hidden_act="relu", num_attention_heads=4)),
    "roberta_masked": (AutoModelForMaskedLM, 4, dict(COMMON, model_type="roberta", num_hidden_layers=1)),
}


def rows(values):
    return [float("%.8g" % value) for value in values.double().flatten()]


def main(output):
    out = {}
    for case, (kind, seed, config) in CASES.items():
        made = AutoConfig.for_model(**config)
        made._attn_implementation = "eager"
        model = fill(kind.from_config(made, torch_dtype=torch.float32).eval(), seed)
        sequences = [[(5 * i + 3 * n + 2) % 61 for i in range(n)] for n in (1, 7, 12)]
        # An id of roberta's padding does not count as a position.
        if config["model_type"] == "roberta":
            sequences[1][3] = 1
        hidden, result = [], []
        with torch.no_grad():
            for ids in sequences:
                got = model(torch.tensor([ids]), output_hidden_states=True)
                hidden += rows(got.hidden_states[-1])
                result += rows(got.logits if hasattr(got, "logits") else got.pooler_output)
        out[case] = {
            "config": json.dumps(config | {"architectures": [type(model).__name__]}),
            "seed": seed,
            "sequences": sequences,
            "hidden": hidden,
            "output": result,
        }
        print(case, max(map(abs, hidden)), max(map(abs, result)))
    with open(output, "w") as file:
        json.dump(out, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main(sys.argv[1])
