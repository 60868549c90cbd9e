#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/families/: what transformers says each configuration of tests/golden/configs/ contains.

Run with a Python that has exactly the versions below (tests/golden/README.md says how to get them):

    python scripts/golden/families.py [CASE ...]

Without arguments every configuration is written anew, with index.tsv. Nothing is downloaded: a configuration class is built
from the JSON file and the model is created on torch's meta device.
"""

import hashlib
import json
import os
import pathlib
import sys

PINNED = {"torch": "2.9.1", "transformers": "4.57.6"}

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import torch  # noqa: E402
import transformers  # noqa: E402
from transformers.modeling_utils import no_init_weights  # noqa: E402

from transformers.activations import XIELUActivation  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIGS = ROOT / "tests/golden/configs"
FAMILIES = ROOT / "tests/golden/families"

# Published under a model_type of its own, and built by another family's classes.
OTHER_CLASS = {"kimi_k2": "deepseek_v3"}

# A text model under text_config is counted as its own causal model.
TEXT_CLASS = {"gemma3": "Gemma3ForCausalLM", "llava": "LlamaForCausalLM", "mistral3": "MistralForCausalLM"}


made_xielu = XIELUActivation.__init__


def make_xielu(*arguments, **fields):
    """It reads its own numbers when it is made, which tensors on the meta device do not have."""
    with torch.device("cpu"):
        made_xielu(*arguments, **fields)


XIELUActivation.__init__ = make_xielu


def check_versions():
    found = {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__}
    if found != PINNED:
        sys.exit(f"families.py: the golden data is pinned to {PINNED}, this Python has {found}")


def older_dialect(fields):
    """transformers 4.57 knows rope_theta and rope_scaling, version 5 writes one rope_parameters."""
    fields = json.loads(json.dumps(fields))
    rope = fields.pop("rope_parameters", None)
    if rope is not None:
        if "full_attention" in rope:
            fields["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
            rope = rope["full_attention"]
        fields["rope_theta"] = rope.pop("rope_theta")
        if "partial_rotary_factor" in rope:
            fields["partial_rotary_factor"] = rope.pop("partial_rotary_factor")
        fields["rope_scaling"] = None if rope.get("rope_type", "default") == "default" else rope
    return fields


def is_known(path):
    """False for a family that begins in transformers 5, and for a whole model whose text model has no class with a head."""
    fields = json.loads(path.read_text())
    model_type = fields["model_type"]
    if "vision_config" in fields and model_type not in TEXT_CLASS:
        return False
    return OTHER_CLASS.get(model_type, model_type) in transformers.CONFIG_MAPPING


def build(fields):
    """The model on the meta device, and which part of the configuration describes it."""
    fields = older_dialect(fields)
    fields["model_type"] = OTHER_CLASS.get(fields["model_type"], fields["model_type"])
    fields.pop("quantization_config", None)  # the tree is the one before packing
    config = transformers.AutoConfig.for_model(**fields)
    class_name = fields["architectures"][0]
    part = None
    if "text_config" in fields:
        part = "text_config"
        class_name = TEXT_CLASS[fields["model_type"]]
        text = config.text_config
        text.dtype = text.dtype or config.dtype
        config = text
    # As from_pretrained does it: no initialisation (it fails for norms without weights), then ties.
    with torch.device("meta"), no_init_weights():
        model = getattr(transformers, class_name)._from_config(config)
    model.tie_weights()
    return model, config, part


def dtype_name(tensor):
    return str(tensor.dtype).removeprefix("torch.")


def fold(children, is_list):
    """Equal neighbours of a list become one entry "first..last"."""
    folded = []
    for name, node in children:
        if is_list and folded and folded[-1][2] == node:
            folded[-1][1] = name
        else:
            folded.append([name, name, node])
    return [[a if a == b else f"{a}..{b}", node] for a, b, node in folded]


def describe(module, prefix, lines):
    """The folded node of a module; appends its expanded description to lines."""
    node = {"class": type(module).__name__}
    lines.append(f"M\t{prefix[:-1]}\t{node['class']}\n")
    params = []
    for name, tensor in module._parameters.items():
        if tensor is not None:
            params.append([name, dtype_name(tensor), list(tensor.shape)])
            lines.append(f"P\t{prefix}{name}\t{dtype_name(tensor)}\t{','.join(map(str, tensor.shape))}\n")
    buffers = []
    for name, tensor in module._buffers.items():
        if tensor is not None:
            persistent = name not in module._non_persistent_buffers_set
            buffers.append([name, dtype_name(tensor), list(tensor.shape), persistent])
            kind = "B" if persistent else "N"
            lines.append(f"{kind}\t{prefix}{name}\t{dtype_name(tensor)}\t{','.join(map(str, tensor.shape))}\n")
    children = [(n, describe(m, f"{prefix}{n}.", lines)) for n, m in module._modules.items() if m is not None]
    if params:
        node["params"] = params
    if buffers:
        node["buffers"] = buffers
    if children:
        node["children"] = fold(children, isinstance(module, (torch.nn.ModuleList, torch.nn.Sequential)))
    return node


def groups(named):
    """Names that lead to one object, in order of their first name; lists of two and more."""
    by_object = {}
    for name, thing in named:
        by_object.setdefault(id(thing), []).append(name)
    return [names for names in by_object.values() if len(names) > 1]


def flag_list(value):
    return sorted(value) if isinstance(value, (set, frozenset)) else list(value or [])


def no_split(model):
    try:
        return model._get_no_split_modules("auto")
    except ValueError:  # a class without such modules says that it cannot be mapped
        return []


def golden(case):
    fields = json.loads((CONFIGS / f"{case}.json").read_text())
    model, config, part = build(fields)
    lines = []
    tree = describe(model, "", lines)
    state = model.state_dict(keep_vars=True)
    entries = [f"{n}\t{dtype_name(t)}\t{','.join(map(str, t.shape))}\n" for n, t in state.items()]
    assert entries == [line[2:] for line in lines if line[0] in "PB"], case
    unique = {id(t): t for t in state.values()}.values()
    parameters = {id(p): p for p in model.parameters()}.values()
    persistent = {id(t) for t in state.values()}
    transient = {id(b): b for b in model.buffers() if id(b) not in persistent}.values()
    result = {
        "case": case,
        "config": f"configs/{case}.json",
        "part": part,
        "model_type": fields["model_type"] if fields["model_type"] in OTHER_CLASS else config.model_type,
        "class": type(model).__name__,
        "base_prefix": model.base_model_prefix if model.base_model is not model else "",
        "dtype": dtype_name(next(iter(parameters))),
        "versions": PINNED,
        "parameters": sum(p.numel() for p in parameters),
        "state_entries": len(state),
        "state_bytes": sum(t.numel() * t.element_size() for t in unique),
        "transient_bytes": sum(t.numel() * t.element_size() for t in transient),
        "entries_sha256": hashlib.sha256("".join(entries).encode()).hexdigest(),
        "tree_lines": len(lines),
        "tree_sha256": hashlib.sha256("".join(lines).encode()).hexdigest(),
        "no_split": sorted(no_split(model)),
        "no_split_attribute": flag_list(model._no_split_modules),
        "tied_weights_keys": flag_list(model._tied_weights_keys),
        "keep_in_fp32": flag_list(model._keep_in_fp32_modules),
        "keep_in_fp32_strict": flag_list(getattr(model, "_keep_in_fp32_modules_strict", None)),
        "ignore_unexpected": flag_list(model._keys_to_ignore_on_load_unexpected),
        "ties": groups(state.items()),
        "shared_modules": groups(model.named_modules(remove_duplicate=False)),
        "modules": tree,
    }
    return result


def write(result):
    head = [f"{json.dumps(k)}:{json.dumps(v, separators=(',', ':'))}" for k, v in result.items()]
    (FAMILIES / f"{result['case']}.json").write_text("{\n" + ",\n".join(head) + "\n}\n")


def main():
    check_versions()
    FAMILIES.mkdir(parents=True, exist_ok=True)
    cases = sorted(p.stem for p in CONFIGS.glob("*.json") if is_known(p))
    wanted = sys.argv[1:] or cases
    for case in wanted:
        write(golden(case))
    rows = ["case\tmodel_type\tclass\tparameters\tconfig\n"]
    for case in cases:
        path = FAMILIES / f"{case}.json"
        if path.exists():
            data = json.loads(path.read_text())
            rows.append(f"{case}\t{data['model_type']}\t{data['class']}\t{data['parameters']}\t{data['config']}\n")
    (FAMILIES / "index.tsv").write_text("".join(rows))


if __name__ == "__main__":
    main()
