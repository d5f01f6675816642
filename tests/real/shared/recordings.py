# SPDX-License-Identifier: MIT
"""Recordings that no program wrote, as docs/format.md describes them."""
import struct
import sys

from helpers import TESTS

sys.path.insert(0, f"{TESTS}/format")
from reader import checksum  # noqa: E402

HEADER_SIZE, STREAM = 4096, 7


def varint(value):
    size = max((value.bit_length() + 6) // 7, 1)
    if size > 8:
        return b"\0" + value.to_bytes(8, "little")
    return (value << size | 1 << size - 1).to_bytes(size, "little")


def string(text):
    return varint(len(text)) + text


def numbers(*values):
    return b"".join(map(varint, values))


def table(kind, body):
    return bytes([kind]) + varint(len(body)) + body


def _chunk(kind, stream, records, number=0):
    padded = records + bytes(-len(records) % 8)
    head = struct.pack("<IHHIIIIQQQHBBIQ", 0x4B4E4843, kind, 1, 64 + len(padded), len(records), stream, number,
                       0, 0, 0, 1, 0, 0, 1, 0)
    chunk = head + padded
    return chunk[:56] + struct.pack("<Q", checksum(chunk)) + chunk[64:]


def recording(path, events, *tables, calls=b""):
    """Each of TABLES is a chunk."""
    head = bytearray(HEADER_SIZE)
    struct.pack_into("<8sHHIQIIIIQQQQQII", head, 0, b"SONDE\r\n\x1a", 0, 0, HEADER_SIZE, 0, 0x01020304, 62, 3, 0,
                     0, 0, 0, 1000, 1000, 1, 1)
    chunks = b"".join(_chunk(2, STREAM, records, number) for number, records in enumerate(tables)) + _chunk(1, STREAM, events)
    path.write_bytes(bytes(head) + chunks + (_chunk(3, STREAM + 1, calls) if calls else b""))
    return path
