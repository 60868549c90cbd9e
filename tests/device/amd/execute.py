#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""execute.py TINYGRAD OBJECT... ADDRESS SIZE: executes AMD machine code for tests/device/amd/runtime.cpp.

TINYGRAD is a checkout of tinygrad/tinygrad, whose emulator of CDNA and RDNA (test/mockgpu/amd/emu.py) executes the instructions; OBJECT are
code objects for gfx942, or for gfx1100. Both processes have the memory of the device, file descriptor 3, at ADDRESS. Requests are lines on
standard input:

    device                                          answers  device NAME WARP          what the code objects are for
    layout KERNEL                                   answers  layout OFFSET:BYTES ...   of the kernel's own arguments
    run KERNEL BLOCKS THREADS SHARED ARGUMENTS      answers  done                      ARGUMENTS is an address

An answer that begins with "failed" says why. Source: LLVM's AMDGPUUsage (code objects, kernel descriptors, initial registers, version 5).
"""

import ctypes
import importlib
import inspect
import mmap
import os
import struct
import sys


def read_msgpack(data, at=0):
    """The value at a place of a MessagePack text, and where it ends: what code objects' metadata needs of it."""
    head = data[at]
    at += 1
    if head < 0x80:
        return head, at
    if head >= 0xE0:
        return head - 256, at
    if 0xA0 <= head < 0xC0 or head in (0xD9, 0xDA, 0xDB):
        length = head & 31
        if head > 0xC0:
            size = 1 << (head - 0xD9)
            length, at = int.from_bytes(data[at : at + size], "big"), at + size
        return data[at : at + length].decode(), at + length
    if head in (0xC0, 0xC2, 0xC3):
        return {0xC0: None, 0xC2: False, 0xC3: True}[head], at
    if 0xCC <= head <= 0xD3:
        size = 1 << (head & 3)
        return int.from_bytes(data[at : at + size], "big", signed=head >= 0xD0), at + size
    if head >= 0xDC:
        size = 2 if head in (0xDC, 0xDE) else 4
        length, at = int.from_bytes(data[at : at + size], "big"), at + size
        is_map = head >= 0xDE
    else:
        length, is_map = head & 15, head < 0x90
    items = []
    for _ in range(length * (2 if is_map else 1)):
        item, at = read_msgpack(data, at)
        items.append(item)
    return (dict(zip(items[::2], items[1::2])) if is_map else items), at


class Processor:
    """What code objects are for, by the processor in their ELF flags (EF_AMDGPU_MACH): its name, the threads of a warp, what the emulator
    calls its instructions, and the bit from which a FLAT one names its memory."""

    KNOWN = {0x4C: ("gfx942", 64, "cdna", 14), 0x41: ("gfx1100", 32, "rdna3", 16)}

    def __init__(self, objects):
        numbers = {code.flags & 0xFF for code in objects}
        if len(numbers) != 1 or not numbers <= set(self.KNOWN):
            sys.exit(f"execute.py: code objects are all for gfx942 or all for gfx1100, not for processors {sorted(numbers)}")
        self.name, self.warp, self.instructions, self.segment = self.KNOWN[numbers.pop()]


class CodeObject:
    """A code object in memory: where its kernels begin, and what their metadata says."""

    def __init__(self, path):
        data = open(path, "rb").read()
        self.flags = struct.unpack_from("<I", data, 48)[0]
        offset, count = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<H", data, 56)[0]
        segments = [struct.unpack_from("<IIQQQQQQ", data, offset + 56 * i) for i in range(count)]
        size = max(segment[3] + segment[6] for segment in segments if segment[0] == 1)
        self.memory = mmap.mmap(-1, (size + mmap.PAGESIZE - 1) // mmap.PAGESIZE * mmap.PAGESIZE)
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        for kind, _, at, address, _, in_file, _, _ in segments:
            if kind == 1:
                self.memory[address : address + in_file] = data[at : at + in_file]
            elif kind == 4:  # notes
                self.read_notes(data[at : at + in_file])
        offset, count = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<H", data, 60)[0]
        sections = [struct.unpack_from("<IIQQQQIIQQ", data, offset + 64 * i) for i in range(count)]
        self.symbols = {}
        for section in sections:
            if section[1] != 11:  # dynamic symbols
                continue
            names = sections[section[6]][4]
            for i in range(section[5] // 24):
                name, _, _, _, value, _ = struct.unpack_from("<IBBHQQ", data, section[4] + 24 * i)
                self.symbols[data[names + name : data.index(b"\0", names + name)].decode()] = value

    def read_notes(self, notes):
        at = 0
        while at + 12 <= len(notes):
            name, size, kind = struct.unpack_from("<III", notes, at)
            at += 12 + (name + 3) // 4 * 4
            if kind == 32:
                kernels = read_msgpack(notes, at)[0]["amdhsa.kernels"]
                self.kernels = {kernel[".name"]: kernel for kernel in kernels}
            at += (size + 3) // 4 * 4


def as_known(pc, processor):
    """The address of an instruction, as the emulator knows it. A FLAT one says that it has no scalar base: compilers leave 0 in the field,
    which FLAT does not read and the emulator takes for register 0. Caches are forgotten by two s_nop: there are none."""
    words = (ctypes.c_uint32 * 2).from_address(pc)
    is_flat = words[0] >> 26 == 0b110111 and words[0] >> processor.segment & 3 == 0
    if is_flat:
        words[1] |= 0x7F << 16
    # buffer_gl0_inv and buffer_gl1_inv.
    if processor.instructions == "rdna3" and words[0] in (0xE0AC0000, 0xE0B00000):
        words[0] = words[1] = 0xBF800000
    return pc


class Emulator:
    def __init__(self, folder, objects):
        sys.path.insert(0, folder)
        os.environ["DEV"] = "CPU"
        self.emulator = importlib.import_module("test.mockgpu.amd.emu")
        # It flushes numbers below the normal ones, as RDNA does where nothing is said. These kernels keep them.
        self.emulator._MXCSRContext.__enter__ = lambda context: context
        self.emulator._MXCSRContext.__exit__ = lambda context, *_: None
        self.mend()
        decode = self.emulator._decode_at
        self.emulator._decode_at = lambda pc, architecture: decode(as_known(pc, self.processor), architecture)
        codes = [CodeObject(path) for path in objects]
        self.processor = Processor(codes)
        self.kernels = {name: one for one in codes for name in one.kernels}

    def mend(self):
        """Gives each wave memory of its own for variables, of which the emulator has one for all waves of a block, and puts the memory
        that a block shares before 4 GiB of zeros: the emulator reads for lanes that are off, too, at whatever their registers hold."""
        self.shared = mmap.mmap(-1, (1 << 32) + (1 << 20), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.emulator.shared_address = ctypes.addressof(ctypes.c_char.from_buffer(self.shared))
        source = inspect.getsource(self.emulator.run_asm)
        for theirs, ours in (
            ("scratch_size * wave_size, dtypes.uint8", "scratch_size * (total_threads + wave_size), dtypes.uint8"),
            ("scratch_buf._buf.va_addr if scratch_buf", "scratch_buf._buf.va_addr + wave_start * scratch_size if scratch_buf"),
            (
                "max(lds_size // 4, 1), dtypes.uint32)",
                "max(lds_size // 4, 1), dtypes.uint32, options=BufferSpec(external_ptr=shared_address))",
            ),
        ):
            if source.count(theirs) != 1:
                sys.exit(f"execute.py: the emulator is another than that of August 2026: it lacks {theirs!r}")
            source = source.replace(theirs, ours)
        exec(source, vars(self.emulator))

    def layout(self, name):
        arguments = self.kernels[name].kernels[name][".args"]
        own = [a for a in arguments if not a[".value_kind"].startswith("hidden_")]
        return " ".join(["layout", *(f"{a['.offset']}:{a['.size']}" for a in own)])

    def run(self, name, blocks, threads, shared, arguments):
        code = self.kernels[name]
        facts = code.kernels[name]
        for argument in facts[".args"]:
            kind = argument[".value_kind"].removeprefix("hidden_")
            # Blocks and threads in x alone.
            value = {"block_count_x": blocks, "group_size_x": threads, "block_count_y": 1, "block_count_z": 1, "group_size_y": 1,
                     "group_size_z": 1, "grid_dims": 1}.get(kind, 0)
            if argument[".value_kind"] != kind:
                ctypes.memmove(arguments + argument[".offset"], value.to_bytes(argument[".size"], "little"), argument[".size"])
        descriptor = code.symbols[name + ".kd"]
        fixed_shared, scratch, _, _, entry = struct.unpack_from("<IIIIq", code.memory, descriptor)
        _, _, second, properties = struct.unpack_from("<IIIH", code.memory, descriptor + 44)
        if properties & 0b1111111 != 0b1000:
            raise ValueError(f"wants other registers than the address of its arguments ({properties:#x})")
        granules = (fixed_shared + shared + 511) // 512
        second = second & ~(0x1FF << 15) | granules << 15
        self.emulator.run_asm(code.base + descriptor + entry, 0, blocks, 1, 1, threads, 1, 1, arguments, second, scratch,
                              self.processor.instructions)


def main():
    folder, *objects, address, size = sys.argv[1:]
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    # MAP_SHARED | MAP_FIXED_NOREPLACE
    mapped = library.mmap(int(address), int(size), mmap.PROT_READ | mmap.PROT_WRITE, 0x100001, 3, 0)
    if mapped != int(address):
        sys.exit(f"execute.py: the device's memory does not map at {int(address):#x}: {os.strerror(ctypes.get_errno())}")
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    emulator = Emulator(folder, objects)
    for line in sys.stdin:
        what, *words = line.split()
        try:
            if what == "device":
                answer = f"device {emulator.processor.name} {emulator.processor.warp}"
            elif what == "layout":
                answer = emulator.layout(*words)
            else:
                emulator.run(words[0], *map(int, words[1:]))
                answer = "done"
        except Exception as error:  # the emulator's own are of every kind
            answer = "failed " + " ".join(f"{type(error).__name__}: {error}".split())
        print(answer, file=answers, flush=True)


if __name__ == "__main__":
    main()
