#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares a program with transformers on GGUF files of BERT as llama.cpp's converter writes them.

Run as bert_gguf.py LLAMA_CPP FOLDER TOKENIZE_TEXTS COUNT [SHARDWISE], where TOKENIZE_TEXTS is made of scripts/golden/tokenize_texts.cpp, with
a Python that has transformers 4.57, tokenizers 0.22, torch and gguf. The vocabulary is the real one of bert-base-uncased, out of
LLAMA_CPP/models/ggml-vocab-bert-bge.gguf; the weights are small and random. Compared are the ids of the golden texts and of COUNT
random ones, lower-cased and not, and, with SHARDWISE, the vectors of `embed` for each pooling that modules.json may ask for.
"""

import json
import pathlib
import random
import subprocess
import sys

import gguf
import torch
from tokenizers_json import SEPARATORS, TEXTS, random_text
from transformers import BertConfig, BertModel, BertTokenizerFast

LLAMA_CPP, FOLDER, TOKENIZE = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
COUNT = int(sys.argv[4])
MARK = "\u2581"


def vocabulary():
    reader = gguf.GGUFReader(LLAMA_CPP / "models/ggml-vocab-bert-bge.gguf")
    tokens = reader.fields["tokenizer.ggml.tokens"].contents()
    whole = lambda token: token[0] == "[" and token[-1] == "]" and len(token) > 2  # noqa: E731
    return [token if whole(token) else token[1:] if token.startswith(MARK) else "##" + token for token in tokens]


def make(name, pooling, **flags):
    folder = FOLDER / name
    (folder / "1_Pooling").mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(vocabulary()) + "\n", encoding="utf-8")
    tokenizer = BertTokenizerFast(vocab_file=str(folder / "vocab.txt"), **flags)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(18)
    model = BertModel(BertConfig(vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
                                 max_position_embeddings=128)).eval()
    model.save_pretrained(folder)
    if pooling:
        (folder / "modules.json").write_text(json.dumps([
            {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
            {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]))
        (folder / "1_Pooling/config.json").write_text(json.dumps({f"pooling_mode_{pooling}": True}))
    out = FOLDER / f"{name}.gguf"
    # The converter knows pre-tokenizers by the ids of one text, and a cased one by none; BERT's reader does not look at the name.
    code = (f"import sys; sys.path.insert(0, {str(LLAMA_CPP)!r}); sys.path.insert(0, {str(LLAMA_CPP / 'gguf-py')!r})\n"
            "import conversion.base as base\n"
            "base.TextModel.get_vocab_base_pre = lambda self, tokenizer: 'bert-bge'\n"
            f"sys.argv = ['convert_hf_to_gguf.py', {str(folder)!r}, '--outfile', {str(out)!r}, '--outtype', 'f32']\n"
            "import convert_hf_to_gguf; convert_hf_to_gguf.main()\n")
    subprocess.run([sys.executable, "-c", code], check=True, cwd=LLAMA_CPP, capture_output=True)
    return tokenizer, model, out


def compare_ids(tokenizer, path):
    rng = random.Random(8)
    texts = [text.translate(SEPARATORS) for text in TEXTS] + [random_text(rng) for _ in range(COUNT)]
    ran = subprocess.run([TOKENIZE, path], input="".join(text + "\x01" for text in texts).encode(), stdout=subprocess.PIPE, check=True)
    wrong = 0
    for text, answer in zip(texts, ran.stdout.decode().split("\x01"), strict=False):
        ours = [int(number) for number in answer.split("\x02")[0].split()]
        theirs = tokenizer(text)["input_ids"]
        if ours != theirs:
            wrong += 1
            if wrong <= 3:
                print(f"{path.name}: {text!r}\n  ours   {ours}\n  theirs {theirs}")
    print(f"{path.name}: {len(texts)} texts, {wrong} differ")
    return wrong


def compare_vectors(tokenizer, model, path, pooling):
    text = "The quick brown fox."
    ran = subprocess.run([sys.argv[5], "embed", path, "--text", text, "--json"], stdout=subprocess.PIPE, check=True)
    answer = json.loads(ran.stdout)
    with torch.no_grad():
        states = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
    wanted = {"cls_token": states[0], "lasttoken": states[-1]}.get(pooling, states.mean(0))
    worst = (torch.tensor(answer["embeddings"][0]) - wanted).abs().max().item()
    print(f"{path.name}: embed pools by {answer['pooling']}, off by {worst:.1e} at most")
    return worst > 1e-4


def main():
    wrong = 0
    for name, pooling, flags in (("uncased", "cls_token", {}), ("cased", "mean_tokens", {"do_lower_case": False}), ("plain", "", {}),
                                 ("accents", "lasttoken", {"strip_accents": False})):
        tokenizer, model, path = make(name, pooling, **flags)
        wrong += compare_ids(tokenizer, path)
        if len(sys.argv) > 5:
            wrong += compare_vectors(tokenizer, model, path, pooling)
    sys.exit(wrong != 0)


main()
