#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/executor/seq2seq.json: what transformers 4.57 computes with small encoders and their decoders.

Weights are those of executor_logits.py's formula. "targets" are tokens that the decoder is given, its start first, and "logits" what
follows the last of each; "tokens" are those that generate makes greedily. Needs transformers==4.57.6 and torch.

    executor_seq2seq.py FOLDER [CASE...]
"""
import json
import pathlib
import sys

import torch
from transformers import AutoConfig, AutoModelForSeq2SeqLM

from executor_encoders import rows, write
from executor_logits import fill

T5 = dict(model_type="t5", vocab_size=61, d_model=16, d_kv=4, d_ff=20, num_layers=2, num_heads=4, decoder_start_token_id=0,
          eos_token_id=1, pad_token_id=0)
CASES = {
    # 1.0: relu, a head that is the table; buckets and distances that steps reach.
    "t5": (0, dict(T5, d_kv=3, num_decoder_layers=3, relative_attention_num_buckets=8, relative_attention_max_distance=9)),
    # T5 1.1 under another name: its defaults are a gate and a head of its own.
    "mt5": (3, dict(T5, model_type="mt5", d_kv=5, num_decoder_layers=3, relative_attention_num_buckets=6, relative_attention_max_distance=11)),
    # A table of positions in each block of both stacks.
    "umt5": (2, dict(T5, model_type="umt5", d_kv=5, num_heads=6, num_layers=3, num_decoder_layers=2,
                     relative_attention_num_buckets=6, relative_attention_max_distance=11)),
    "umt5_relu": (5, dict(T5, model_type="umt5", feed_forward_proj="relu", tie_word_embeddings=False,
                          relative_attention_num_buckets=8, relative_attention_max_distance=9, decoder_start_token_id=5)),
    # 1.1 and flan: a gate, a head of its own.
    "t5_gated": (4, dict(T5, feed_forward_proj="gated-gelu", tie_word_embeddings=False, num_heads=6, num_layers=1,
                         decoder_start_token_id=5, eos_token_id=48)),
}


def main(folder, wanted):
    path = folder / "seq2seq.json"
    out = json.loads(path.read_text()) if wanted else {}
    for case, (seed, config) in CASES.items():
        if wanted and case not in wanted:
            continue
        made = AutoConfig.for_model(**config)
        made._attn_implementation = "eager"
        model = fill(AutoModelForSeq2SeqLM.from_config(made, torch_dtype=torch.float32).eval(), seed)
        sources = [[(5 * i + 3 * n + 2) % 61 for i in range(n)] for n in (1, 7, 24)]
        start = config["decoder_start_token_id"]
        targets = [[start] + [(7 * i + n) % 61 for i in range(n)] for n in (0, 4, 20)]
        logits, tokens = [], []
        with torch.no_grad():
            # The cache of 4.57 has as many layers as the encoder.
            for source, target in zip(sources, targets):
                ids = torch.tensor([source])
                got = model(input_ids=ids, decoder_input_ids=torch.tensor([target]), use_cache=False).logits[0, -1]
                logits.append(rows(got))
                made_tokens = model.generate(input_ids=ids, max_new_tokens=12, do_sample=False, num_beams=1, use_cache=False)
                tokens.append(made_tokens[0, 1:].tolist())
        config = config | {"architectures": [type(model).__name__]}
        out[case] = dict(config=json.dumps(config), seed=seed, sources=sources, targets=targets, logits=logits, tokens=tokens)
        print(case, tokens)
    write(out, path)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), sys.argv[2:])
