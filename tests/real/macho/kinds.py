# SPDX-License-Identifier: MIT
"""Mach-O executables of any width and byte order, made byte by byte from mach-o/loader.h and mach-o/nlist.h, for no
linker here writes 32-bit ones. Each has code with symbols, the stabs of a debug map beside them, and a UUID."""
import random
import struct

#         cputype, subtype, 64-bit, big-endian
KINDS = {"i386": (7, 3, False, False), "armv7": (12, 9, False, False), "ppc": (18, 0, False, True),
         "x86_64": (0x01000007, 3, True, False), "arm64": (0x0100000c, 0, True, False)}
N_FUN, N_SO, N_OSO, N_SECT, N_EXT = 0x24, 0x64, 0x66, 0x0e, 0x01
PAGE = 0x4000


def _padded(text, size):
    return text.encode().ljust(size, b"\0")


def executable(kind, seed, stripped=False):
    """(bytes, base, {address: name}, end of the code, uuid)."""
    cpu, subtype, wide, big = KINDS[kind]
    rng, order = random.Random(seed), ">" if big else "<"
    base = 0x100000000 if wide else 0x4000
    text = base + 0x1000
    names, address = {}, text
    for i in range(100):
        names[address] = f"_function_{i}_{rng.randrange(1 << 30):x}"
        address += rng.randrange(1, 30) * 4
    strings, symbols = b"\0", []

    def add(name, kind_of, section, description, value):
        nonlocal strings
        symbols.append(struct.pack(order + ("IBBHQ" if wide else "IBBHI"), len(strings), kind_of, section, description,
                                   value))
        strings += name.encode() + b"\0"

    if not stripped:
        starts = sorted(names)
        add("/source/", N_SO, 1, 0, 0)
        add("/source/a.o", N_OSO, 0, 1, 0)
        for at, end in zip(starts[:50], starts[1:]):  # stabs name the same functions, and their sizes
            add(names[at], N_FUN, 1, 0, at)
            add("", N_FUN, 0, 0, end - at)
        add("", N_SO, 1, 0, 0)
        shuffled = list(names.items())
        rng.shuffle(shuffled)
        for at, name in shuffled:
            add(name, N_SECT | rng.choice((0, N_EXT)), 1, 0, at)
    uuid = rng.randbytes(16)
    segment, section = (0x19, "16sQQQQiiII") if wide else (0x1, "16sIIIIiiII"), "16s16sQQ8I" if wide else "16s16sII7I"
    head = 32 if wide else 28
    sizes = [8 + struct.calcsize(order + segment[1]) + n * struct.calcsize(order + section) for n in (1, 0)]
    linkedit = b"".join(symbols) + strings
    commands = struct.pack(order + "II" + segment[1], segment[0], sizes[0], _padded("__TEXT", 16), base, PAGE, 0, PAGE,
                           5, 5, 1, 0)
    commands += struct.pack(order + section, _padded("__text", 16), _padded("__TEXT", 16), text, address - text, 0x1000,
                            2, 0, 0, 0x80000400, *([0] * (3 if wide else 2)))
    commands += struct.pack(order + "II" + segment[1], segment[0], sizes[1], _padded("__LINKEDIT", 16), base + PAGE,
                            PAGE * 4, PAGE, len(linkedit), 1, 1, 0, 0)
    commands += struct.pack(order + "6I", 0x2, 24, PAGE, len(symbols), PAGE + len(b"".join(symbols)), len(strings))
    commands += struct.pack(order + "II16s", 0x1b, 24, uuid)
    header = struct.pack(order + "7I", 0xfeedfacf if wide else 0xfeedface, cpu, subtype, 2, 4, len(commands), 0x85)
    image = (header + bytes(head - 28) + commands).ljust(PAGE, b"\x90") + linkedit
    return image, base, names, address, uuid.hex()
