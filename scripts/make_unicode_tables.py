#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes include/shardwise/tokenizer/unicode_*_table.hpp: Unicode as Hugging Face tokenizers knows it.

Its parts know different versions. Regular expressions (Oniguruma) have 16.0.0, which unicodedata2 gives; numbers and lower case are
those of Rust's standard library; normalisation forms, marks, punctuation and control characters are those of older crates. All but
the categories are asked of tokenizers itself, code point by code point.

Each table is one string of fixed-width numbers in base 64 (characters '#' to 'b', most significant first), which costs a
compiler next to nothing and is searched where it lies. Run with a Python that has both packages in the versions below.
"""

import pathlib
import sys

import tokenizers
import unicodedata2
from tokenizers import normalizers, pre_tokenizers

UNICODE = "16.0.0"
TOKENIZERS = ("0.22.2", "0.23.3")  # they give the same tables
ROOM = pathlib.Path(__file__).resolve().parents[1] / "include/shardwise/tokenizer"
CODE_POINTS = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
HANGUL = range(0xAC00, 0xD7A4)

# The order of shardwise::UnicodeCategory.
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn".split()


def bert(**flags):
    off = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False}
    return normalizers.BertNormalizer(**{**off, **flags})


def changed(normalizer):
    """What becomes of the code points that a normaliser changes."""
    texts = ((code, normalizer.normalize_str(chr(code))) for code in CODE_POINTS)
    return {code: text for code, text in texts if text != chr(code)}


def removed(normalizer):
    return {code for code, text in changed(normalizer).items() if not text}


def cut_at(splitter):
    """The code points that are a piece of their own between two letters."""
    return {code for code in CODE_POINTS
            if [text for text, _ in splitter.pre_tokenize_str(f"a{chr(code)}b")] == ["a", chr(code), "b"]}


def number(value, width):
    assert 0 <= value < 64**width, value
    return "".join(chr(35 + (value >> (6 * i) & 63)) for i in reversed(range(width)))


def literal(name, text, about):
    lines = [text[i:i + 114] for i in range(0, len(text), 114)]
    quoted = "\n".join('    "' + line.replace("\\", "\\\\") + '"' for line in lines)
    return f"/// {about}\ninline constexpr std::string_view {name} =\n{quoted};\n"


def category_runs():
    runs, before = [], None
    for code in range(0x110000):
        category = unicodedata2.category(chr(code))
        if category != before:
            runs.append(number(code, 4) + number(CATEGORIES.index(category), 1))
            before = category
    return "".join(runs)


def borders(members):
    """Where a set begins and ends, again and again."""
    return "".join(number(code, 4) for code in range(0x110000) if (code in members) != (code - 1 in members))


def combining_runs(nfd):
    """The classes of those marks that tokenizers sorts between one of class 240 and one of class 1."""
    runs, before = [], 0
    for code in range(0x110000):
        combining = unicodedata2.combining(chr(code))
        if combining:
            unsorted = "\u0345" + nfd.get(code, chr(code)) + "\u0334"
            combining *= normalizers.NFD().normalize_str(unsorted) != unsorted
        if combining != before:
            runs.append(number(code, 3) + number(combining, 2))
            before = combining
    return "".join(runs)


def lowercase_pairs():
    lower = changed(normalizers.Lowercase())
    assert [code for code in lower if len(lower[code]) > 1] == [0x130]
    return "".join(number(code, 3) + number(ord(lower[code]), 3) for code in sorted(lower) if code != 0x130)


def decompositions(texts_of):
    """Full decompositions: runs of code points (first, number of the first), where each one's text begins, the texts."""
    found = [(code, texts_of[code]) for code in sorted(texts_of) if code not in HANGUL]
    runs, starts, texts, length = "", "", "", 0
    for index, (code, text) in enumerate(found):
        if index == 0 or found[index - 1][0] + 1 != code:
            runs += number(code, 3) + number(index, 3)
        starts += number(length, 3)
        texts += "".join(number(ord(character), 3) for character in text)
        length += len(text)
    return runs, starts + number(length, 3), texts


def compositions():
    pairs = []
    nfc = normalizers.NFC().normalize_str
    for code in CODE_POINTS:
        parts = unicodedata2.decomposition(chr(code)).split()
        if code in HANGUL or len(parts) != 2 or parts[0].startswith("<"):
            continue
        first, second = (int(part, 16) for part in parts)
        if nfc(chr(first) + chr(second)) == chr(code):
            pairs.append((first, second, code))
    return "".join(number(first, 3) + number(second, 3) + number(code, 3) for first, second, code in sorted(pairs))


def write(name, tables):
    head = f"""// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

// Written by scripts/make_unicode_tables.py: Unicode as tokenizers {TOKENIZERS[0]} knows it; numbers in base 64 from '#'.

#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {{

// clang-format off
"""
    text = head + "\n".join(literal(*table) for table in tables)
    text += "// clang-format on\n\n}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail\n"
    (ROOM / name).write_text(text, encoding="ascii")


def main():
    if unicodedata2.unidata_version != UNICODE or tokenizers.__version__ not in TOKENIZERS:
        sys.exit(f"unicodedata2 {UNICODE} and tokenizers {' or '.join(TOKENIZERS)} are wanted")
    nfd = changed(normalizers.NFD())
    nfkd = changed(normalizers.NFKD())
    write("unicode_class_table.hpp", [
        ("category_runs", category_runs(), f"Where a run of one general category of {UNICODE} begins (4), and which (1)."),
        ("combining_runs", combining_runs(nfd), "Where a run of one canonical combining class begins (3), and which (2)."),
        ("lowercase_pairs", lowercase_pairs(), "A code point (3) and its simple lower case (3)."),
    ])
    write("unicode_set_table.hpp", [
        ("numeric_borders", borders(cut_at(pre_tokenizers.Digits(individual_digits=True))), "Where numbers begin and end (4 each)."),
        ("punctuation_borders", borders(cut_at(pre_tokenizers.Punctuation())), "Where punctuation begins and ends (4 each)."),
        ("accent_borders", borders(removed(normalizers.StripAccents())), "Where marks begin and end (4 each)."),
        ("bert_accent_borders", borders(removed(bert(strip_accents=True))), "Where marks of BERT begin and end (4 each)."),
        ("bert_control_borders", borders(removed(bert(clean_text=True))),
         "Where control characters of BERT begin and end (4 each)."),
    ])
    for kind, texts_of in (("canonical", nfd), ("compatible", {code: text for code, text in nfkd.items() if text != nfd.get(code)})):
        runs, starts, texts = decompositions(texts_of)
        tables = [
            (f"{kind}_runs", runs, "Where a run of decomposed code points begins (3), and the index of its first (3)."),
            (f"{kind}_starts", starts, "Where the decomposition of each index begins (3), and an end."),
            (f"{kind}_texts", texts, "The code points of all full decompositions (3 each)."),
        ]
        if kind == "canonical":
            tables.append(("composition_triples", compositions(), "Two code points and their primary composite (3 each)."))
        write(f"unicode_{kind}_table.hpp", tables)


main()
