#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Random programs, recorded with random sets of sensors: every figure of `sonde report --json` that the program's
statements determine is as counted, and other verbs agree. SONDE_SEED repeats a run, SONDE_PROGRAMS is the number of
programs (./run soak: many)."""
import collections
import json
import os
import random
import shutil

from helpers import (
    SEED, Delays, check, compile_c, events, fresh, needs_agent, nothing_missing, record, report, run_cases, sonde,
    try_sonde, write)
from shared.generated import generate, total
from shared.timing import near

needs_agent()
SECTIONS = ("malloc", "sample", "stalls", "vm", "usage", "wall", "cpu", "trace", "audit", "processes", "pools")
PROGRAMS = int(os.environ.get("SONDE_PROGRAMS", "4"))


# ---- one program and its recording -------------------------------------------------------------------

class Run:
    """A program, what it was recorded with, its model and its recording."""

    def __init__(self, seed):
        draw = random.Random(seed)
        self.sensors, self.modes, flags = _sensors(draw)
        self.program, self.model = generate(draw, "wall" in self.modes)
        compilers = ["g++" if self.program.is_cxx else "gcc"]
        if shutil.which("clang"):
            compilers.append("clang++" if self.program.is_cxx else "clang")
        self.compiler, level = draw.choice(compilers), draw.choice(("-O0", "-O1", "-O2"))
        if "-fpatchable" in flags and self.compiler.startswith("clang"):
            flags = "-finstrument-functions"
        self.options = [level, "-g", "-w", "-pthread", "-fno-builtin", "-fno-optimize-sibling-calls", *flags.split()]
        self.source = write(self.program.source(), ".cc" if self.program.is_cxx else ".c")
        self.binary = compile_c(self.source, *self.options, compiler=self.compiler)
        with Delays() as self.delays:
            self.path, self.done = record([self.binary], *self.sensors, text=True)
        check(self.done.returncode == self.program.status, self.done)
        lines = [line.split() for line in self.done.stdout.splitlines()]
        self.tids = [int(tid) for tid, _ in lines]
        self.slept = [int(ns) / 1e9 for _, ns in lines]
        self.told = report(self.path, "--top", 1000000)
        self.sections = [*filter(SECTIONS.__contains__, self.told), *["waits"] * ("wall" in self.modes)]
        self.told = report(self.path, "--top", 1000000, *self.sections)

    def expect(self, found, true, what):
        """Fails the case unless FOUND is what the program does."""
        return check(found == true, f"{what}: {found}, the program: {true}")

    def __str__(self):
        return (f"{self.compiler} {' '.join(self.options)}, {len(self.tids)} threads, {self.model.events} allocations "
                f"and frees: {' '.join(self.sensors)}")


def _sensors(draw):
    """Options of `sonde record`, the sensors' names, and the compiler's options."""
    modes, flags = {}, ""
    for mode, options in {"malloc": ["--malloc=all", "--malloc=malloc", "--malloc=live"], "audit": ["--audit=files"],
                          "trace": ["--trace", "--trace=!gen_*"], "sample": ["--sample", "--sample=700"],
                          "wall": ["--wall"], "stall": ["--stall=60"], "cpu": ["--cpu"], "leaks": ["--leaks"],
                          "follow": ["--follow"]}.items():
        if draw.random() < {"malloc": 0.7, "trace": 0.4, "audit": 0.5, "wall": 0.3}.get(mode, 0.2):
            modes[mode] = draw.choice(options)
    if not modes:
        modes["malloc"] = "--malloc=all"
    if modes.get("trace") == "--trace":
        flags = draw.choice(("-finstrument-functions", "-fpatchable-function-entry=5"))
    more = ["--no-waits"] if "trace" in modes and draw.random() < 0.5 else []
    more += [f"--audit-depth={draw.randrange(3, 20)}"] if "audit" in modes and draw.random() < 0.3 else []
    return [*modes.values(), *more], modes, flags


# ---- the figures ---------------------------------------------------------------------------------------

def _path(frames):
    """The program's own functions of a stack, outermost first."""
    return tuple(frame["function"] for frame in reversed(frames) if frame.get("function", "").startswith("gen_"))


def _by_path(rows, key):
    """The amounts of stacks' rows by their path; () is what is not of the program's functions."""
    found = collections.defaultdict(lambda: [0, 0])
    for row in rows:
        amount = row[key]
        blocks, size = (amount["blocks"], amount["bytes"]) if isinstance(amount, dict) else (amount, 0)
        found[_path(row["frames"])][0] += blocks
        found[_path(row["frames"])][1] += size
    return {path: amount for path, amount in found.items() if any(amount)}


def _check_program(run):
    told = run.told
    nothing_missing(told)
    run.expect(told["threads"], run.program.threads, "threads")
    run.expect(told["wait_status"], run.program.status << 8, "wait status")
    run.expect(told["finished"], True, "finished")


def _check_rows(run, by, key, true):
    """The amounts of the stacks that have any of the measure BY. Returns what is outside of the program's functions."""
    told = report(run.path, "--by", by, "--top", 1000000, "malloc")["malloc"]
    run.expect(told["stack_count"], len(told["stacks"]), f"stacks by {by}")
    found = _by_path(told["stacks"], key)
    others = found.pop((), [0, 0])
    run.expect(found, dict(true), f"{key} by stack")
    return others


def _check_live(run):
    others = _check_rows(run, "leaked", "live", run.model.live)
    run.expect(run.told["malloc"]["live"], total([*run.model.live.values(), others]), "live")


def _check_malloc(run):
    told, model = run.told["malloc"], run.model
    given = _check_rows(run, "allocated", "allocated", model.allocated)
    brief = _check_rows(run, "temporary", "temporary", {path: [n, 0] for path, n in model.temporary.items()})
    run.expect(told["allocated"], total([*model.allocated.values(), given]), "allocated")
    run.expect(told["temporary"], sum(model.temporary.values()) + brief[0], "temporary")
    run.expect(told["reallocs"], model.kinds["realloc"], "reallocs")
    for key in "unknown_frees", "double_frees", "address_reuses", "prerecording_frees", "untracked":
        run.expect(told[key], 0, key)
    run.expect(sum(row["allocations"] for row in told["sizes"]), told["allocated"]["blocks"], "sizes")
    sizes = {row["at_least"]: row["allocations"] for row in told["sizes"]}
    short = {n: count for n, count in model.sizes.items() if sizes.get(1 << n if n else 0, 0) < count}
    run.expect(short, {}, f"sizes {sizes}")
    depth = told["depth"]
    run.expect(depth["complete"], told["allocated"]["blocks"], "complete stacks")
    run.expect(sum(row["allocations"] for row in depth["histogram"]), told["allocated"]["blocks"], "depths")
    if run.program.threads == 1:  # else the order of the threads counts
        check(model.peak <= told["peak"]["bytes"] <= model.peak + given[1], (told["peak"], model.peak, given))
    _check_functions(run)
    for thread, (blocks, size, frees) in enumerate(model.by_thread[1:], 1):  # main also starts the others
        rows = [(row["allocated"], row["frees"]) for row in told["threads"] if row["tid"] == run.tids[thread]]
        # A thread that does neither has no row.
        run.expect(rows, [({"blocks": blocks, "bytes": size}, frees)] if blocks or frees else [], f"thread {thread}")


def _check_functions(run):
    owned = collections.defaultdict(lambda: [0, 0])
    rows = report(run.path, "--by", "allocated", "--top", 1000000, "malloc")
    for path, amount in run.model.allocated.items():
        owned[path[-1]] = [a + b for a, b in zip(owned[path[-1]], amount)]
    true = {name: (total([amount]), len(run.model.stacks[name])) for name, amount in owned.items()}
    run.expect({row["function"]: (row["allocated"], row["stacks"]) for row in rows["malloc"]["functions"]
                if row["function"].startswith("gen_")}, true, "functions")


def _paths_of_calls(told):
    """Calls by path of the program's own functions."""
    names, counts = {0: ()}, collections.Counter()
    for node in told["nodes"]:
        own = node["function"].startswith("gen_")
        names[node["node"]] = names[node["parent"]] + ((node["function"],) if own else ())
        if own and node["calls"]:
            counts[names[node["node"]]] += node["calls"]
    return counts


def _check_trace(run):
    told = run.told["trace"]
    for key in "lost", "unmatched", "unknown", "left", "open":
        run.expect(told[key], 0, key)
    found = _paths_of_calls(told)
    traced = {name for path in found for name in path}
    patches = told.get("run_time_patches", {})
    refused = {name for name in run.program.functions if any(name in path for path in run.model.calls)} - traced
    if run.modes["trace"] == "--trace":
        run.expect(refused, set(), "functions without calls")
    else:  # each that cannot be patched is counted
        check(len(refused) <= sum(count for why, count in patches.items() if why != "patched"), (refused, patches))
    true = collections.Counter()
    for path, calls in run.model.calls.items():
        if path[-1] in traced:
            true[tuple(name for name in path if name in traced)] += calls
    run.expect(found, true, "calls")
    run.expect(sum(node["calls"] for node in told["nodes"]), told["calls"], "calls of all nodes")
    for row in told["functions"] + told["nodes"]:
        run.expect(sum(step["calls"] for step in row["histogram"]), row["calls"], f"histogram of {row['function']}")


def _check_audit(run):
    told, found = run.told["audit"], collections.Counter()
    run.expect(told["damaged"], 0, "damaged")
    for row in told["findings"]:
        path = _path(row["frames"])
        if not path:
            continue
        results, key = row["results"], (path[-1], row["function"], row["arguments"])
        run.expect(results["succeeded"] + results["failed"], row["calls"], f"results of {key}")
        found[(*key, 0)] += results["succeeded"]
        for error in results.get("errors", []):
            found[(*key, error["errno"])] += error["calls"]
    run.expect(+found, +run.model.audit, "audited calls")
    run.expect(sum(row["calls"] for row in told["findings"]), told["calls"], "calls of all findings")


def _check_wall(run):
    """Of a program that sleeps in usleep: against its own clock."""
    for tid, slept in zip(run.tids, run.slept):
        waits = [w for w in run.told["waits"]["waits"] if w["tid"] == tid and w.get("syscall") == "clock_nanosleep"]
        near(sum(w["time_ns"] for w in waits) / 1e9, slept, f"sleep of {tid}", run.delays)
    told = run.told["wall"]
    times = collections.Counter()
    for row in told["stacks"]:
        times[row["where"]] += row["time_ns"]
    for where in "blocked", "cpu":  # a thread without a sample has no stack
        check(times[where] <= told[where + "_ns"] + len(told["stacks"]), (times, told))
    if all(thread["samples"] for thread in told["threads"]):  # each was seen blocked
        check(abs(times["blocked"] - told["blocked_ns"]) <= len(told["stacks"]), (times, told))
    parts = sum(told[key] for key in ("cpu_ns", "waited_for_cpu_ns", "blocked_ns"))
    run.expect(parts, told["seen_ns"], "time of threads")


def _check_cpu_time(run):
    told = run.told["sample"]["cpu_time"]
    run.expect(told["sampled_ns"] + told["unsampled_ns"], told["cpu_ns"], "CPU time")
    run.expect(sum(row["samples"] for row in run.told["sample"]["stacks"]), run.told["sample"]["samples"], "samples")


# ---- other verbs -------------------------------------------------------------------------------------------

def _check_events(run):
    """Every event, with the functions of its stack."""
    kinds, allocated, frees = collections.Counter(), collections.defaultdict(lambda: [0, 0]), collections.Counter()
    for event in events(run.path, "--names"):
        path = tuple(name for name in reversed(event.get("functions", [])) if name.startswith("gen_"))
        if event["event"] in ("malloc", "calloc", "aligned", "realloc", "free") and path:
            kinds[event["event"]] += 1
            frees[path] += event["event"] == "free"
            if "size" in event:
                allocated[path] = [allocated[path][0] + 1, allocated[path][1] + event["size"]]
    run.expect(kinds, run.model.kinds, "kinds of events")
    run.expect(dict(allocated), dict(run.model.allocated), "events of allocations")
    run.expect(+frees, run.model.frees, "events of frees")


def _check_verbs(run):
    if run.modes.get("malloc") in ("--malloc=all", "--malloc=malloc"):
        _check_events(run)
        folded = sonde("export", "--by", "allocated", run.path).splitlines()
        run.expect(sum(int(line.rsplit(" ", 1)[1]) for line in folded), run.told["malloc"]["allocated"]["bytes"],
                   "collapsed stacks")
        said = sonde("diff", "--by", "allocated", "--max-growth", 0, run.path, run.path)
        check("+0.0 %" in said, said)
    packed = fresh()
    sonde("pack", "-o", packed, run.path)
    again = report(packed, "--top", 1000000, *run.sections)
    for part in run.told, again:  # the size of the calls in the file
        part.get("trace", {}).pop("bytes", None)
    for key in run.told:
        run.expect(again.get(key), run.told[key], f"packed, {key}")


def _check_leaks(run):
    """A block that something points to is not leaked. A stale pointer may hide one that is. A lost block may have a
    pointer into another one, since malloc leaves its own lists in large blocks; the other block is then indirect."""
    done = try_sonde("leaks", "--json", "--top", 1000000, run.path)
    check(done.returncode in (0, 1), done)
    told = json.loads(done.stdout)
    found = sum(row[kind]["blocks"] for row in told["stacks"] if _path(row["frames"]) for kind in ("leaked", "indirect"))
    check(found <= run.model.lost[0], f"{found} leaked, the program lost {run.model.lost[0]}")
    check(found >= run.model.lost[0] - 8 * len(run.tids), f"{found} leaked, the program lost {run.model.lost[0]}")


CHECKS = {"trace": _check_trace, "audit": _check_audit, "wall": _check_wall, "sample": _check_cpu_time,
          "leaks": _check_leaks}


def figures_are_the_programs():
    for number in range(PROGRAMS):
        run = Run(f"{SEED}/{number}")
        print(f"{number}: {run}", flush=True)
        _check_program(run)
        if run.modes.get("malloc") in ("--malloc=all", "--malloc=malloc"):
            _check_malloc(run)
        if run.modes.get("malloc"):
            _check_live(run)
        for mode, check_of in CHECKS.items():
            if mode in run.modes:
                check_of(run)
        _check_verbs(run)
    return f"{PROGRAMS} programs"


run_cases(globals())
