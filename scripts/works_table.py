#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the table of docs/what-works.md from docs/works.txt, or checks it.

    scripts/works_table.py            writes the table between its two marks
    scripts/works_table.py --check BUILD_FOLDER

The check fails where the table is another one, where ctest in BUILD_FOLDER does not know an entry, and where no test file of
the entry's room has the case.
"""

import fnmatch
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BEGIN = "<!-- works: by scripts/works_table.py from docs/works.txt -->"
END = "<!-- /works -->"
CASE = re.compile(r'TEST_CASE(?:_TEMPLATE)?\(\s*"((?:[^"\\]|\\.)*)"')
# A long name is written as two string literals, one after the other.
SPLIT = re.compile(r'(?<=[^"\\])"\n\s*"')


def read_claims():
    for number, line in enumerate((ROOT / "docs/works.txt").read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        parts = [part.strip() for part in line.split(" | ")]
        if len(parts) not in (2, 3) or not all(parts):
            sys.exit(f"docs/works.txt:{number}: expected 'claim | ctest entry' or 'claim | ctest entry | doctest case'")
        yield parts if len(parts) == 3 else [*parts, None]


def room_of(entry):
    """The folder of a room's tests: model_files is the one that lies in another."""
    return ROOT / "tests" / ("model/files" if entry == "model_files" else entry)


def file_of(entry, case):
    """The test file with the case, or None."""
    folder = room_of(entry)
    # Cases over back ends are in headers.
    for path in sorted([*folder.rglob("*_test.cpp"), *folder.rglob("*_cases.hpp")]):
        if case in CASE.findall(SPLIT.sub("", path.read_text())):
            return path.relative_to(ROOT)
    return None


def table(claims):
    lines = ["| what works | the test that proves it |", "|---|---|"]
    for claim, entry, case in claims:
        path = file_of(entry, case) if case else None
        lines.append(f"| {claim} | " + (f"[`{entry}`](../{path})" if path else f"`{entry}`") + " |")
    return "\n".join(lines)


def problems(claims, build):
    listing = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], check=True, capture_output=True, text=True)
    known = {test["name"] for test in json.loads(listing.stdout)["tests"]}
    for claim, entry, case in claims:
        if not fnmatch.filter(known, entry):
            yield f"docs/works.txt: '{claim}': ctest has no entry '{entry}'"
        elif case and not file_of(entry, case):
            yield f"docs/works.txt: '{claim}': {room_of(entry).relative_to(ROOT)} has no case '{case}'"


def main():
    if len(sys.argv) not in (1, 3) or (len(sys.argv) == 3 and sys.argv[1] != "--check"):
        sys.exit("usage: works_table.py [--check BUILD_FOLDER]")
    claims = list(read_claims())
    page = (ROOT / "docs/what-works.md").read_text()
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"docs/what-works.md: the marks '{BEGIN}' and '{END}' are missing")
    made = f"{before}{BEGIN}\n{table(claims)}\n{END}{after}"
    if len(sys.argv) == 1:
        (ROOT / "docs/what-works.md").write_text(made)
        return
    found = list(problems(claims, sys.argv[2]))
    if made != page:
        found.append("docs/what-works.md: the table is not that of docs/works.txt; run scripts/works_table.py")
    for line in found:
        print(line)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
