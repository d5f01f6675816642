#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`sonde events` prints every record of a recording. A recording with one record of every kind that
docs/format.md names is written here, and each record must become a line that says its kind."""
import collections
import json
import re
import struct

from helpers import SOURCE, run_cases, sonde, try_sonde
from shared.recordings import STREAM, numbers, recording, string, table, varint

FORMAT = open(f"{SOURCE}/docs/format.md", encoding="utf-8").read()
FRAME = 3
# A field that is 0 and a string that is empty are the same byte, so this is a body of any kind.
ZERO = b"\x01"
BODY = ZERO * 40
# The line of each kind: its "event" or "table".
EVENTS = {1: "malloc", 2: "free", 3: "realloc", 4: "calloc", 5: "aligned", 7: "sample"}
EXTENDED = {
    1: "sampling", 2: "mode", 3: "snapshot", 4: "block", 5: "marker", 6: "mapping", 7: "maps", 8: "pool_free",
    9: "process", 10: "children", 11: "searched", 12: "leaked", 32: "stall", 33: "stall_sample", 34: "stall_lock", 35: "stall_end", 36: "loop",
    37: "not_monitored", 40: "cpu_episode", 41: "cpu_thread", 42: "cpu_process", 43: "thread_time",
    44: "process_time", 45: "usage", 46: "wall", 47: "wall_thread", 48: "audit", 49: "audit", 50: "syscall",
    51: "coverage", 52: "audit_result", 64: "crash", 65: "crash_thread"}
TABLES = {1: "process", 2: "image", 3: "unloaded", 4: "thread", 5: "frame", 6: "node", 7: "chain",
          8: "node", 9: "evaluator_call", 16: "frame", 17: "tracer", 18: "seccomp", 19: "patched", 20: "call_limits", 24: "frame", 25: "code", 26: "outside", 48: "policy", 49: "policy_text", 50: "audited"}


def _section(title):
    """The text of docs/format.md below a heading, up to the next heading of its level or above."""
    level = re.search(rf"^(#+) {re.escape(title)}$", FORMAT, re.M)
    return re.split(rf"^#{{1,{len(level[1])}}} ", FORMAT[level.end():], maxsplit=1, flags=re.M)[0]


def _kinds(column, *titles):
    """The numbers that the tables of these sections list whose first column is called COLUMN. Other tables there
    list causes, fields and so on."""
    text = "\n".join(_section(title) for title in titles)
    tables = re.findall(rf"^\| {column} \|.*\n\|-.*\n((?:\|.*\n)+)", text, re.M)
    return {int(number) for rows in tables for number in re.findall(r"^\| (\d+)\b", rows, re.M)}


def _every_table():
    bodies = {1: numbers(1) + string(b"/bin/x"), 2: numbers(1, 0, 1, 9, 0) + string(b"id") + string(b"/bin/x"),
              3: numbers(1, 5), 4: numbers(STREAM, 1, 0, 0) + string(b"thread"), 5: numbers(FRAME, 7, 1, 0),
              6: numbers(1, 0, FRAME), 7: numbers(1, 0, FRAME, 1), 8: numbers(5, 1, 1), 9: numbers(FRAME), 16: numbers(FRAME) + string(b"-[A b]"), 17: numbers(2, 1),
              18: numbers(0, 1, 0) + string(b"read"), 19: numbers(0, 3), 20: numbers(1000, 3), 24: numbers(FRAME, 0, 12) + string(b"f") + string(b"f.c"),
              25: numbers(16, 8, 0, 1, 0, 0) + string(b"JS:*f /f.js:1:2"), 26: numbers(5), 48: BODY, 49: b"text: 1\n", 50: numbers(0, 1)}
    assert set(bodies) == _kinds("type", "Records of tables"), set(bodies) ^ _kinds("type", "Records of tables")
    return b"".join(table(kind, bodies[kind]) for kind in sorted(bodies))


def _extended(kind, body=BODY):
    return bytes([6, kind]) + varint(len(body)) + body


def _lines(path, *options):
    return [json.loads(line) for line in sonde("events", *options, path).splitlines()]


def every_kind_of_extended_record_is_printed(folder):
    kinds = _kinds("subtype", "Extended records", "Stalls, CPU, wall time")
    assert kinds == set(EXTENDED), kinds ^ set(EXTENDED)
    for kind in sorted(kinds):
        records = _extended(kind)
        if kind == 49:  # the call before it again
            records = _extended(48) + _extended(49, numbers(len(_extended(48))))
        said = [line["event"] for line in _lines(recording(folder / "run.sonde", records, table(1, numbers(1))))]
        assert set(said) == {EXTENDED[kind]}, (kind, said)
        assert len(said) == (8 if kind == 4 else 2 if kind == 49 else 1), (kind, said)
    unknown = _lines(recording(folder / "run.sonde", _extended(99), table(1, numbers(1))))
    assert [(line["event"], line["subtype"], line["bytes"]) for line in unknown] == [("unknown", 99, len(BODY))]


def every_kind_of_event_is_printed(folder):
    kinds = _kinds("kind", "Records of events") - {6}  # 6 stands for the extended records
    assert kinds == set(EVENTS), kinds ^ set(EVENTS)
    records = b"".join(bytes([kind]) + ZERO * {2: 2, 3: 5, 7: 2}.get(kind, 3) for kind in sorted(kinds))
    said = collections.Counter(line["event"] for line in _lines(recording(folder / "run.sonde", records, _every_table())))
    assert said == collections.Counter(EVENTS.values()), said


def every_definition_is_printed(folder):
    path = recording(folder / "run.sonde", b"", _every_table())
    lines = _lines(path, "--tables")
    said = collections.Counter(line["table"] for line in lines)
    assert said.pop("node") == 3, said  # a stack, and the merged stack of a native and a Python frame
    assert said == collections.Counter(set(TABLES.values()) - {"node"}), said  # the frame with its name and functions is one line
    by = {line["table"]: line for line in lines}
    assert by["frame"]["name"] == "-[A b]" and by["frame"]["functions"][0]["line"] == 12, by["frame"]
    assert by["seccomp"]["forbidden"] == [{"call": "read"}] and by["policy_text"]["text"] == "text: 1\n", by
    unknown = _lines(recording(path, b"", table(1, numbers(1)) + table(99, BODY)), "--tables")
    assert unknown[-1] == {"table": "unknown", "type": 99, "bytes": len(BODY)}, unknown


def every_kind_of_call_is_printed(folder):
    def four(kind, value):
        return struct.pack("<I", 3 | kind << 3 | value << 6)

    def eight(kind, value):
        return struct.pack("<Q", 3 | 4 | kind << 3 | value << 6)

    enter, leave = struct.pack("<I", 2 | FRAME << 2), struct.pack("<H", 1)
    calls = (eight(3, 0) + enter + leave + eight(0, FRAME) + four(0, 1) + enter + four(1, 1) + four(2, 1) + eight(1, 5)
             + enter + eight(2, 1))
    said = collections.Counter(line["event"] for line in _lines(recording(folder / "run.sonde", b"", _every_table(), calls=calls)))
    assert said == {"call": 4, "return": 3, "unwind": 1, "lost_return": 1}, said


def a_stack_id_is_answered(folder):
    events = bytes([1, 1, varint(64)[0], 3]) + bytes([2, 1, 3]) + bytes([7, 1, 3])  # all with stack 1
    path = recording(folder / "run.sonde", events, _every_table())
    told = sonde("history", path, "stack:1").splitlines()
    assert told[:2] == ["stack 1", "    -[A b]"], told
    assert told[2].startswith("1 malloc, 1 free, 1 samples, 64 B allocated; from "), told
    assert "no stack 2 in the recording" in try_sonde("history", path, "stack:2").stderr
    assert try_sonde("history", path, "stack:0").returncode == 2
    assert sonde("history", path, "1") == sonde("history", path, "stack", "1") == "\n".join(told) + "\n"
    assert "no block contained 0x1000\n" == sonde("history", path, "0x1000")
    assert "no block contained 0x99999999999\n" == sonde("history", path, "99999999999")  # more than an id


def a_stack_of_every_kind_of_record_is_answered(folder):
    stack = 1
    bodies = {5: (string(b"here") + numbers(stack), "1 markers"), 6: (numbers(1, 4096, 64, stack, 0, 0, 0, 0, 0), "1 calls for mappings"),
              8: (numbers(1, 4096, 64, stack), "1 pool blocks"), 33: (numbers(1, 0, stack), "1 stall samples"),
              34: (numbers(1, 7, 8, 4096, 83, 0, stack), "1 locks that a stall waited for"), 46: (numbers(7, 9, 3, stack), "3 wall samples"),
              48: (numbers(0, stack), "1 audited calls"), 50: (numbers(1, 59, 0, stack, 5), "5 system calls"),
              12: (numbers(stack, 2, 96, 0, 0, 0, 0, 8, 48), "96 B in 2 blocks leaked"),
              4: (numbers(128, 32, stack, STREAM, 0) * 2, "64 B in 2 blocks live in the last snapshot"),
              64: (numbers(11, 1, 0, 3, stack), "thread 3 crashed here"), 65: (numbers(7, 83, stack), "thread 7 was here")}
    text = _section("Extended records") + _section("Stalls, CPU, wall time")
    rows = re.findall(r"^\| (\d+) \|[^|]*\|([^|]*)\|", text, re.M)
    with_stack = {int(number) for number, layout in rows if re.search(r"[ ,]stack\b(?! as it)", layout)} | {48, 50}
    assert with_stack <= set(bodies), with_stack - set(bodies)
    for kind, (body, words) in bodies.items():
        before = _extended(64, numbers(11, 1, 0, 3, 2)) if kind == 65 else b""
        path = recording(folder / "run.sonde", before + _extended(kind, body), _every_table())
        told = sonde("history", path, "1")
        assert words in told, (kind, told)
        assert "no event" in sonde("history", path, "5"), kind  # another stack


def an_address_in_a_snapshot_is_answered(folder):
    path = recording(folder / "run.sonde", _extended(3, numbers(1, 0)) + _extended(4, numbers(128, 32, 1, STREAM, 0)), _every_table())
    told = sonde("history", path, "0x5f").splitlines()
    assert told[0].endswith("malloc 0x40  32 bytes  thread 1 thread  stack 1") and told[-1].endswith("  still allocated"), told
    assert sonde("history", path, "0x60") == "no block contained 0x60\n"


run_cases(globals())
