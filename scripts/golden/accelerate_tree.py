# SPDX-License-Identifier: Apache-2.0
"""Builds torch modules on the meta device from the tree files of `shardwise map --tree`, and describes modules so."""

import torch
from torch import nn

DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2, "I64": torch.int64, "I32": torch.int32,
    "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool, "C64": torch.complex64,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
_classes = {}


def module_class(name):
    if name not in _classes:
        _classes[name] = type(name, (nn.Module,), {})
    return _classes[name]


def build(tree, root_class=None):
    """The module that a tree file describes, ties included; `root_class` stands for the root's own."""
    root = _build(tree, root_class or module_class(tree["class"]))
    for group in tree.get("tied", []):
        holder, name = _owner(root, group[0])
        shared = holder._parameters[name]
        for other in group[1:]:
            holder, name = _owner(root, other)
            holder._parameters[name] = shared
    return root


def _owner(root, path):
    holder = root
    *parents, name = path.split(".")
    for parent in parents:
        holder = holder._modules[parent]
    return holder, name


def _tensor(spec):
    return torch.empty(spec["shape"], dtype=DTYPES[spec["dtype"]], device="meta")


def _build(tree, cls):
    module = cls()
    for spec in tree.get("params", []):
        module.register_parameter(spec["name"], nn.Parameter(_tensor(spec), requires_grad=False))
    for spec in tree.get("buffers", []):
        module.register_buffer(spec["name"], _tensor(spec), persistent=spec.get("persistent", True))
    for child in tree.get("children", []):
        module.add_module(child["name"], _build(child, module_class(child["class"])))
    return module


def spec(name, tensor, persistent=True):
    out = {"name": name, "dtype": NAMES[tensor.dtype], "shape": list(tensor.shape)}
    return out if persistent else out | {"persistent": False}


def describe(module, name=None):
    out = {"name": name} if name is not None else {}
    out["class"] = type(module).__name__
    out["params"] = [spec(key, tensor) for key, tensor in module.named_parameters(recurse=False, remove_duplicate=False)]
    out["buffers"] = [spec(key, tensor, key not in module._non_persistent_buffers_set)
                      for key, tensor in module.named_buffers(recurse=False, remove_duplicate=False)]
    out["children"] = [describe(child, key) for key, child in module.named_children()]
    return {key: value for key, value in out.items() if value or key == "name"}
