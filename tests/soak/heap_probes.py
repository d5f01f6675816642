#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""bpftrace, which neither sonde nor its tests made, attaches to otel_memory:alloc and otel_memory:free of python3: the
blocks and frees that it sees are those of the recording, and their weights add up to the bytes that were allocated."""
import os
import re
import signal
import subprocess
import sys

from helpers import LIB, events, needs, needs_agent, record, report, run_cases, skip, until, write

needs_agent()
needs("bpftrace")
if os.geteuid():
    skip("bpftrace needs root")

AGENT = os.path.join(LIB, "libsonde-agent.so")
PROGRAM = "x = [bytearray(1000 + i % 5000) for i in range(200000)]; del x; print(sum(len(bytes(i % 9000)) for i in range(100000)))"
SCRIPT = """
usdt:AGENT:otel_memory:alloc { @allocs = count(); @weight = sum(arg2); }
usdt:AGENT:otel_memory:free { @frees = count(); }
"""


def bpftrace_counts_what_the_recording_has(folder):
    script = write(SCRIPT.replace("AGENT", AGENT), ".bt")
    with open(folder / "out", "w+", encoding="utf-8") as out:
        tracer = subprocess.Popen(["bpftrace", script], stdout=out, stderr=out)
        until(lambda: tracer.poll() is not None or "Attaching" in (folder / "out").read_text(), "bpftrace attaches")
        until(lambda: tracer.poll() is not None or attached(tracer.pid), "the probes are attached")
        assert tracer.poll() is None, (folder / "out").read_text()
        path, done = record([sys.executable, "-c", PROGRAM], "--malloc=sample:64K")
        assert done.returncode == 0, done
        until(lambda: ended(tracer), "bpftrace ends")
    text = (folder / "out").read_text()
    seen = {name: int(value) for name, value in re.findall(r"@(\w+): (\d+)", text)}
    told = report(path, "malloc")["malloc"]
    blocks = sum(event["event"] in ("malloc", "calloc", "realloc") for event in events(path))
    assert blocks > 1000 and abs(blocks - seen["allocs"]) <= 3, (seen, blocks)
    error = seen["weight"] / told["allocated"]["bytes"] - 1
    assert abs(error) < 0.01, (seen, told["allocated"])
    assert seen["frees"] <= seen["allocs"], seen
    return f"{seen['allocs']} blocks, {seen['frees']} frees, weights {100 * error:+.2f} % off the recording"


def attached(pid):
    """bpftrace has its two uprobes once it holds two links or events of perf."""
    try:
        fds = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    except OSError:
        return False
    return sum("perf_event" in fd for fd in fds) >= 2


def ended(tracer):
    """bpftrace may miss a signal that comes just before it waits for events."""
    tracer.send_signal(signal.SIGINT)
    try:
        return tracer.wait(timeout=1) is not None
    except subprocess.TimeoutExpired:
        return False


if __name__ == "__main__":
    run_cases(globals())
