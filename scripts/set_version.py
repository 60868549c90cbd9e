#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sets the version, or checks that all who name it agree.

    scripts/set_version.py MAJOR.MINOR.PATCH [--root FOLDER]
    scripts/set_version.py --check [--root FOLDER]

core/version.hpp is the one place; CMake, Conan, the .pc files and the inline namespace of every header read it there. vcpkg
cannot: this script writes its manifests. In CHANGELOG.md the section Unreleased becomes the version's; the check wants its
newest entry to be this version, and every header to open its namespace as SHARDWISE_NAMESPACE.
"""

import argparse
import datetime
import pathlib
import re
import sys

UNVERSIONED = re.compile(r"^\s*namespace shardwise(?!::inline SHARDWISE_NAMESPACE\b)", re.MULTILINE)
MACRO = re.compile(r"^#define SHARDWISE_VERSION_(MAJOR|MINOR|PATCH) (\d+)$", re.MULTILINE)
MANIFEST_VERSION = re.compile(r'("version-semver": )"([^"]*)"')
UNRELEASED = re.compile(r"^## \[Unreleased\]$", re.MULTILINE)
CHANGELOG_ENTRY = re.compile(r"^## \[(\d[^\]]*)\]", re.MULTILINE)
MANIFESTS = ("vcpkg.json", "ports/shardwise/vcpkg.json")


OWN_INCLUDE = re.compile(r"^#include <(shardwise/[^>]+)>", re.MULTILINE)


def headers(root):
    return sorted(path for ending in ("hpp", "cuh", "cu") for path in (root / "include").rglob("*." + ending))


def version_header(root):
    return root / "include/shardwise/core/version.hpp"


def reaches_version(root, path, seen):
    """Whether a header includes core/version.hpp, by itself or through others of ours."""
    if path == version_header(root):
        return True
    seen.add(path)
    included = [root / "include" / name for name in OWN_INCLUDE.findall(path.read_text())]
    return any(next not in seen and reaches_version(root, next, seen) for next in included)


def rewrite(path, pattern, replacement):
    old = path.read_text()
    new = pattern.sub(replacement, old)
    if new != old:
        path.write_text(new)


def set_version(root, version):
    parts = dict(zip(("MAJOR", "MINOR", "PATCH"), version.split(".")))
    rewrite(version_header(root), MACRO, lambda match: f"#define SHARDWISE_VERSION_{match[1]} {parts[match[1]]}")
    for name in MANIFESTS:
        if (root / name).exists():
            rewrite(root / name, MANIFEST_VERSION, rf'\g<1>"{version}"')
    if (root / "CHANGELOG.md").exists():
        rewrite(root / "CHANGELOG.md", UNRELEASED, f"## [{version}] - {datetime.date.today()}")


def disagreements(root):
    numbers = dict(MACRO.findall(version_header(root).read_text()))
    version = ".".join(numbers[part] for part in ("MAJOR", "MINOR", "PATCH"))
    for name in MANIFESTS:
        found = MANIFEST_VERSION.search((root / name).read_text())
        if not found or found[2] != version:
            yield f"{name}: says {found[2] if found else 'nothing'}, core/version.hpp says {version}"
    newest = CHANGELOG_ENTRY.search((root / "CHANGELOG.md").read_text())
    if not newest or newest[1] != version:
        yield f"CHANGELOG.md: the newest entry is {newest[1] if newest else 'missing'}, core/version.hpp says {version}"
    for path in headers(root):
        text = path.read_text()
        if UNVERSIONED.search(text):
            yield f"{path.relative_to(root)}: opens the namespace without inline SHARDWISE_NAMESPACE"
        # Where the macro is not known, the namespace has its name.
        if "SHARDWISE_NAMESPACE" in text and not reaches_version(root, path, set()):
            yield f"{path.relative_to(root)}: opens the namespace without including shardwise/core/version.hpp"


def main():
    parser = argparse.ArgumentParser(description="Sets the version, or checks that all who name it agree.")
    parser.add_argument("version", nargs="?")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    arguments = parser.parse_args()
    if arguments.check == bool(arguments.version):
        parser.error("give either a version or --check")
    if arguments.version:
        if not re.fullmatch(r"(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}", arguments.version):
            parser.error(f"'{arguments.version}' is not MAJOR.MINOR.PATCH")
        set_version(arguments.root, arguments.version)
        return
    found = list(disagreements(arguments.root))
    for line in found:
        print(line)
    if found:
        sys.exit("set_version: one version has several names; scripts/set_version.py VERSION writes all but CHANGELOG.md")


if __name__ == "__main__":
    main()
