#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Ruby frames in `sonde stacks` of a process and of a core file, against what Ruby itself says of all its threads at
the same time (Thread#backtrace_locations): function, file and line of every frame."""
import json
import os
import shutil
import signal
import subprocess

from helpers import kill, needs, output_of, run_cases, skip, sonde, until
from shared.ruby_frames import compare, ruby_frames, start

RUBY = shutil.which("ruby3.1")


def process():
    program, told = start(RUBY, 1, 20)
    try:
        stacks = json.loads(sonde("stacks", "--json", program.pid))
    finally:
        kill(program)
    return "%d threads, %d frames" % compare(told, stacks)


def core(folder):
    needs("gcore")
    program, told = start(RUBY, 2, 20)
    try:
        output_of("gcore", "-o", folder / "core", program.pid)
    finally:
        kill(program)
    path = folder / f"core.{program.pid}"
    found = compare(told, json.loads(sonde("stacks", "--json", "--core", path)))
    path.unlink()
    return "%d threads, %d frames" % found


def doctor():
    program, _ = start(RUBY, 1, 0)
    try:
        printed = sonde("doctor", program.pid)
    finally:
        kill(program)
    assert "Ruby 3.1." in printed and "stacks show Ruby functions" in printed, printed


def text():
    program, _ = start(RUBY, 1, 0)
    try:
        printed = sonde("stacks", program.pid)
    finally:
        kill(program)
    for wanted in (" rest ", " block (2 levels) in <main> ", " then ", "states.rb:"):
        assert wanted in printed, (wanted, printed)
    assert "rb_vm_exec" not in printed, printed


def recorded(folder):
    """Waiting threads that are read from outside have Ruby frames in the recording, too."""
    program, told = start(RUBY, 3, 5)
    path = folder / "ruby.sonde"
    try:
        sonde("record", "-p", program.pid, "--wall", "--seconds", "1", "-o", path)
    finally:
        kill(program)
    told = {tuple(map(tuple, frames)) for frames in told.values() if frames}
    found = {tuple(map(tuple, ruby_frames(row))) for row in json.loads(sonde("report", "--json", "--top", 1000, path, "wall"))["wall"]["stacks"]}
    assert told <= found, (told - found, found)
    return f"{len(told)} stacks"


def forked():
    """Ruby does not correct the thread id that it keeps."""
    code = "fork { [1].each { puts Process.pid; $stdout.flush; sleep } }; sleep"
    program = subprocess.Popen([RUBY, "-e", code], stdout=subprocess.PIPE, text=True)
    child = int(program.stdout.readline())
    try:
        until(lambda: [frame[0] for frame in ruby_frames(json.loads(sonde("stacks", "--json", child))["threads"][0])] ==
              ["sleep", "block (2 levels) in <main>", "each", "block in <main>", "fork", "<main>"], "no frames")
    finally:
        os.kill(child, signal.SIGKILL)
        kill(program)


def compiled():
    """Functions that the JIT compiler has replaced are not guessed."""
    code = "def f(n) = n == 0 ? (puts; $stdout.flush; sleep) : f(n - 1); 20.times { |i| f(3) if i == 19 }"
    program = subprocess.Popen([RUBY, "--yjit", "--yjit-call-threshold=1", "-e", code], stdout=subprocess.PIPE)
    try:
        if not program.stdout.readline():
            skip("this Ruby has no YJIT")
        thread = json.loads(sonde("stacks", "--json", program.pid))["threads"][0]
    finally:
        kill(program)
    assert "ruby_missing" in thread, thread


if not RUBY:
    skip("ruby3.1 is not installed")
run_cases(globals())
