#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/tokenizer/{spm.json,gguf_answers.txt}: what llama.cpp makes of texts with the vocabularies of small GGUF files.

Run as tokenizers_gguf.py LLAMA [OURS COUNT] after tokenizers_json.py, with a Python that has gguf, sentencepiece 0.2.3 and tokenizers 0.22.2.
LLAMA FILE is a program that loads a GGUF file with llama.cpp's llama_vocab (llama-cpp-python 0.3.36), reads texts that end with \\x01, and
writes for each the ids (specials added and found), \\x02, anything, \\x01. With OURS, a program of the same kind,
nothing is written: the two are compared on COUNT random texts for each file, and SentencePiece itself with OURS. Of gpt-4o and tekken,
llama.cpp has approximations of the patterns of their tokenizer.json, which we follow; a few random texts differ.
"""

import io
import json
import pathlib
import random
import subprocess
import sys
import zlib

import gguf
import sentencepiece
import tokenizers
import tokenizers_json
from tokenizers_json import OUT, SEPARATORS, TEXTS, corpus, random_text

PINNED = {"sentencepiece": "0.2.3", "tokenizers": "0.22.2"}
FOLDER = pathlib.Path("/tmp/shardwise_tokenizers")
PRES = ["default", "gpt-2", "smollm", "llama-bpe", "qwen2", "gpt-4o", "tekken", "deepseek-v3", "deepseek-llm", "deepseek-coder", "falcon", "dbrx"]
CONTROL = ["<|endoftext|>", "<s>", "</s>"]
USER_DEFINED = ["<tool>"]


def train():
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus()), model_writer=model, model_type="bpe", vocab_size=800, byte_fallback=True, character_coverage=0.98,
        normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=True, minloglevel=2, split_digits=True, num_threads=1)
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def spm_rows(processor):
    kinds = lambda i: 2 if processor.is_unknown(i) else 3 if processor.is_control(i) else 6 if processor.is_byte(i) else 1  # noqa: E731
    return [[processor.id_to_piece(i), processor.get_score(i), kinds(i)] for i in range(processor.get_piece_size())]


def save(name, fields):
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{name}.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    fields(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


def byte_level(pre):
    data = json.loads((OUT / "gpt2.json").read_text(encoding="utf-8"))["model"]
    tokens = sorted(data["vocab"], key=data["vocab"].get) + CONTROL[1:] + USER_DEFINED

    def fields(writer):
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(pre)
        writer.add_token_list(tokens)
        writer.add_token_types([3 if token in CONTROL else 4 if token in USER_DEFINED else 1 for token in tokens])
        writer.add_token_merges([" ".join(merge) for merge in data["merges"]])
        writer.add_bos_token_id(tokens.index("<s>"))
        writer.add_eos_token_id(tokens.index("</s>"))

    return save("gguf_" + pre, fields)


def scored(rows, name, **flags):
    def fields(writer):
        writer.add_tokenizer_model("llama")
        writer.add_tokenizer_pre("default")
        writer.add_token_list([row[0] for row in rows])
        writer.add_token_scores([row[1] for row in rows])
        writer.add_token_types([row[2] for row in rows])
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(2)
        writer.add_unk_token_id(0)
        for key, value in flags.items():
            writer.add_bool(f"tokenizer.ggml.{key}", value)

    return save(name, fields)


def files(rows):
    found = {pre: byte_level(pre) for pre in PRES}
    found["spm"] = scored(rows, "gguf_spm")
    found["spm_plain"] = scored(rows, "gguf_spm_plain", add_space_prefix=False, add_bos_token=False, add_eos_token=True)
    return found


def run(program, path, texts):
    out = subprocess.run([program, str(path)], input="".join(text + "\x01" for text in texts).encode(), stdout=subprocess.PIPE, check=True).stdout
    return [answer.split("\x02")[0].strip() for answer in out.decode(errors="replace").split("\x01")[:-1]]


def compare(llama, ours, count, processor, found):
    rng = random.Random(7)
    total = 0
    for name, path in found.items():
        texts = [text.translate(SEPARATORS) for text in TEXTS] + [random_text(rng) for _ in range(count)]
        wrong = 0
        for text, mine, theirs in zip(texts, run(ours, path, texts), run(llama, path, texts), strict=True):
            if mine != theirs:
                wrong += 1
                if wrong <= 2:
                    print(f"{name}: {text!r}\n  ours   {mine!r}\n  theirs {theirs!r}")
        print(f"{name}: {len(texts)} texts, {wrong} differ from llama.cpp")
        total += wrong
    texts = [text for text in (random_text(rng) for _ in range(count)) if "<" not in text]
    wrong = sum([1, *processor.encode(text)] != list(map(int, mine.split())) for text, mine in zip(texts, run(ours, found["spm"], texts), strict=True))
    print(f"spm: {len(texts)} texts, {wrong} differ from sentencepiece")
    return total + wrong


def main():
    for module, version in ((sentencepiece, PINNED["sentencepiece"]), (tokenizers, PINNED["tokenizers"])):
        if module.__version__ != version:
            sys.exit(f"{module.__name__} {module.__version__} found, {version} wanted")
    processor = train()
    rows = spm_rows(processor)
    found = files(rows)
    if len(sys.argv) > 2:
        sys.exit(compare(sys.argv[1], sys.argv[2], int(sys.argv[3]), processor, found) != 0)
    (OUT / "spm.json").write_text(json.dumps(rows, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    lines = []
    for name, path in found.items():
        for ids in run(sys.argv[1], path, [text.translate(SEPARATORS) for text in TEXTS]):
            lines.append(f"{name} {zlib.crc32(ids.encode()):08x}")
    (OUT / "gguf_answers.txt").write_text("\n".join(lines) + "\n")


assert tokenizers_json.PINNED == PINNED["tokenizers"]
main()
