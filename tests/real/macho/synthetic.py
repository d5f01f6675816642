# SPDX-License-Identifier: MIT
"""Mach-O files with chained fixups in the pointer formats that no linker here writes: made byte by byte from
mach-o/fixup-chains.h, with the list of what is in them."""
import random
import struct

PAGE = 0x4000
BASE = 0x100000000
#         width stride bind next_shift next_bits ordinal_bits addend_shift addend_bits signed
FORMATS = {1: (8, 8, 62, 51, 11, 16, 32, 19, True), 2: (8, 4, 63, 51, 12, 24, 24, 8, False),
           3: (4, 4, 31, 26, 5, 20, 20, 6, False), 6: (8, 4, 63, 51, 12, 24, 24, 8, False),
           7: (8, 4, 62, 51, 11, 16, 32, 19, True), 9: (8, 8, 62, 51, 11, 16, 32, 19, True),
           10: (8, 4, 62, 51, 11, 16, 32, 19, True), 12: (8, 8, 62, 51, 11, 24, 32, 19, True)}
ARM64, ARMV7 = 0x0100000c, 12


def chain(rng, fmt, at, names):
    """The words of one page and the slots among them: (offset, name index, addend, signed)."""
    width, stride, bind, next_shift, next_bits, _, addend_shift, addend_bits, is_signed = FORMATS[fmt]
    reach = (1 << next_bits) - 1
    page, slots, offset = bytearray(PAGE), [], at
    while True:
        kind = rng.choice(("bind", "rebase", "signed") if is_signed else ("bind", "rebase"))
        step = rng.randint(width // stride + width % stride, min(reach, 40))
        last = offset + step * stride + width > PAGE or rng.random() < 0.02
        word = 0 if last else step << next_shift
        index = rng.randrange(len(names))
        if kind == "bind":
            addend = rng.choice((0, 0, rng.randrange(1 << (addend_bits - 1))))
            if is_signed and addend and rng.random() < 0.5:
                addend = -addend
            word |= 1 << bind | index | (addend & ((1 << addend_bits) - 1)) << addend_shift
            slots.append((offset, index, addend, 0))
        elif kind == "signed":
            word |= 1 << 63 | 1 << bind | index | rng.randrange(1 << 16) << 32 | rng.randrange(2) << 48 | 2 << 49
            slots.append((offset, index, 0, 1))
        else:
            word |= rng.randrange(1 << 16)
            if is_signed and rng.random() < 0.5:
                word |= 1 << 63
        struct.pack_into("<Q" if width == 8 else "<I", page, offset, word)
        if last:
            return page, slots
        offset += step * stride


def image(seed, fmt, import_format, pages=3):
    """(bytes, slots) of an image; a slot is (address, library, addend, weak, signed, name)."""
    rng = random.Random(seed)
    width = FORMATS[fmt][0]
    names = [f"_import_{i}" for i in range(40)]
    libraries = [rng.choice((1, 2, 3, -1, -2, -3)) for _ in names]
    weak = [rng.randrange(2) for _ in names]
    extra = [rng.choice((0, 5, -9)) if import_format > 1 else 0 for _ in names]
    data, expected, starts = b"", [], []
    base = BASE if width == 8 else 0x4000
    for number in range(pages):
        if number == 1 and pages > 2:
            data += bytes(PAGE)
            starts.append(0xffff)
            continue
        first = rng.randrange(0, 64, 8)
        page, slots = chain(rng, fmt, first, names)
        starts.append(first)
        data += page
        expected += [(base + PAGE * (number + 1) + offset, libraries[i], addend + extra[i], weak[i], signed, names[i])
                     for offset, i, addend, signed in slots]
    symbols, offsets = b"\0", []
    for name in names:
        offsets.append(len(symbols))
        symbols += name.encode() + b"\0"
    imports = b""
    for i in range(len(names)):
        if import_format == 3:
            imports += struct.pack("<Qq", libraries[i] & 0xffff | weak[i] << 16 | offsets[i] << 32, extra[i])
        else:
            imports += struct.pack("<I", libraries[i] & 0xff | weak[i] << 8 | offsets[i] << 9)
            imports += struct.pack("<i", extra[i]) if import_format == 2 else b""
    of_segment = struct.pack("<IHHQIH", 22 + 2 * len(starts), PAGE, fmt, PAGE, 0, len(starts))
    of_segment += b"".join(struct.pack("<H", s) for s in starts)
    of_image = struct.pack("<III", 2, 0, 16) + bytes(4) + of_segment
    of_image += bytes(-len(of_image) % 8)
    at = 32 + len(of_image)
    fixups = struct.pack("<IIIIIII", 0, 32, at, at + len(imports), len(names), import_format, 0) + bytes(4)
    fixups += of_image + imports + symbols
    link_at = PAGE * (1 + pages)
    if width == 8:
        def segment(name, address, size, offset, file_size, protection):
            return struct.pack("<II16sQQQQiiII", 0x19, 72, name, address, size, offset, file_size, protection, protection, 0, 0)
    else:
        def segment(name, address, size, offset, file_size, protection):
            return struct.pack("<II16sIIIIiiII", 1, 56, name, address, size, offset, file_size, protection, protection, 0, 0)
    commands = [segment(b"__TEXT", base, PAGE, 0, PAGE, 5), segment(b"__DATA", base + PAGE, PAGE * pages, PAGE, PAGE * pages, 3),
                segment(b"__LINKEDIT", base + link_at, PAGE * 4, link_at, len(fixups), 1),
                struct.pack("<IIII", 0x80000034, 16, link_at, len(fixups))]
    body = b"".join(commands)
    is_arm64e = FORMATS[fmt][8]
    head = struct.pack("<IIIIIII", 0xfeedfacf if width == 8 else 0xfeedface, ARM64 if width == 8 else ARMV7,
                       2 if is_arm64e else 0, 6, len(commands), len(body), 0) + (bytes(4) if width == 8 else b"")
    text = head + body
    return text + bytes(PAGE - len(text)) + data + fixups, expected
