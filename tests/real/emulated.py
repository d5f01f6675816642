#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Programs under valgrind, gdb, strace and qemu's user mode do under sonde record what they do without:
the same output, the same messages and the same status; and what is not recorded is said."""
import functools
import glob
import os
import re
import shutil
import subprocess

from helpers import SONDE, WORK, compile_c, fresh, needs, needs_agent, report, run_cases, skip, skip_part

PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
  (void)argv;
  char *block = malloc(10);
  const char *preload = getenv("LD_PRELOAD"), *settings = getenv("SONDE_RECORD");
  printf("%s %s\\n", preload ? preload : "none", settings ? settings : "none");
  fflush(stdout);
  free(block);
  if (argc > 1) abort();
  return 3;
}
"""
PROGRAMS = {"perl": ["perl", "-e", "print join(',', map { $_ * 2 } 1 .. 50); exit 4"],
            "python3": ["/usr/bin/python3", "-IS", "-c", "print(sorted({3: 1, 2: 5})); raise SystemExit(5)"],
            "sqlite3": ["sqlite3", "-bail", ":memory:", "create table t(a); insert into t values(7);"
                        "select a * 6 from t; select nothing from t;"]}
TOOLS = {"perl": "callgrind", "python3": "none", "sqlite3": "memcheck"}
NOT_OF_VALGRIND = "valgrind executes the program itself"


def _build(compiler="cc"):
    return compile_c(PROGRAM, "-g", "-O0", compiler=compiler)


def _run(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=WORK,
                          stdin=subprocess.DEVNULL, env={**os.environ, "PYTHONHASHSEED": "0"})
    return done.returncode, done.stdout, done.stderr.splitlines()


@functools.lru_cache(maxsize=None)
def _alone(*command):
    """The command without recording; each is run once."""
    return _run(command)


def _plain(lines):
    """Without numbers, which tell of processes, addresses and time."""
    return [re.sub(r"0x[0-9a-f]+|\d+", "N", line) for line in lines]


def _own(lines):
    return [line for line in lines if line.startswith("sonde record:")]


def _same(command, *options, before=()):
    """Runs COMMAND without and with recording; returns the recording's path and what is said."""
    path = fresh()
    status, out, errors = _alone(*before, *command)
    again = _run([*before, SONDE, "record", *options, "-o", path, "--", *command])
    said = _own(again[2])
    others = [line for line in again[2] if line not in said]
    assert again[0] == status, (command, status, again)
    assert _plain(again[1].splitlines()) == _plain(out.splitlines()), (command, out, again[1])
    assert before or _plain(others) == _plain(errors), (command, errors, again[2])
    return path, "\n".join(said)


def _events(path):
    return report(path)["malloc"]["events"]


def programs_nobody_here_wrote_on_valgrind():
    needs("valgrind")
    for name, command in PROGRAMS.items():
        if not shutil.which(command[0]):
            skip_part(name, "it is not installed")
            continue
        _, said = _same(["valgrind", f"--tool={TOOLS[name]}", *command], "--malloc")
        assert NOT_OF_VALGRIND in said, (name, said)


def nothing_is_left_in_the_environment_on_valgrind():
    needs("valgrind")
    program = _build()
    for options in ["--malloc"], ["--malloc", "--follow"]:
        for command in ("valgrind --tool=none", program), ("sh", "-c", f"valgrind --tool=none -q {program}; exit 6"), (
                "valgrind --tool=none --trace-children=yes -q", "sh", "-c", f"{program}; true"):
            _, said = _same([*command[0].split(), *command[1:]], *options)
            follows = "--follow" in options or command[0] != "sh"
            assert (NOT_OF_VALGRIND in said) == follows, (options, command, said)


def sonde_itself_on_valgrind():
    needs("valgrind")
    valgrind = ["valgrind", "-q", "--trace-children=yes", "--error-exitcode=99"]
    for command in [_build()], PROGRAMS["sqlite3"]:
        _, said = _same(command, "--malloc", before=valgrind)
        assert NOT_OF_VALGRIND in said, said
    path = fresh()  # without the option the command alone is under it
    status, _, errors = _run([*valgrind[:2], SONDE, "record", "--malloc", "-o", path, "--", _build()])
    assert (status, len(errors)) == (3, 1) and _events(path) > 0, (status, errors)


def an_agent_on_valgrind_passes_calls_on():
    """Executed past the launcher, which would have kept the agent from it."""
    needs("valgrind")
    tools = [t for t in glob.glob("/usr/libexec/valgrind/memcheck-*-linux") if "x86" not in t]
    if not tools:
        skip("no memcheck of valgrind's in /usr/libexec")
    agent = os.path.join(os.path.dirname(SONDE), "../lib/libsonde-agent.so")
    settings = {"LD_PRELOAD": os.path.realpath(agent), "SONDE_RECORD": "1:2:3:4"}
    for command, status in ([_build()], 3), (PROGRAMS["perl"], 4):
        under = [tools[0], "-q", "--error-exitcode=99", *command]
        launcher = {"VALGRIND_LAUNCHER": shutil.which("valgrind")}
        outs = []
        for more in {}, settings:
            done = subprocess.run(under, capture_output=True, text=True, timeout=100,
                                  env={**os.environ, **launcher, **more})
            assert done.returncode == status and "sonde" not in done.stderr, (command, done)
            outs.append(done.stdout)
        assert outs[0] == outs[1], outs


def a_debugger_and_tracers():
    program = _build()
    for command in (["gdb", "-batch", "-ex", "run", "-ex", "bt", "--args", program],
                    ["gdb", "-batch", "-ex", "run", "-ex", "bt", "--args", program, "abort"],
                    ["strace", "-f", "-e", "trace=write,exit_group", program],
                    ["ltrace", "-f", "-e", "malloc+free", program]):
        if not shutil.which(command[0]):
            skip_part(command[0], "it is not installed")
            continue
        path, said = _same(command, "--malloc")
        least = 0 if command[0] == "strace" else 100  # how often strace allocates depends on the names it looks up
        assert "recorded to" in said and _events(path) > least, (command, said)


def a_guest_of_another_machine():
    root = "/usr/aarch64-linux-gnu"
    needs("qemu-aarch64", "aarch64-linux-gnu-gcc")
    program = _build("aarch64-linux-gnu-gcc")
    for options in ["--malloc"], ["--malloc", "--follow"]:
        path, said = _same(["qemu-aarch64", "-L", root, program], *options)
        assert "qemu executes the program itself" in said and _events(path) > 100, (said, path)


needs_agent()
run_cases(globals())
