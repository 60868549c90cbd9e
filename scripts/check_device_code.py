#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles the kernels for devices and holds what the compilers made of them to tests/device/limits.txt. No device is needed.

    scripts/check_device_code.py [--vendor cuda|hip] [--architectures NAME,...] [--families NAME,...] [--work FOLDER] [--require]
    scripts/check_device_code.py --update         writes the limits of the architectures that it compiled for
    scripts/check_device_code.py --table FILE     writes what bounds each kernel by its code, as a table (device_code_bounds.py)

Of each kernel: registers of a thread; bytes spilled; bytes of stack (CUDA) or scratch (HIP); loads and stores of local memory;
instructions on doubles; and the share of its loads from memory that take 16 bytes. A kernel that is worse than its row, or has
none, fails, and so does a row without a kernel. Registers count as they are allocated, eight at a time. A kernel that is there for the
devices' matrix units has instructions of them on every architecture that has any.

CUDA: nvcc, and cuobjdump and nvdisasm (in the toolkit, or from PyPI by scripts/setup.sh). HIP: clang++-19, or hipcc, with ROCm's
device libraries. A missing tool is a line "skipped: ..." and success; with --require a failure.
"""

import argparse
import collections
import concurrent.futures
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import device_code_bounds as bounds

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIMITS = ROOT / "tests/device/limits.txt"
FAMILIES = ROOT / "include/shardwise/kernels/instantiate"
READERS = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "shardwise/cuda-readers"
DEFAULT = {"cuda": ["sm_80", "sm_90"], "hip": ["gfx90a"]}
# What a row says, in its order; more is worse, but of the last.
FIELDS = ["registers", "spills", "stack", "local", "doubles", "packs"]


class Missing(Exception):
    """A tool that this machine lacks."""


def find(*names, folders=()):
    for name in names:
        for folder in (None, *folders):
            found = shutil.which(name, path=None if folder is None else str(folder))
            if found:
                return found
    raise Missing(f"{' or '.join(names)} is not installed")


def run(command, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **more)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def short_name(signature):
    """A demangled kernel as the limits call it: without namespaces, vendor and parameters."""
    name = signature.split(" [clone")[0]
    # The parameters begin at the bracket that closes last.
    depth = 0
    for at in range(len(name) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(name[at], 0)
        if depth == 0 and name[at] == "(":
            name = name[:at]
            break
    name = re.sub(r"^void ", "", name)
    name = re.sub(r"\(shardwise::[\w:]*::WeightFormat\)(\d+)", r"format \1", name)
    name = re.sub(r"\(shardwise::[\w:]*::SumsLayout\)(\d+)", r"layout \1", name)
    name = re.sub(r"\((?:int|bool|unsigned int|long)\)", "", name)
    name = re.sub(r"shardwise::(?:\w+::)*", "", name)
    name = re.sub(r"(?:Cuda|Hip)Api(?:, )?", "", name)
    name = re.sub(r"(\d)u\b", r"\1", name)
    name = re.sub(r"\btrue\b", "1", re.sub(r"\bfalse\b", "0", name))
    return name.replace("<>", "")


class Cuda:
    vendor = "cuda"

    def __init__(self):
        folders = ["/usr/local/cuda/bin"]
        self.compiler = find("nvcc", folders=folders)
        folders += sorted(READERS.glob("lib/python*/site-packages/nvidia/*/bin"))
        self.reader = find("cuobjdump", folders=folders)
        self.disassembler = find("nvdisasm", folders=folders)
        self.version = re.search(r"release [\d.]+", run([self.compiler, "--version"])).group()

    def compile(self, source, architecture, output):
        command = [self.compiler, "-std=c++20", "-O3", "-DNDEBUG", f"-I{ROOT}/include", "-cubin", f"-arch={architecture}"]
        said = run([*command, "-Xptxas", "-v", source, "-o", output])
        output.with_suffix(".txt").write_text(said)

    def read(self, output):
        kernels = collections.defaultdict(dict)
        name = None
        for line in output.with_suffix(".txt").read_text().splitlines():
            if found := re.search(r"(?:Compiling entry function|Function properties for) '?(\w+)", line):
                name = found.group(1)
            if found := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
                if name.startswith("_Z"):
                    kernels[name]["stack"] = int(found.group(1))
                    kernels[name]["spills"] = int(found.group(2)) + int(found.group(3))
            if found := re.search(r"Used (\d+) registers", line):
                kernels[name]["registers"] = int(found.group(1))
                shared = re.search(r"(\d+) bytes smem", line)
                kernels[name]["shared"] = int(shared.group(1)) if shared else 0
        # cuobjdump finds nvdisasm in PATH only.
        path = os.pathsep.join([str(pathlib.Path(self.disassembler).parent), os.environ.get("PATH", "")])
        text = run([self.reader, "-sass", output], env={**os.environ, "PATH": path})
        name = None
        codes = collections.defaultdict(list)
        for line in text.splitlines():
            if found := re.search(r"Function : (\S+)", line):
                name = found.group(1)
            elif found := re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ )?\s*([A-Z][\w.]*)([^;]*)", line):
                codes[name].append(found.groups())
        for name, kernel in kernels.items():
            if not codes[name]:
                sys.exit(f"{output}: no code of {name}")
            code = [op for op, _ in codes[name]]
            kernel["flight"] = bounds.cuda_flight(codes[name])
            kernel["matrix"] = sum(re.match(r"[A-Z]*MMA\b", op) is not None for op in code)
            kernel["local"] = sum(op.split(".")[0] in ("LDL", "STL") for op in code)
            kernel["doubles"] = sum(re.match(r"D(ADD|MUL|FMA|SETP|MNMX)|.*\.F64|MUFU\.\w*64H", op) is not None for op in code)
            loads = [op for op in code if op.startswith("LDG")]
            kernel["packs"] = share(sum(".128" in op for op in loads), len(loads))
        return kernels


class Hip:
    vendor = "hip"

    def __init__(self):
        self.compiler = find("hipcc", "clang++-19", folders=["/opt/rocm/bin"])
        if not list(pathlib.Path("/usr/lib").glob("*/amdgcn/bitcode/ockl.bc")) and not pathlib.Path("/opt/rocm").exists():
            raise Missing("ROCm's device libraries are not installed")
        folders = ["/usr/lib/llvm-19/bin", "/opt/rocm/llvm/bin", "/usr/lib/llvm-15/bin"]
        self.reader = find("llvm-readelf", "llvm-readelf-19", folders=folders)
        self.disassembler = find("llvm-objdump", "llvm-objdump-19", folders=folders)
        self.version = re.search(r"clang version [\d.]+", run([self.compiler, "--version"])).group()

    def compile(self, source, architecture, output):
        command = [self.compiler, "-std=c++20", "-O3", "-DNDEBUG", f"-I{ROOT}/include", "-D__HIP_PLATFORM_AMD__=1", "-x", "hip"]
        if "clang++" in self.compiler:
            bitcode = sorted(pathlib.Path("/usr/lib").glob("*/amdgcn/bitcode"))
            command += [f"--rocm-device-lib-path={folder}" for folder in bitcode]
        run([*command, f"--offload-arch={architecture}", "--cuda-device-only", "--no-gpu-bundle-output", "-c", source, "-o", output])

    def read(self, output):
        kernels = {}
        for block in re.split(r"(?m)^\s*- \.ag?p?r?_?", run([self.reader, "--notes", output]))[1:]:
            found = {key: int(value) for key, value in re.findall(r"\.?(\w+):\s+(\d+)\s*$", block, re.M)}
            name = re.search(r"\.symbol:\s+'?(\w+)\.kd", block)
            if name is None:
                continue
            kernels[name.group(1)] = {
                "registers": found["vgpr_count"],
                "spills": 4 * (found["vgpr_spill_count"] + found["sgpr_spill_count"]),
                "stack": found["private_segment_fixed_size"],
                "shared": found["group_segment_fixed_size"],
            }
        codes = collections.defaultdict(list)
        name = None
        for line in run([self.disassembler, "-d", output]).splitlines():
            if found := re.match(r"[0-9a-f]+ <(\w+)>:", line):
                name = found.group(1)
            elif found := re.match(r"\s+([a-z]\w+)(.*)", line):
                codes[name].append(found.groups())
        for name, kernel in kernels.items():
            if not codes[name]:
                sys.exit(f"{output}: no code of {name}")
            code = [op for op, _ in codes[name]]
            kernel["flight"] = bounds.hip_flight(codes[name])
            kernel["matrix"] = sum(op.startswith(("v_mfma", "v_wmma", "v_smfmac")) for op in code)
            kernel["local"] = sum(op.startswith("scratch_") for op in code)
            kernel["doubles"] = sum("_f64" in op for op in code)
            loads = [op for op in code if re.match(r"(global|flat)_load_", op)]
            kernel["packs"] = share(sum(op.endswith(("x4", "_b128")) for op in loads), len(loads))
        return kernels


def share(part, whole):
    """Per cent; 100 of nothing."""
    return 100 if whole == 0 else 100 * part // whole


def demangled(names):
    text = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    return dict(zip(names, text.splitlines()))


def sources(families):
    found = sorted(FAMILIES.glob("*.cu"))
    if not families:
        return found
    unknown = families - {source.stem for source in found}
    if unknown:
        sys.exit(f"--families: there is no {', '.join(sorted(unknown))}; known: {', '.join(source.stem for source in found)}")
    return [source for source in found if source.stem in families]


def fingerprint(tools):
    """What the compiled code depends on: the headers, how they are compiled and the compiler's version."""
    digest = hashlib.sha256(f"{tools.version} {pathlib.Path(__file__).read_text()}".encode())
    for path in sorted((ROOT / "include/shardwise").rglob("*")):
        if path.is_file():
            digest.update(f"{path}".encode() + path.read_bytes())
    return digest.hexdigest()


def measure(tools, architectures, families, folder):
    """{architecture: {kernel: {field: number}}}"""
    stamp = fingerprint(tools)

    def object_of(job):
        architecture, source = job
        output = folder / f"{source.stem}-{architecture}.o"
        mark = output.with_suffix(".stamp")
        if not (output.exists() and mark.exists() and mark.read_text() == stamp):
            tools.compile(source, architecture, output)
            mark.write_text(stamp)
        return architecture, output

    jobs = [(architecture, source) for architecture in architectures for source in sources(families)]
    measured = {architecture: {} for architecture in architectures}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for architecture, output in pool.map(object_of, jobs):
            kernels = tools.read(output)
            names = demangled(list(kernels))
            for name, kernel in kernels.items():
                kernel["registers"] = -(-kernel["registers"] // 8) * 8
                measured[architecture][short_name(names[name])] = kernel
    return measured


def read_limits():
    limits = collections.defaultdict(dict)
    for number, line in enumerate(LIMITS.read_text().splitlines() if LIMITS.exists() else [], 1):
        if not line.strip() or line.startswith("#"):
            continue
        place, _, numbers = line.partition(" | ")
        architecture, _, kernel = place.partition(" ")
        values = numbers.split()
        if len(values) != len(FIELDS) or not all(value.isdigit() for value in values):
            sys.exit(f"tests/device/limits.txt:{number}: expected 'architecture kernel | {' '.join(FIELDS)}'")
        limits[architecture][kernel.strip()] = dict(zip(FIELDS, map(int, values)))
    return limits


def write_limits(limits):
    lines = [
        "# SPDX-License-Identifier: Apache-2.0",
        "# What compilers may make of each kernel: scripts/check_device_code.py compares, and writes it with --update.",
        f"# architecture kernel | {' '.join(FIELDS)}",
        "# registers of a thread, in eights; bytes spilled; bytes of stack; loads and stores of local memory; instructions on",
        "# doubles; per cent of the loads from memory that take 16 bytes, at least. Format numbers are those of WeightFormat.",
    ]
    for architecture in sorted(limits):
        rows = sorted(limits[architecture].items())
        width = max(len(kernel) for kernel, _ in rows)
        lines.append("")
        for kernel, row in rows:
            numbers = " ".join(f"{row[field]:3d}" for field in FIELDS)
            lines.append(f"{architecture} {kernel:{width}} | {numbers}")
    LIMITS.write_text("\n".join(lines) + "\n")


def compare(architecture, measured, limits, is_whole):
    problems = []
    for kernel, found in sorted(measured.items()):
        limit = limits.get(kernel)
        if limit is None:
            problems.append(f"{architecture} {kernel}: has no row in tests/device/limits.txt: --update writes it")
            continue
        for field in FIELDS:
            got, allowed = found[field], limit[field]
            if got < allowed if field == "packs" else got > allowed:
                than = "less" if field == "packs" else "more"
                problems.append(f"{architecture} {kernel}: {field} {got}, {than} than {allowed}")
    if is_whole:
        for kernel in sorted(limits.keys() - measured.keys()):
            problems.append(f"{architecture} {kernel}: is in tests/device/limits.txt and nowhere else")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vendor", choices=["cuda", "hip"], action="append")
    parser.add_argument("--architectures", help="instead of " + ", ".join(DEFAULT["cuda"] + DEFAULT["hip"]))
    parser.add_argument("--families", help="some of the files of kernels/instantiate, instead of all")
    parser.add_argument("--work", type=pathlib.Path, help="keeps what is compiled, and compiles only what has changed")
    parser.add_argument("--require", action="store_true", help="a missing tool is a failure")
    parser.add_argument("--update", action="store_true", help="writes what is found as the rows of all kernels, or of those of --families")
    parser.add_argument("--table", type=pathlib.Path, help="writes what bounds each kernel by its code into this file")
    chosen = parser.parse_args()
    families = set(chosen.families.split(",")) if chosen.families else set()

    problems, limits, is_whole, found = [], read_limits(), True, {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = chosen.work or pathlib.Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for Tools in (Cuda, Hip):
            if chosen.vendor and Tools.vendor not in chosen.vendor:
                continue
            prefix = {"cuda": "sm_", "hip": "gfx"}[Tools.vendor]
            wanted = [name for name in (chosen.architectures or ",".join(DEFAULT[Tools.vendor])).split(",") if name.startswith(prefix)]
            if not wanted:
                continue
            try:
                tools = Tools()
            except Missing as missing:
                print(f"skipped: {Tools.vendor}: {missing}")
                is_whole = False
                continue
            for architecture, kernels in measure(tools, wanted, families, folder).items():
                print(f"{architecture}: {len(kernels)} kernels by {tools.version}")
                found[architecture] = kernels
                problems += bounds.missing_matrix(architecture, kernels)
                if chosen.update:
                    # Of some families the rows of their templates.
                    templates = {kernel.split("<")[0] for kernel in kernels}
                    others = {kernel: row for kernel, row in limits[architecture].items() if families and kernel.split("<")[0] not in templates}
                    limits[architecture] = others | kernels
                elif architecture in limits:
                    problems += compare(architecture, kernels, limits[architecture], not families)
                else:
                    problems.append(f"{architecture}: has no rows in tests/device/limits.txt: --update writes them")
    if chosen.update:
        write_limits(limits)
    if chosen.table:
        chosen.table.write_text("\n".join(bounds.table(found)) + "\n")
    for problem in problems:
        print(problem)
    return 1 if problems or (chosen.require and not is_whole) else 0


if __name__ == "__main__":
    sys.exit(main())
