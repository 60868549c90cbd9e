# SPDX-License-Identifier: Apache-2.0
"""What the golden scripts of both dialects share: a case is two lines, the options with the library's answer, then the tree."""

import argparse
import json
import random
import signal
import subprocess
import sys

import accelerate_random

FAILURES = (IndexError, KeyError, AttributeError, RuntimeError, ValueError, TimeoutError, UnboundLocalError)


def as_limits(max_memory):
    return {int(key) if key.isdigit() else key: value for key, value in max_memory.items()}


def expectation(found, budgets, said):
    return {"map": {key: str(value) for key, value in found.items()},
            "budgets": {str(key): int(value) for key, value in budgets.items() if key != "disk"},
            "warns": any("bytes of buffer for offloaded layers" in text for text in said)}


def is_telling(rng, expect):
    """Golden data keeps few of the cases in which everything goes to one place or the library fails."""
    if "raises" in expect:
        return rng.random() < (0.4 if expect["raises"] in ("IndexError", "KeyError") else 0.1)
    return len(expect["map"]) > 2 or rng.random() < 0.15


def cases(make, count, seed, is_golden=False):
    rng = random.Random(seed)
    made = 0
    while made < count:
        tree = accelerate_random.tree(rng)
        if is_golden and len(json.dumps(tree, separators=(",", ":"))) > 1500:
            continue
        case = make(rng, tree)
        if is_golden and not is_telling(rng, case["expect"]):
            continue
        made += 1
        yield case, tree


def lines(case, tree):
    return json.dumps(case, separators=(",", ":")) + "\n" + json.dumps(tree, separators=(",", ":")) + "\n"


def differs(expect, got):
    if "raises" in expect:
        # Half bytes and limits for disk make the libraries raise too, but leave nothing to repair.
        return expect["raises"] in ("IndexError", "KeyError", "ValueError") and not got["is_repaired"]
    return got["is_repaired"] or any(expect[key] != got[key] for key in ("map", "budgets", "warns"))


def check(driver, made):
    text = "".join(lines(case, tree) for case, tree in made)
    out = subprocess.run(driver.split(), input=text, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(out) == len(made), (len(out), len(made))
    wrong = 0
    kinds = {}
    for (case, tree), line in zip(made, out):
        kind = case["expect"].get("raises", "map")
        kinds[kind] = kinds.get(kind, 0) + 1
        if differs(case["expect"], json.loads(line)):
            wrong += 1
            if wrong <= 3:
                print(json.dumps(case), json.dumps(tree), "got", line, sep="\n")
    print(f"{len(made)} cases, {wrong} differ; {kinds}")
    return wrong


def main(make):
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--out", help="golden data to write")
    parser.add_argument("--check", metavar="DRIVER", help="program to compare with")
    args = parser.parse_args()

    def stop(*_):
        raise TimeoutError

    signal.signal(signal.SIGALRM, stop)
    if args.out:
        with open(args.out, "w") as file:
            for case, tree in cases(make, args.cases, args.seed, is_golden=True):
                file.write(lines(case, tree))
    if args.check:
        sys.exit(1 if check(args.check, list(cases(make, args.cases, args.seed))) else 0)
