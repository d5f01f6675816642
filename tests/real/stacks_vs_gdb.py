#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sonde's stacks against gdb's, on real programs under load, frame for frame.

The program is stopped by SIGSTOP at random moments; both tools look at it while it stands still;
SIGCONT lets it go on. Every frame that gdb gives a name to must be in sonde's stack, at the same place,
with the same pc and in the same function (the same name, or another name of the same address). What
lies outward of code that no file stands behind (made at run time), as far as gdb knows, is counted
apart: gdb goes on there by guessing.

With --zero-touch sonde may not read the registers that it needs, and recovers the frame register by
proof or says that it cannot: then frames may be missing, and none may be wrong.

usage: stacks_vs_gdb.py [--zero-touch] [PROGRAM…]     SONDE_SNAPSHOTS (2), SONDE_SEED
Without programs, all that are installed."""
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections import Counter

from gdb import programs
from helpers import SEED, run_cases, skip, source_file, states_of, try_sonde

SNAPSHOTS = int(os.environ.get("SONDE_SNAPSHOTS", "2"))
WANTED_SAME, WANTED_COMPLETE = 99.5, 99.5
WANTED_DIFFERENT = 20  # stacks, of 50 snapshots or more


def freeze(pid):
    """Stops the process; false when it ended instead."""
    try:
        os.kill(pid, 19)
        for _ in range(15000):
            letters = states_of(pid).values()
            if letters and all(letter in "TZX" for letter in letters):
                return "T" in letters
            time.sleep(0.002)
    except OSError:
        pass
    return False


def ask_sonde(pid, options):
    """Native frames only: gdb has no others."""
    done = try_sonde("stacks", "--json", "--native", *options, pid)
    if done.returncode != 0:
        raise RuntimeError(f"sonde: {done.stderr.strip()}")
    threads = json.loads(done.stdout)["threads"]
    for thread in threads:
        thread["frames"] = [frame for frame in thread["frames"] if "language" not in frame]
    return {thread["tid"]: thread for thread in threads}


def ask_gdb(pid):
    run = subprocess.run(["gdb", "-nx", "-batch", "-ex", "set debuginfod enabled off", "-p",
                          str(pid), "-x", source_file("real", "gdb", "frames.py")], capture_output=True,
                         text=True, timeout=120, check=False, env=dict(os.environ, LC_ALL="C"))
    for line in run.stdout.splitlines():
        if line.startswith("FRAMES "):
            return {int(tid): frames for tid, frames in json.loads(line[7:]).items()}
    raise RuntimeError(f"gdb: {run.stderr.strip()[-300:]}")


def bare(name):
    """A name without what the two tools write differently: template arguments, parameters."""
    name = re.sub(r"\[abi:[^]]*\]", "", name)
    name = re.sub(r"@+[A-Z][\w.]*$", "", name)
    previous = None
    while previous != name:
        previous, name = name, re.sub(r"<[^<>]*>", "", name)
    name = re.sub(r"\(.*", "", name.replace("(anonymous namespace)", "anon"))
    return name.split()[-1] if name.split() else name


def same_function(frame, name, start):
    if "function" not in frame:
        return False
    if bare(frame["function"]) == bare(name):
        return True
    if start is not None and "function_offset" in frame:
        return int(frame["pc"], 16) - int(frame["function_offset"], 16) == start
    return False


class Tally:
    def __init__(self):
        self.snapshots = self.threads = self.complete = 0
        self.named = self.same = self.inlined = self.inlined_same = self.beyond = 0
        self.tails = self.tails_same = self.wrong = 0
        self.stacks = set()
        self.differences = {}
        self.failed = []

    def differ(self, what, example):
        self.differences.setdefault(what, [0, example])[0] += 1

    def compare(self, thread, frames):
        """One thread: sonde's thread against gdb's frames."""
        self.threads += 1
        self.complete += thread["complete"]
        if not thread["complete"]:
            self.differ(f"not complete: {thread.get('reason')}", f"tid {thread['tid']} {thread.get('name')}")
        self.stacks.add(tuple(frame["pc"] for frame in thread["frames"]))
        ours = [frame for frame in thread["frames"] if not frame.get("inlined")]
        ours = [frame for frame in ours if not frame.get("tail_call")]
        theirs = [frame for frame in frames if frame[3] not in ("inlined", "tail")]
        blind = False
        for place, (pc, name, start, kind) in enumerate(theirs):
            blind = blind or kind == "no file"
            if blind or (name is None and kind != "signal"):
                self.beyond += blind and name is not None
                continue
            self.named += 1
            good = (place < len(ours) and int(ours[place]["pc"], 16) == pc and
                    (kind == "signal" or same_function(ours[place], name, start)))
            self.same += good
            if not good:
                self.explain(thread, ours, place, pc, name, theirs)
        self.compare_extra(thread, frames)

    def explain(self, thread, ours, place, pc, name, theirs):
        before = theirs[place - 1][1] if place else "(innermost)"
        self.wrong += place < len(ours)
        if place >= len(ours):
            what = f"missing: {name} outward of {before}: {thread.get('reason')}"
        elif int(ours[place]["pc"], 16) != pc:
            what = f"another pc: {name} outward of {before}: {ours[place].get('function')}"
        else:
            what = f"another name: {name} is {ours[place].get('function')}"
        self.differ(what, f"tid {thread['tid']} frame {place} pc {pc:#x}")

    def compare_extra(self, thread, frames):
        """Frames that are on no stack: inlined functions, and callers that jumped."""
        theirs = Counter(bare(frame[1]) for frame in frames if frame[3] == "inlined" and frame[1])
        ours = Counter(bare(frame.get("function", "")) for frame in thread["frames"]
                       if frame.get("inlined"))
        self.inlined += sum(theirs.values())
        self.inlined_same += sum((theirs & ours).values())
        theirs = Counter(frame[0] for frame in frames if frame[3] == "tail")
        ours = Counter(int(frame["pc"], 16) for frame in thread["frames"]
                       if frame.get("tail_call") and "pc" in frame)
        self.tails += sum(theirs.values())
        self.tails_same += sum((theirs & ours).values())

    def is_undecided(self):
        """One frame that differs among few decides nothing about a share of 0.5 %: gdb guesses at times. Neither does one
        stack that is not complete: a thread that begins or ends may be in code without unwind information."""
        differ, cut = self.named - self.same, self.threads - self.complete
        return max(differ, cut) == 1 and (self.named < 1000 * differ or self.threads < 1000 * cut)

    def report(self, name):
        share = 100.0 * self.same / max(self.named, 1)
        whole = 100.0 * self.complete / max(self.threads, 1)
        print(f"{name}: {self.snapshots} snapshots, {self.threads} stacks, {len(self.stacks)} different;"
              f" {self.same} of {self.named} named frames the same ({share:.2f} %),"
              f" {whole:.2f} % complete; inlined {self.inlined_same} of {self.inlined},"
              f" tail calls {self.tails_same} of {self.tails}; {self.beyond} outward of unnamed code")
        for what, (count, example) in sorted(self.differences.items(), key=lambda d: -d[1][0])[:12]:
            print(f"    {count:4} × {what} ({example})")
        for error in self.failed:
            print(f"    no answer: {error}")
        sys.stdout.flush()
        return share, whole


def snapshot(program, tally, options):
    pid = program.pid()
    if not freeze(pid):
        return
    try:
        ours, theirs = ask_sonde(pid, options), ask_gdb(pid)
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        tally.failed.append(str(error))
        return
    finally:
        try:
            os.kill(pid, 18)
        except OSError:
            pass
    tally.snapshots += 1
    for tid, frames in theirs.items():
        if tid in ours and frames:
            tally.compare(ours[tid], frames)


def run_program(kind, rng, options):
    program, tally = kind(), Tally()
    program.prepare()
    try:
        tries = 0
        while (tally.snapshots < SNAPSHOTS or tally.is_undecided()) and tries < SNAPSHOTS * 8:
            tries += 1
            program.pid()
            time.sleep(rng.random() * 0.2)
            snapshot(program, tally, options)
    finally:
        program.stop()
    return tally


def _case_of(kind, rng, options):
    def case():
        if not kind.available():
            skip("it is not installed")
        tally = run_program(kind, rng, options)
        share, whole = tally.report(kind.name)
        if options:
            assert not tally.wrong, tally.wrong
        elif not tally.is_undecided():  # else many looks found no second one
            assert share >= WANTED_SAME, share
            assert whole >= WANTED_COMPLETE or kind.name in ("node", "java"), whole
        assert SNAPSHOTS < 50 or len(tally.stacks) >= WANTED_DIFFERENT, len(tally.stacks)
        assert tally.snapshots and not tally.failed, tally.failed
    case.__name__ = kind.name
    return case


def _main():
    options = [word for word in sys.argv[1:] if word == "--zero-touch"]
    wanted = [word for word in sys.argv[1:] if word not in options]
    python = ["gdb", "-nx", "-batch", "-ex", "python print(1)"]
    if not shutil.which("gdb") or subprocess.run(python, capture_output=True, check=False).stdout.strip() != b"1":
        skip("gdb, or its Python, is not installed")
    print(f"{SNAPSHOTS} snapshots a program")
    rng = random.Random(SEED)
    random.seed(SEED)
    run_cases([_case_of(kind, rng, options) for kind in programs.ALL], only=wanted)


_main()
