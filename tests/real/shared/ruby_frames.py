# SPDX-License-Identifier: MIT
"""Stacks of Ruby programs, compared with what Ruby itself says of its threads (ruby/states.rb)."""
import json
import subprocess

from helpers import source_file


def start(ruby, seed, nests):
    """The running program, and what it says: frames by native thread id. NESTS: how many random stacks."""
    program = subprocess.Popen([ruby, source_file("real", "ruby", "states.rb"), str(seed), str(nests)],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    line = program.stdout.readline()
    assert line, f"seed {seed}: the program failed"
    return program, {int(tid): frames for tid, frames in json.loads(line).items()}


def ruby_frames(thread):
    """[function, file, line] of the Ruby frames of a thread of `sonde stacks --json`."""
    return [[frame["function"], frame.get("file"), frame.get("line", 0)] for frame in thread["frames"]
            if frame.get("language") == "ruby"]


def compare(told, stacks):
    """Compares the Ruby frames of all threads. Returns the numbers of threads and frames."""
    threads = frames = 0
    for thread in stacks["threads"]:
        theirs = told.pop(thread["tid"], [])
        if theirs is None:
            continue
        ours = ruby_frames(thread)
        assert ours == theirs, (thread["tid"], ours[:30], theirs[:30])
        assert "ruby_missing" not in thread, thread
        assert not any(frame.get("function", "").startswith("rb_vm_exec") for frame in thread["frames"]), thread
        threads += bool(ours)
        frames += len(ours)
    assert not any(told.values()), told
    return threads, frames
