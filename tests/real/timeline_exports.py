#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The exports with times: firefox, speedscope, callgrind and heaptrack. Their totals are those of `sonde report`, by
heaptrack_print and callgrind_annotate where these are installed."""
import functools
import gzip
import json
import pathlib
import re
import shutil
import subprocess

from helpers import check, fresh, needs_agent, output_of, record, report, run_cases, skip, sonde, try_sonde

needs_agent()

PROGRAM = """
import hashlib, json, threading, time
lock, data = threading.Lock(), []
def worker(n):
    for i in range(15):
        with lock:
            data.append(json.dumps({"a": list(range(2000)), "n": n}))
            time.sleep(0.005)
        hashlib.sha256(b"x" * 3000000).hexdigest()
threads = [threading.Thread(target=worker, args=(i,)) for i in range(3)]
for t in threads: t.start()
for t in threads: t.join()
"""


@functools.cache
def recorded():
    path = fresh()
    record(["/usr/bin/python3", "-c", PROGRAM], "--sample=499", "--wall", "--malloc=all", path=path)
    return path


def exported(name):
    path = fresh("." + name)
    sonde("export", "--as", name, recorded(), "-o", path)
    return path


def column_lengths(table, where):
    """Every column of a table of columns has its length."""
    for key, column in table.items():
        if isinstance(column, list):
            check(len(column) == table["length"], f"{where}.{key}: {len(column)}, expected {table['length']}")


def in_table(numbers, table, where):
    most = table["length"] if isinstance(table, dict) else len(table)
    check(all(n is None or 0 <= n < most for n in numbers), f"{where}: a number is not in its table")


def thread_is_sound(thread):
    for name in "samples", "markers", "stackTable", "frameTable", "funcTable":
        column_lengths(thread[name], name)
    stacks, frames = thread["stackTable"], thread["frameTable"]
    in_table(thread["samples"]["stack"], stacks, "samples.stack")
    in_table(stacks["frame"], frames, "stackTable.frame")
    in_table(frames["func"], thread["funcTable"], "frameTable.func")
    in_table(thread["funcTable"]["name"], thread["stringArray"], "funcTable.name")
    in_table(thread["markers"]["name"], thread["stringArray"], "markers.name")
    check(all(p is None or p < i for i, p in enumerate(stacks["prefix"])), "a caller comes after its callee")
    causes = [m["cause"]["stack"] for m in thread["markers"]["data"] if "cause" in m]
    in_table(causes, stacks, "cause.stack")
    if "nativeAllocations" in thread:
        column_lengths(thread["nativeAllocations"], "nativeAllocations")
        in_table(thread["nativeAllocations"]["stack"], stacks, "nativeAllocations.stack")


def firefox():
    with gzip.open(exported("firefox")) as file:
        profile = json.load(file)
    told = report(recorded())
    for thread in profile["threads"]:
        thread_is_sound(thread)
    samples = sum(sum(t["samples"]["weight"]) for t in profile["threads"])
    check(samples == told["sample"]["samples"], (samples, told["sample"]["samples"]))
    live = sum(sum(t["nativeAllocations"]["weight"]) for t in profile["threads"] if "nativeAllocations" in t)
    check(live == told["malloc"]["live"]["bytes"], (live, told["malloc"]["live"]))
    waits = sum(len([d for d in t["markers"]["data"] if d["type"] == "wait"]) for t in profile["threads"])
    check(waits > 0, "no waits")
    for counter in profile["counters"]:
        column_lengths(counter["samples"], counter["name"])
    heap, most, now = profile["counters"][0]["samples"], 0, 0
    for change in heap["count"]:
        now += change
        most = max(most, now)
    check(most == told["malloc"]["peak"]["bytes"], (most, told["malloc"]["peak"]))


def speedscope():
    file = json.loads(pathlib.Path(exported("speedscope")).read_text())
    samples = report(recorded())["sample"]
    frames = len(file["shared"]["frames"])
    total = 0
    for profile in file["profiles"]:
        check(len(profile["samples"]) == len(profile["weights"]), profile["name"])
        check(sum(profile["weights"]) == profile["endValue"], profile["name"])
        check(all(0 <= f < frames for s in profile["samples"] for f in s), profile["name"])
        total += profile["endValue"]
    sampled = samples["cpu_time"]["sampled_ns"]
    check(abs(total - sampled) <= samples["samples"], (total, sampled))


def callgrind():
    path = exported("callgrind")
    sampled = report(recorded())["sample"]
    total = int(re.search(r"^summary: (\d+)$", pathlib.Path(path).read_text(), re.M)[1])
    check(abs(total - sampled["cpu_time"]["sampled_ns"]) <= sampled["samples"], total)
    if not shutil.which("callgrind_annotate"):
        skip("callgrind_annotate is not installed")
    told = output_of("callgrind_annotate", path)
    found = int(re.search(r"^ *([\d,]+) \(100.0%\)  PROGRAM TOTALS", told, re.M)[1].replace(",", ""))
    check(found == total, told[:2000])


def heaptrack():
    path = exported("heaptrack")
    malloc = report(recorded())["malloc"]
    if not shutil.which("heaptrack_print"):
        skip("heaptrack_print is not installed")
    run = subprocess.run(["heaptrack_print", "--disable-builtin-suppressions", path], capture_output=True, text=True, check=False)
    told = run.stdout[-3000:]

    def figure(what):
        text = re.search(rf"^{what}: ([\d.]+)([KMG]?)", told, re.M)
        check(text, told)
        return float(text[1]) * {"": 1, "K": 1e3, "M": 1e6, "G": 1e9}[text[2]]

    check(figure("calls to allocation functions") == malloc["allocated"]["blocks"], told)
    for what, amount in ("peak heap memory consumption", malloc["peak"]), ("total memory leaked", malloc["live"]):
        check(abs(figure(what) - amount["bytes"]) <= amount["bytes"] * 0.01 + 1, (what, amount, told))


def refusals():
    """A format without data is a valid, empty file; a wrong format is refused."""
    run = try_sonde("export", "--as", "firefoxx", recorded())
    check(run.returncode == 2 and "the formats are" in run.stderr, run)


run_cases([firefox, speedscope, callgrind, heaptrack, refusals])
