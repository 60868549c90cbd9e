# SPDX-License-Identifier: Apache-2.0
"""What bounds a kernel by its code alone, for check_device_code.py: warps that fit into a multiprocessor, and bytes under way.

By Little's law memory is busy where a multiprocessor has its share of the memory's rate times its latency under way.
"""

import re

# Kernels that are there for matrix units, and the architectures that have those.
MATRIX_KERNELS = re.compile(r"multiply_tiles<format ")
MATRIX_UNITS = re.compile(r"sm_|gfx9(0a|4|50)|gfx11")
# 32-bit registers of a multiprocessor for each thread of a warp, how many are allocated together, and the most warps: the CUDA programming
# guide's technical specifications by compute capability; of AMD, whose compute unit has four units of them (gfx9) or two, LLVM's user
# guide for AMDGPU and AMD's instruction set guides.
RESIDENT = [
    (re.compile(r"sm_(86|87|89|12\d)"), (2048, 8, 48)),
    (re.compile(r"sm_75"), (2048, 8, 32)),
    (re.compile(r"sm_"), (2048, 8, 64)),
    (re.compile(r"gfx9(0a|4|50)"), (4 * 512, 8, 32)),
    (re.compile(r"gfx9"), (4 * 256, 4, 40)),
    (re.compile(r"gfx103"), (2 * 1024, 8, 32)),
    (re.compile(r"gfx11"), (2 * 1536, 24, 32)),
]


def resident_warps(architecture, registers):
    """Warps that fit into a multiprocessor by a kernel's registers, and the most that any kernel has; None: not known here."""
    for names, (all_registers, unit, most) in RESIDENT:
        if names.match(architecture):
            units = 4 if architecture.startswith(("sm_", "gfx9")) else 2
            of_unit = all_registers // units // max(unit, -(-registers // unit) * unit)
            return min(most, units * of_unit), most
    return None


def cuda_width(op):
    """Bytes of one thread's LDG or LDGSTS."""
    for part, width in ((".128", 16), (".64", 8), (".U16", 2), (".S16", 2), (".U8", 1), (".S8", 1)):
        if part in op:
            return width
    return 4


def cuda_flight(code):
    """Bytes that a thread has asked memory for at most before it touches a register that they come to, or waits for its cp.async. The code,
    (operation, operands) by (operation, operands), is read once from its beginning to its end."""
    most, copied, under_way = 0, 0, []
    for op, operands in code:
        touched = {int(number) for number in re.findall(r"\bR(\d+)", operands)}
        for at in range(len(under_way) - 1, -1, -1):
            if touched & under_way[at][0]:
                # What was asked for before has come by then.
                del under_way[: at + 1]
                break
        if op.startswith("DEPBAR"):
            copied = 0
        elif op.startswith("LDGSTS"):
            copied += cuda_width(op)
        elif op.startswith("LDG.") and (first := re.match(r"\s*(?:P\w+, )?R(\d+)", operands)):
            width, register = cuda_width(op), int(first.group(1))
            under_way.append((set(range(register, register + max(1, width // 4))), width))
        most = max(most, copied + sum(width for _, width in under_way))
    return most


def hip_width(op):
    """Bytes of one thread's global_load or flat_load."""
    found = re.search(r"(?:dword|b32)x(\d)|_b(\d+)$|_[us]?(?:byte|i8|u8)|_[us]?(?:short|i16|u16)", op)
    if found is None:
        return 4
    if found.group(1):
        return 4 * int(found.group(1))
    if found.group(2):
        return int(found.group(2)) // 8
    return 1 if "byte" in found.group() or "8" in found.group() else 2


def hip_flight(code):
    """As cuda_flight, by what s_waitcnt leaves under way."""
    most, under_way = 0, []
    for op, operands in code:
        if op == "s_waitcnt":
            if left := re.search(r"vmcnt\((\d+)\)", operands):
                under_way = under_way[len(under_way) - min(len(under_way), int(left.group(1))) :]
        elif re.match(r"(global|flat)_load_", op):
            under_way.append(hip_width(op))
        most = max(most, sum(under_way))
    return most


def table(measured):
    """The lines of the table of {architecture: {kernel: {field: number}}}."""
    lines = [
        "| architecture | kernel | registers | shared memory | warps by registers | bytes of a thread under way | KiB of a multiprocessor | "
        "16-byte loads | matrix instructions |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for architecture, kernels in sorted(measured.items()):
        threads = 64 if architecture.startswith("gfx9") else 32
        for name, kernel in sorted(kernels.items()):
            fits = resident_warps(architecture, kernel["registers"])
            warps = f"{fits[0]} of {fits[1]}" if fits else "-"
            under_way = f"{fits[0] * threads * kernel['flight'] / 1024:.1f}" if fits else "-"
            lines.append(f"| {architecture} | {name} | {kernel['registers']} | {kernel['shared']} | {warps} | {kernel['flight']} | "
                         f"{under_way} | {kernel['packs']} % | {kernel['matrix']} |")
    return lines


def missing_matrix(architecture, measured):
    """Problems of kernels for matrix units that have no instructions of those."""
    if not MATRIX_UNITS.match(architecture):
        return []
    return [f"{architecture} {name}: has no instruction of the matrix units, for which it is there"
            for name, kernel in sorted(measured.items()) if MATRIX_KERNELS.match(name) and kernel["matrix"] == 0]
