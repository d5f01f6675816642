#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The resources that a recording has are those that the kernel tells the program itself."""
import ast
import json
import os
import subprocess
import sys

from helpers import (
    WORK, compile_c, events, fresh, needs_agent, record, report, run_cases, second_reader, sonde, source_file,
    start_ready, start_record, until)

MEGABYTE = 1 << 20


class Spender:
    """A recorded program that does what it is told."""

    def __init__(self, *options):
        self.path, self.process = start_record([PROGRAM], *options, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                               stderr=subprocess.DEVNULL, text=True)

    def say(self, word):
        """What the program uses after the word."""
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def last(self, *keys):
        """The last values that the growing recording has."""
        values = {}
        for event in events(self.path) if os.path.exists(self.path) else []:
            if event["event"] == "usage":
                values.update(event)
        return [values.get(key) for key in keys]

    def end(self):
        text, _ = self.process.communicate(timeout=120)
        assert self.process.returncode == 0
        return json.loads(text)


def _near(a, b, most):
    return abs(a - b) <= most


def values_are_the_kernels():
    program = Spender()
    first = program.say("print")
    up = program.say("up")
    until(lambda: program.last("descriptors", "threads") == [up["descriptors"], up["threads"]],
          lambda: (program.last("descriptors", "threads"), up))
    down = program.say("down")
    until(lambda: program.last("descriptors", "threads") == [first["descriptors"], 1], "the descriptors are closed")
    end = program.end()
    use = report(program.path, "usage")["usage"]
    print(first, up, down, end, sep="\n")
    assert _near(use["rss_bytes"]["peak"], up["rss_bytes"], 2 * MEGABYTE), (use["rss_bytes"], up)
    assert _near(use["anonymous_bytes"]["peak"], up["anonymous_bytes"], 2 * MEGABYTE), use["anonymous_bytes"]
    assert _near(use["peak_rss_bytes"]["last"], end["peak_rss_bytes"], MEGABYTE), (use["peak_rss_bytes"], end)
    assert use["rss_bytes"]["last"] < use["rss_bytes"]["peak"] - 60 * MEGABYTE, use["rss_bytes"]
    assert use["descriptors"]["peak"] == up["descriptors"] >= first["descriptors"] + 40, use["descriptors"]
    assert use["threads"]["peak"] == up["threads"] == 6 and use["threads"]["last"] == 1, use["threads"]
    # What is counted until the process ends is a little more than the program saw.
    for key, more in ("minor_faults", 200), ("voluntary_switches", 20), ("involuntary_switches", 200):
        if key in ("voluntary_switches", "involuntary_switches"):
            # Of threads that ended between two readings the last switches are unknown.
            assert 0 <= use[key]["last"] <= end[key] + more, (key, use[key]["last"], end[key])
        else:
            assert end[key] <= use[key]["last"] <= end[key] + more, (key, use[key]["last"], end[key])
    assert _near(use["user_ns"]["last"] + use["system_ns"]["last"], end["cpu_ns"], 60_000_000), (use, end)
    told = json.loads(sonde("diff", "--json", program.path, program.path))["new_recording"]
    assert told["peak_rss_bytes"] == use["peak_rss_bytes"]["peak"], told
    assert " MB resident" in sonde("diff", program.path, program.path)
    text = sonde("report", program.path, "usage")
    rows = text[text.index("\nresources"):].splitlines()[1:]
    assert len(rows) <= 13 and max(map(len, rows)) <= 80, rows
    assert any(row.split()[:2] == ["resident", "memory"] for row in rows), rows


def the_second_reader_agrees():
    path, _ = record(["sleep", "0.3"])
    usual = [e for e in events(path) if e["event"] == "usage"]
    second = [e for e in second_reader(path) if e["event"] == "usage"]
    for e in usual + second:
        e["time_ns"] //= 1000000
    assert len(usual) >= 2 and [{**e, "time_ns": 0} for e in usual] == [{**e, "time_ns": 0} for e in second]
    assert {"rss_bytes", "descriptors", "minor_faults"} <= set(usual[0]), usual[0]


def every_process_has_its_own():
    script = "x=$(head -c 8M /dev/zero | tr '\\0' x); sleep 0.3; true"
    path, _ = record(["bash", "-c", script], "--follow", text=True)
    assert report(path, "usage")["usage"]["peak_rss_bytes"]["last"] > 8 * MEGABYTE
    names = [row["file"] for row in report(path, "processes")["processes"]["list"][1:] if "file" in row]
    sleeps = [report(os.path.join(os.path.dirname(path), name), "usage") for name in names]
    sleeps = [told for told in sleeps if os.path.basename(told["exe"]) == "sleep"]
    assert sleeps and all(1e5 < told["usage"]["rss_bytes"]["peak"] < 8 * MEGABYTE for told in sleeps), sleeps


# What it opens, by kind; it prints how many descriptors of each kind it has, as readlink and fcntl tell.
OPENER = """
import collections, fcntl, os, select, socket, sys
kept = [open("/dev/null") for _ in range(20)], [open("/dev/null", "w") for _ in range(10)]
kept += [socket.socket() for _ in range(5)], [os.pipe() for _ in range(4)], [select.epoll() for _ in range(3)]
kept += [os.eventfd(0) for _ in range(6)], [os.memfd_create("other") for _ in range(2)]
words = {"socket:": "sockets", "pipe:": "pipes", "anon_inode:[eventpoll]": "epoll", "anon_inode:[eventfd]": "eventfd"}
found = collections.Counter()
for number in map(int, os.listdir("/proc/self/fd")):
    try:
        text, flags = os.readlink(f"/proc/self/fd/{number}"), fcntl.fcntl(number, fcntl.F_GETFL)
    except OSError:
        continue # of the listing
    file = "files_read" if flags & os.O_ACCMODE == os.O_RDONLY else "files_written"
    found[next((words[word] for word in words if text.startswith(word)),
               file if text.startswith("/") and not text.startswith("/memfd:") else "other")] += 1
print("ready", flush=True)
print(dict(found), flush=True)
sys.stdin.read()
"""


def kinds_of_descriptors():
    program = start_ready([sys.executable, "-c", OPENER], stdin=subprocess.PIPE)
    wanted = ast.literal_eval(program.stdout.readline())
    path = fresh()
    sonde("record", "-o", path, "--seconds", "1", "-p", program.pid)
    use = report(path, "usage")["usage"]
    kinds = {key.removeprefix("descriptors_"): value["last"] for key, value in use.items()
             if key.startswith("descriptors_") and value["last"]}
    print(wanted, kinds)
    assert kinds == wanted and sum(kinds.values()) == use["descriptors"]["last"] > 50, (kinds, wanted)


needs_agent()
PROGRAM = compile_c(source_file("real", "record", "spender.c"), "-O1", "-w", "-pthread",
                    out=os.path.join(WORK, "spender"))
run_cases(globals())
