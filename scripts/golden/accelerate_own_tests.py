#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What accelerate's own tests ask of it, and what it answers: golden data from tests/test_modeling_utils.py.

  accelerate_own_tests.py FOLDER/tests/test_modeling_utils.py --out tests/golden/accelerate

FOLDER is the source distribution (pip download --no-deps --no-binary :all: accelerate==1.15.0; Apache-2.0); the tests need parameterized. They run as they
are, on the CPU, with recorders in the place of the functions that they call; own_tests.jsonl is in the form of maps.jsonl,
own_values.json has the sizes of modules, of texts such as 1.5GB (null: refused), and the bits of dtypes.
Not recorded: what moves tensors or loads files, t0pp (a download), find_tied_parameters, for trees name their ties, and
clean_device_map and check_device_map alone: maps.jsonl has what the one leaves, and the Custom strategy has rules of its own.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import unittest
import warnings

import accelerate
from accelerate import test_utils
from accelerate.utils import modeling

import accelerate_cases
import accelerate_tree

assert accelerate.__version__ == "1.15.0", accelerate.__version__
SOURCE = "accelerate 1.15.0, tests/test_modeling_utils.py, Apache-2.0"
cases = []
values = {"source": SOURCE, "sizes": [], "texts": {}, "dtypes": {}}


def name_of(dtype):
    return str(dtype).removeprefix("torch.")


def tree_of(model):
    order = {name: i for i, (name, _) in enumerate(model.named_parameters(remove_duplicate=False))}
    tied = sorted((sorted(group, key=order.get) for group in modeling.find_tied_parameters(model)), key=lambda group: order[group[0]])
    tree = accelerate_tree.describe(model)
    return tree | {"tied": tied} if tied else tree


def options(no_split_module_classes=None, dtype=None, special_dtypes=None, clean_result=True, offload_buffers=False,
            fallback_allocation=False, verbose=False):
    out = {}
    if no_split_module_classes is not None:
        classes = no_split_module_classes
        out["no_split"] = [classes] if isinstance(classes, str) else sorted(classes)
    if dtype is not None:
        out["dtype"] = name_of(dtype)
    if special_dtypes is not None:
        out["special_dtypes"] = {key: name_of(value) for key, value in special_dtypes.items()}
    return out | {key: value for key, value, default in (("fallback", fallback_allocation, False), ("offload_buffers", offload_buffers, False),
                                                         ("clean_result", clean_result, True)) if value != default}


def in_bytes(limits):
    return {key: modeling.convert_file_size_to_int(value) for key, value in limits.items()}


def add_case(test, strategy, model, given, limits, arguments):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = modeling.infer_auto_device_map(model, max_memory=dict(limits), **arguments)
    case = {"source": SOURCE, "test": test, "strategy": strategy, **options(**arguments),
            "max_memory": {str(key): value for key, value in in_bytes(given).items()}}
    case["expect"] = accelerate_cases.expectation(found, in_bytes(limits), [str(w.message) for w in caught])
    cases.append((case, tree_of(model)))


def infer_auto_device_map(model, max_memory=None, **arguments):
    add_case(running(), "sequential", model, max_memory, max_memory, arguments)
    return modeling.infer_auto_device_map(model, max_memory=max_memory, **arguments)


def get_balanced_memory(model, max_memory=None, no_split_module_classes=None, low_zero=False, **arguments):
    given = dict(max_memory)
    limits = modeling.get_balanced_memory(model, max_memory=max_memory, no_split_module_classes=no_split_module_classes,
                                          low_zero=low_zero, **arguments)
    add_case(running(), "balanced_low_0" if low_zero else "balanced", model, given, limits,
             arguments | {"no_split_module_classes": no_split_module_classes})
    return limits


def compute_module_sizes(model, **arguments):
    sizes = modeling.compute_module_sizes(model, **arguments)
    values["sizes"].append({"test": running(), "tree": json.dumps(tree_of(model)), **options(**arguments), "expect": dict(sizes)})
    return sizes


def convert_file_size_to_int(size):
    values["texts"][str(size)] = None
    values["texts"][str(size)] = modeling.convert_file_size_to_int(size)
    return values["texts"][str(size)]


def dtype_byte_size(dtype):
    size = modeling.dtype_byte_size(dtype)
    values["dtypes"][name_of(dtype)] = int(size * 8)
    return size


RECORDERS = (infer_auto_device_map, get_balanced_memory, compute_module_sizes, convert_file_size_to_int, dtype_byte_size)


def running():
    return os.environ["RUNNING"]


class Progress(unittest.TestResult):
    def startTest(self, test):
        os.environ["RUNNING"] = test.id().rsplit(".", 1)[-1]
        super().startTest(test)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("tests", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    spec = importlib.util.spec_from_file_location("own_tests", arguments.tests)
    module = importlib.util.module_from_spec(spec)
    # What is only calculated needs no GPU.
    test_utils.require_non_cpu = test_utils.testing.require_non_cpu = lambda test: test
    spec.loader.exec_module(module)
    for recorder in RECORDERS:
        setattr(module, recorder.__name__, recorder)
    accelerate.infer_auto_device_map = infer_auto_device_map
    suite = unittest.TestSuite(test for group in unittest.defaultTestLoader.loadTestsFromModule(module) for test in group
                               if any(word in test.id() for word in ("device_map", "balanced", "sizes", "file_size", "dtype_byte"))
                               and "t0pp" not in test.id())
    result = Progress()
    suite.run(result)
    for test, trace in result.failures + result.errors:
        print(test, trace)
    print(f"{result.testsRun} tests, {len(result.failures)} failed, {len(result.errors)} errors, {len(result.skipped)} skipped; {len(cases)} maps")
    with open(arguments.out / "own_tests.jsonl", "w") as file:
        for case, tree in cases:
            file.write(accelerate_cases.lines(case, tree))
    with open(arguments.out / "own_values.json", "w") as file:
        json.dump(values, file, separators=(",", ":"))
        file.write("\n")
