#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/tokenizer/first.txt: where Metaspace's prepend_scheme "first" puts no mark before a text.

Each line has a normalizer as JSON, a tab, and runs of the code points c for which tokenizers makes no mark of the text "cb"; asked are
those that any normalizer changes. Run with a Python that has tokenizers 0.22.2 or 0.23.3 (they agree).
"""

import json
import pathlib
import sys

import tokenizers
from tokenizers import Tokenizer, normalizers

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/tokenizer/first.txt"
BERT = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}
FORM = {name: {"type": name} for name in ("NFC", "NFD", "NFKC", "NFKD", "StripAccents", "Lowercase", "ByteLevel")}
MARKS_OUT = {"type": "Replace", "pattern": {"Regex": r"\p{M}"}, "content": ""}
PAIRS = {"type": "Replace", "pattern": {"Regex": r"(\p{Lm}|\p{M})b"}, "content": "xy"}
STRIP = {"type": "Strip", "strip_left": True, "strip_right": True}
PREPEND = {"type": "Prepend", "prepend": "xy"}
SEQUENCES = [[FORM["NFKD"], FORM["StripAccents"]], [FORM["NFD"], FORM["StripAccents"], FORM["Lowercase"]], [FORM["NFKC"], FORM["StripAccents"]],
             [BERT], [STRIP], [FORM["NFKD"], MARKS_OUT], [FORM["NFKD"], STRIP], [PAIRS], [FORM["NFKD"], PAIRS, FORM["StripAccents"]],
             [PREPEND, MARKS_OUT], [FORM["StripAccents"], PREPEND], [MARKS_OUT, FORM["ByteLevel"]]]


def tokenizer_of(steps):
    return Tokenizer.from_str(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "post_processor": None, "decoder": None,
        "normalizer": {"type": "Sequence", "normalizers": steps},
        "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": False},
        "model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["\u2581", -1.0], ["b", -1.0]], "byte_fallback": False}}))


def runs(codes):
    found = []
    for code in codes:
        if found and found[-1][1] + 1 == code:
            found[-1][1] = code
        else:
            found.append([code, code])
    return " ".join(f"{first:x}-{last:x}" for first, last in found)


def main():
    if tokenizers.__version__ not in ("0.22.2", "0.23.3"):
        sys.exit("tokenizers 0.22.2 or 0.23.3 is wanted")
    changes = normalizers.Sequence([normalizers.BertNormalizer(), normalizers.NFKD(), normalizers.StripAccents(), normalizers.Strip()])
    asked = [code for code in range(0x30000) if not 0xD800 <= code < 0xE000 and not 0xAC00 <= code < 0xD7A4
             and not 0x3400 <= code < 0xA000 and not 0x20000 <= code < 0x2F800 and not 0xE000 <= code < 0xF900
             and changes.normalize_str(chr(code)) != chr(code)]
    lines = []
    for steps in SEQUENCES:
        tokenizer = tokenizer_of(steps)
        bare = [code for code in asked if tokenizer.encode(chr(code) + "b").ids[:1] != [1]]
        lines.append(json.dumps({"type": "Sequence", "normalizers": steps}) + "\t" + runs(bare))
    OUT.write_text("asked\t" + runs(asked) + "\n" + "\n".join(lines) + "\n", encoding="ascii")


main()
