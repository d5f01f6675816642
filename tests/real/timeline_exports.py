#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The exports with times: firefox, speedscope, callgrind, callgrind_calls, massif, Chrome traces and csv. Their totals are those of
`sonde report`, by the importer of the Firefox Profiler, callgrind_annotate and ms_print where these are installed."""
import collections
import csv
import functools
import gzip
import io
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import uuid

from helpers import (SOURCE, WORK, check, compile_c, events, fresh, needs, needs_agent, output_of, record, report, run_cases,
                     skip, sonde, start_record, try_sonde, until)
from shared.timeline import PROGRAM

needs_agent()


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
    resources = thread["resourceTable"]
    column_lengths(resources, "resourceTable")
    in_table([r for r in thread["funcTable"]["resource"] if r >= 0], resources, "funcTable.resource")
    check(all(p is None or p < i for i, p in enumerate(stacks["prefix"])), "a caller comes after its callee")
    causes = [m["cause"]["stack"] for m in thread["markers"]["data"] if "cause" in m]
    in_table(causes, stacks, "cause.stack")
    if "nativeAllocations" in thread:
        column_lengths(thread["nativeAllocations"], "nativeAllocations")
        in_table(thread["nativeAllocations"]["stack"], stacks, "nativeAllocations.stack")


def build_id(path):
    """The build-id of a file, as readelf prints it; "" if it has none."""
    found = re.search(r"Build ID: (\w+)", output_of("readelf", "-n", path))
    return found[1] if found else ""


def images_are_sound(profile, told):
    """Each image has its file's build-id, and each function that of its library."""
    libs = profile["libs"]
    files = {lib["path"]: lib for lib in libs if os.path.isfile(lib["path"])}
    check(any("libc.so" in path for path in files) and any("python" in path for path in files), libs)
    for path, lib in files.items():
        check(lib["codeId"] == (build_id(path) or None), lib)
        raw = bytes.fromhex(lib["codeId"] or "")[:16]
        # A GUID as breakpad writes it: its first three numbers are little-endian.
        check(lib["breakpadId"] == (uuid.UUID(bytes_le=raw).hex.upper() + "0" if raw else ""), lib)
        check(lib["name"] == lib["debugName"] == os.path.basename(path), lib)
    expected = {(f["function"], f["module"]) for f in told["sample"]["functions"] if f.get("module")}
    found = set()
    for thread in profile["threads"]:
        functions, resources, texts = thread["funcTable"], thread["resourceTable"], thread["stringArray"]
        for resource, lib in zip(resources["name"], resources["lib"]):
            check(texts[resource] == libs[lib]["name"], (texts[resource], libs[lib]))
        found |= {(texts[name], texts[resources["name"][resource]])
                  for name, resource in zip(functions["name"], functions["resource"]) if resource >= 0}
    check(expected <= found, expected - found)


def firefox():
    with gzip.open(exported("firefox")) as file:
        profile = json.load(file)
    told = report(recorded())
    for thread in profile["threads"]:
        thread_is_sound(thread)
    images_are_sound(profile, told)
    samples = sum(sum(t["samples"]["weight"]) for t in profile["threads"])
    check(samples == told["sample"]["samples"], (samples, told["sample"]["samples"]))
    cpu_ns = sum(sum(t["samples"]["threadCPUDelta"]) for t in profile["threads"])
    check(cpu_ns == told["sample"]["cpu_time"]["sampled_ns"], (cpu_ns, told["sample"]["cpu_time"]))
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
    counters = {c["name"]: c["samples"] for c in profile["counters"][1:]}
    for name, points in usage_counters(told["usage"]).items():
        found = counters.pop(name)
        check(list(itertools.accumulate(found["count"])) == [value for _, value in points], (name, found, points))
        check([round(ms * 1e6) for ms in found["time"]] == [ns for ns, _ in points], (name, found, points))
    check(not counters, counters)


def usage_counters(usage):
    """The readings of each resource that was used, by the name of its counter."""
    keys = {"resident memory": "rss_bytes", "swap": "swap_bytes", "minor faults": "minor_faults",
            "major faults": "major_faults", "open descriptors": "descriptors"}
    found = {name: usage[key]["points"] for name, key in keys.items() if usage.get(key, {}).get("peak")}
    check({"resident memory", "minor faults", "open descriptors"} <= set(found), usage)
    return found


def firefox_locks():
    """A wait for a lock is a marker with the lock's name and the thread that held it, and the stack of the wait."""
    path, file = fresh(), fresh(".firefox")
    record([compile_c("""
        #include <pthread.h>
        #include <unistd.h>
        pthread_mutex_t door = PTHREAD_MUTEX_INITIALIZER;
        void *holder(void *unused) {
          pthread_setname_np(pthread_self(), "holder");
          pthread_mutex_lock(&door);
          usleep(1500000);
          pthread_mutex_unlock(&door);
          return unused;
        }
        int main() {
          pthread_t thread;
          pthread_create(&thread, 0, holder, 0);
          usleep(300000);
          pthread_mutex_lock(&door);
          pthread_join(thread, 0);
        }""", "-g", "-pthread")], "--wall", path=path)
    sonde("export", "--as", "firefox", path, "-o", file)
    with gzip.open(file) as opened:
        threads = {thread["name"]: thread for thread in json.load(opened)["threads"]}
    main = next(thread for thread in threads.values() if thread["isMainThread"])
    locks = [data for data, name in zip(main["markers"]["data"], main["markers"]["name"]) if main["stringArray"][name] == "lock"]
    check({data["details"] for data in locks} == {f"door, held by holder {threads['holder']['tid']}"}, locks)
    check(all("cause" in data for data in locks), locks)


def firefox_importer():
    """The viewer's own importer finds the samples of each function, the bytes that are live at the end, and the peak."""
    importer = os.path.join(SOURCE, "page", "node_modules", "@firefox-devtools", "profiler-cli", "dist", "profiler-cli.js")
    needs("node")
    if not os.path.exists(importer):
        skip("the npm packages of page/ are missing")
    home = {**os.environ, "HOME": WORK}
    path = exported("firefox")

    def ask(*words):
        return json.loads(output_of("node", importer, *words, "--json", env=home))

    def is_loaded():
        run = subprocess.run(["node", importer, "thread", "list"], env=home, capture_output=True, timeout=60, check=False)
        return run.returncode == 0

    # It waits half a second for its own server, which may take longer to start.
    subprocess.run(["node", importer, "load", path], env=home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                   timeout=60, check=False)
    try:
        until(is_loaded, "the importer")
        threads = ask("thread", "list")["threads"]
        samples, live = collections.Counter(), 0
        for thread in threads:
            handle = thread["threadHandle"]
            for function in ask("thread", "functions", "--thread", handle)["functions"]:
                samples[function["name"]] += function["totalSamples"]
            retained = ask("thread", "functions", "--thread", handle, "--strategy", "native-retained-allocations")
            live += sum(function["selfSamples"] for function in retained["functions"])
        counters = ask("counter", "list")["counters"]
        heap = counters[0]["stats"][0]["value"]
    finally:
        output_of("node", importer, "stop", "--all", env=home)
    with gzip.open(path) as file:
        profile = json.load(file)
    for table in [t["nativeAllocations"] for t in profile["threads"] if "nativeAllocations" in t]:
        # A block without a stack is in no function.
        live += sum(weight for weight, stack in zip(table["weight"], table["stack"]) if stack is None)
    told = report(recorded(), "--top", "100000")
    check(len(threads) == 4, threads)
    check(len(counters) == 1 + len(usage_counters(told["usage"])), counters)
    totals = collections.Counter()
    for function in told["sample"]["functions"]:
        totals[function["function"]] += function["total"]
    check(samples == totals, samples - totals or totals - samples)
    check(live == told["malloc"]["live"]["bytes"], (live, told["malloc"]["live"]))
    names = {"live heap"} | set(usage_counters(told["usage"]))
    check({counter["label"] for counter in counters} == names, counters)
    # The importer shows the peak less the least value.
    least = min(itertools.accumulate(profile["counters"][0]["samples"]["count"]))
    check(heap + least == told["malloc"]["peak"]["bytes"], (heap, least, told["malloc"]["peak"]))


def blocked_ns(wall):
    """The blocked time of the threads that the sampler found blocked."""
    return sum(t["blocked_ns"] for t in wall["threads"] if t["samples"])


def speedscope():
    """The weights of each profile, by what its name says of them, add up to the report's totals."""
    file = json.loads(pathlib.Path(exported("speedscope")).read_text())
    told = report(recorded())
    frames = len(file["shared"]["frames"])
    totals, threads = collections.Counter(), collections.defaultdict(set)
    for profile in file["profiles"]:
        check(len(profile["samples"]) == len(profile["weights"]) > 0, profile["name"])
        check(sum(profile["weights"]) == profile["endValue"], profile["name"])
        check(all(0 <= f < frames for s in profile["samples"] for f in s), profile["name"])
        thread, _, what = profile["name"].partition(", ")
        check(profile["unit"] == ("nanoseconds" if what in ("", "blocked") else "bytes"), profile["name"])
        check(thread not in threads[what], f"{profile['name']} twice")
        threads[what].add(thread)
        totals[what] += profile["endValue"]
    samples, malloc, wall = told["sample"], told["malloc"], told["wall"]
    check(totals[""] == samples["cpu_time"]["sampled_ns"], (totals, samples["cpu_time"]))
    check(totals["blocked"] == blocked_ns(wall), (totals, wall))
    for what, key in ("allocated", "allocated"), ("never freed", "live"), ("live at the peak", "peak"):
        check(totals[what] == malloc[key]["bytes"], (what, totals, malloc[key]))
    check(0 < totals["temporary"] < totals["allocated"], totals)
    check(len(threads[""]) > 1 and len(threads["allocated"]) > 1, threads)


def callgrind_names(text):
    """A number of a name is defined at its first use. Objects, files and functions have numbers of their own."""
    known = set()
    for key, number, name in re.findall(r"^c?(ob|fl|fn)=\((\d+)\)(.*)$", text, re.M):
        check(bool(name) != ((key, number) in known), f"{key}=({number}){name}")
        known.add((key, number))


def annotated(path, event):
    """What callgrind_annotate shows of a file: the total of each event, and EVENT of each function."""
    told = output_of("callgrind_annotate", "--threshold=100", "--auto=no", f"--sort={event}", path)
    cost = r"(?:[\d,]+(?: \( *[\d.]+%\))?|\.)(?= |$)"  # "1,234 (12.5%)", "0" or "."
    columns = f"^((?: *{cost})+)  "

    def numbers(text):
        return [int(n.split()[0].replace(",", "").replace(".", "0")) for n in re.findall(cost, text)]

    names = re.search(r"^Events shown: +(.*)$", told, re.M)[1].split()
    functions = collections.Counter()
    for costs, place in re.findall(columns + r"(?!PROGRAM TOTALS)(.*)$", told, re.M):
        functions[re.sub(r" \[[^]]*\]$", "", place).split(":", 1)[1]] += numbers(costs)[names.index(event)]
    return dict(zip(names, numbers(re.search(columns + "PROGRAM TOTALS", told, re.M)[1]))), +functions


def callgrind():
    """The totals are the report's, and so are the CPU time and the bytes of each function, by callgrind_annotate."""
    path = exported("callgrind")
    callgrind_names(pathlib.Path(path).read_text())
    needs("callgrind_annotate")
    told = report(recorded(), "--top", "100000")
    sampled, malloc = told["sample"], told["malloc"]
    totals, functions = annotated(path, "ns")
    check(list(totals) == ["ns", "bytes", "blocks", "peak_bytes", "live_bytes"], totals)
    check(totals["ns"] == sampled["cpu_time"]["sampled_ns"], (totals, sampled["cpu_time"]))
    check([totals["bytes"], totals["blocks"]] == [malloc["allocated"]["bytes"], malloc["allocated"]["blocks"]], totals)
    check([totals["peak_bytes"], totals["live_bytes"]] == [malloc["peak"]["bytes"], malloc["live"]["bytes"]], totals)
    self_samples = collections.Counter()
    for function in sampled["functions"]:
        self_samples[function["function"]] += function["self"]
    check(functions.keys() == (+self_samples).keys(), (self_samples, functions))
    for name, ns in functions.items():  # the time of each path to it is rounded
        expected = self_samples[name] * totals["ns"] / sampled["samples"]
        check(abs(ns - expected) <= self_samples[name], (name, ns, expected))
    allocated = collections.Counter()
    for line in sonde("export", "--by", "allocated", "--full-names", recorded()).splitlines():
        stack, amount = line.rsplit(" ", 1)
        allocated[stack.split(";")[-1]] += int(amount)
    _, functions = annotated(path, "bytes")
    check(functions == allocated, (functions, allocated))


def callgrind_calls():
    """Calls are counted where they were traced, and the time in them is the report's."""
    needs("callgrind_annotate")
    recording, path = fresh(), fresh(".callgrind")
    record([compile_c("""
        volatile int sink;
        void inner(int n) { while (n-- > 0) sink = sink + n; }
        void middle(int n) {
          for (int i = 1; i < 6; i++) inner(n * i);
        }
        int main() {
          for (int i = 1; i < 8; i++) middle(1000 * i);
          inner(5);
        }""", "-g", "-finstrument-functions")], "--trace", "--no-waits", path=recording)
    sonde("export", "--as", "callgrind", recording, "-o", path)
    told = report(recording, "--top", "1000")["trace"]["functions"]
    totals, functions = annotated(path, "call_ns")
    for function in told:
        check(abs(functions[function["function"]] - function["self_ns"]) <= 1, (function, functions))
    check(abs(totals["call_ns"] - sum(function["self_ns"] for function in told)) <= len(told), totals)
    calls, callers = {}, []  # the callers of a function are in front of it
    tree = output_of("callgrind_annotate", "--threshold=100", "--auto=no", "--tree=caller", path)
    for mark, name, count in re.findall(r"^ *[\d,]+ \( *[\d.]+%\)  ([<*]) +\S*:(\w+)(?: \((\d+)x\))? ", tree, re.M):
        if mark == "<":
            callers.append((name, int(count)))
        else:
            calls[name], callers = sorted(callers), []
    check(calls == {"inner": [("main", 1), ("middle", 35)], "middle": [("main", 7)], "main": []}, tree)


def massif_trees(text):
    """Of each snapshot its fields, and its tree as lists of bytes and children."""
    for part in re.split(r"^snapshot=", text, flags=re.M)[1:]:
        fields = dict(re.findall(r"^(\w+)=(\w+)$", part, re.M))
        lines = [(int(n), int(size), len(indent)) for indent, n, size in re.findall(r"^( *)n(\d+): (\d+) ", part, re.M)]

        def node(at=iter(lines), depth=0):
            count, size, indent = next(at)
            check(indent == depth, part[:300])
            return size, [node(at, depth + 1) for _ in range(count)]

        yield fields, node() if lines else None


def massif_sums(node):
    """A node has no less than its children have."""
    check(sum(size for size, _ in node[1]) <= node[0], node[0])
    for child in node[1]:
        massif_sums(child)


def massif():
    path = exported("massif")
    malloc = report(recorded())["malloc"]
    snapshots = list(massif_trees(pathlib.Path(path).read_text()))
    peaks = [fields for fields, _ in snapshots if fields["heap_tree"] == "peak"]
    check([int(p["mem_heap_B"]) for p in peaks] == [malloc["peak"]["bytes"]], (peaks, malloc["peak"]))
    check(int(snapshots[-1][0]["mem_heap_B"]) == malloc["live"]["bytes"], (snapshots[-1][0], malloc["live"]))
    check(len(snapshots) > 50 and max(int(f["mem_heap_B"]) for f, _ in snapshots) == malloc["peak"]["bytes"], len(snapshots))
    times = [int(fields["time"]) for fields, _ in snapshots]
    check(times == sorted(times), times)
    for fields, tree in snapshots:
        if tree:
            check(tree[0] == int(fields["mem_heap_B"]), (fields, tree[0]))
            massif_sums(tree)
    if not shutil.which("ms_print"):
        skip("ms_print is not installed")
    run = subprocess.run(["ms_print", path], capture_output=True, text=True, check=False)
    check(run.returncode == 0 and not run.stderr, run.stderr[:500])
    totals = [int(n.replace(",", "")) for n in re.findall(r"^ *\d+ +[\d,]+ +([\d,]+) +[\d,]+ +0 +0$", run.stdout, re.M)]
    check(totals == [int(fields["mem_heap_B"]) for fields, _ in snapshots], totals)


def chrome_trace():
    """Each wait and each stall of the recording is a pair of events of its thread; its time is that of the record. Each reading of
    the process's resources is an event of a counter."""
    trace = json.loads(pathlib.Path(exported("chrome-trace")).read_text())["traceEvents"]
    waits = [e for e in events(recorded()) if e["event"] == "wall"]
    begun = [e for e in trace if e["ph"] == "b"]
    ended = [e for e in trace if e["ph"] == "e"]
    # On a busy machine the sampler looks seldom, and there are few waits.
    check(len(begun) == len(ended) == len(waits) > 0, (len(begun), len(ended), len(waits)))
    check({e["tid"] for e in begun} == {e["tid"] for e in waits}, begun[:5])
    took = sum(e["ts"] for e in ended) - sum(e["ts"] for e in begun)
    check(abs(took * 1000 - sum(min(e["period_ns"], e["time_ns"]) for e in waits)) <= 2 * len(waits), (took, waits[:3]))
    counters = collections.defaultdict(list)
    for e in trace:
        if e["ph"] == "C":
            counters[e["name"]].append([round(e["ts"] * 1000), *e["args"].values()])
    expected = usage_counters(report(recorded())["usage"])
    check(counters == expected, (counters, expected))


def flat(row):
    """A row of a list in JSON as csv has it."""
    found = {}
    for key, value in row.items():
        if isinstance(value, dict):
            found.update({f"{key}_{inner}": part for inner, part in value.items()})
        else:
            found[key] = value
    return {key: str(value).lower() if isinstance(value, bool) else value for key, value in found.items()
            if not isinstance(value, list)}


def csv_rows(*options, of=None):
    text = sonde("export", "--as", "csv", *options, of or recorded())
    return list(csv.DictReader(io.StringIO(text, newline="")))


def same_row(row, expected):
    """Fields that a row does not have are empty."""
    for key, text in row.items():
        value = expected.get(key, "")
        same = float(text) == value if isinstance(value, (int, float)) else text == value
        check(same, (key, text, value, expected))
    check(set(expected) <= set(row), (row, expected))


def same_rows(rows, expected):
    check(len(rows) == len(expected) > 0, (len(rows), len(expected)))
    for row, one in zip(rows, expected):
        same_row(row, flat(one))


def tables():
    """Each list as csv is that of the report. The lines of resources have the values that held at their time."""
    told = report(recorded(), "--top", "100000")
    lists = {"sample": ("sample", "functions"), "peak": ("malloc", "functions"), "wait": ("waits", "waits"),
             "wall": ("wall", "threads")}
    for by, (section, name) in lists.items():
        same_rows(csv_rows("--by", by), told[section][name])
    check(len(csv_rows()) == len(told["sample"]["functions"]), "the functions are the default")
    series = {key: value["points"] for key, value in told["usage"].items() if isinstance(value, dict) and "points" in value}
    rows = csv_rows("--by", "usage")
    check([int(row["time_ns"]) for row in rows] == sorted({ns for points in series.values() for ns, _ in points}), rows)
    for row in rows:
        for key, points in series.items():
            held = [value for ns, value in points if ns <= int(row["time_ns"])]
            check(row[key] == (str(held[-1]) if held else ""), (key, row))
    run = try_sonde("export", "--as", "csv", "--by", "calls", recorded())
    check(run.returncode == 2 and "--trace" in run.stderr and len(run.stderr.splitlines()) == 1, run)


# A loop that the monitor recognizes, which then blocks until it gets a byte.
LOOP = """
import os, select
queue = select.epoll()
for i in range(12):
    queue.poll(0.01)
os.read(0, 1)
"""


def stalled():
    """A recording with a stall that has ended."""
    path, recorder = start_record(["/usr/bin/python3", "-c", LOOP], "--stall=100", stdin=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL)
    until(lambda: try_sonde("report", path, "stalls", "--json").returncode == 0 and
          "read" in [stall.get("call") for stall in report(path, "stalls")["stalls"]["stalls"]], "a stall in the recording")
    recorder.communicate(b"x", timeout=150)
    return path


def stalls():
    """A stall is a pair of events of its thread, from its begin to its end, and a line of csv."""
    path = stalled()
    told = report(path, "stalls")["stalls"]["stalls"]
    check(told and told[-1]["call"] == "read", told)
    trace = json.loads(sonde("export", "--as", "chrome-trace", path))["traceEvents"]
    begun, ended = [[e for e in trace if e["ph"] == ph and e["cat"] == "stall"] for ph in "be"]
    check([(round(e["ts"] * 1000), e["tid"], e["args"]["function"], e["args"]["length_ms"]) for e in begun] ==
          [(s["began_ns"], s["tid"], s["hot_path"]["function"], round(s["length_ns"] / 1e6, 3)) for s in told],
          (begun, told))
    check([round(e["ts"] * 1000) for e in ended] == [s["began_ns"] + s["total_ns"] for s in told], ended)
    same_rows(csv_rows("--by", "stall", of=path), told)


def refusals():
    """A format without data is a valid, empty file; a wrong format is refused."""
    run = try_sonde("export", "--as", "firefoxx", recorded())
    check(run.returncode == 2 and "the formats are" in run.stderr, run)


run_cases([firefox, firefox_locks, firefox_importer, speedscope, callgrind, callgrind_calls, massif, chrome_trace, stalls, tables, refusals])
