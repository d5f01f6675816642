# SPDX-License-Identifier: MIT
"""What the tests of traced calls share: recording them, and the call tree as counts of paths."""
import collections
import os
import subprocess
import time

from helpers import nothing_missing, record, report, sonde, source_file, start_record


def trace_source(name):
    """The path of a source of traced programs."""
    return source_file("real", "trace", name)


def record_trace(program, *arguments, trace="--trace", options=(), waits=False, **how):
    """WAITS: whether calls that can block are traced besides, as is the default."""
    alone = ["--no-waits"] if trace.startswith("--trace") and not waits else []  # other sensors trace nothing
    path, done = record([program, *arguments], trace, *alone, *options, **how)
    assert os.path.exists(path), done.stderr
    return path, done


def trace_of(path, *options):
    return report(path, *options, "trace")


def paths_of(told):
    """How often each path of functions was called."""
    names, counts = {0: ()}, collections.Counter()
    for node in told["trace"]["nodes"]:
        names[node["node"]] = names[node["parent"]] + (node["function"],)
        if node["calls"]:
            counts["/".join(names[node["node"]])] += node["calls"]
    return counts


def no_call_missing(told):
    nothing_missing(told)
    t = told["trace"]
    assert t["lost"] == t["unmatched"] == t["unknown"] == 0, t


def code_in_memory(pid, program):
    """The program's code, from its file and as it is in the process."""
    with open(f"/proc/{pid}/maps") as maps:
        line = next(m for m in maps if m.rstrip().endswith(program) and " r-xp " in m)
    start, end = (int(x, 16) for x in line.split()[0].split("-"))
    with open(f"/proc/{pid}/mem", "rb") as memory, open(program, "rb") as file:
        memory.seek(start)
        file.seek(int(line.split()[2], 16))
        size = min(end - start, os.path.getsize(program) - file.tell())
        return memory.read(size), file.read(size)


def switched(program, *options, times=6):
    """Switches tracing of a program that ends with its input on and off. Returns the recording, what the program
    printed, and how often its code was changed while tracing was on and as in the file while it was off."""
    path, running = start_record([program], *options, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    pid = running.stdout.readline().strip()
    changed = same = 0
    for k in range(times):
        word = "trace=off" if k % 2 else "trace=on"
        sonde("ctl", pid, word)
        time.sleep(0.1)
        now, file = code_in_memory(pid, program)
        changed += now != file and word == "trace=on"
        same += now == file and word == "trace=off"
    out, _ = running.communicate(timeout=150)
    assert running.returncode == 0, (running.returncode, out)
    return path, out, changed, same
