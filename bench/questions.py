#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The ready questions of a store by its size, on SQLite and on ClickHouse, whose answers must be equal.

usage: questions.py [MILLIONS…]   (default: 1 10)

The stores are made without recordings. Each build has 100 sessions with 1,000 stacks of 8 frames, so a million
occurrences are 10 builds. 800 stacks allocate, 100 leak and 100 are sampled. Of SQLite only the totals are made: the
questions read no facts. CPU time is that of sonde and of the server together, the least of three."""
import itertools
import json
import os
import pathlib
import resource
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request

from helpers import SONDE, record, sonde
from shared.clickhouse import SERVER, Server

SESSIONS, STACKS, FRAMES, DEPTH = 100, 1000, 300, 8
KINDS = (("allocations", 3, 0, 800), ("leaks", 4, 800, 900), ("samples", 0, 900, 1000))  # measure, stacks
MEASURED = sum(1 << measure for _, measure, _, _ in KINDS)
FIRST_SESSION, FIRST_BUILD, IMAGE, DEVICE, DAY = 1000, 1000, 77, 55, 20000
MASK = (1 << 64) - 1
QUESTIONS = [["builds"], ["samples"], ["allocations"], ["allocations", "BUILD"], ["leaks"], ["stalls"], ["audit"],
             ["crashes"], ["regressions", "OLD", "NEW"], ["stack", "STACK"]]


def _mix(x, y):
    """id_mix of src/tool/store/id_set.h."""
    x = (x ^ y) + 0x9e3779b97f4a7c15 & MASK
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9 & MASK
    x = (x ^ x >> 27) * 0x94d049bb133111eb & MASK
    return x ^ x >> 31


def _signed(number):
    return number - (1 << 64) if number >> 63 else number


def _frames_of(k):
    return [k % FRAMES, 290 + k // FRAMES] + [(k * 3 + 17 * i) % FRAMES for i in range(DEPTH - 2)]


def _label(j):
    return (j + 1) * 2


def _signature(k):
    signature = 0
    for j in _frames_of(k):
        signature = _mix(signature, _label(j))
    return _signed(signature)


def _count(k):
    return k % 50 + 1


def _amount(k, build):
    """Of session s, s % 10 more."""
    return k * 7919 % 10007 * 16 + build % 17


def _tables(builds):
    """{table: rows} of what facts refer to, and of sessions."""
    signatures = [_signature(k) for k in range(STACKS)]
    names = [(f"function_{j}(int, char const*)", f"/src/module_{j % 9}.cpp", j + 1) for j in range(FRAMES)]
    yield "devices", ((DEVICE, "device"),)
    yield "images", ((IMAGE, "00112233445566778899", "app", "/opt/app"),)
    yield "builds", ((FIRST_BUILD + b, f"build-{b:05}", "app", f"{b:040x}") for b in range(builds))
    yield "frames", ((b * FRAMES + j + 1, IMAGE, b * 5000 + j * 16, 0, _label(j)) for b in range(builds)
                     for j in range(FRAMES))
    yield "names", ((b * FRAMES + j + 1, 0, *names[j]) for b in range(builds) for j in range(FRAMES))
    yield "stacks", ((b * STACKS + k + 1, signatures[k], b * FRAMES + k % FRAMES + 1, DEPTH,
                      struct.pack(f"<{DEPTH}q", *(b * FRAMES + j + 1 for j in _frames_of(k))))
                     for b in range(builds) for k in range(STACKS))
    yield "sessions", ((FIRST_SESSION + b * SESSIONS + s, 10 ** 9 + b * SESSIONS + s, DEVICE, FIRST_BUILD + b, s + 1,
                        (DAY + b // 10) * 86400 * 10 ** 9 + b * 10 ** 6 + s, DAY + b // 10, 10 ** 9, 0, MEASURED, 1000, 0, 1,
                        10 ** 8, 10 ** 6, 0) for b in range(builds) for s in range(SESSIONS))


def _totals(builds):
    extra, extra_squares = sum(s % 10 for s in range(SESSIONS)), sum((s % 10) ** 2 for s in range(SESSIONS))
    for _, measure, first, last in KINDS:
        for b in range(builds):
            for k in range(first, last):
                a = _amount(k, b)
                yield (measure, FIRST_BUILD + b, b * STACKS + k + 1, 0, SESSIONS, SESSIONS * _count(k),
                       SESSIONS * a + extra, float(SESSIONS * a * a + 2 * a * extra + extra_squares))


def _fill_sqlite(path, builds):
    with sqlite3.connect(path) as db:
        for table, rows in (*_tables(builds), ("totals", _totals(builds))):
            width = len(db.execute(f"SELECT * FROM {table} LIMIT 0").description)
            db.executemany(f"INSERT INTO {table} VALUES ({','.join('?' * width)})", rows)


def _binary(row):
    out = bytearray()
    for value in row:
        if isinstance(value, int):
            out += struct.pack("<q", value)
            continue
        data = value.encode() if isinstance(value, str) else value
        assert len(data) < 128
        out += bytes([len(data)]) + data
    return out


def _insert(server, table, rows):
    columns = [line.split("\t")[0] for line in server.ask(f"DESCRIBE TABLE {table}").splitlines()]
    query = urllib.request.quote(f"INSERT INTO {table} ({','.join(columns)}) FORMAT RowBinary")
    url = f"http://127.0.0.1:{server.port}/?database=fleet&query={query}"
    rows = iter(rows)
    while part := b"".join(_binary((*row, 1) if columns[-1] == "version" else row)
                           for row in itertools.islice(rows, 100000)):
        urllib.request.urlopen(url, data=part).read()


def _fill_clickhouse(server, builds):
    for table, rows in _tables(builds):
        _insert(server, table, rows)
    for table, _, first, last in KINDS:
        each = last - first
        for begin in range(0, builds, 100):  # a statement for each 10 million sessions and stacks at most
            count = min(100, builds - begin)
            extras = ", 0, 0" if table == "allocations" else ""
            server.ask(f"""INSERT INTO {table} SELECT toInt64({FIRST_SESSION} + b * {SESSIONS} + s),
                toInt64(b * {STACKS} + k + 1), 0, toInt64(k % 50 + 1),
                toInt64((k * 7919) % 10007 * 16 + b % 17 + s % 10){extras}, toInt64({FIRST_BUILD} + b),
                toInt64({DAY} + intDiv(b, 10)) FROM (SELECT {begin} + intDiv(number, {SESSIONS * each}) AS b,
                intDiv(number % {SESSIONS * each}, {each}) AS s, {first} + number % {each} AS k
                FROM system.numbers LIMIT {count * SESSIONS * each})""")


def _children_cpu():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _ask(url, words, server=None):
    """CPU seconds, seconds, and the rows."""
    best = None
    for _ in range(3):
        own, others, began = _children_cpu(), server.cpu_s() if server else 0, time.monotonic()
        done = subprocess.run([SONDE, "query", "--json", "--to", url, *words], capture_output=True, text=True, check=False)
        took, used = time.monotonic() - began, _children_cpu() - own
        assert done.returncode in (0, 1), done.stderr
        used += (server.cpu_s() if server else 0) - others
        best = min(best or (used, took), (used, took))
    return *best, json.loads(done.stdout)["rows"]


def _equal(one, other):
    if isinstance(one, float) or isinstance(other, float):
        return abs(one - other) <= 1e-9 * max(abs(one), abs(other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    return one == other


def measure(folder, millions):
    builds, path = millions * 10, folder / f"{millions}.sqlite"
    empty, _ = record(["true"], "--stall")
    print(f"{millions} million occurrences: {builds} builds, {builds * STACKS} stacks", flush=True)
    sonde("store", "--to", f"sqlite:{path}", empty)
    _fill_sqlite(path, builds)
    known = {"OLD": "build-00000", "NEW": "build-00001", "BUILD": "build-00003", "STACK": f"{STACKS + 5:016x}"}
    with Server(folder / str(millions)) as server:
        sonde("store", "--to", server.url(), empty)
        _fill_clickhouse(server, builds)
        print(f"{'':28}   SQLite: CPU, elapsed   ClickHouse: CPU, elapsed")
        for words in QUESTIONS:
            words = [known.get(word, word) for word in words]
            local, remote = _ask(f"sqlite:{path}", words), _ask(server.url(), words, server)
            same = _equal(local[2], remote[2])
            print(f"{' '.join(words):40} {local[0]:6.2f} {local[1]:6.2f} {remote[0]:6.2f} {remote[1]:6.2f}  "
                  f"{len(local[2])} rows, {'equal' if same else 'DIFFERENT'}", flush=True)
            assert same, (words, local[2][:2], remote[2][:2])
        facts = server.ask("SELECT sum(rows), sum(bytes_on_disk) FROM system.parts WHERE active AND database = 'fleet' AND"
                           " table IN ('allocations', 'leaks', 'samples')").split()
        print(f"{facts[0]} facts in {int(facts[1]) / 1e6:.0f} MB of ClickHouse, SQLite without facts "
              f"{path.stat().st_size / 1e6:.0f} MB")


def main():
    if not SERVER:
        print("clickhouse-server is not installed")
        return
    os.environ["XDG_DATA_HOME"] = tempfile.mkdtemp(prefix="sonde-bench-")
    with tempfile.TemporaryDirectory(prefix="sonde-bench-questions-") as name:
        for millions in [int(word) for word in sys.argv[1:]] or [1, 10]:
            measure(pathlib.Path(name), millions)


if __name__ == "__main__":
    main()
