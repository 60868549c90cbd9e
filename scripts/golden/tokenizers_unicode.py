#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/tokenizer/unicode.txt: what PyPI tokenizers makes of every code point.

Each line has the kind of a step, 17 checksums (CRC-32), one for each plane, and the step as JSON:
  categories  the general category of each code point, one byte each: which \\p{..} of a Split or Replace matches it
  normalizer  the code points of a plane, 4096 to a text, after the step; the texts one after the other
  marks       the same after each code point was put between a letter with a mark of class 240 and a mark of class 1
  classes     each code point that has a combining class, before one mark of every class in falling order
  splitter    the pieces of the code points of a plane with a letter before each, 4096 to a text; | after each piece
Run with a Python that has tokenizers 0.22.2 or 0.23.3 (they agree) and with unicodedata2 16.0.0.
"""

import json
import pathlib
import sys
import zlib

import tokenizers
import unicodedata2
from tokenizers import Regex, Tokenizer, normalizers

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/tokenizer/unicode.txt"
# The order of shardwise::UnicodeCategory.
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn".split()
PLANES = [[code for code in range(first, first + 0x10000) if not 0xD800 <= code < 0xE000] for first in range(0, 0x110000, 0x10000)]
OFF = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False}
NORMALIZERS = [{"type": name} for name in ("NFC", "NFD", "NFKC", "NFKD", "StripAccents", "Lowercase")] + [
    {"type": "BertNormalizer", **OFF, **flags} for flags in (
        {"clean_text": True}, {"handle_chinese_chars": True}, {"strip_accents": True}, {"lowercase": True},
        {"clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True})] + [
    {"type": "Replace", "pattern": {"Regex": regex}, "content": ""} for regex in (r"\w", r"\s", r"\d")]
SPLITTERS = [{"type": "Whitespace"}, {"type": "WhitespaceSplit"}, {"type": "BertPreTokenizer"},
             {"type": "Punctuation", "behavior": "Isolated"}, {"type": "Digits", "individual_digits": True}]


def made(part, step):
    """tokenizers makes steps of JSON only within a whole tokenizer."""
    data = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "pre_tokenizer": None,
            "post_processor": None, "decoder": None, "model": {"type": "WordLevel", "vocab": {"x": 0}, "unk_token": "x"}}
    return getattr(Tokenizer.from_str(json.dumps({**data, part: step})), part)


def parts(plane):
    blocks = {}
    for code in plane:
        blocks.setdefault(code // 4096, []).append(chr(code))
    return blocks.values()


def checksum(texts):
    value = 0
    for text in texts:
        value = zlib.crc32(text.encode(), value)
    return f"{value:08x}"


def category_lines():
    table = bytearray([CATEGORIES.index("Cs")]) * 0x110000
    for index, name in enumerate(CATEGORIES):
        match = normalizers.Replace(Regex(f"\\p{{{name}}}"), "")
        for plane in PLANES:
            for text in parts(plane):
                for character in set(text) - set(match.normalize_str("".join(text))):
                    table[ord(character)] = index
    sums = [f"{zlib.crc32(bytes(table[first:first + 0x10000])):08x}" for first in range(0, 0x110000, 0x10000)]
    return ["categories " + " ".join(sums) + " {}"]


def lines_of(kind, step, answer):
    return [f"{kind} " + " ".join(checksum(answer(text) for text in parts(plane)) for plane in PLANES) + " " + json.dumps(step)]


def class_lines():
    order = normalizers.NFD().normalize_str
    has_class = [code for plane in PLANES for code in plane if unicodedata2.combining(chr(code))]
    one_each = {unicodedata2.combining(chr(code)): chr(code) for code in reversed(has_class) if order(chr(code)) == chr(code)}
    falling = "".join(one_each[value] for value in sorted(one_each, reverse=True))
    known = [code for code in has_class if order("\u0345" + chr(code) + "\u0334") != "\u0345" + order(chr(code)) + "\u0334"]
    sums = [checksum(order(chr(code) + falling) for code in known if code // 0x10000 == plane) for plane in range(17)]
    return ["classes " + " ".join(sums) + " " + json.dumps({"type": "NFD", "marks": falling})]


def main():
    if tokenizers.__version__ not in ("0.22.2", "0.23.3") or unicodedata2.unidata_version != "16.0.0":
        sys.exit("tokenizers 0.22.2 or 0.23.3 and unicodedata2 16.0.0 are wanted")
    lines = category_lines()
    for step in NORMALIZERS:
        normalizer = made("normalizer", step)
        lines += lines_of("normalizer", step, lambda text, to=normalizer: to.normalize_str("".join(text)))
    nfd = normalizers.NFD()
    lines += lines_of("marks", {"type": "NFD"}, lambda text: "".join(
        nfd.normalize_str("".join("a\u0345" + character + "\u0334" for character in text))))
    lines += class_lines()
    for step in SPLITTERS:
        splitter = made("pre_tokenizer", step)
        lines += lines_of("splitter", step, lambda text, to=splitter: "".join(
            piece + "|" for piece, _ in to.pre_tokenize_str("".join("a" + character for character in text))))
    OUT.write_text("\n".join(lines) + "\n", encoding="ascii")


main()
