# SPDX-License-Identifier: Apache-2.0
"""Device maps of accelerate 1.15.0 (torch 2.9.1) for random module trees.

  accelerate_maps.py --cases 900 --seed 1 --out tests/golden/accelerate/maps.jsonl     writes golden data
  accelerate_maps.py --cases 20000 --seed 7 --check DRIVER                             compares a program's answers

A case is two lines: the options with what accelerate answers, then the tree as `shardwise map --tree` reads it.
DRIVER reads cases from its input and prints {"map", "budgets", "warns", "is_repaired"} for each. accelerate takes tied groups
in the order of a hash seed; here they come in registration order.
"""

import logging
import signal
import warnings

import accelerate
import torch
from accelerate.utils import CustomDtype, modeling

import accelerate_cases
import accelerate_random
import accelerate_tree

assert accelerate.__version__ == "1.15.0", accelerate.__version__
GIVEN = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32, "float64": torch.float64,
         "float8_e4m3fn": CustomDtype.FP8, "int8": torch.int8, "int4": CustomDtype.INT4, "int2": CustomDtype.INT2}
logging.disable(logging.WARNING)  # "Device 0 is not available"
_find_tied_parameters = modeling.find_tied_parameters


def find_tied_in_order(model, **kwargs):
    order = {name: i for i, (name, _) in enumerate(model.named_parameters(remove_duplicate=False))}
    return sorted(_find_tied_parameters(model, **kwargs), key=lambda group: min(order[name] for name in group))


modeling.find_tied_parameters = find_tied_in_order


def options(rng, tree):
    names = [name for name, _ in accelerate_random.parameters(tree)]
    out = {"strategy": rng.choice(["sequential", "sequential", "balanced", "balanced", "balanced_low_0"])}
    if rng.random() < 0.5:
        out["no_split"] = rng.sample(accelerate_random.CLASSES, rng.randint(1, 3))
    if rng.random() < 0.35:
        out["dtype"] = rng.choice(list(GIVEN))
    if rng.random() < 0.15 and names:
        chosen = rng.sample(names, min(len(names), rng.randint(1, 3)))
        out["special_dtypes"] = {name: rng.choice(["float32", "float16", "float64"]) for name in chosen}
    if rng.random() < 0.3:
        out["fallback"] = True
    if rng.random() < 0.2:
        out["offload_buffers"] = True
    if rng.random() < 0.1:
        out["clean_result"] = False
    return out


def answer(tree, case):
    """What accelerate makes of a case: {"map", "budgets", "warns"} or {"raises"}."""
    model = accelerate_tree.build(tree)
    limits = accelerate_cases.as_limits(case["max_memory"])
    common = {"no_split_module_classes": case.get("no_split"), "dtype": GIVEN.get(case.get("dtype")),
              "special_dtypes": {k: GIVEN[v] for k, v in case["special_dtypes"].items()} if "special_dtypes" in case
              else None}
    signal.alarm(20)
    try:
        if case["strategy"] != "sequential":
            limits = modeling.get_balanced_memory(model, max_memory=limits, low_zero=case["strategy"] == "balanced_low_0",
                                                  **common)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = modeling.infer_auto_device_map(
                model, max_memory=dict(limits), fallback_allocation=case.get("fallback", False),
                offload_buffers=case.get("offload_buffers", False), clean_result=case.get("clean_result", True), **common)
        return accelerate_cases.expectation(found, limits, [str(w.message) for w in caught])
    except accelerate_cases.FAILURES as error:
        return {"raises": type(error).__name__}
    finally:
        signal.alarm(0)


def total_size(tree, case):
    model = accelerate_tree.build(tree)
    return int(modeling.compute_module_sizes(model, dtype=GIVEN.get(case.get("dtype")))[""])


def make(rng, tree):
    case = options(rng, tree)
    case["max_memory"] = accelerate_random.max_memory(rng, total_size(tree, case))
    case["expect"] = answer(tree, case)
    return case


accelerate_cases.main(make)
