#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a call of a function costs that was patched at run time, in programs and libraries that were not rebuilt:
sonde record --trace='IMAGE!*' beside uftrace record -P. Each program runs with little work and with much. The cost is the
CPU time that tracing adds between the two, divided by the calls between the two; least of the rounds. The program's output
must be the same.

usage: bench/patching.py [ROUNDS [NAME…]]      after a build"""
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "record"))
from measure import SONDE, version  # noqa: E402

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 3
CALLS_LEAST = 1000  # with fewer between the two sizes, uftrace has patched next to nothing
SQL = ("create table t(a,b); with recursive c(x) as (select 1 union all select x+1 from c where x<{n}) "
       "insert into t select x, x*x from c; select sum(a), max(b) from t;")
# The command for a size, where {n} is the size and {lines} a file of that many lines; the image; the two sizes.
PROGRAMS = {
    "gzip": (["gzip", "-c", "{lines}"], "gzip", 400000, 1200000),
    "sed": (["sed", "-n", "s/7/x/gp", "{lines}"], "sed", 4000, 20000),
    "sort": (["sort", "-n", "-k2", "--parallel=1", "{lines}"], "sort", 4000, 20000),
    "bash": (["bash", "-c", "f() {{ echo $(($1*2)); }}; x=1; while [ $x -lt {n} ]; do f $x; x=$((x+1)); done"], "bash", 300, 1500),
    "sqlite3": (["sqlite3", ":memory:", SQL], "libsqlite3*", 2000, 10000),
    "xz": (["xz", "-0", "-c", "{lines}"], "liblzma*", 20000, 200000),
    "grep": (["grep", "-c", "-E", "7[0-9]+ text", "{lines}"], "grep", 20000, 100000),
    "perl": (["perl", "-e", "my %h; $h{{$_ % 10}} .= $_ for 1..{n}; print join(',', map {{ length $h{{$_}} }} sort keys %h)"],
             "perl", 20000, 100000),
    "lua5.4": (["lua5.4", "-e", "local t={{}} for i=1,{n} do t[i]=tostring(i*i) end print(#t)"], "lua5.4", 10000, 50000),
    "python3": (["/usr/bin/python3", "-S", "-c", "print(sum(len(str(x*x)) for x in range({n})))"], "python3*", 10000, 50000),
    "cut": (["cut", "-d", " ", "-f2", "{lines}"], "cut", 20000, 100000),
    "od": (["od", "-c", "{lines}"], "od", 2000, 10000),
    "bzip2": (["bzip2", "-c", "{lines}"], "libbz2*", 20000, 100000)}


def cpu(command, folder):
    """The least CPU seconds of the rounds, and the output. What earlier runs recorded is removed."""
    least, said = float("inf"), None
    for _ in range(ROUNDS):
        shutil.rmtree(folder / "uftrace", ignore_errors=True)
        (folder / "x.sonde").unlink(missing_ok=True)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        said = subprocess.run(command, cwd=folder, capture_output=True, check=False).stdout
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        least = min(least, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return least, said


def by_sonde(command, image, folder):
    words = [SONDE, "record", f"--trace={image}!*", "--no-waits", "-o", folder / "x.sonde", "--", *command]
    seconds, said = cpu([str(word) for word in words], folder)
    told = subprocess.run([SONDE, "report", "--json", folder / "x.sonde", "trace"], capture_output=True, check=True)
    return seconds, said, json.loads(told.stdout)["trace"]["calls"]


def by_uftrace(command, image, folder):
    pattern = f".@{image.rstrip('*')}" if image.startswith("lib") else "."
    words = ["uftrace", "record", "--no-libcall", "--no-event", "-d", str(folder / "uftrace"), "-P", pattern, *command]
    seconds, said = cpu(words, folder)
    told = subprocess.run(["uftrace", "report", "-d", str(folder / "uftrace"), "-f", "call", "--no-pager"], capture_output=True,
                          text=True, check=False)
    return seconds, said, sum(int(count) for count in re.findall(r"^\s+(\d+)\s+\S", told.stdout, re.M))


def command_for(words, size, folder):
    lines = folder / f"{size}.txt"
    if "{lines}" in words and not lines.exists():
        lines.write_text("".join(f"{i} {i * 7919 % 1000} text {i % 13}\n" for i in range(size)))
    return [word.format(n=size, lines=lines) for word in words]


def cost(tool, commands, image, plain, folder):
    """Nanoseconds a call, calls between the two sizes, and whether the output is the same. NaN: hardly any call."""
    (small, said_small, few), (big, said_big, many) = (tool(command, image, folder) for command in commands)
    same = [said_small, said_big] == [said for _, said in plain]
    added = (big - small) - (plain[1][0] - plain[0][0])
    return 1e9 * added / (many - few) if many - few > CALLS_LEAST else float("nan"), many - few, same


def main():
    print(f"{version('uftrace')}; rounds {ROUNDS}, least")
    print("  added ns of CPU a call:    sonde      calls  uftrace -P      calls")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for program in sys.argv[2:] or PROGRAMS:
            words, image, small, big = PROGRAMS[program]
            if not shutil.which(words[0]):
                continue
            commands = [command_for(words, size, folder) for size in (small, big)]
            plain = [cpu(command, folder) for command in commands]
            ours, calls, same = cost(by_sonde, commands, image, plain, folder)
            line = f"  {program:20} {ours:11.0f} {calls:10} {'' if same else ' the output differs'}"
            if shutil.which("uftrace"):
                theirs, their_calls, their_same = cost(by_uftrace, commands, image, plain, folder)
                line += f" {theirs:10.0f} {their_calls:10} {'' if their_same else ' the output differs'}"
            print(line, flush=True)


main()
