# SPDX-License-Identifier: Apache-2.0
"""The peer of bench_map: times accelerate on the tree files and cases that it is given, on the same trees.

map_peer.py TREE CASES reads CASES, a list of {"max_memory", "no_split", "repeat"}, and prints {"version"}, then for each case
{"seconds", "map"}: the best of its runs and the device map. Start, imports and the building of the model are not timed.
"""

import json
import logging
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts" / "golden"))
logging.disable(logging.WARNING)

import accelerate  # noqa: E402
from accelerate.utils import get_balanced_memory, infer_auto_device_map  # noqa: E402

import accelerate_tree  # noqa: E402

model = accelerate_tree.build(json.loads(Path(sys.argv[1]).read_text()))
print(json.dumps({"version": accelerate.__version__}), flush=True)
for case in json.loads(sys.argv[2]):
    best = None
    for _ in range(case["repeat"]):
        limits = {int(key): value for key, value in case["max_memory"].items()}
        start = time.perf_counter()
        budgets = get_balanced_memory(model, max_memory=limits, no_split_module_classes=case["no_split"])
        found = infer_auto_device_map(model, max_memory=budgets, no_split_module_classes=case["no_split"])
        seconds = time.perf_counter() - start
        best = seconds if best is None else min(best, seconds)
    print(json.dumps({"seconds": best, "map": {key: str(value) for key, value in found.items()}}), flush=True)
