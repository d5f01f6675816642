#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Malloc stack logs of macOS and iOS, made here from their documented layouts, become recordings that say what the
logs say: every event with its thread and its stack, live and peak as counted here, the history of an address, regions,
names from a Mach-O file. Also what is missing, cut off or damaged. SONDE_SEED chooses the logs."""
import json
import os
import random
import re
import subprocess

from apple import generate, memgraph
from helpers import SEED, WORK, check, run_cases, try_sonde
from macho import build

NAME = "stack-logs.4242.1059c0000.My.App.x1Yz2q.index"
os.environ["XDG_CACHE_HOME"] = os.path.join(WORK, "cache")


def sonde(*arguments, status=0):
    out = try_sonde(*arguments)
    check(out.returncode == status, f"{arguments}: exit {out.returncode}, not {status}: {out.stderr[-300:]}")
    return out


def make(rng, lite=False, narrow=False):
    table = generate.Table(rng, 1 << 12, lite)
    frames = {}
    for _ in range(150):
        stack = [rng.randrange(0x1000, 0x9000, 4) + (0x4000 if narrow else 0x100004000) for _ in range(rng.randint(1, 40))]
        thread = 0x16f000000 + 0x1000 * rng.randrange(6)
        frames[table.stack(stack if lite else stack + [thread + 1])] = (stack, None if lite else thread)
    history, live = generate.history(rng, 3000, list(frames), narrow)
    return table, frames, history, live


def events(recording):
    return [json.loads(line) for line in sonde("events", "--stacks", recording).stdout.splitlines()]


def compare_events(recording, history, frames, what):
    got = events(recording)
    check(len(got) == len(history), f"{what}: {len(got)} events, {len(history)} in the log")
    kinds = {generate.ALLOC: "malloc", generate.DEALLOC: "free"}
    tids = {}
    for number, (e, (kind, argument, address, stack, _)) in enumerate(zip(got, history)):
        pcs, thread = frames[stack] if frames else ([1], None)
        want = (kinds.get(kind, "mapping"), hex(address), [hex(pc) for pc in pcs])
        have = (e["event"], e["address"], e["frames"])
        good = have == want and e["time_ns"] == number
        if kind != generate.DEALLOC:
            good &= e["size"] == argument
        if kind & (generate.VM_ALLOCATE | generate.VM_DEALLOCATE):
            good &= e["call"] == ("mapped" if kind & generate.VM_ALLOCATE else "unmapped")
        good &= tids.setdefault(thread, e["tid"]) == e["tid"]
        if not good:
            check(False, f"{what}, event {number}: {have} at {e['time_ns']}, the log has {want}")
            return
    check(len(set(tids.values())) == len(tids), f"{what}: two threads share an id")


def compare_totals(recording, history, live, what):
    totals = json.loads(sonde("report", recording, "malloc", "--json").stdout)["malloc"]
    now, most, sizes = 0, 0, {}
    for kind, argument, address, _, _ in history:
        if kind == generate.ALLOC:
            sizes[address] = argument
            now += argument
            most = max(most, now)
        elif kind == generate.DEALLOC:
            now -= sizes.pop(address)
    check(totals["live"] == {"blocks": len(live), "bytes": sum(live.values())}, f"{what}: live {totals['live']}")
    check(totals["peak"]["bytes"] == most, f"{what}: peak {totals['peak']}, counted {most}")
    check(totals["unknown_frees"] == totals["double_frees"] == 0, f"{what}: odd frees")


def compare_tags(recording, history, what):
    """Of regions, what they are for."""
    known = {1: "malloc", 5: "sbrk", 20: "mach message", 30: "stack", 45: "CoreData", 60: "dyld", 62: "sqlite", 73: "os alloc once",
             74: "libdispatch", 240: "memory tag 240", 255: "mmap without a tag"}
    told = json.loads(sonde("report", recording, "vm", "--json").stdout)["vm"]
    calls = {row["tag"]: row["calls"] for row in told.get("tags", [])}
    expected = {}
    for kind, _, _, _, tag in history:
        if kind & generate.VM_ALLOCATE and tag in known:
            expected[known[tag]] = expected.get(known[tag], 0) + 1
    check({k: v for k, v in calls.items() if k in known.values()} == expected, f"{what}: tags {calls}, the log has {expected}")
    named = [e["name"] for e in events(recording) if e.get("call") == "mapped" and "name" in e]
    check(len(named) == sum(calls.values()), f"{what}: {len(named)} events with a tag, {calls}")
    return sum(expected.values())


def touches(history, address):
    """How many records gave out or freed a block that ADDRESS lies in."""
    sizes, count = {}, 0
    for kind, argument, at, _, _ in history:
        if kind == generate.ALLOC:
            sizes[at] = argument
        if kind in (generate.ALLOC, generate.DEALLOC):
            count += at <= address < at + sizes[at]
    return count


def layouts(folder):
    rng = random.Random(SEED)
    for size, lite in ((24, False), (32, False), (16, False), (24, True)):
        what = f"{size}-byte records, {'lite' if lite else 'full'} table"
        table, frames, history, live = make(rng, lite, size == 16)
        log, tables, out = folder / NAME, folder / "table", folder / "out.sonde"
        log.write_bytes(b"".join(generate.record(size, a, at, stack, kind, tag) for kind, a, at, stack, tag in history))
        tables.write_bytes(table.bytes())
        said = sonde("import", log, tables, "-o", out).stderr
        check(f"records of {size} bytes" in said, f"{what}: {said}")
        compare_events(out, history, frames, what)
        compare_totals(out, history, live, what)
        tagged = compare_tags(out, history, what)
        address = next(at for kind, _, at, _, _ in history if kind == generate.ALLOC)
        times = touches(history, address)
        shown = len(re.findall(r"^[\d.]+ s  (?:malloc|free) ", sonde("history", out, hex(address)).stdout, re.M))
        check(shown == times, f"{what}: the history of {address:#x} has {shown} events, not {times}")
        sonde("export", out, "--by", "leaked")
        sonde("import", log, "-o", out)
        compare_events(out, history, None, what + ", without a table")
        print(f"{what}: {len(history)} events, {len(frames)} stacks equal, live and peak as counted, {tagged} tagged")


def names(folder):
    rng = random.Random(SEED)
    build.needs_linker()
    for arch in ("arm64", "x86_64"):
        program = build.link(folder, arch, build.objects(folder, arch), folder / f"App-{arch}", True)
        listed = subprocess.run(["llvm-nm", "--defined-only", program], capture_output=True, text=True, check=True).stdout
        functions = {name.removeprefix("_"): int(at, 16) for at, kind, name in map(str.split, listed.splitlines())
                     if kind in "tT" and not name.startswith("__mh")}
        uuid = re.search(r"uuid (\S+)", subprocess.run(["llvm-objdump", "--macho", "--private-headers", program],
                                                        capture_output=True, text=True, check=True).stdout)[1]
        slide = 0x4a30000
        crash = f"Process: App [4242]\n\nBinary Images:\n       {0x100000000 + slide:#x} -        {0x10000ffff + slide:#x} " \
                f"+App {arch} (1.0 - 1) <{uuid.lower()}> {program}\n       0x180000000 - 0x180ffffff libc.dylib {arch} " \
                f"(1) <00112233445566778899aabbccddeeff> /usr/lib/libc.dylib\n\nEOF\n"
        ips = '{"app_name":"App"}\n' + json.dumps({"usedImages": [
            {"source": "P", "arch": arch, "base": 0x100000000 + slide, "size": 65536, "uuid": uuid, "path": str(program)}]})
        table = generate.Table(rng, 64)
        order = ["work", "outer", "main"]
        stack = table.stack([functions[name] + slide + 4 for name in order] + [0x16f000001])
        log, tables, out = folder / NAME, folder / "table", folder / "out.sonde"
        log.write_bytes(b"".join(generate.record(24, 64, 0x10000 + 64 * i, stack, generate.ALLOC) for i in range(20)))
        tables.write_bytes(table.bytes())
        graph = memgraph.binary(memgraph.graph(binaryImagesDescription=memgraph.packed(memgraph.archive(crash))))
        for how, text in (("crash report", crash), (".ips", ips), ("lines", f"{0x100000000 + slide:#x} {program}\n"),
                          ("memory graph", graph)):
            (folder / "images").write_bytes(text if isinstance(text, bytes) else text.encode())
            sonde("import", "--records", 24, log, tables, folder / "images", "-o", out)
            shown = sonde("history", out, "0x10040").stdout
            found = [name for name in re.findall(r"^ +(\w+)", shown, re.M) if name in functions]
            check(found == order, f"{arch}, {how}: {found} in {shown}")
            check("first.c:" in shown and "second.c:" in shown, f"{arch}, {how}: no lines in {shown}")
            shown = sonde("symbolize", "--images", folder / "images", "--no-inlines", "0x10",
                          *(hex(functions[name] + slide + 4) for name in order)).stdout.splitlines()
            found = [re.match(rf"0x\w+ {program.name}: (\w+)\+0x4 at .*(?:first|second)\.c:", line) for line in shown[1:]]
            check([m and m[1] for m in found] == order and shown[0] == "0x10 ?? (in no listed image)",
                  f"{arch}, {how}: sonde symbolize --images says {shown}")
    print("names and lines from a Mach-O file, by a crash report, an .ips report, plain lines and a memory graph")


def regions(folder):
    rng = random.Random(SEED)
    table = generate.Table(rng, 256, lite=True)
    entries, stack = [], None
    for i in range(300):
        stack = table.stack([rng.randrange(0x100004000, 0x100008000, 4) for _ in range(rng.randint(1, 4))]) if i < 40 else stack
        entries.append((0x100000000 + i * 0x100000 + rng.randrange(16) * 0x4000, 0x4000 * rng.randrange(1, 60), stack))
    entries.append((0x7ffffff000, 0x1000, stack))
    (folder / "regions").write_bytes(generate.regions(entries))
    (folder / "table").write_bytes(table.bytes())
    out = folder / "out.sonde"
    sonde("import", folder / "regions", folder / "table", "-o", out)
    got = sorted((int(e["address"], 16), e["size"]) for e in events(out) if e["event"] == "mapping")
    check(got == sorted((a, s) for a, s, _ in entries), f"{len(got)} regions, {len(entries)} in the tree")
    print(f"tree of regions: {len(got)} regions equal")


def damage(folder):
    rng = random.Random(SEED)
    table, frames, history, _ = make(rng)
    log, tables, out = folder / NAME, folder / "table", folder / "out.sonde"
    whole = b"".join(generate.record(32, a, at, stack, kind, tag) for kind, a, at, stack, tag in history)
    log.write_bytes(whole[:-7])
    tables.write_bytes(table.bytes()[:20000])
    said = sonde("import", log, tables, "-o", out).stderr
    check("an incomplete record" in said and "nodes are missing" in said and "not in the table" in said, said)
    check(len(events(out)) == len(history) - 1, "a log that is cut off loses more than its last record")
    spoilt = bytearray(table.bytes())
    for place, (pc, parent) in list(table.nodes.items()):
        if parent is None:  # threads become the children of what they are the parent of
            generate.struct.pack_into("<Q", spoilt, 16384 + place * 16 + 8, next(
                other for other, (_, above) in table.nodes.items() if above == place))
    tables.write_bytes(spoilt)
    log.write_bytes(whole)
    said = sonde("import", log, tables, "-o", out).stderr
    check("circular parents" in said and len(events(out)) == len(history), said)
    log.write_bytes(bytes(rng.randrange(256) for _ in range(4800)))
    check("is not a malloc stack log" in sonde("import", log, "-o", out, status=2).stderr, "noise is taken for a log")
    other = bytearray(table.bytes())
    other[100] = 1
    tables.write_bytes(other)
    check("unknown version" in sonde("import", log, tables, "-o", out, status=2).stderr, "an unknown table is read")
    sonde("import", folder / "missing", status=2)
    sonde("import", "--records", 20, log, status=2)
    print("what is cut off, damaged or unknown is said")


run_cases([layouts, names, regions, damage])
