#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""unit_memory.py BUILD LIMITS [sample | all]: holds the memory that the compiler takes for single units against a file of limits.

Each unit is compiled by the command that BUILD/compile_commands.json has for it, into nothing, and the most that the compiler had at once
(the kernel's count, which does not depend on what else runs) must not be above its limit. A unit that the list names and the build does
not have fails. `sample` takes those that are marked so. Those that are marked `lean` are compiled as they are where
memory is short, with garbage collected often (cmake/shardwise-runtime.cmake).

g++ collects its garbage as the build says for a unit by itself (--param=ggc-min-expand), and otherwise as it does where a machine has 1 GiB
or more: the figures are the same everywhere.
"""
import json
import os
import shlex
import subprocess
import sys

SAME_EVERYWHERE = ["--param=ggc-min-expand=100", "--param=ggc-min-heapsize=131072"]
LEAN = ["--param=ggc-min-expand=10", "--param=ggc-min-heapsize=131072"]


def read_limits(path):
    """Name: (limit in MB, is in the sample, is lean)."""
    limits = {}
    with open(path) as file:
        for line in file:
            words = line.split("#")[0].split()
            if words:
                limits[words[0]] = (int(words[1]), "sample" in words[2:], "lean" in words[2:])
    return limits


def read_commands(build, root):
    """Name of each unit, from the root or, where it was generated, from the build: the command that compiles it into nothing, its folder."""
    found = {}
    with open(os.path.join(build, "compile_commands.json")) as file:
        for entry in json.load(file):
            words = shlex.split(entry["command"])
            words[words.index("-o") + 1] = "/dev/null"
            if not any(word.startswith("--param=ggc-min-expand") for word in words):
                words += SAME_EVERYWHERE
            name = os.path.relpath(entry["file"], build)
            found["build:" + name if not name.startswith("..") else os.path.relpath(entry["file"], root)] = (
                words, entry["directory"])
    return found


def compile_unit(words, folder):
    """MB and CPU seconds of the compiler."""
    child = subprocess.Popen(words, cwd=folder)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if status != 0:
        sys.exit(f"does not compile: {shlex.join(words)}")
    return usage.ru_maxrss / 1024, usage.ru_utime


def main():
    build, path = os.path.abspath(sys.argv[1]), sys.argv[2]
    takes_all = sys.argv[3:] == ["all"]
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    limits = read_limits(path)
    units = read_commands(build, root)
    names = [name for name in limits if takes_all or limits[name][1]]
    failed = [f"{name} is in {path}, but not in the build" for name in names if name not in units]
    if not names:
        failed.append(f"{path} names no unit to compile")
    for name in names:
        if name not in units:
            continue
        words, folder = units[name]
        took, seconds = compile_unit(words + LEAN if limits[name][2] else words, folder)
        print(f"{took:6.0f} MB, at most {limits[name][0]}; {seconds:5.1f} s: {name}", flush=True)
        if took > limits[name][0]:
            failed.append(f"{name}: the compiler takes {took:.0f} MB, and {path} allows {limits[name][0]}")
    print("\n".join(failed), file=sys.stderr)
    sys.exit(1 if failed else 0)


main()
