# SPDX-License-Identifier: MIT
"""Copies of a recording as other runs, devices and builds would have made them: each image at another
address, another build-id of the executable, another process and time. The events are the same.

Written from docs/format.md; a recording that is packed or still being written has another form."""
import os
import random
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "format"))
from reader import Bytes, checksum  # noqa: E402

HEADER = 4096
CHUNK = 64
TABLES = 2
IMAGE, FRAME = 2, 5
MASK = (1 << 64) - 1


def _put(value):
    size = max(1, -(-value.bit_length() // 7))
    if size > 8:
        return b"\0" + struct.pack("<Q", value)
    return ((value << 1 | 1) << size - 1).to_bytes(size, "little")


class _Moved(dict):
    """By how many bytes the image with this id is elsewhere; 0: code in no image stays."""

    def __init__(self, seed):
        super().__init__({0: 0})
        self.rng = random.Random(seed)

    def __missing__(self, image):
        self[image] = self.rng.randrange(1 << 16) << 12
        return self[image]


class Original:
    """A finished recording of PROGRAM, the path of an executable."""

    def __init__(self, path, program):
        self.program = os.fsencode(program)
        with open(path, "rb") as file:
            self.data = file.read()
        self.chunks, at = [], HEADER
        while at + CHUNK <= len(self.data) and self.data[at:at + 4] == b"CHNK":
            size = struct.unpack_from("<I", self.data, at + 8)[0]
            chunk = self.data[at:at + size]
            self.chunks.append(chunk)
            kept = struct.unpack_from("<Q", chunk, 56)[0]
            assert not struct.unpack_from("<H", chunk, 6)[0] & 1 or self._sum(chunk) == kept, "not as in format.md"
            at += size

    @staticmethod
    def _sum(chunk):
        return checksum(chunk[:56] + bytes(8) + chunk[64:])

    def _image(self, body, moved, build_id):
        numbers = [body.varint() for _ in range(5)]
        identity, path = body.string(), body.data[body.at:]
        numbers[2:] = [number + moved[numbers[0]] & MASK for number in numbers[2:]]
        if build_id and path.endswith(self.program):
            identity = build_id
        return b"".join(map(_put, numbers)) + _put(len(identity)) + identity + path

    @staticmethod
    def _frame(body, moved):
        number, pc, image = (body.varint() for _ in range(3))
        return _put(number) + _put(pc + moved[image]) + _put(image) + body.data[body.at:]

    def _tables(self, chunk, moved, build_id):
        used = struct.unpack_from("<I", chunk, 12)[0]
        records, out = Bytes(chunk[CHUNK:CHUNK + used]), bytearray()
        while records.more() and (kind := records.byte()):
            body = records.string()
            if kind == IMAGE:
                body = self._image(Bytes(body), moved, build_id)
            elif kind == FRAME:
                body = self._frame(Bytes(body), moved)
            out += bytes([kind]) + _put(len(body)) + body
        whole = bytearray(chunk[:CHUNK]) + out + bytes(-len(out) % 8)
        struct.pack_into("<II", whole, 8, len(whole), len(out))
        struct.pack_into("<Q", whole, 56, self._sum(bytes(whole)))
        return bytes(whole)

    def layout(self, seed, build_id=b""):
        """The chunks of a run whose images are elsewhere."""
        moved = _Moved(seed)
        return b"".join(
            self._tables(chunk, moved, build_id) if struct.unpack_from("<H", chunk, 4)[0] == TABLES else chunk
            for chunk in self.chunks)

    def header(self, pid, later_ns=0):
        """The header of a run as process PID, LATER_NS after the original."""
        header = bytearray(self.data[:HEADER])
        started = struct.unpack_from("<Q", header, 56)[0]
        struct.pack_into("<Q", header, 56, started + later_ns)
        struct.pack_into("<I", header, 80, pid)
        return bytes(header)
