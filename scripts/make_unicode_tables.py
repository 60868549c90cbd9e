#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes include/shardwise/tokenizer/unicode_*_table.hpp from Python's unicodedata.

Each table is one string of fixed-width numbers in base 64 (characters '#' to 'b', most significant first), which costs a
compiler next to nothing and is searched where it lies. Run with a Python whose unicodedata has the version below.
"""

import pathlib
import sys
import unicodedata

UNICODE = "14.0.0"
ROOM = pathlib.Path(__file__).resolve().parents[1] / "include/shardwise/tokenizer"
CODE_POINTS = range(0x110000)
HANGUL = range(0xAC00, 0xD7A4)

# The order of shardwise::UnicodeCategory.
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn".split()


def number(value, width):
    assert 0 <= value < 64**width, value
    return "".join(chr(35 + (value >> (6 * i) & 63)) for i in reversed(range(width)))


def literal(name, text, about):
    lines = [text[i:i + 114] for i in range(0, len(text), 114)]
    quoted = "\n".join('    "' + line.replace("\\", "\\\\") + '"' for line in lines)
    return f"/// {about}\ninline constexpr std::string_view {name} =\n{quoted};\n"


def category_runs():
    runs, before = [], None
    for code in CODE_POINTS:
        category = unicodedata.category(chr(code))
        if category != before:
            runs.append(number(code, 4) + number(CATEGORIES.index(category), 1))
            before = category
    return "".join(runs)


def combining_runs():
    runs, before = [], 0
    for code in CODE_POINTS:
        combining = unicodedata.combining(chr(code))
        if combining != before:
            runs.append(number(code, 3) + number(combining, 2))
            before = combining
    return "".join(runs)


def lowercase_pairs():
    pairs = []
    for code in CODE_POINTS:
        lower = chr(code).lower()
        if len(lower) == 1 and lower != chr(code):
            pairs.append(number(code, 3) + number(ord(lower), 3))
    return "".join(pairs)


def decompositions(is_compatible):
    """Full decompositions: runs of code points (first, number of the first), where each one's text begins, the texts."""
    found = []
    form = "NFKD" if is_compatible else "NFD"
    for code in CODE_POINTS:
        if code in HANGUL or 0xD800 <= code < 0xE000:
            continue
        canonical = unicodedata.normalize("NFD", chr(code))
        text = unicodedata.normalize(form, chr(code))
        if text != (canonical if is_compatible else chr(code)):
            found.append((code, text))
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
    for code in CODE_POINTS:
        if code in HANGUL or 0xD800 <= code < 0xE000:
            continue
        parts = unicodedata.decomposition(chr(code)).split()
        if len(parts) == 2 and not parts[0].startswith("<") and unicodedata.normalize("NFC", chr(code)) == chr(code):
            pairs.append((int(parts[0], 16), int(parts[1], 16), code))
    return "".join(number(first, 3) + number(second, 3) + number(code, 3) for first, second, code in sorted(pairs))


def write(name, tables):
    head = f"""#pragma once

// Written by scripts/make_unicode_tables.py from the Unicode Character Database {UNICODE}; numbers in base 64 from '#'.

#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {{

// clang-format off
"""
    text = head + "\n".join(literal(*table) for table in tables)
    text += "// clang-format on\n\n}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail\n"
    (ROOM / name).write_text(text, encoding="ascii")


def main():
    if unicodedata.unidata_version != UNICODE:
        sys.exit(f"unicodedata {unicodedata.unidata_version} found, {UNICODE} wanted")
    write("unicode_class_table.hpp", [
        ("category_runs", category_runs(), "Where a run of one general category begins (4), and which (1)."),
        ("combining_runs", combining_runs(), "Where a run of one canonical combining class begins (3), and which (2)."),
        ("lowercase_pairs", lowercase_pairs(), "A code point (3) and its simple lower case (3)."),
    ])
    for kind in ("canonical", "compatible"):
        runs, starts, texts = decompositions(kind == "compatible")
        tables = [
            (f"{kind}_runs", runs, "Where a run of decomposed code points begins (3), and the index of its first (3)."),
            (f"{kind}_starts", starts, "Where the decomposition of each index begins (3), and an end."),
            (f"{kind}_texts", texts, "The code points of all full decompositions (3 each)."),
        ]
        if kind == "canonical":
            tables.append(("composition_triples", compositions(), "Two code points and their primary composite (3 each)."))
        write(f"unicode_{kind}_table.hpp", tables)


main()
