#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/safetensors_cases.jsonl: what safetensors itself says of whole files, good and malformed.

    python3 -m venv VENV && VENV/bin/pip install safetensors==0.8.0
    git clone https://github.com/huggingface/safetensors REPO
    VENV/bin/python scripts/golden/safetensors_cases.py REPO

The cases named "tensor.rs ..." and "test_*.py ..." are the byte strings of that repository's own tests (commit 24b0b28,
Apache-2.0, Copyright The HuggingFace Team), cut out of their sources; the others are ours: repeated keys, further
members, odd values. One line per case: its name, the file in base64, whether the package accepts it, the tensors that it
then lists (dtype, shape), else its error.
"""

import ast
import base64
import json
import pathlib
import re
import subprocess
import sys

import safetensors

VERSION = "0.8.0"
OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "safetensors_cases.jsonl"


def rust_cases(repository):
    """Byte strings of the tests of safetensors/src/tensor.rs, and what serialize gives there as numbers."""
    source = (repository / "safetensors/src/tensor.rs").read_text()
    source = source[source.index("mod tests"):]
    for test in re.finditer(r"fn (test_\w+)\(\) \{(.*?)\n    \}", source, re.S):
        name, body = test.group(1), test.group(2)
        found = []
        for text in re.findall(r'let serialized = (b"(?:[^"\\]|\\.)*");', body):
            found.append(ast.literal_eval(text))
        for numbers in re.findall(r"assert_eq!\(\s*out,\s*\[(.*?)\]", body, re.S):
            numbers = re.sub(r"//[^\n]*", "", numbers)
            found.append(bytes(int(number) for number in numbers.split(",") if number.strip()))
        for i, data in enumerate(found):
            yield f"tensor.rs {name} {i}", data


def python_cases(repository):
    """Byte strings that look like whole files in the tests of the Python package; adjacent literals are one."""
    for path in sorted((repository / "bindings/python/tests").glob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Constant) or not isinstance(node.value, bytes) or len(node.value) < 9:
                continue
            data = node.value
            if data.startswith(b"{"):
                # A header alone: the test writes its length before it and a byte after it.
                data = len(data).to_bytes(8, "little") + data + b"\0"
            elif data[8:9] != b"{":
                continue
            yield f"{path.name} line {node.lineno}", data


def own_cases():
    entry = '"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}'
    cases = {
        "member after": '{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2],"note":"x"}}',
        "member before": '{"a":{"note":1,"dtype":"U8","shape":[2],"data_offsets":[0,2]}}',
        "members of every kind": '{"a":{"n":null,"t":true,"i":1,"r":1.5,"s":"x","l":[1,[2],{}],"o":{"dtype":"F32"},'
                                 '"dtype":"U8","shape":[2],"data_offsets":[0,2]}}',
        "member with nested members": '{"a":{"x":{"dtype":"F32","shape":[9],"data_offsets":[5,6]},"dtype":"U8",'
                                      '"shape":[2],"data_offsets":[0,2]}}',
        "further member twice": '{"a":{"x":1,"dtype":"U8","x":2,"shape":[2],"data_offsets":[0,2]}}',
        "key twice within a further member": '{"a":{"x":{"y":1,"y":2},"dtype":"U8","shape":[2],"data_offsets":[0,2]}}',
        "member with an empty name": '{"a":{"":1,"dtype":"U8","shape":[2],"data_offsets":[0,2]}}',
        "member __metadata__": '{"a":{"__metadata__":{},"dtype":"U8","shape":[2],"data_offsets":[0,2]}}',
        "member deep within": '{"a":{"x":' + "[" * 100 + "]" * 100 + ',"dtype":"U8","shape":[2],"data_offsets":[0,2]}}',
        "member too deep": '{"a":{"x":' + "[" * 200 + "]" * 200 + ',"dtype":"U8","shape":[2],"data_offsets":[0,2]}}',
        "member not closed": '{"a":{"x":[1,"dtype":"U8","shape":[2],"data_offsets":[0,2]}}',
        "member of other case": '{"a":{"Dtype":"F32","dtype":"U8","shape":[2],"data_offsets":[0,2]}}',
        "dtype twice": '{"a":{"dtype":"U8","dtype":"U8","shape":[2],"data_offsets":[0,2]}}',
        "shape twice": '{"a":{"dtype":"U8","shape":[2],"shape":[2],"data_offsets":[0,2]}}',
        "offsets twice": '{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2],"data_offsets":[0,2]}}',
        "tensor twice, the same": "{" + entry + "," + entry + "}",
        "tensor twice, the last fits": '{"a":{"dtype":"U8","shape":[9],"data_offsets":[0,9]},' + entry + "}",
        "tensor twice, the first fits": "{" + entry + ',"a":{"dtype":"U8","shape":[9],"data_offsets":[0,9]}}',
        "tensor twice, of another dtype": "{" + entry + ',"a":{"dtype":"I8","shape":[2],"data_offsets":[0,2]}}',
        "tensor twice by an escape": "{" + entry + ',"\\u0061":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}',
        "metadata twice": '{"__metadata__":{},"__metadata__":{},' + entry + "}",
        "key twice in metadata": '{"__metadata__":{"x":"1","x":"2"},' + entry + "}",
        "metadata null": '{"__metadata__":null,' + entry + "}",
        "metadata with a number": '{"__metadata__":{"x":1},' + entry + "}",
        "metadata with an object": '{"__metadata__":{"x":{}},' + entry + "}",
        "metadata a list": '{"__metadata__":[],' + entry + "}",
        "metadata empty": '{"__metadata__":{},' + entry + "}",
        "tensor null": '{"a":null}',
        "tensor a number": '{"a":1}',
        "tensor as a list": '{"a":["U8",[2],[0,2]]}',
        "dtype unknown": '{"a":{"dtype":"X8","shape":[2],"data_offsets":[0,2]}}',
        "dtype of other case": '{"a":{"dtype":"u8","shape":[2],"data_offsets":[0,2]}}',
        "shape null": '{"a":{"dtype":"U8","shape":null,"data_offsets":[0,2]}}',
        "shape with a fraction": '{"a":{"dtype":"U8","shape":[2.0],"data_offsets":[0,2]}}',
        "shape negative": '{"a":{"dtype":"U8","shape":[-2],"data_offsets":[0,2]}}',
        "shape minus zero": '{"a":{"dtype":"U8","shape":[-0],"data_offsets":[0,0]},"b":{"dtype":"U8","shape":[2],'
                            '"data_offsets":[0,2]}}',
        "offsets of three": '{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2,2]}}',
        "offsets of one": '{"a":{"dtype":"U8","shape":[2],"data_offsets":[0]}}',
        "no dtype": '{"a":{"shape":[2],"data_offsets":[0,2]}}',
        "no shape": '{"a":{"dtype":"U8","data_offsets":[0,2]}}',
        "no offsets": '{"a":{"dtype":"U8","shape":[2]}}',
        "top level a list": "[]",
        "empty name": '{"":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}',
        "trailing comma": "{" + entry + ",}",
        "text after": "{" + entry + "}x",
        "blanks around": " \n\t\r{" + entry + "}  \n",
        "byte order mark": "\ufeff{" + entry + "}",
        "a form feed": "{" + entry + "}\f",
        "a NUL after": "{" + entry + "}\0",
        "lone surrogate": '{"\\ud800":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}',
        "nine dimensions": '{"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,2],"data_offsets":[0,2]}}',
        "eight dimensions": '{"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,2],"data_offsets":[0,2]}}',
        "zero times much": '{"a":{"dtype":"U8","shape":[0,9223372036854775807,9223372036854775807],'
                           '"data_offsets":[0,0]},"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}',
        "empty tensor within another": '{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},'
                                       '"b":{"dtype":"U8","shape":[0],"data_offsets":[1,1]}}',
        "empty tensor at the end": '{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},'
                                   '"b":{"dtype":"U8","shape":[0],"data_offsets":[2,2]}}',
    }
    for name, header in cases.items():
        header = header.encode("utf-8", "surrogatepass")
        yield name, len(header).to_bytes(8, "little") + header + b"ab"


def main():
    if safetensors.__version__ != VERSION:
        sys.exit(f"safetensors {VERSION} is wanted, not {safetensors.__version__}")
    repository = pathlib.Path(sys.argv[1])
    commit = subprocess.run(["git", "-C", repository, "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
    with OUT.open("w") as out:
        about = {"source": "https://github.com/huggingface/safetensors", "commit": commit, "license": "Apache-2.0",
                 "package": f"safetensors {VERSION}"}
        print(json.dumps(about), file=out)
        for name, data in [*rust_cases(repository), *python_cases(repository), *own_cases()]:
            row = {"name": name, "file": base64.b64encode(data).decode()}
            try:
                tensors = safetensors.deserialize(data)
                row["accepted"] = True
                row["tensors"] = {key: [info["dtype"], list(info["shape"])] for key, info in sorted(tensors)}
            except safetensors.SafetensorError as error:
                row["accepted"] = False
                row["error"] = str(error)[:120]
            print(json.dumps(row), file=out)


if __name__ == "__main__":
    main()
