#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Malloc stack logs of macOS that no program wrote: ids out of range, chains of parents that never end, sizes that
lie, and sound files with bits flipped or parts cut off. Each is imported or refused with one line, in bounded time and
memory; every record that could have been written is an event of the recording, with a stack that the table leads to.
SONDE_SEED chooses the files."""
import json
import os
import random
import re
import struct

from apple import generate
from helpers import SANITIZED, SEED, WORK, check, run_cases
from shared.bounded import bounded_sonde

NODES = 16384  # where they begin in a table
os.environ["XDG_CACHE_HOME"] = os.path.join(WORK, "cache")


class Files:
    def __init__(self, folder):
        self.log, self.table, self.regions = folder / "log.index", folder / "table", folder / "regions"
        self.out = folder / "out.sonde"

    def read(self, what, size=24, table=True, regions=False):
        """(what the import says, the recording's events), or (its refusal, None)."""
        self.out.unlink(missing_ok=True)
        given = [self.log, *([self.table] if table else []), *([self.regions] if regions else [])]
        done = bounded_sonde("import", "--records", size, *given, "-o", self.out)
        if done.returncode == 2 and done.stderr.count("\n") == 1:
            return done.stderr, None
        listed = bounded_sonde("events", "--stacks", self.out)
        check(done.returncode == 0 and listed.returncode == 0,
              f"{what}: exits {done.returncode}, {listed.returncode}: {done.stderr[-200:]} {listed.stderr[-200:]}")
        check(bounded_sonde("report", self.out, "malloc").returncode == 0, f"{what}: no report")
        return done.stderr, [json.loads(line) for line in listed.stdout.splitlines()]


def counted(said, text):
    found = re.search(r"(\d+) " + text, said)
    return int(found[1]) if found else 0


def put(table, place, pc, parent):
    struct.pack_into("<QQ", table, NODES + 16 * place, pc, parent)


def ids(folder):
    files, rng = Files(folder), random.Random(SEED)
    for size in (16, 24, 32):
        table = generate.Table(rng, 64)
        good = table.stack([0x100004000, 0x100005000, 0x16f000001])
        most = 0xffffffffffff if size < 32 else (1 << 64) - 1
        bad = [64, 65, (1 << 28) - 1, 1 << 28, (1 << 32) - 1, 1 << 32, (1 << 32) + good, 1 << 47, most - 1, most]
        chosen = [rng.choice([good, *bad]) for _ in range(2000)]
        files.log.write_bytes(b"".join(generate.record(size, 16, 0x10000 + 32 * i, id, generate.ALLOC)
                                       for i, id in enumerate(chosen)))
        files.table.write_bytes(table.bytes())
        said, got = files.read(f"{size}: ids", size)
        check(len(got) == len(chosen), f"{size}: {len(got)} events of {len(chosen)}: {said}")
        check([len(e["frames"]) for e in got] == [2 if id == good else len(e["frames"]) for e, id in zip(got, chosen)] and
              all(e["frames"] == ["0x100004000", "0x100005000"] for e, id in zip(got, chosen) if id == good) and
              not any("0x100004000" in e["frames"] for e, id in zip(got, chosen) if id != good),
              f"{size}: a stack is given to the wrong event")
        unknown = sum(id != good and id != most for id in chosen)
        check(counted(said, "events refer to stacks that are not in the table") in (unknown, unknown + chosen.count(most)),
              f"{size}: {unknown} ids out of range, {said}")
        said, got = files.read(f"{size}: ids without a table", size, table=False)
        check(len(got) == len(chosen), f"{size}: {len(got)} events without a table")
    print("ids out of range: every event is there, stacks only where the table has them")


def chains(folder):
    """Every node has a parent, and no node is a root: all ways end in circles."""
    files, rng = Files(folder), random.Random(SEED)
    for count in (1, 2, 7, 500):
        table = bytearray(generate.Table(rng, count).bytes())
        parents = [rng.randrange(count) for _ in range(count)]
        for node, parent in enumerate(parents):
            put(table, node, 0x1000 + 16 * node, parent)
        files.table.write_bytes(table)
        asked = [rng.randrange(count) for _ in range(2 * count)]
        files.log.write_bytes(b"".join(generate.record(24, 16, 0x10000 + 32 * i, node, generate.ALLOC)
                                       for i, node in enumerate(asked)))
        said, got = files.read(f"{count} nodes in circles")
        check("circular parents" in said and len(got) == len(asked), f"{count} nodes in circles: {len(got)}, {said}")
        for event, node in zip(got, asked):
            way, met = [], set()
            while node not in met:
                met.add(node)
                way.append(hex(0x1000 + 16 * node))
                node = parents[node]
            shown = [pc for pc in event["frames"] if pc != "0x1"]
            if not shown or shown != way[:len(shown)]:
                check(False, f"{count} nodes in circles: {shown}, the table leads to {way}")
                break
    deep = 200000
    table = bytearray(generate.Table(rng, deep).bytes())
    for node in range(deep):
        put(table, node, 0x1000 + node, node + 1)  # the last one leads out of the table
    files.table.write_bytes(table)
    files.log.write_bytes(b"".join(generate.record(24, 16, 0x10000 + 32 * i, i * 970, generate.ALLOC) for i in range(200)))
    said, got = files.read("a deep chain")
    check("have invalid or circular parents" in said and len(got) == 200, f"a deep chain: {said}")
    for i, event in enumerate(got):
        above = range(970 * i, deep)
        want = [hex(0x1000 + node) for node in above[:1000]]
        if event["frames"][:1000] != want + ["0x1"] * (len(event["frames"]) > len(want) < 1000):
            check(False, f"a deep chain: event {i} has {event['frames'][:3]}, the table {want[:3]}")
            break
    print("chains without an end: cut, and true as far as they go")


def sizes(folder):
    files, rng = Files(folder), random.Random(SEED)
    table = generate.Table(rng, 64)
    stack = table.stack([0x100004000, 0x16f000001])
    whole = table.bytes()
    log = b"".join(generate.record(32, size, at, stack, generate.ALLOC, tag) for size in (0, 1, 1 << 31, 1 << 63, (1 << 64) - 1)
                   for at in (0, 1, 0xffff_ffff, 1 << 55, (1 << 56) - 1) for tag in (0, 255))
    files.log.write_bytes(log)
    files.table.write_bytes(whole)
    check(len(files.read("sizes", 32)[1]) == 50, "events of odd sizes are lost")
    for count in (0, 1, 65, 1 << 31, 1 << 32, 1 << 47, (1 << 48) - 1, 1 << 48, 1 << 63, (1 << 64) - 1):
        files.table.write_bytes(whole[:24] + struct.pack("<Q", count) + whole[32:])
        said, got = files.read(f"a table of {count}", 32)
        if 0 < count < 1 << 48:
            check(got is not None and len(got) == 50 and counted(said, "nodes are missing") == max(0, count - 64),
                  f"a table of {count}: {said}")
        else:
            check(got is None and "unknown version" in said, f"a table of {count}: {said}")
    files.table.write_bytes(whole)
    sound = generate.regions([(0x100000000 + i * 0x10000, 0x4000, stack) for i in range(50)])
    for at, value in ((8, 0xffffffff), (8, 31), (12, 0), (12, 0xffffffff), (12, 65537), (16, 0xffffffff)):
        files.regions.write_bytes(sound[:at] + struct.pack("<I", value) + sound[at + 4:])
        got = files.read(f"regions, {value} at {at}", 32, regions=True)[1]
        check(got is None or len(got) <= 100, f"regions, {value} at {at}: {len(got or ())} events of 100")
    print("sizes that lie: said, refused, or bounded by the file")


def spoilt(data, rng):
    out = bytearray(data)
    if rng.random() < 0.3:
        del out[rng.randrange(len(out)):]
    for _ in range(rng.choice((0, 1, 8, 200))):
        if out:  # often where numbers are dense
            place = rng.randrange(len(out)) if rng.random() < 0.7 else rng.randrange(min(len(out), 128))
            out[place] ^= 1 << rng.randrange(8)
    return bytes(out)


def flips(folder):
    files, rng = Files(folder), random.Random(SEED)
    table = generate.Table(rng, 256)
    stacks = [table.stack([rng.randrange(0x100004000, 0x100008000, 4) for _ in range(9)] + [0x16f000001]) for _ in range(15)]
    refused, rounds = 0, 24 if SANITIZED else 60
    regions = generate.regions([(0x100000000 + i * 0x10000, 0x4000, rng.choice(stacks)) for i in range(60)])
    for number in range(rounds):
        size = rng.choice((16, 24, 32))
        entries, _ = generate.history(rng, 300, stacks, size == 16)
        log = b"".join(generate.record(size, a, at, stack, kind, tag) for kind, a, at, stack, tag in entries)
        files.log.write_bytes(spoilt(log, rng))
        files.regions.write_bytes(regions[:20] + spoilt(regions[20:], rng))
        nodes = table.bytes()  # most of its header must be zero: one bit there, and it is refused
        at = NODES if rng.random() < 0.8 else 0
        files.table.write_bytes(nodes[:at] + spoilt(nodes[at:], rng))
        said, got = files.read(f"flipped, round {number}", size, regions=True)
        refused += got is None
        check(got is None or len(got) <= 300 + 60, f"round {number}: {len(got or ())} events of 360")
    check(refused < rounds // 2, f"{refused} were refused: too little was tried")
    print(f"{rounds} spoilt sets of files: {rounds - refused} imported, {refused} refused")


run_cases([ids, chains, sizes, flips])
