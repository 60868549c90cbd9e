# SPDX-License-Identifier: Apache-2.0
"""What scripts/device_code_bounds.py reads from machine code, of code that is written here."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import device_code_bounds as bounds


def expect(what, got, wanted):
    if got != wanted:
        sys.exit(f"{what}: expected {wanted}, got {got}")


# Two loads are under way until the second is touched, with which the first has come.
load = [("LDG.E.128", " R4, desc[UR6][R2.64] "), ("LDG.E.128.CONSTANT", " R8, desc[UR6][R2.64+0x10] ")]
expect("two loads of 16 bytes", bounds.cuda_flight(load), 32)
expect("a load after a use", bounds.cuda_flight([load[0], ("FADD", " R12, R7, R6 "), load[1]]), 16)
others = [("LDG.E.128", f" R{first}, desc[UR6][R2.64] ") for first in (20, 24)]
expect("the later one used first", bounds.cuda_flight([*load, ("FADD", " R12, R11, R1 "), *others]), 32)
expect("the earlier one used first", bounds.cuda_flight([*load, ("FADD", " R12, R4, R1 "), *others]), 48)
expect("three loads", bounds.cuda_flight([*load, ("LDG.E.64", " R20, desc[UR6][R2.64] ")]), 40)
copies = [("LDGSTS.E.BYPASS.128", " [R3], desc[UR6][R4.64] ")] * 3
expect("cp.async", bounds.cuda_flight([*copies, ("LDGDEPBAR", ""), ("DEPBAR.LE", " SB0, 0x0 "), copies[0]]), 48)

hip = [("global_load_dwordx4", " v[0:3], v[4:5], off"), ("global_load_ushort", " v6, v[4:5], off")]
expect("vmcnt leaves one", bounds.hip_flight([*hip, ("s_waitcnt", " vmcnt(1)"), ("global_load_dwordx2", " v[8:9], v[4:5], off")]), 18)
expect("vmcnt leaves both", bounds.hip_flight([*hip, ("s_waitcnt", " vmcnt(2)"), ("global_load_dwordx2", " v[8:9], v[4:5], off")]), 26)
expect("a wait for others", bounds.hip_flight([*hip, ("s_waitcnt", " lgkmcnt(0)"), hip[0]]), 34)
for op, width in (("global_load_b128", 16), ("global_load_u16", 2), ("flat_load_ubyte", 1), ("global_load_dword", 4), ("global_load_i8", 1)):
    expect(op, bounds.hip_width(op), width)

for architecture, registers, warps in (("sm_90", 56, (36, 64)), ("sm_80", 255, (8, 64)), ("sm_86", 32, (48, 48)), ("gfx90a", 40, (32, 32)),
                                       ("gfx90a", 168, (12, 32)), ("gfx1100", 256, (10, 32)), ("gfx4", 8, None)):
    expect(f"warps of {architecture} by {registers} registers", bounds.resident_warps(architecture, registers), warps)

tile = {"multiply_tiles<format 1, 64, float>": {"matrix": 0}, "copy_portions<float, 4>": {"matrix": 0}}
expect("a tile without its unit", len(bounds.missing_matrix("sm_90", tile)), 1)
for without in ("gfx1030", "gfx1200"):
    expect(f"{without}, a device without such units", bounds.missing_matrix(without, tile), [])
tile["multiply_tiles<format 1, 64, float>"]["matrix"] = 8
expect("a tile with its unit", bounds.missing_matrix("gfx90a", tile), [])
