# SPDX-License-Identifier: MIT
"""Fat Mach-O files, put together as mach-o/fat.h says, with headers of either width."""
import struct

X86_64, ARM64, ARM64E = (0x01000007, 3), (0x0100000c, 0), (0x0100000c, 0x80000002)  # the top bits: its ABI
ALIGN = 14


def as_arm64e(image, uuid):
    """An image for arm64 as one for arm64e, of another build."""
    out = bytearray(image)
    struct.pack_into("<I", out, 8, ARM64E[1])
    at = uuid_at(image)
    out[at:at + 16] = uuid
    return bytes(out)


def uuid_at(image):
    at, count = 32, struct.unpack_from("<I", image, 16)[0]
    for _ in range(count):
        command, size = struct.unpack_from("<II", image, at)
        if command == 0x1b:
            return at + 8
        at += size
    raise SystemExit("the linker wrote no UUID")


def lay_out(slices, start=1 << ALIGN):
    """[[processor, offset, size]] of (processor, image)."""
    entries = []
    for processor, image in slices:
        entries.append([processor, start, len(image)])
        start += (len(image) + (1 << ALIGN) - 1) >> ALIGN << ALIGN
    return entries


def header(entries, wide, count=None):
    out = struct.pack(">II", 0xcafebabf if wide else 0xcafebabe, len(entries) if count is None else count)
    for (cpu, subtype), offset, size in entries:
        out += struct.pack(">IIQQII" if wide else ">IIIII", cpu, subtype, offset, size, ALIGN, *([0] if wide else []))
    return out


def write(path, slices, wide, *, told=None, count=None, start=1 << ALIGN):
    """SLICES at their places; the header says TOLD of them instead, where that is given."""
    entries = lay_out(slices, start)
    with open(path, "wb") as file:
        file.write(header(told or entries, wide, count))
        for (_, offset, _), (_, image) in zip(entries, slices):
            file.seek(offset)
            file.write(image)
    return entries
