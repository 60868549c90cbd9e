#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/json_suite.jsonl: the cases of JSONTestSuite, and texts whose keys stand twice, with what Python reads.

    git clone https://github.com/nst/JSONTestSuite REPO
    python3 scripts/golden/json_suite.py REPO

The cases named y_, n_ and i_ are the files of test_parsing/ of that repository (commit 1ef36fa, MIT, Copyright (c) 2016
Nicolas Seriot); those named repeated_ are ours. One line per case: its name, the text in base64, or what is repeated how
often where it is long, and `python`: what json.loads makes of it, written by json.dumps; absent where it refuses the text.
"""

import base64
import json
import pathlib
import subprocess
import sys

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "json_suite.jsonl"

REPEATED = {
    "differs": '{"a":1,"a":2}',
    "same": '{"a":1,"a":1}',
    "same_list": '{"a":[1,{"b":"c"}],"a":[1,{"b":"c"}]}',
    "longer_list": '{"a":[1],"a":[1,2]}',
    "other_kind": '{"a":1,"a":1.0}',
    "other_text": '{"a":"1","a":"2"}',
    "three_times": '{"a":1,"b":0,"a":2,"a":1}',
    "by_an_escape": '{"a":1,"\\u0061":2}',
    "empty": '{"":1,"":2}',
    "nested": '{"x":{"y":{"a":1,"a":2}}}',
    "in_a_list": '[{"a":1,"a":2},{"a":3}]',
    "object_then_number": '{"a":{"b":1,"b":2},"a":3}',
    "number_then_object": '{"a":3,"a":{"b":1,"b":2}}',
    "two_keys": '{"a":1,"b":1,"a":2,"b":2}',
    "not_in_one_object": '{"a":{"a":1}}',
}


def long_text(data):
    """(part, count) where a long text is one part many times over."""
    for size in range(1, 16):
        part = data[:size]
        if data.rstrip(b"\n") == part * (len(data.rstrip(b"\n")) // size) and len(data) > 1000:
            return part, len(data.rstrip(b"\n")) // size
    return None


def python_value(data):
    try:
        text = data.decode("utf-8")
        value = json.loads(text)
        return json.dumps(value)
    except (ValueError, RecursionError):
        return None


def row_of(name, data):
    row = {"name": name}
    repeated = long_text(data)
    if repeated:
        row["part"], row["count"] = base64.b64encode(repeated[0]).decode(), repeated[1]
    else:
        row["text"] = base64.b64encode(data).decode()
    value = python_value(data)
    if value is not None:
        row["python"] = value
    return row


def main():
    repository = pathlib.Path(sys.argv[1])
    commit = subprocess.run(["git", "-C", repository, "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
    about = {"source": "https://github.com/nst/JSONTestSuite", "commit": commit, "license": "MIT",
             "copyright": "Copyright (c) 2016 Nicolas Seriot", "python": sys.version.split()[0]}
    with OUT.open("w") as out:
        print(json.dumps(about), file=out)
        for path in sorted((repository / "test_parsing").glob("*.json")):
            print(json.dumps(row_of(path.stem, path.read_bytes())), file=out)
        for name, text in REPEATED.items():
            print(json.dumps(row_of("repeated_" + name, text.encode())), file=out)


if __name__ == "__main__":
    main()
