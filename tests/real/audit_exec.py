#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The audit of processes that replace their program (exec): the calls of each, strace being the oracle."""
import collections
import csv
import io
import json
import re
import subprocess

from helpers import events, fresh, needs_agent, needs_strace, report, run_cases, skip, sonde, write
from shared.audits import audit_of, compile_audited, record_audit

needs_agent()

POLICY = write("""version: 1
extends: none
categories:
  - id: test.group
    title: Asks for a process group
    functions: ["getpgid(number)"]
""", ".yaml")

# Calls getpgid(0) as often as its argument says, getpgid(its argument) once, and becomes the next program,
# each time by another function of the family.
CHAIN = compile_audited("""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
extern char **environ;
int main(int argc, char **argv) {
  int n = atoi(argv[1]);
  char next[16], *arguments[] = {argv[0], next, 0};
  snprintf(next, sizeof next, "%d", n - 1);
  for (int i = 0; i < n; i++)
    getpgid(0);
  getpgid(n);
  execv("/nonexistent/program", arguments); /* fails, and nothing has changed */
  switch (n) {
  case 0: return 9;
  case 1: execl(argv[0], argv[0], next, (char *)0); break;
  case 2: execvpe(argv[0], arguments, environ); break;
  case 3: fexecve(open(argv[0], O_RDONLY | O_CLOEXEC), arguments, environ); break;
  case 4: execlp(argv[0], argv[0], next, (char *)0); break;
  default: execve(argv[0], arguments, environ);
  }
  return 1;
}""")
STATIC = compile_audited("int main(void) { return 4; }", "-static")


def straced(command):
    """Of each program in turn, how often getpgid was called with what."""
    needs_strace()
    path = fresh(".strace")
    done = subprocess.run(["strace", "-o", path, "-e", "trace=execve,execveat,getpgid", *command], capture_output=True, timeout=120)
    programs = []
    with open(path) as lines:
        for line in lines:
            if re.match(r"execve(at)?\(.*\) = 0$", line):
                programs.append(collections.Counter())
            elif call := re.match(r"getpgid\((\d+)\)", line):
                programs[-1][call[1]] += 1
    return done.returncode, programs


def _told(audit):
    programs = {p["program"]: collections.Counter() for p in audit.get("programs", [{"program": 1}])}
    for f in audit["findings"]:
        programs[f.get("program", 1)][f["arguments"]] += f["calls"]
    for p in audit.get("programs", []):
        assert p["calls"] == programs[p["program"]].total(), p
    assert audit["calls"] == sum(p.total() for p in programs.values())
    return [programs[n] for n in sorted(programs)]


def the_calls_of_every_program_are_told():
    script = write(f"#!/bin/sh\nHERE=$(pwd)\nexport HERE\nexec env LAUNCHED=1 nice -n 1 {CHAIN} 2\n", ".sh")
    for command in [CHAIN, "6"], [CHAIN, "0"], ["sh", "-c", f"exec {CHAIN} 1"], ["sh", script]:
        status, expected = straced(command)
        path, done = record_audit(command, POLICY)
        assert done.returncode == status == 9, (command, status, done)
        assert _told(audit_of(path)) == expected, (command, _told(audit_of(path)), expected)
        words = f"executed {len(expected)} programs"
        assert (words in done.stderr.decode()) == (len(expected) > 1), done.stderr
        text = sonde("report", "--top", "100", path, "audit")
        for n in range(1, len(expected)):
            assert bool(expected[n - 1]) == (f"in program {n}\n" in text), (n, text)
            one = report(path, "--program", n)
            assert _told(one["audit"]) == [expected[n - 1]] and one["program"] == n, (n, one)
        sonde("report", "--program", str(len(expected) + 1), path, status=2)


def exports_and_gates_are_of_all():
    path, _ = record_audit([CHAIN, "3"], POLICY)
    total = audit_of(path)["calls"]
    assert total == 3 + 2 + 1 + 4
    rows = list(csv.DictReader(io.StringIO(sonde("export", "--as", "csv", path))))
    assert sum(int(r["calls"]) for r in rows) == total and {r["program"] for r in rows} == {CHAIN}
    sarif = json.loads(sonde("export", "--as", "sarif", path))
    assert sum(r["occurrenceCount"] for r in sarif["runs"][0]["results"]) == total
    # What a launcher alone does is new, and what it did is known.
    launcher = compile_audited('#include <unistd.h>\nint main(int c, char **v) { if (c > 2) getpgid(0); execl(v[1], v[1], (char *)0); return 1; }')
    plain, calling = record_audit([launcher, "/bin/true"], POLICY)[0], record_audit([launcher, "/bin/true", "x"], POLICY)[0]
    new = sonde("diff", "--by", "audit", plain, calling, status=1)
    assert new.count("\n") == 1 and "getpgid(0)" in new, new
    sonde("diff", "--by", "audit", calling, plain)
    known = write(sonde("audit", "baseline", calling), ".json")
    sonde("diff", known, calling)
    assert len(json.load(open(known))["findings"]) == 1


def events_history_and_exports_are_of_a_program_that_is_named():
    """Of the last one where none is; all exports of the audit are then of all."""
    path, _ = record_audit(["sh", "-c", f"exec env {CHAIN} 2"], POLICY, "--malloc")
    count = len(audit_of(path)["programs"])
    assert count > 3
    ended, ways = 0, [["--program", str(n)] for n in range(1, count + 1)] + [[]]
    for which in ways:
        told = report(path, *which)
        rows = list(csv.DictReader(io.StringIO(sonde("export", "--as", "csv", *which, path))))
        assert sum(int(r["calls"]) for r in rows) == told["audit"]["calls"], (which, rows, told["audit"])
        lines = sonde("export", "--by", "allocated", *which, path).splitlines()
        assert sum(int(line.rsplit(" ", 1)[1]) for line in lines) == told["malloc"]["allocated"]["bytes"], (which, lines)
        listed = events(path, *which)
        given = [e for e in listed if e["event"] in ("malloc", "calloc", "realloc", "aligned")]
        assert len(given) == told["malloc"]["allocated"]["blocks"], (which, len(given), told["malloc"])
        assert given or which not in ways[:2], (which, "a shell and env allocate")
        for e in given[:3]:
            assert e["event"] in sonde("history", *which, path, e["address"]), (which, e)
        times = [e["time_ns"] for e in listed]
        assert min(times) >= (ended if which else 0), (which, ended)
        ended = max(times)
    assert times == [e["time_ns"] for e in events(path, "--program", count)]
    for verb in "events", "export":
        sonde(verb, "--program", str(count + 1), path, status=2)
        sonde(verb, "--program", "0", path, status=2)
    sonde("history", "--program", str(count + 1), path, "0x1000", status=2)


def a_packed_recording_has_all_programs():
    path, _ = record_audit([CHAIN, "3"], POLICY, "--malloc")
    packed = fresh()
    sonde("pack", path, "-o", packed)
    for question in ["audit"], ["--program", "2"], ["--program", "1", "malloc"], []:
        whole, small = (report(p, *question) for p in (path, packed))
        assert whole == small, question


def the_coverage_of_every_program_is_told():
    path, done = record_audit([CHAIN, "2"], "linux", "--coverage")
    if b"ptrace" in done.stderr:
        skip("system calls cannot be watched here")
    assert done.returncode == 9, done
    for p in audit_of(path)["programs"]:
        assert p["coverage"]["complete"], p
        seen = {c["arguments"] for c in p["coverage"]["system_calls"] if c["call"] == "execve" and c["class"] == "hooked"}
        assert any("/nonexistent/program" in arguments for arguments in seen), p
    assert "calls are missing" not in sonde("report", path, "audit")


def a_program_without_the_agent_is_told():
    for command, unseen in ([STATIC], True), (["true"], False), (["/nonexistent"], False):
        path, done = record_audit(["sh", "-c", 'exec "$0"', *command], POLICY)
        told = f"executed {STATIC}, which did not load the agent, so it is not recorded: it is statically linked; " \
               f"'sonde record -- {STATIC}' records it from outside"
        assert (told in done.stderr.decode()) == unseen, (command, done)


def of_very_many_programs_the_last_are_told():
    path, done = record_audit([CHAIN, "37"], POLICY)
    assert done.returncode == 9, done
    audit = audit_of(path)
    assert audit["programs_left_out"] == 38 - 32 and len(audit["programs"]) == 32
    assert audit["calls"] == sum(n + 1 for n in range(32)), audit["calls"]
    assert "the first 6 programs" in sonde("report", path, "audit")
    sonde("audit", "baseline", path, status=2)
    assert report(path, "--program", 1)["audit"]["calls"] == 38


run_cases(globals())
