#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""One call of sonde's own fails: an allocation, or a system call that opens, reads, writes, maps, clones, waits or
traces. Whatever the verb was doing, it answers or refuses with a reason, the program runs on as if nothing had been,
and no process and no file is left over. SONDE_FAULTS is the number of failing calls of each verb and class, "all" for
each (./run soak); a few cells, always the same, are tried otherwise. SONDE_SEED chooses others.

The calls are the command's; those of the agent in a program that it starts; or those of the agent that wakes in a
program which has run before. That program is traced by the one that lets calls fail, so nobody could attach to it."""
import collections
import contextlib
import os
import pathlib
import platform
import random
import select
import struct
import subprocess
import time

from helpers import (
    BUILD, SONDE, WORK, check, child_of, compile_c, fresh, needs_agent, output_of, record, report, run_cases, skip,
    source_file, states_of, until)

needs_agent()
if platform.machine() != "x86_64":
    skip("the program that lets system calls fail knows the registers of x86_64 alone")
CLASSES = ("alloc", "open", "read", "write", "mmap", "clone", "futex", "ptrace", "socket", "rename")
SECONDS = 60
ANSWER = b"1225\n"
BUILT = {name: compile_c(source_file("real", "faults", name + ".c"), "-O1", "-g", "-pthread", "-fno-builtin", *options)
         for name, options in (("inject", []), ("target", []), ("allocate", ["-shared", "-fPIC"]))}
TARGET = BUILT["target"]

# Verbs that look at a process and are tried once nevertheless.
SHARE = ("top", "record -p trace", "record -p coverage", "ctl attach")
# Calls that failed without a reason once, or with a wrong one.
ONCE_WRONG = {"agent woken": [("mmap", lambda _: [1, 2])],
              "doctor": [("clone", lambda count: range(1, count + 1)), ("alloc", lambda count: range(14, count + 1))],
              "audit": [("alloc", lambda _: [1])], "record": [("write", lambda count: range(1, min(count, 9)))],
              "agent malloc": [("ptrace", lambda count: range(23, min(count, 27)))],
              "record all": [("read", lambda _: range(183, 186))]}
Verb = collections.namedtuple("Verb", "name words live runs agent wakes during")
Verb.__new__.__defaults__ = (False, False, False, False, None)
DORMANT = pathlib.Path(BUILD, "lib", "libsonde-dormant.so")


def _control(target, *words):
    return subprocess.run([SONDE, "ctl", str(target.pid), *words], check=False, capture_output=True, timeout=SECONDS)


def _attach_and_detach(target, recorder):
    """What `sonde ctl` does to a recording that has just begun: nothing of it need succeed."""
    while recorder.poll() is None and _control(target, "status").returncode != 0:
        pass
    for words in ("attach",), ("malloc=all",), ("trace=on",), ("detach",):
        _control(target, *words)
        if not _answers(target):
            return


def _verbs(run, other, index):
    """Of each verb its words; {out} is a file of the run's folder. LIVE: looks at a process, so that each answer is
    another. RUNS: starts the target. AGENT: the calls are those of the agent in the target. WAKES: the target sleeps
    with a dormant agent, and the calls are its. DURING is called while the verb works."""
    keep = ["--keep-free", "0"]
    main = next(line.split()[0] for line in output_of("nm", TARGET).splitlines() if line.endswith(" T main"))
    return [
        Verb("report", ["report", run]), Verb("report --json", ["report", "--json", run]),
        Verb("report --tree", ["report", "--tree", run]), Verb("events", ["events", run]),
        Verb("events --tables", ["events", "--tables", run]), Verb("history", ["history", run, "stack:" + index]),
        Verb("export collapsed", ["export", run]),
        Verb("export pprof", ["export", "--as", "pprof", "-o", "{out}", run]),
        Verb("export chrome", ["export", "--as", "chrome-trace", "-o", "{out}", run]),
        Verb("diff", ["diff", run, other]), Verb("why FILE", ["why", run]), Verb("leaks FILE", ["leaks", other]),
        Verb("pack", ["pack", "-o", "{out}", run]), Verb("pack --summary", ["pack", "--summary", "-o", "{out}", run]),
        Verb("symbolize", ["symbolize", "--image", TARGET, main]),
        Verb("store", ["store", "--to", "sqlite:{out}", run]),
        Verb("audit", ["audit", "check", "linux"]),
        Verb("cache", ["cache"]), Verb("clean", ["clean", "{folder}"]), Verb("help", ["help", "record"]),
        Verb("stacks PID", ["stacks", "{pid}"], True), Verb("why PID", ["why", "{pid}"], True),
        Verb("leaks PID", ["leaks", "{pid}"], True), Verb("doctor", ["doctor"], True),
        Verb("record -p", ["record", "-o", "{out}", *keep, "--seconds", "1", "-p", "{pid}"], True),
        Verb("record -p malloc", ["record", "-o", "{out}", *keep, "--malloc", "--seconds", "1", "-p", "{pid}"], True),
        Verb("top", ["top", "--once", "{pid}"], True),
        Verb("record -p trace", ["record", "-o", "{out}", *keep, "--trace=!work,!keep,malloc,free", "--seconds", "1", "-p",
                                 "{pid}"], True),
        Verb("record -p coverage", ["record", "-o", "{out}", *keep, "--audit", "--coverage", "--seconds", "1", "-p", "{pid}"],
             True),
        Verb("record -p leaks", ["record", "-o", "{out}", *keep, "--leaks", "--seconds", "1", "-p", "{pid}"], True),
        Verb("ctl attach", ["record", "-o", "{out}", *keep, "--seconds", "4", "-p", "{pid}"], True,
             during=_attach_and_detach),
        Verb("agent woken", ["ctl", "{pid}", "record", "-o", "{out}", *keep, "--malloc=all", "--audit",
                             "--trace=!work,!keep,malloc", "--seconds", "1"], False, False, True, True),
        Verb("record", ["record", "-o", "{out}", *keep, "--", TARGET, "answer"], False, True),
        Verb("record malloc", ["record", "--malloc", "--stall", "-o", "{out}", *keep, "--", TARGET, "answer"], False,
             True),
        Verb("agent malloc", ["record", "--malloc", "--stall", "--sample", "--audit", "--leaks", "-o", "{out}", *keep, "--",
                       TARGET, "answer"], False, True, True),
        Verb("record all", ["record", "--malloc", "--audit", "--wall", "--cpu", "--leaks", "--follow", "-o", "{out}",
                            *keep, "--", TARGET, "answer"], False, True)]


# ---- one run -----------------------------------------------------------------------------------------------

class Run:
    """A verb in which call N of a class fails (0: none)."""

    def __init__(self, verb, kind, n, target):
        self.folder = pathlib.Path(WORK, f"faults-{os.getpid()}")
        self.folder.mkdir()
        names = {"out": str(self.folder / "out"), "folder": str(self.folder), "pid": str(target and target.pid)}
        words = [SONDE, *(word.format(**names) if "{" in word else word for word in verb.words)]
        environment = dict(os.environ, XDG_CACHE_HOME=os.path.join(WORK, "cache"), XDG_RUNTIME_DIR=str(self.folder),
                           TMPDIR=str(self.folder), COLUMNS="100")
        self.count, self.left, self.told, self.hung, self.harmed = 0, 0, "", False, False
        if verb.agent:
            environment["AGENT"] = "woken" if verb.wakes else "preloaded"
        if verb.wakes:
            counts = fresh(".log")
            self._wake(verb, [BUILT["inject"], kind, str(n), counts], environment)
        elif kind == "alloc":
            counts = fresh(".counts")
            pathlib.Path(counts).write_bytes(struct.pack("<Q", n).ljust(4096, b"\0"))
            environment.update(LD_PRELOAD=BUILT["allocate"], FAULTS=counts)
        else:
            counts = fresh(".log")
            words = [BUILT["inject"], kind, str(n), counts, *words]
        if not verb.wakes:
            self._run(verb, words, environment, target)
        self.read_counts(kind, counts)
        self.files = sorted(path.name for path in self.folder.rglob("*") if not path.is_dir())
        self.recorded = self.folder / "out"

    def _run(self, verb, words, environment, target):
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env=environment, cwd=self.folder, start_new_session=True)
        if verb.during:
            verb.during(target, process)
        try:
            self.out, self.errors = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            self.hung = True
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            self.out, self.errors = process.communicate()
        self.status = process.returncode

    def _wake(self, verb, inject, environment):
        """The target runs with INJECT, and the verb without it; the target works until the verb has ended."""
        program = subprocess.Popen([*inject, "/usr/bin/env", f"LD_PRELOAD={DORMANT}", TARGET], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, env=environment)
        self.out, self.errors, self.status = b"", b"", 0
        self.harmed = not _says(program, b"ready\n")
        if not self.harmed:
            pid = str(child_of(program.pid))
            words = [SONDE, *(word.format(pid=pid, out=self.folder / "out") if "{" in word else word for word in verb.words)]
            recorder = subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.PIPE, cwd=self.folder)
            end = time.monotonic() + SECONDS
            while recorder.poll() is None and not self.harmed and time.monotonic() < end:
                self.harmed = not _works(program)
            self.hung = recorder.poll() is None and not self.harmed
            if recorder.poll() is None:
                recorder.kill()
            self.out, self.errors = recorder.communicate()
            self.status = recorder.returncode
            self.harmed |= not _works(program) or len(states_of(int(pid))) != 4
        program.stdin.close()
        try:
            self.harmed |= program.wait(SECONDS) != 0
        except subprocess.TimeoutExpired:
            self.harmed = True
            program.kill()
            program.wait()

    def read_counts(self, kind, counts):
        if kind == "alloc":
            _, self.count, caller = struct.unpack_from("<QQQ", pathlib.Path(counts).read_bytes())
            self.told = hex(caller)
        elif os.path.exists(counts):
            count, left, self.told = pathlib.Path(counts).read_text(errors="replace").split("\n", 2)
            self.count, self.left = int(count), int(left)

    def end(self):
        for path in sorted(self.folder.rglob("*"), reverse=True):
            path.unlink() if not path.is_dir() else path.rmdir()
        self.folder.rmdir()


def _lost(run, clean):
    """Whether a recording has less than the CLEAN one and nothing says so."""
    told = report(run.recorded)
    return (not any(told["missing"].values()) and b"nothing was recorded" not in run.errors and
            told.get("malloc", {}).get("allocated") != clean)


def _judge(verb, clean, run, target):
    """What became of a run, and whether that is a fault."""
    if run.hung:
        return "hung", True
    if run.status == 97:
        return "kill of all processes", True
    if run.status < 0:
        return f"signal {-run.status}", True
    if run.left:
        return "process left", True
    # SQLite keeps its journals where closing failed, and the next command that opens the store uses them.
    left = set(run.files) - set(clean.files) - {"out-wal", "out-shm", "out-journal"}
    if left:
        return f"files left: {left}", True
    if target and not _answers(target):
        return "program harmed", True
    if run.harmed:
        return "program harmed", True
    if run.status != clean.status:
        if not run.errors.startswith(b"sonde"):
            return f"status {run.status} without a reason", True
        if verb.runs and run.out != b"" and run.out != clean.out:
            return "program harmed", True
        return "refused", False
    if verb.runs and run.out != clean.out:
        return "program harmed", True
    if verb.runs and "malloc" in verb.name and _lost(run, clean.allocated):
        return "loss not told", True
    if run.errors != clean.errors and not verb.live and not verb.wakes:
        return "warned", False
    if not verb.live and not verb.wakes and run.out != clean.out:
        return "told less", False
    return "answered", False


def _says(program, text):
    ready, _, _ = select.select([program.stdout], [], [], SECONDS)
    return bool(ready) and program.stdout.readline() == text


def _works(program):
    """Whether the program does its work, and as always."""
    try:
        program.stdin.write(b"go\n")
        program.stdin.flush()
    except BrokenPipeError:
        return False
    return _says(program, ANSWER)


def _answers(target):
    """Whether the program that was looked at goes on, in all of its threads."""
    return _works(target) and len(states_of(target.pid)) == 4 and not _traced(target.pid)


def _traced(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return "TracerPid:\t0\n" not in status or set(states_of(pid).values()) & set("tT")


def _start_target():
    target = subprocess.Popen([TARGET], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert target.stdout.readline() == b"ready\n"
    until(lambda: len(states_of(target.pid)) == 4, "its threads")
    return target


# ---- the table -----------------------------------------------------------------------------------------------

class Table:
    """Verbs and classes: how often each outcome was found."""

    def __init__(self):
        self.run, self.other, self.cells, self.faults = fresh(), fresh(), {}, []
        record([TARGET, "answer"], "--malloc", "--sample", "--wall", path=self.run)
        record([TARGET, "answer"], "--leaks", path=self.other)
        stack = report(self.run, "malloc")["malloc"]["stacks"][0]["stack"]
        self.verbs, self.target = _verbs(self.run, self.other, str(stack)), None

    def _one(self, verb, kind, n):
        if verb.live and (not self.target or self.target.poll() is not None):
            self.target = _start_target()
        return Run(verb, kind, n, self.target if verb.live else None)

    def clean(self, verb, kind):
        """A run in which nothing fails."""
        run = self._one(verb, kind, 0)
        assert not run.hung and run.status in ((7,) if verb.runs else (0, 1)), (verb, vars(run))
        run.allocated = report(run.recorded).get("malloc", {}).get("allocated") if verb.runs else None
        run.end()
        return run

    def cell(self, verb, kind, choose):
        """Tries the calls that CHOOSE picks of their number."""
        clean, outcomes = self.clean(verb, kind), collections.Counter()
        for n in choose(clean.count):
            run = self._one(verb, kind, n)
            what, is_fault = _judge(verb, clean, run, self.target if verb.live else None)
            if verb.name == "doctor" and kind == "alloc" and (run.status, clean.status) == (1, 0):
                what, is_fault = "blames the machine", True
            outcomes[what] += 1
            if is_fault:
                self.faults.append(f"{verb.name}: {kind} {n} of {clean.count}: {what}: {run.errors[-200:]} {run.told}")
                print(self.faults[-1], flush=True)
                if self.target and what in ("program harmed", "hung"):
                    self.target.kill()
                    self.target.wait()
                    self.target = None
            run.end()
        self.cells[verb.name, kind] = (clean.count, outcomes)
        print(f"{verb.name:18} {kind:7} {clean.count:6} calls, {sum(outcomes.values())} failed:",
              ", ".join(f"{count} {what}" for what, count in outcomes.most_common()), flush=True)


def _choose(most):
    """A choice of MOST numbers of calls, spread evenly over all; all for None."""
    def choose(count):
        if most is None or count <= most:
            return range(1, count + 1)
        return sorted({1 + count * i // most for i in range(most)})
    return choose


def each_call_fails_once():
    table, draw = Table(), random.Random(os.environ.get("SONDE_SEED", "1"))
    wanted, words = os.environ.get("SONDE_FAULTS"), os.environ.get("SONDE_FAULT_VERBS", "").split(",")
    for verb in table.verbs:
        if words != [""] and verb.name not in words:
            continue
        if wanted:
            for kind in CLASSES[verb.agent:]:  # the agent calls no allocator
                table.cell(verb, kind, _choose(None if wanted == "all" else int(wanted)))
            continue
        if not verb.live or verb.name in SHARE:
            kind = draw.choice(CLASSES[verb.agent:5])
            table.cell(verb, kind, lambda count: [draw.randrange(1, count + 1)] if count else [])
        for cell in ONCE_WRONG.get(verb.name, []):
            table.cell(verb, *cell)
    if table.target:
        table.target.kill()
    check(not table.faults, f"{len(table.faults)} faults")
    return f"{sum(sum(outcomes.values()) for _, outcomes in table.cells.values())} calls failed"


run_cases(globals())
