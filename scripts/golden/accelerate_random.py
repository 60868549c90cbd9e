# SPDX-License-Identifier: Apache-2.0
"""Random module trees and budgets that reach every rule of the device maps of accelerate and transformers."""

import copy

NAMES = ["a", "b", "a1", "1", "11", "0", "2", "layer", "layer1", "mlp", "fc", "attn", "x"]
CLASSES = ["Block", "Mlp", "Attn", "Linear", "Norm", "Expert", "Act"]
TENSORS = ["weight", "bias", "scale", "w", "weight_g"]
BUFFERS = ["mean", "mask", "inv_freq"]
FLOATS = ["F32"] * 6 + ["BF16"] * 4 + ["F16"] * 3 + ["F64", "F8_E4M3"]
OTHERS = ["I64", "I32", "I16", "I8", "U8", "BOOL", "C64", "F8_E5M2"]


def tensors(rng, names, most, mixed):
    out = []
    for name in rng.sample(names, rng.randint(0, most)):
        dtype = rng.choice(OTHERS) if mixed and rng.random() < 0.3 else rng.choice(FLOATS) if mixed else "F32"
        shape = [rng.randint(1, 6) for _ in range(rng.choice([1, 1, 2, 2, 2, 0]))]
        if rng.random() < 0.02:
            shape = [0]
        out.append({"name": name, "dtype": dtype, "shape": shape})
    return out


def module(rng, depth, traits):
    tree = {"class": rng.choice(CLASSES)}
    is_leaf = depth == 0 or rng.random() < 0.3
    if rng.random() < (0.95 if is_leaf else 0.3):
        tree["params"] = tensors(rng, TENSORS, 2 if is_leaf else 1, traits["mixed"])
    if traits["buffers"] and rng.random() < 0.35:
        tree["buffers"] = tensors(rng, BUFFERS, 2, traits["mixed"])
        for buffer in tree["buffers"]:
            if rng.random() < 0.4:
                buffer["persistent"] = False
    if not is_leaf:
        names = rng.sample(NAMES, rng.randint(1, 4))
        if rng.random() < 0.4:
            names = [str(i) for i in range(rng.randint(1, 4))]
            part = module(rng, depth - 1, traits)
            tree["children"] = [dict(copy.deepcopy(part), name=name) for name in names]
        else:
            tree["children"] = [dict(module(rng, depth - 1, traits), name=name) for name in names]
    return {key: value for key, value in tree.items() if value or key == "class"}


def parameters(tree, prefix=""):
    for spec in tree.get("params", []):
        yield prefix + spec["name"], spec
    for child in tree.get("children", []):
        yield from parameters(child, prefix + child["name"] + ".")


def modules(tree, prefix=""):
    yield prefix, tree
    for child in tree.get("children", []):
        yield from modules(child, prefix + child["name"] + ".")


def tie(rng, tree, groups):
    """Ties random parameters; sometimes two whole modules, as models that use one twice do."""
    named = list(parameters(tree))
    free = {name for name, _ in named}
    specs = dict(named)
    tied = []
    for _ in range(groups):
        group = []
        if rng.random() < 0.25:
            prefix, _ = rng.choice(list(modules(tree)))
            twins = [p for p, m in modules(tree)
                     if p != prefix and not p.startswith(prefix) and not prefix.startswith(p)
                     and [n for n, _ in parameters(m)] == [n for n, _ in parameters(dict(modules(tree))[prefix])]]
            if twins:
                twin = rng.choice(twins)
                for name, _ in parameters(dict(modules(tree))[prefix]):
                    pair = [prefix + name, twin + name]
                    if all(p in free for p in pair):
                        tied.append(pair)
                        free -= set(pair)
        else:
            size = rng.choice([2, 2, 2, 3, 4])
            if len(free) >= size:
                group = rng.sample(sorted(free), size)
                free -= set(group)
                tied.append(group)
    order = [name for name, _ in named]
    for group in tied:
        group.sort(key=order.index)
        for other in group[1:]:
            specs[other]["shape"] = specs[group[0]]["shape"]
            specs[other]["dtype"] = specs[group[0]]["dtype"]
    if tied:
        tree["tied"] = tied


def tree(rng):
    traits = {"mixed": rng.random() < 0.5, "buffers": rng.random() < 0.5}
    while True:
        out = module(rng, rng.choice([1, 2, 2, 3, 3, 4]), traits)
        out["class"] = "Model"
        if "children" in out and sum(1 for _ in modules(out)) < 60:
            break
    if rng.random() < 0.55:
        tie(rng, out, rng.choice([1, 1, 1, 2, 3, 5]))
    return out


def max_memory(rng, total, with_mps=True):
    gpus = rng.choice([0, 1, 1, 2, 2, 2, 3, 3, 4, 6])
    ids = list(range(gpus))
    if rng.random() < 0.1:
        ids = sorted(rng.sample(range(10), gpus))
    scale = rng.choice([0.3, 0.6, 0.9, 1.2, 1.6, 2.5]) * total / max(gpus, 1)
    limits = {}
    for index in ids:
        limit = rng.choice([scale, scale, scale * rng.random() * 2, rng.randint(0, 40)])
        limits[str(index)] = 0 if rng.random() < 0.05 else int(limit)
    if with_mps and rng.random() < 0.07:
        limits["mps"] = int(total * rng.random() * 1.5)
    if rng.random() < 0.5:
        limits["cpu"] = int(total * rng.choice([0, 0.3, 0.8, 1.5, 10]))
    if rng.random() < 0.04:
        limits["disk"] = int(total)
    return limits
