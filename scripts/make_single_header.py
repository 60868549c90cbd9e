#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the planning half as one header: shardwise/shardwise.hpp with all that it includes of shardwise in its place.

    scripts/make_single_header.py OUTPUT [HEADER...]

HEADER, relative to include/, names other headers to start from (default: shardwise/shardwise.hpp). A header that needs a
third-party library still includes it. The single header replaces include/: do not use both in one program.
"""

import pathlib
import re
import sys

INCLUDE_FOLDER = pathlib.Path(__file__).resolve().parent.parent / "include"
OWN_INCLUDE = re.compile(r"\s*#\s*include\s*<(shardwise/[^>]+)>")
OTHER_INCLUDE = re.compile(r"\s*#\s*include\s*<([^>]+)>")
CONDITION = re.compile(r"\s*#\s*(if|endif)")


VERSION = re.compile(r"^#define SHARDWISE_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", re.MULTILINE)
BOTH_FORMS = "the single header and include/ of shardwise are in one unit: include one of them"


def version():
    return ".".join(VERSION.findall((INCLUDE_FOLDER / "shardwise/core/version.hpp").read_text()))


class Amalgamation:
    def __init__(self):
        self.seen = set()
        self.others = set()
        self.lines = []

    def add(self, name):
        if name in self.seen:
            return
        self.seen.add(name)
        depth = 0  # of #if: what is included there belongs there
        body = []
        for line in (INCLUDE_FOLDER / name).read_text().splitlines():
            if match := CONDITION.match(line):
                depth += 1 if match[1] == "if" else -1
            if own := OWN_INCLUDE.match(line):
                if depth > 0:
                    sys.exit(f"make_single_header: {name} includes {own[1]} under a condition, which cannot be joined")
                self.add(own[1])
            elif depth == 0 and (other := OTHER_INCLUDE.match(line)):
                self.others.add(other[1])
            elif line.strip() != "#pragma once" and not line.startswith("// SPDX-License-Identifier:"):
                body.append(line)
        self.lines += ["", f"// {name}"] + "\n".join(body).strip("\n").split("\n")

    def text(self):
        third_party = sorted(other for other in self.others if "/" in other and not other.startswith("sys/"))
        standard = sorted(self.others.difference(third_party))
        head = ["// SPDX-License-Identifier: Apache-2.0",
                f"// shardwise {version()} in one file, made by scripts/make_single_header.py; edit its sources instead.",
                "#pragma once", "",
                "#if defined(SHARDWISE_VERSION_MAJOR)", f'#error "{BOTH_FORMS}"', "#else", ""]
        head += [f"#include <{other}>" for other in third_party + standard]
        # core/version.hpp refuses include/ after this file by the macro.
        tail = ["", "#define SHARDWISE_SINGLE_HEADER 1", "#endif"]
        return "\n".join(head + self.lines + tail) + "\n"


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit("usage: make_single_header.py OUTPUT [HEADER...]")
    single = Amalgamation()
    for name in sys.argv[2:] or ["shardwise/shardwise.hpp"]:
        if not (INCLUDE_FOLDER / name).is_file():
            sys.exit(f"make_single_header: include/{name} does not exist")
        single.add(name)
    output = pathlib.Path(sys.argv[1])
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(single.text())


if __name__ == "__main__":
    main()
