#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Python frames in `sonde stacks` of a process and of a core file, against what the interpreter itself says of
all its threads at the same time: function, file and line of every frame. Every CPython from 3.8 to 3.15 that
this machine has is tried."""
import json
import pathlib
import re
import subprocess
import time

from helpers import SONDE, kill, needs, output_of, run_cases, skip, sonde, source_file, states_of, until
from shared import told
from shared.interpreters import any_interpreter, interpreters

PROGRAM = source_file("real", "python", "states.py")


def start(path, *arguments):
    return told.start(path, PROGRAM, *arguments)


def compare(said, stacks):
    """Compares the Python frames of all threads. Returns their number."""
    assert all(thread["complete"] for thread in stacks["threads"]), stacks
    return told.compare(said, stacks, "python", "EvalFrame")[1]


def each(check):
    """Calls CHECK for every interpreter, with its process and what it said."""
    done, running = [], []
    try:
        for version, path in sorted(interpreters().items()):
            running.append((version, *start(path)))
        for version, program, said in running:
            done.append(f"{'.'.join(version)} {check(program, said)}")
    finally:
        for _, program, _ in running:
            kill(program)
    return "frames: " + ", ".join(done) if done else skip("no CPython from 3.8 to 3.15")


def process():
    return each(lambda program, said: compare(said, json.loads(sonde("stacks", "--json", program.pid))))


def running():
    """A thread that runs is stopped while its frames are read."""
    program, said = start(any_interpreter(), "running")
    try:
        stacks = json.loads(sonde("stacks", "--json", program.pid))
    finally:
        kill(program)
    assert any(thread["stopped_us"] for thread in stacks["threads"]), stacks
    return f"{compare(said, stacks)} frames"


def subinterpreters():
    """A thread's frames are of four interpreters, each inside of the other."""
    done = []
    for version, path in sorted(interpreters().items()):
        program, said = told.start(path, source_file("real", "python", "interpreters.py"), 3)
        try:
            until(lambda: told.waits(program), "the program does not wait")
            count = compare(said, json.loads(sonde("stacks", "--json", program.pid)))
        finally:
            kill(program)
        done.append(f"{'.'.join(version)} {count}")
    return "frames: " + ", ".join(done) if done else skip("no CPython from 3.8 to 3.15")


def core(folder):
    needs("gcore")
    program, said = start(any_interpreter())
    try:
        output_of("gcore", "-o", folder / "core", program.pid)
    finally:
        kill(program)
    path = folder / f"core.{program.pid}"
    count = compare(said, json.loads(sonde("stacks", "--json", "--core", path)))
    path.unlink()
    return f"{count} frames"


def native():
    """--native shows the frames that are omitted otherwise, and all others are the same."""
    def check(program, _):
        plain = json.loads(sonde("stacks", "--json", program.pid))
        full = json.loads(sonde("stacks", "--json", "--native", program.pid))
        hidden = 0
        for one, other in zip(plain["threads"], full["threads"]):
            shown = [frame for frame in other["frames"] if not frame.get("interpreter")]
            assert one["frames"] == shown, (one["frames"], shown)
            hidden += len(other["frames"]) - len(shown)
        assert hidden > 100, hidden
        return hidden
    return each(check)


def doctor():
    program, _ = start(any_interpreter())
    try:
        printed = sonde("doctor", program.pid)
    finally:
        kill(program)
    assert re.search(r"Python 3\.\d+: stacks show Python functions", printed), printed


def text():
    program, said = start(any_interpreter())
    try:
        printed = sonde("stacks", program.pid)
    finally:
        kill(program)
    for frames in said.values():
        function, file, line = frames[0]
        assert f" {function} " in printed and f"  {file}:{line}\n" in printed, (frames[0], printed)
    return f"{len(said)} threads"


def _busy():
    program = subprocess.Popen([any_interpreter(), source_file("real", "python", "busy.py")], stdout=subprocess.PIPE)
    program.stdout.readline()
    return program


def top():
    """Until the program has had a CPU."""
    program, printed = _busy(), ""
    with subprocess.Popen([SONDE, "top", "-n", "1000", "-d", "0.2", str(program.pid)], stdout=subprocess.PIPE, text=True) as shown:
        while not re.search(r" 100\.0 +[1-9][0-9.]+ crunch +busy\.py:\d+", printed):
            line = shown.stdout.readline()
            assert line, printed
            printed += line
        shown.terminate()
    kill(program)
    assert "EvalFrame" not in printed, printed


def _cpu_seconds(pid):
    """Of all its threads, which do not end."""
    return sum(int(pathlib.Path(f"/proc/{pid}/task/{tid}/schedstat").read_text(encoding="ascii").split()[0])
               for tid in states_of(pid)) / 1e9


def why():
    """Names the Python function that uses the CPU, if the program gets half of one."""
    program = _busy()
    try:
        for _ in range(20):
            before, began = _cpu_seconds(program.pid), time.monotonic()
            said = sonde("why", program.pid)
            share = (_cpu_seconds(program.pid) - before) / (time.monotonic() - began)
            if "crunch (busy.py:" in said:
                return f"with {share:.2f} of a CPU"
            assert share < 0.5, (share, said)
        skip(f"this machine gives a program {share:.2f} of a CPU")
    finally:
        kill(program)


run_cases(globals())
