#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# compile_cost.sh [ROUNDS]: what including this library costs: CPU time and memory of the compiler (CXX, else g++), in multiples of
# what nlohmann/json.hpp costs in the same run, the best of ROUNDS (3). Nothing else should run meanwhile.
#
# Headers are compiled alone with -fsyntax-only; the ten lines are example 06 at -O2, header-only and linked to shardwise::runtime.
# With SHARDWISE_RUNTIME_COST=1 also the units of that library, at -O2.
set -euo pipefail
cd "$(dirname "$0")/.."
exec python3 - "${1:-3}" <<'PYTHON'
import glob, os, subprocess, sys, tempfile

compiler = os.environ.get("CXX", "g++")
rounds = int(sys.argv[1])
work = tempfile.TemporaryDirectory()
flags = ["-std=c++20", "-Iinclude"]


def source(header):
    name = os.path.join(work.name, header.replace("/", "_") + ".cpp")
    with open(name, "w") as out:
        out.write(f"#include <{header}>\n")
    return name


syntax = ["-fsyntax-only"]
optimised = ["-O2", "-c", "-o", os.path.join(work.name, "unit.o")]
example = "examples/06_run/main.cpp"
json = "nlohmann/json.hpp, -fsyntax-only"
json_optimised = "nlohmann/json.hpp, -O2"
rows = {
    json: (json, syntax, source("nlohmann/json.hpp")),
    "shardwise/shardwise.hpp": (json, syntax, source("shardwise/shardwise.hpp")),
    "shardwise/readers.hpp": (json, syntax, source("shardwise/readers.hpp")),
    "shardwise/session/complete_text.hpp": (json, syntax, source("shardwise/session/complete_text.hpp")),
    json_optimised: (json_optimised, optimised, source("nlohmann/json.hpp")),
    "ten lines, header-only, -O2": (json_optimised, optimised, example),
}
if os.path.exists("include/shardwise/core/on_call.hpp"):
    rows["ten lines, linked, -O2"] = (json_optimised, optimised + ["-DSHARDWISE_HAS_RUNTIME=1"], example)
if os.environ.get("SHARDWISE_RUNTIME_COST"):
    for unit in sorted(glob.glob("include/shardwise/session/runtime/*.cpp")):
        rows[unit] = (json_optimised, optimised + ["-DSHARDWISE_HAS_RUNTIME=1"], unit)


def cost(options, name):
    """CPU seconds and MB of one run, its children's included."""
    child = subprocess.Popen([compiler, *flags, *options, name])
    _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        sys.exit(f"{compiler} does not compile {name}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


best = {}
for turn in range(rounds):
    for name, (_, options, unit) in rows.items():
        # Once is enough for what takes minutes.
        if turn > 0 and best[name][0] > 60:
            continue
        seconds, memory = cost(options, unit)
        best[name] = min(best.get(name, (seconds, memory)), (seconds, memory))

cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown")
version = subprocess.run([compiler, "--version"], capture_output=True, text=True).stdout.splitlines()[0]
print(f"{version}; {cpu}; best of {rounds}\n")
print("| what | CPU s | times json.hpp | MB |\n|---|---|---|---|")
for name, (unit, _, _) in rows.items():
    seconds, memory = best[name]
    print(f"| {name} | {seconds:.2f} | {seconds / best[unit][0]:.2f} | {memory:.0f} |")
PYTHON
