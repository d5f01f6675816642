# SPDX-License-Identifier: MIT
"""Apple's malloc stack logs, made with struct from the documented layouts: records of three sizes, the serialised
stack table in both of its forms, the tree of regions. What is in them is returned beside them."""
import struct

DISGUISE = 0x5555
ALLOC, DEALLOC, VM_ALLOCATE, VM_DEALLOCATE, MAPPED = 2, 4, 16, 32, 128
NONE = (1 << 64) - 1


def record(size, argument, address, stack, kind, tag=0):
    if size == 32:
        return struct.pack("<QQQQ", argument, address ^ DISGUISE, stack, kind | tag << 24)
    word = (stack & 0xffffffffffff) | tag << 48 | kind << 56
    if size == 24:
        return struct.pack("<QQQ", argument, address ^ DISGUISE, word)
    return struct.pack("<IIQ", argument, address ^ DISGUISE, word)


class Table:
    """Nodes are put in anywhere, as by a hash; a stack is put in from its outermost frame."""

    def __init__(self, rng, count, lite=False):
        self.rng, self.count, self.lite = rng, count, lite
        self.nodes, self.ids = {}, {}

    def stack(self, frames):
        """The id of FRAMES, innermost first, the thread's pseudo-frame last."""
        parent = None
        for pc in reversed(frames):
            if (parent, pc) not in self.ids:
                while (place := self.rng.randrange(self.count)) in self.nodes:
                    pass
                self.nodes[place] = (pc, parent)
                self.ids[parent, pc] = place
            parent = self.ids[parent, pc]
        return parent

    def bytes(self):
        control = struct.pack("<QQQQQiQQII", self.count * 16 // 4096, self.count, self.count * 16, 0, 0x10ff00000, 19, 0,
                              0xffffffffffff, 2 if self.lite else 0, 0)
        assert len(control) == 68
        out = bytearray((b"MslUniquingTable" + control).ljust(16384, b"\0"))
        out += bytes(16 * self.count)
        for place, (pc, parent) in self.nodes.items():
            if self.lite:
                above = 0xffffffff if parent is None else parent
                packed = pc | above << 48 | 64 << 80
                struct.pack_into("<QQ", out, 16384 + place * 16, packed & NONE, packed >> 64)
            else:
                struct.pack_into("<QQ", out, 16384 + place * 16, pc, NONE if parent is None else parent)
        return bytes(out)


def regions(entries):
    """The tree of (address, bytes, stack); keys are 52 bits, cut into labels of at most 11."""
    nodes = [None]

    def build(node, items, bits):
        edges = []
        for first in sorted({key >> (51 - bits) & 1 for key, _, _ in items}):
            group = [i for i in items if i[0] >> (51 - bits) & 1 == first]
            length = 1
            while length < 11 and bits + length < 52 and len({k >> (51 - bits - length) for k, _, _ in group}) == 1:
                length += 1
            label = group[0][0] >> (52 - bits - length) & ((1 << length) - 1)
            is_leaf = bits + length == 52
            number = len(nodes)
            nodes.append(None)
            edges.append(label | number << 11 | length << 27 | is_leaf << 31)
            if is_leaf:
                nodes[number] = struct.pack("<II", group[0][2], group[0][1] >> 12)
            else:
                build(number, group, bits + length)
        nodes[node] = struct.pack("<II", *(edges + [0, 0])[:2])

    build(0, [(address >> 12, size, stack) for address, size, stack in entries], 0)
    return b"radixv2\0" + struct.pack("<III", 12, len(nodes), 0) + b"".join(nodes)


def history(rng, count, stacks, narrow=False):
    """(kind, argument, address, stack, tag) of COUNT records that a program could have made."""
    live, out = {}, []
    top = 0x7000_0000 if narrow else 0x1_2345_0000
    while len(out) < count:
        stack = rng.choice(stacks)
        if live and rng.random() < 0.45:
            address = rng.choice(list(live)[-64:])
            out.append((DEALLOC, 0, address, stack, 0))
            del live[address]
        elif rng.random() < 0.02:
            region = (top & ~0xfffff) + 0x4000_0000 + rng.randrange(1 << 10) * 0x4000
            kind = rng.choice((VM_ALLOCATE, VM_DEALLOCATE, VM_ALLOCATE | MAPPED))
            out.append((kind, 0x4000 * rng.randrange(1, 9), region, stack, rng.choice((0, 30, 60, 73, 240, 255))))
        else:
            address = top + rng.randrange(1 << 12) * 0x20000 + rng.randrange(64) * 16
            if any(address >> 17 == other >> 17 for other in live):
                continue
            live[address] = rng.choice((16, 48, 4096, 100000, 1))
            out.append((ALLOC, live[address], address, stack, 0))
    return out, live
