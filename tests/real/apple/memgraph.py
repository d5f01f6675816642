# SPDX-License-Identifier: MIT
"""Memory graphs, made with Python's plistlib: the containers that Apple's tools put around property lists and around the
data in them, archives as NSKeyedArchiver lays them out, and binary lists that plistlib would not write."""
import gzip
import plistlib
import struct
import uuid

STORED, GZIP, LZFSE = 0, 1, 2


def packed(data, how=GZIP):
    inner = gzip.compress(data, 1, mtime=0) if how == GZIP else data
    return struct.pack("<IIII", 16, len(inner), len(data), how << 16) + inner


def archive(root, *more):
    """An archive whose root is ROOT; MORE are its other members, from number 2 on."""
    return plistlib.dumps({"$version": 100000, "$archiver": "NSKeyedArchiver", "$top": {"root": plistlib.UID(1)},
                           "$objects": ["$null", root, *more]}, fmt=plistlib.FMT_BINARY)


def archived_images(images):
    """An archived array of dictionaries: keys, values and UUIDs are members that the dictionaries name by number."""
    members, keys = [], ["loadAddress", "path", "uuid", "size"]
    number = lambda member: members.append(member) or plistlib.UID(len(members) + 1)
    names = [number(key) for key in keys]
    entries = []
    for start, size, path, uid in images:
        values = [number(start), number(path), number({"NS.uuidbytes": uuid.UUID(uid).bytes}), number(size)]
        entries.append(number({"NS.keys": names, "NS.objects": values}))
    return archive({"NS.objects": entries}, *members)


def described(images):
    return "Binary Images:\n" + "".join(
        f"{start:#18x} - {start + size - 1:#18x} +{path.rsplit('/', 1)[-1]} (1.0) <{uid}> {path}\n"
        for start, size, path, uid in images)


def graph(**details):
    """What surrounds the process' part, as far as it is known."""
    return {"graphCompatibilityVersion": 2, "graphEncodingVersion": 2, "nodes": 0, "edges": 0, "options": 1,
            "details": {"directedGraphInfo": {"compactEdgeList": packed(bytes(4000))},
                        "processGraphInfo": {"pid": 812, "processName": "App", "vmPageSize": 16384, **details}}}


def binary(top):
    return plistlib.dumps(top, fmt=plistlib.FMT_BINARY)


def with_log(plist, log, tag=b"DISKLOGS"):
    at = 48 + len(plist)
    start = (at + 32 + 15) // 16 * 16
    return (b"MEMGRAPH" + struct.pack("<QQQQIHH", 0, 48, len(plist), at, 1, 32, 48) + plist +
            tag + struct.pack("<QQQ", 0, start, len(log)) + bytes(start - at - 32) + log)


def reported(data):
    return b'{"app_name":"App","bug_type":"154","length":%d}\n' % len(data) + data + b"\n"


def array(*numbers):
    size = bytes([0xa0 | len(numbers)]) if len(numbers) < 15 else b"\xaf\x12" + struct.pack(">I", len(numbers))
    return size + struct.pack(f">{len(numbers)}I", *numbers)


def raw(objects, count=None, top=0, table=None):
    """A binary list of OBJECTS as they are; COUNT, TOP and the offset of the TABLE may lie."""
    out, offsets = bytearray(b"bplist00"), []
    for each in objects:
        offsets.append(len(out))
        out += each
    end = len(out)
    out += struct.pack(f">{len(offsets)}I", *offsets)
    return bytes(out + struct.pack(">6xBBQQQ", 4, 4, len(objects) if count is None else count, top, end if table is None else table))
