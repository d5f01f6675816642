#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sonde leaks: planted leaks are found and nothing else; what it says of programs that nobody here
wrote is what memcheck says; the program notices nothing."""
import json
import os
import re
import shutil
import subprocess
import sys
import time

from helpers import (
    SEED, WORK, child_of, children_of, compile_c, fresh, needs, needs_agent, run_cases, skip_part,
    source_file, start_record, states_of, try_sonde, until)

KEPT_REGISTERS = {"x86_64": 6, "aarch64": 11}[os.uname().machine]  # by a function for its caller


def _compile(name, *options):
    out = os.path.join(WORK, name)
    if not os.path.exists(out):
        compile_c(source_file("real", "leaks", name + ".c"), "-O1", "-g", "-fno-builtin", "-pthread", *options, out=out)
    return out


class _Recorded:
    """A program under sonde record, which waits for a line when it has said "ready"."""

    def __init__(self, mode, *command, say="", **how):
        self.path, self.recorder = start_record(command, f"--malloc={mode}", stdin=subprocess.PIPE,
                                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **how)
        self.recorder.stdin.write(say)
        self.recorder.stdin.flush()
        self.lines = []
        for line in self.recorder.stdout:
            if line.strip() == "ready":
                break
            self.lines.append(line.split())
        self.pid = child_of(self.recorder.pid)

    def leaks(self, *words, status=0):
        done = try_sonde("leaks", self.pid, *words)
        assert done.returncode == status, done
        return done.stdout if status != 2 else done.stderr

    def all_asleep(self):
        """Waits until every thread of the program has come to the call that it waits in."""
        until(lambda: set(states_of(self.pid).values()) == {"S"},
                    lambda: f"all asleep: {states_of(self.pid)}")

    def look(self, *words):
        return json.loads(self.leaks("--json", *words))

    def look_with_all_held(self, *words):
        """On a busy machine a thread may not come in time, and then all that is lost is unsure."""
        for _ in range(100):
            told = self.look(*words)
            if all(t["registers"] != "running" for t in told["threads"]):
                break
        return told

    def end(self):
        out, error = self.recorder.communicate("\n", timeout=150)
        assert self.recorder.returncode == 0, error
        return out


def _judge(recorded, told, tally):
    """Compares what was TOLD with what was planted; misses go to TALLY with the word that held them.
    """
    found = {int(b["address"], 16): b["verdict"] for b in told["blocks"]}
    wrong = []
    for kind, expected, address, size in recorded.lines:
        verdict = found.get(int(address, 16), "kept")
        if expected == "kept" and verdict != "kept":
            wrong.append((kind, address, verdict))
        if expected in ("kept", "unsure"):
            continue
        right = {"lost": ("leaked",), "held": ("indirect",), "cycle": ("cycle", "indirect")}[expected]
        tally["planted"] += 1
        if verdict in right:
            tally["found"] += 1
        elif verdict != "kept":  # found, though told as something else: a stale word inside it
            tally["found"] += 1
            tally["other"] += 1
        else:
            tally["missed"].append((recorded, kind, address))
    assert not wrong, f"told to be lost and are not: {wrong[:10]}"


def _explain(recorded, kind, address):
    """A miss is explained when a word that points into the block is shown."""
    told = recorded.look(address)
    if told["verdict"] != "reachable":
        return f"{kind} {address}: a moment later {told['verdict']}"
    words = [(r["kind"], r["where"]) for r in told["referrers"]]
    assert words, (kind, address, told)
    start = int(address, 16)
    for r in told["referrers"]:
        assert start <= int(r["value"], 16) < start + max(told["size"], 1), r
    return f"{kind} {address}: {words[:3]}"


def _planted(mode, seeds, more=""):
    program = _compile("planted")
    tally = {"planted": 0, "found": 0, "other": 0, "missed": []}
    pauses = []
    for seed in seeds:
        r = _Recorded(mode, program, str(seed), more)
        told = r.look_with_all_held()
        assert told["every_block_recorded"], told
        pauses.append(told["pause_ns"] / 1e6)
        before = len(tally["missed"])
        _judge(r, told, tally)
        for missed in tally["missed"][before:]:
            print("missed:", _explain(*missed))
        r.end()
    print(f"{mode}: {tally['found']} of {tally['planted']} planted found, {tally['other']} of them "
          f"under another name; paused {min(pauses):.2f} to {max(pauses):.2f} ms; seeds {seeds}")
    assert tally["planted"] > 300 * len(seeds), tally["planted"]
    assert tally["found"] >= 0.99 * tally["planted"], tally["found"]


def planted_leaks_are_found_and_nothing_else_live():
    _planted("live", [SEED, SEED + 1, SEED + 2])


def planted_leaks_are_found_and_nothing_else_all():
    _planted("all", [SEED + 3, SEED + 4, SEED + 5])


def what_threads_hold_is_kept():
    """In registers of threads that run or wait, in vector registers, on stacks, thread-local."""
    _planted("live", [SEED + 6], "rpelvx")
    _planted("all", [SEED + 7], "rpelvx")


def what_no_register_tells_is_unsure():
    """A block that only one register of a thread in nanosleep(…, NULL) holds: no signal may tell."""
    r = _Recorded("live", _compile("planted"), str(SEED + 8), "s")
    r.all_asleep()
    told = r.look_with_all_held("--top", "100000")
    assert [t["registers"] for t in told["threads"]].count("unknown") == 1, told["threads"]
    address = next(a for kind, _, a, _ in r.lines if kind == "register-sleep")
    block = next(b for b in told["blocks"] if int(b["address"], 16) == int(address, 16))
    group = next(g for g in told["stacks"] if g["stack"] == block["stack"])
    assert group["uncertain"] == group["leaked"]["blocks"] == 1, group
    many = [g for g in told["stacks"] if g["leaked"]["blocks"] > KEPT_REGISTERS]
    assert many and all(g["uncertain"] == KEPT_REGISTERS for g in many), many
    assert "registers are unknown" in r.leaks()
    r.end()


def _looks_at_churn(mode):
    """Four looks at a program whose threads allocate all the time. On a machine that lets the recorder wait for long, events
    are lost, and then nobody can look: it is recorded once more."""
    for _ in range(10):
        r, told = _Recorded(mode, _compile("churn"), "4", str(SEED)), []
        while len(told) < 4:
            done = try_sonde("leaks", r.pid, "--json")
            if done.returncode == 2 and "the recording has lost events" in done.stderr:
                break
            assert done.returncode == 0, done
            told.append(json.loads(done.stdout))
        r.end()
        if len(told) == 4:
            return told
    raise AssertionError("each recording has lost events")


def nothing_is_lost_while_threads_work():
    for mode in "live", "all":
        looks = _looks_at_churn(mode)
        for told in looks:
            sure = [g for g in told["stacks"] if g["uncertain"] < g["leaked"]["blocks"]]
            assert not sure, (SEED, told["threads"], sure)
            assert not told["leaked"]["blocks"] or told["reallocs_under_way"] or any(
                t["registers"] == "running" for t in told["threads"]), told["leaked"]
        print(f"{mode}: nothing of {looks[-1]['live']} lost; held {[told['tries'] for told in looks]} times, for "
              f"{max(told['pause_ns'] for told in looks) / 1e6:.1f} ms at most")


def _said_of_calls(r):
    lines = dict(line.split(" ", 1) for line in r.end().splitlines())
    print(lines)
    return lines


def _has_waited(lines, at_most):
    for call in "nanosleep", "sleep", "select", "ppoll":
        result, error, took = lines[call].split()
        # A call that was begun anew would end three seconds after the last look began.
        assert (result, error) == ("0", "0") and 3.0 <= float(took) < at_most, (call, lines[call])
    assert lines["sem"].startswith("-1 110 "), lines["sem"]  # ETIMEDOUT
    assert lines["epoll"].startswith("1 0 ") and lines["poll"].startswith("1 0 "), lines
    assert lines["read"] == "1 0" and lines["wait"] == "-1 10" and lines["sigchld"] == "0", lines


def the_program_notices_nothing():
    r = _Recorded("live", _compile("notices"))
    r.all_asleep()
    before, began = os.listdir(f"/proc/{r.pid}/fd"), time.monotonic()
    for _ in range(4):
        last = time.monotonic()
        r.look()
        time.sleep(0.6)  # the last look is made when most of the calls' three seconds are over
    assert os.listdir(f"/proc/{r.pid}/fd") == before
    children = children_of(r.recorder.pid)
    assert len(children) <= 2, children  # the program, and the last copy until somebody looks
    _has_waited(_said_of_calls(r), last - began + 3 - 0.05)  # which are told in tenths of a second


def _look_until_answered(r):
    """On a busy machine no thread may have answered when sonde gives up."""
    for _ in range(20):
        done = try_sonde("leaks", r.pid, "--json")
        if done.returncode != 2:
            return json.loads(done.stdout)
        assert "no thread of the program responded" in done.stderr, done
    raise AssertionError(done)


def _who_comes_late_notices_nothing(delay_ms, looks):
    """Every signal reaches its thread DELAY_MS too late. Returns what was known of the threads' registers."""
    r = _Recorded("live", _compile("notices"))
    r.all_asleep()
    with subprocess.Popen([_compile("delay"), str(r.pid), str(delay_ms)], stdout=subprocess.PIPE,
                          text=True) as delay:
        assert delay.stdout.readline() == "ready\n"
        threads = [t for _ in range(looks) for t in _look_until_answered(r)["threads"]]
        _has_waited(_said_of_calls(r), float("inf"))  # a delay is no part of the wait
    return [t["registers"] for t in threads]


def who_is_asked_and_comes_too_late_notices_nothing():
    late = [registers for registers in _who_comes_late_notices_nothing(200, 2) if registers != "stopped"]
    assert len(late) > 1, late


def who_is_asked_to_lead_and_comes_too_late_notices_nothing():
    """The recorder asks another thread to lead the search before the first answers, and that one's call is resumed, too."""
    _who_comes_late_notices_nothing(400, 1)


def who_waits_for_a_cpu_when_asked_notices_nothing():
    """All threads but the first have less CPU time than answers take, so that some are asked again before they answered."""
    r = _Recorded("live", _compile("notices"))
    r.all_asleep()
    one = {min(os.sched_getaffinity(0))}
    for tid in set(states_of(r.pid)) - {r.pid}:
        os.sched_setaffinity(tid, one)
        os.sched_setscheduler(tid, os.SCHED_IDLE, os.sched_param(0))
    with subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=lambda: os.sched_setaffinity(0, one)) as busy:
        asked = [thread["registers"] for _ in range(2) for thread in r.look()["threads"]]
        busy.kill()
    _has_waited(_said_of_calls(r), float("inf"))
    return f"{asked.count('running')} of {len(asked)} times a thread came too late"


PYTHON = """import ctypes, sys
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
lost = []
for n in range(50):
    lost.append(libc.malloc(2000))
    ctypes.memset(lost[-1], 1, 2000)
    print("python lost", hex(lost[-1]), 2000)
class Node: pass
keep = [Node() for _ in range(1000)]
print("ready", flush=True)
sys.stdin.readline()"""
PERL = """$| = 1; my %h = map { $_ => [1..10] } 1..500; { my $a = {}; $a->{self} = $a; }
print "ready\n"; <STDIN>;"""


def _memcheck(command, environment, stdin):
    """What memcheck says when the program is ended where it waits: definitely, indirectly, possibly
    lost blocks."""
    log = fresh(".memcheck")
    program = subprocess.Popen(["valgrind", "--leak-check=full", f"--log-file={log}", *command],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               env={**os.environ, **environment})
    program.stdin.write(stdin)
    program.stdin.flush()
    for line in program.stdout:
        if line.strip() == "ready":
            break
    program.terminate()
    program.wait(150)
    with open(log) as f:
        said = dict(re.findall(r"(\w+ lost): [\d,]+ bytes in ([\d,]+) blocks", f.read()))
    return [int(said.get(f"{how} lost", "0").replace(",", ""))
            for how in ("definitely", "indirectly", "possibly")]


def programs_nobody_here_wrote_beside_memcheck():
    needs("valgrind")
    programs = {"python3": (["/usr/bin/python3", "-IS", "-c", PYTHON], {"PYTHONMALLOC": "malloc"}, ""),
                "perl": (["perl", "-e", PERL], {}, ""),
                "sqlite3": (["sqlite3", ":memory:"], {},
                            "create table t(a, b); with recursive c(x) as (select 1 union all "
                            "select x+1 from c where x<2000) insert into t select x, hex(x) from c;"
                            "create index i on t(b);\n.print ready\n")}
    for name, (command, environment, stdin) in programs.items():
        if not shutil.which(command[0]):
            skip_part(name, "it is not installed")
            continue
        definitely, indirectly, possibly = _memcheck(command, environment, stdin)
        r = _Recorded("live", *command, say=stdin, env={**os.environ, **environment})
        told = r.look()
        lost = told["leaked"]["blocks"] + told["indirect"]["blocks"]
        print(f"{name}: {lost} lost of {told['live']['blocks']}; memcheck: {definitely} definitely, "
              f"{indirectly} indirectly, {possibly} possibly; paused {told['pause_ns'] / 1e6:.2f} ms")
        found = {int(b["address"], 16) for b in told["blocks"]}
        missed = [(r, line[0], line[2]) for line in r.lines
                  if line[:2] == ["python", "lost"] and int(line[2], 16) not in found]
        for miss in missed:
            print("missed:", _explain(*miss)[:200])
        assert definitely + indirectly - len(missed) <= lost <= definitely + indirectly + possibly
        r.end()


needs_agent()
run_cases(globals())
