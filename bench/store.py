#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A store of many recordings: how fast `sonde store` fills it, how large it is, how long the ready queries take,
and that a hundred kills of the loader leave exact totals.

usage: store.py [RECORDINGS]   (default 10000)

One program is recorded, with a thousand stacks of allocations. Its copies are what runs of a hundred builds on a
hundred devices would have recorded: images at other addresses, other build-ids of the executable, other processes
and times (tests/real/shared/derived.py). Reading them is part of the measured time; they are in the page cache."""
import json
import os
import pathlib
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

from helpers import SONDE, compile_c, record, sonde, try_sonde, write
from shared.derived import Original

BUILDS, LAYOUTS, CHUNK, KILLS = 100, 8, 1000, 100

def program():
    """C with a thousand call paths: ten functions call ten, which call ten; each path allocates and frees."""
    parts = ["#include <stdlib.h>", "static void *kept[4096];", "static int n;"]
    for x in range(10):
        parts.append(f"__attribute__((noinline)) void leaf{x}(int i) {{ for (int k = 0; k < 20; k++) "
                     f"free(kept[n % 4096]), kept[n++ % 4096] = malloc(16 + (i * 7 + {x}) % 999); }}")
    for outer, inner in (("mid", "leaf"), ("top", "mid")):
        for x in range(10):
            calls = " ".join(f"{inner}{y}(i + {y});" for y in range(10))
            parts.append(f'__attribute__((noinline)) void {outer}{x}(int i) {{ {calls} __asm__(""); }}')
    parts.append("int main(void) {" + " ".join(f"top{x}({x});" for x in range(10)) + " return 0; }")
    return "\n".join(parts)


def made():
    binary = compile_c(write(program(), ".c"), "-O1", "-g", "-fno-optimize-sibling-calls", "-Wl,--build-id")
    path, done = record([binary], "--malloc", "--sample")
    assert done.returncode == 0, done
    original = Original(path, binary)
    layouts = [[original.layout(1000 * build + i, build_id(build)) for i in range(LAYOUTS)] for build in range(BUILDS)]
    return original, layouts


def build_id(build):
    return b"%04d of the builds.." % build


def debug_files(folder, original):
    """A file with the names of each build, under its build-id."""
    program = pathlib.Path(os.fsdecode(original.program)).read_bytes()
    note = program.index(b"GNU\0", program.index(b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0"))
    for build in range(BUILDS):
        name = build_id(build).hex()
        path = folder / ".build-id" / name[:2] / f"{name[2:]}.debug"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(program[:note + 4] + build_id(build) + program[note + 24:])
    return folder


def symbolize(folder, url, original):
    took, used, out = timed("store", "symbolize", "--json", "--to", url, "--debug-dir", debug_files(folder, original))
    told = json.loads(out)
    print(f"{told['named']} of {told['addresses']} addresses in {told['images']} images named in {took:.1f} s, "
          f"{used:.1f} s of CPU time")
    assert told["named"] > 0.99 * told["addresses"], told


def derive(folder, original, layouts, first, count):
    folder.mkdir()
    for number in range(first, first + count):
        build = number % BUILDS
        (folder / f"{number}.sonde").write_bytes(
            original.header(number + 1, later_ns=number * 60_000_000_000) + layouts[build][number // BUILDS % LAYOUTS])


def timed(*words):
    began, before = time.monotonic(), os.times()
    done = try_sonde(*words, timeout=3600)
    after = os.times()
    assert done.returncode in (0, 1) and "are not compared" not in done.stderr, done  # 1: there are regressions
    return time.monotonic() - began, after.children_user + after.children_system - before.children_user - \
        before.children_system, done.stdout


def fill(folder, url, original, layouts, count):
    wall = cpu = events = 0
    for first in range(0, count, CHUNK):
        uploads = folder / "uploads"
        derive(uploads, original, layouts, first, min(CHUNK, count - first))
        took, used, out = timed("store", "--json", "--to", url, uploads)
        told = json.loads(out)
        assert told["sessions"] == min(CHUNK, count - first), told
        wall, cpu, events = wall + took, cpu + used, events + told["events"]
        shutil.rmtree(uploads)
    return wall, cpu, events


def kill_loaders(folder, original, layouts):
    """What the totals are after KILLS kills, and what they should be."""
    rng, uploads, store, kills = random.Random(1), folder / "killed", folder / "killed.sqlite", 0
    derive(uploads, original, layouts, 0, 3000)
    while kills < KILLS:
        loader = subprocess.Popen([SONDE, "store", "--to", f"sqlite:{store}", uploads], stdout=subprocess.DEVNULL)
        try:
            loader.wait(timeout=rng.random() * 0.5)
            store.unlink()  # all are stored: once more
        except subprocess.TimeoutExpired:
            loader.send_signal(signal.SIGKILL)
            loader.wait()
            kills += 1
    sonde("store", "--to", f"sqlite:{store}", uploads, timeout=3600)
    alone = folder / "alone.sqlite"
    one = folder / "one.sonde"
    one.write_bytes(original.header(1) + layouts[0][0])
    sonde("store", "--to", f"sqlite:{alone}", one)
    sql = "SELECT measure, sum(sessions), sum(count), sum(amount) FROM totals GROUP BY 1"
    rows = [sqlite3.connect(path).execute(sql).fetchall() for path in (store, alone)]
    expected = [(row[0], *(3000 * value for value in row[1:])) for row in rows[1]]
    shutil.rmtree(uploads)
    return rows[0] == expected


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 and int(sys.argv[1]) > 1 else 10000
    with tempfile.TemporaryDirectory(prefix="sonde-bench-store-") as name:
        folder = pathlib.Path(name)
        original, layouts = made()
        store = folder / "fleet.sqlite"
        url = f"sqlite:{store}"
        wall, cpu, events = fill(folder, url, original, layouts, count)
        rows = dict(sqlite3.connect(store).execute(
            "SELECT 'stacks', count(*) FROM stacks UNION SELECT 'facts', (SELECT count(*) FROM allocations) +"
            " (SELECT count(*) FROM leaks) + (SELECT count(*) FROM samples)").fetchall())
        size = store.stat().st_size
        print(f"{count} recordings of {BUILDS} builds in {wall:.1f} s, {cpu:.1f} s of CPU time: "
              f"{count / wall:.0f} recordings and {rows['facts'] / wall:.0f} occurrences a second")
        print(f"{rows['facts']} occurrences of {rows['stacks']} stacks, {events} events: {size / 1e6:.1f} MB, "
              f"{size / events * 1e6 / 1e6:.2f} MB per million events, {size / rows['facts']:.1f} bytes an occurrence")
        symbolize(folder / "debug", url, original)
        names = [name for name, in sqlite3.connect(store).execute("SELECT name FROM builds ORDER BY name")]
        stack = "%016x" % (sqlite3.connect(store).execute("SELECT max(stack) FROM leaks").fetchone()[0] % (1 << 64))
        for words in QUERIES:
            words = [{"OLD": names[0], "NEW": names[1], "STACK": stack}.get(word, word) for word in words]
            took = min(timed("query", "--to", url, *words)[0] for _ in range(3))
            print(f"query {' '.join(words)}: {took:.3f} s")
        exact = kill_loaders(folder, original, layouts)
        print(f"{KILLS} kills of the loader: totals {'exact' if exact else 'WRONG'}")
        sys.exit(not exact)


QUERIES = [["builds"], ["allocations"], ["leaks"], ["samples"], ["stalls"], ["audit"], ["crashes"],
           ["regressions", "OLD", "NEW"], ["stack", "STACK"]]

if __name__ == "__main__":
    main()
