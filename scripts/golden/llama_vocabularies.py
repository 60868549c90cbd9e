#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares a program with llama.cpp's own cases: FOLDER/ggml-vocab-*.gguf with their texts (.inp) and ids (.out).

Run as llama_vocabularies.py PROGRAM FOLDER, where PROGRAM is made of scripts/golden/tokenize_texts.cpp and FOLDER is models/ of llama.cpp
(b9310 and others; it comes with the source distribution of llama-cpp-python). Vocabularies without cases are only loaded. The exit status is 1
where an id differs; vocabularies that are refused are named.
"""

import pathlib
import subprocess
import sys

SEPARATOR = "\n__ggml_vocab_test__\n"


def run(program, path, texts):
    joined = "".join(text + "\x01" for text in texts).encode()
    ran = subprocess.run([program, str(path), "--plain"], input=joined, capture_output=True, check=False)
    if ran.returncode != 0:
        return None, ran.stderr.decode().strip()
    return [answer.split("\x02")[0].split() for answer in ran.stdout.decode(errors="replace").split("\x01")[:-1]], ""


def main():
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    total = differ = 0
    for path in sorted(folder.glob("ggml-vocab-*.gguf")):
        cases = pathlib.Path(str(path) + ".inp")
        texts = cases.read_text(encoding="utf-8").split(SEPARATOR) if cases.exists() else []
        wanted = pathlib.Path(str(path) + ".out").read_text(encoding="utf-8").split("\n") if texts else []
        answers, refusal = run(program, path, texts)
        if answers is None:
            print(f"{path.name}: refused: {refusal}")
            continue
        wrong = 0
        for text, ours, theirs in zip(texts, answers, wanted, strict=False):
            if ours != theirs.split():
                wrong += 1
                if wrong <= 3:
                    print(f"  {text!r}\n    ours   {' '.join(ours)}\n    theirs {theirs.strip()}")
        total += len(texts)
        differ += wrong
        print(f"{path.name}: {len(texts)} texts, {wrong} differ")
    print(f"{total} texts, {differ} differ")
    sys.exit(differ != 0)


main()
