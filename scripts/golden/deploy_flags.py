#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds tests/golden/deploy/flags.txt to the engines' sources; exit 1 names what an engine does not have.

    pip download --no-deps --only-binary :all: -d FOLDER vllm==0.33.0 sglang==0.5.23
    pip download --no-deps --no-binary :all: -d FOLDER llama-cpp-python==0.3.36
    deploy_flags.py FOLDER TGI_CLONE TEI_CLONE

The clones are of github.com/huggingface/text-generation-inference and text-embeddings-inference with their tags. Nothing is
installed or run: argument files are read out of the packages. llama.cpp is the one that llama-cpp-python holds, not the build
of the pinned image.
"""
import pathlib
import re
import subprocess
import sys
import tarfile
import zipfile

FLAGS = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/deploy/flags.txt"


class Sources:
    def __init__(self, folder: str, tgi: str, tei: str):
        self.folder = pathlib.Path(folder)
        self.clones = {"TGI": tgi, "TEI": tei}
        self.known = {}

    def text(self, version: str, path: str) -> str:
        if (version, path) not in self.known:
            self.known[version, path] = self.read(version, path)
        return self.known[version, path]

    def read(self, version: str, path: str) -> str:
        name, number = version.split(" ")
        if name in self.clones:
            command = ["git", "-C", self.clones[name], "show", f"v{number}:{path}"]
            return subprocess.run(command, check=True, capture_output=True, text=True).stdout
        if name == "llama_cpp_python":
            with tarfile.open(self.folder / f"{name}-{number}.tar.gz") as package:
                return package.extractfile(f"{name}-{number}/{path}").read().decode()
        (wheel,) = self.folder.glob(f"{name.lower()}-{number}-*.whl")
        with zipfile.ZipFile(wheel) as package:
            return package.read(path).decode()


def options(engine: str, text: str) -> set:
    """The flags that a file of arguments declares."""
    if engine in ("tgi", "tei"):
        # A field under #[clap(..., long, ...)] is a flag of its name.
        found = re.findall(r"#\[clap\(([^\]]*)\)\](?:\s|///[^\n]*|#\[[^\]]*\])*([a-z_]+):", text)
        return {"--" + name.replace("_", "-") for words, name in found if re.search(r"\blong\b", words)}
    if engine == "llama-server":
        lists = re.findall(r"\{\s*((?:\"-[^\"]+\",?\s*)+)\}", text)
        return {flag for one in lists for flag in re.findall(r'"(-[^"]+)"', one)}
    # argparse's own, and fields of a class, whose flags have their names.
    fields = re.findall(r"^    ([a-z][a-z0-9_]*): ", text, re.M)
    return set(re.findall(r'"(--[a-z0-9-]+)"', text)) | {"--" + name.replace("_", "-") for name in fields}


def words(text: str) -> set:
    """The words that a file has as literals, or as members of an enumeration of clap's."""
    members = re.findall(r"^    ([A-Z][A-Za-z0-9]*),", text, re.M)
    kebab = {re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", one).lower() for one in members}
    return kebab | set(re.findall(r'["\'{,]([a-z0-9][a-z0-9-]*)["\'},]', text))


def main() -> int:
    sources = Sources(*sys.argv[1:4])
    count = problems = 0
    for line in FLAGS.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        left, right = line.split(" | ")
        engine, flag, *values = left.split()
        version, path = right.split(", ")
        text = sources.text(version, path)
        is_list_of_words = path.endswith(("__init__.py", "config/model.py", "choices.py", "dtype.rs", "core/src/lib.rs"))
        missing = [] if is_list_of_words or flag in options(engine, text) else [flag]
        missing += [value for value in values if value not in words(text)]
        count += 1
        for one in missing:
            problems += 1
            print(f"{line}: {one} is not there")
    print(f"{count} lines, {problems} problems")
    return 1 if problems else 0


sys.exit(main())
