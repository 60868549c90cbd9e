# SPDX-License-Identifier: Apache-2.0
"""Device maps of transformers' own fork of accelerate's rules (torch 2.9.1, accelerate 1.15.0) for random module trees.

  accelerate_transformers.py --cases 250 --seed 3 --out tests/golden/accelerate/transformers.jsonl          (transformers 5.23.0)
  accelerate_transformers.py --cases 250 --seed 2 --out tests/golden/accelerate/transformers_5_0.jsonl      (transformers 5.0.0)
  accelerate_transformers.py --cases 20000 --seed 7 --check 'DRIVER transformers'                           (or transformers-5.0)

Cases and the driver are those of accelerate_maps.py. transformers 4.57 has no fork: there accelerate's maps are transformers'.
"""

import json
import logging
import signal

import torch
import transformers
from transformers.integrations import accelerate as fork

import accelerate_cases
import accelerate_random
import accelerate_tree

assert transformers.__version__ in ("5.0.0", "5.23.0"), transformers.__version__
logging.disable(logging.WARNING)
MADE_IN = {"bfloat16": "BF16", "float16": "F16", "float32": "F32"}


class Model(torch.nn.Module):
    """What the fork asks a PreTrainedModel for."""

    _no_split_modules = None
    all_tied_weights_keys = {}

    def _get_no_split_modules(self, device_map):  # 5.0
        return self._no_split_modules


class Quantizer:
    def __init__(self, element_bits, share):
        self.element_bits = element_bits
        self.share = share

    def param_element_size(self, model, name, param):
        return self.element_bits[name] / 8 if name in self.element_bits else param.element_size()

    def adjust_max_memory(self, max_memory):
        return {key: value * self.share for key, value in max_memory.items()} if self.share != 1.0 else max_memory

    def validate_environment(self, device_map):
        pass


def options(rng, tree):
    names = [name for name, _ in accelerate_random.parameters(tree)]
    out = {"strategy": rng.choice(["sequential", "balanced", "balanced", "balanced_low_0"])}
    if rng.random() < 0.5:
        out["no_split"] = rng.sample(accelerate_random.CLASSES, rng.randint(1, 3))
    if rng.random() < 0.3:
        out["dtype"] = rng.choice(list(MADE_IN))
    if rng.random() < 0.3 and names:
        chosen = rng.sample(names, rng.randint(1, len(names)))
        out["element_bits"] = {name: rng.choice([4, 8]) for name in chosen}
        out["budget_share"] = rng.choice([0.9, 1.0])
    return out


def build(tree, case):
    def cast(module):
        for spec in module.get("params", []) + module.get("buffers", []):
            if spec["dtype"] in ("F64", "F32", "F16", "BF16"):
                spec["dtype"] = MADE_IN[case["dtype"]]
        for child in module.get("children", []):
            cast(child)

    tree = json.loads(json.dumps(tree))
    if "dtype" in case:
        cast(tree)
    model = accelerate_tree.build(tree, Model)
    model._no_split_modules = case.get("no_split")
    model.all_tied_weights_keys = {other: group[0] for group in tree.get("tied", []) for other in group[1:]}
    return model


def answer(tree, case):
    return answer_of(build(tree, case), tree, case)


def answer_of(model, tree, case):
    quantizer = Quantizer(case["element_bits"], case["budget_share"]) if "element_bits" in case else None
    reserved = case.get("unused_reserved", {})
    torch.cuda.memory_reserved = lambda device: reserved.get(str(device), 0)
    torch.cuda.memory_allocated = lambda device: 0
    order = {name: i for i, (name, _) in enumerate(model.named_parameters(remove_duplicate=False))}
    groups = sorted((sorted(group) for group in tree.get("tied", [])), key=lambda group: min(order[n] for n in group))
    budgets = {}
    infer = fork.infer_auto_device_map

    def infer_in_order(model, max_memory, **kwargs):
        budgets.update(max_memory)
        return infer(model, max_memory=max_memory, tied_parameters=groups or [[]], **kwargs)

    fork.infer_auto_device_map = infer_in_order
    signal.alarm(20)
    try:
        said = []
        fork.logger.warning = said.append
        limits = accelerate_cases.as_limits(case["max_memory"])
        found = fork._get_device_map(model, case["strategy"], limits, quantizer)
        return accelerate_cases.expectation(found, budgets, said)
    except accelerate_cases.FAILURES as error:
        return {"raises": type(error).__name__}
    finally:
        signal.alarm(0)
        fork.infer_auto_device_map = infer


def make(rng, tree):
    case = options(rng, tree)
    total = int(fork.compute_module_sizes(build(tree, case))[0][""])
    case["max_memory"] = accelerate_random.max_memory(rng, total)
    if rng.random() < 0.2:
        case["unused_reserved"] = {key: rng.randint(0, total + 1) for key in case["max_memory"] if key.isdigit()}
    case["expect"] = answer(tree, case)
    return case


if __name__ == "__main__":
    accelerate_cases.main(make)
