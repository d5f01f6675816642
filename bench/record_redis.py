#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""redis-server under redis-benchmark: requests a second, and CPU seconds of server and tool, beside the plain
server's: while every malloc and free is recorded with its stack, while a part is, and under the default sensors.
Requests are the geometric mean over the commands. Servers in turn; medians.

usage: bench/record_redis.py [ROUNDS]      after a build"""
import csv
import io
import math
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "record"))
from measure import SONDE, Bars, version  # noqa: E402

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 3
LEAST = 0.85
BENCHMARK = ["-n", "40000", "-c", "50", "-t", "set,get,incr,lpush,rpop,sadd,hset,mset", "--csv"]
bars = Bars()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return str(s.getsockname()[1])


def serve(prefix, folder):
    """Requests a second, and CPU seconds from the server's start to its end."""
    port = free_port()
    server = subprocess.Popen([*prefix, "redis-server", "--port", port, "--save", "", "--appendonly", "no",
                               "--dir", folder], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    ask = ["redis-cli", "-p", port]
    while subprocess.run([*ask, "ping"], capture_output=True).stdout != b"PONG\n":
        time.sleep(0.02)
    done = subprocess.run(["redis-benchmark", "-p", port, *BENCHMARK], capture_output=True, text=True, check=True)
    subprocess.run([*ask, "shutdown", "nosave"], capture_output=True)
    _, status, used = os.wait4(server.pid, 0)
    server.returncode = os.waitstatus_to_exitcode(status)
    rates = [float(row["rps"]) for row in csv.DictReader(io.StringIO(done.stdout))]
    return math.exp(sum(map(math.log, rates)) / len(rates)), used.ru_utime + used.ru_stime


def main():
    if not shutil.which("redis-benchmark"):
        print("redis-benchmark is not here")
        return
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.sonde")
        tools = {"plain": [], "all": [SONDE, "record", "--malloc", "-o", path, "--"],
                 "default": [SONDE, "record", "-o", path, "--"],
                 "sample:512K": [SONDE, "record", "--malloc=sample:512K", "-o", path, "--"]}
        if shutil.which("heaptrack"):
            tools["heaptrack -r"] = ["heaptrack", "-r", "-o", os.path.join(folder, "ht")]
        found = {tool: [] for tool in tools}
        for _ in range(ROUNDS):
            for tool, prefix in tools.items():
                if os.path.exists(path):
                    os.unlink(path)
                found[tool].append(serve(prefix, folder))
    print(f"{version('redis-server')}, {version('heaptrack')}; redis-benchmark {' '.join(BENCHMARK)}; rounds {ROUNDS}")
    medians = {tool: [statistics.median(column) for column in zip(*rows)] for tool, rows in found.items()}
    for tool, (rate, cpu) in medians.items():
        of = rate / medians["plain"][0]
        verdict = ""
        if tool == "all":
            verdict = f"(bar {LEAST})"
            if of < LEAST:
                bars.missed.append(f"of the plain throughput: {of:.3f}, bar {LEAST}")
        print(f"  {tool:13} {rate:9.0f} requests a second, {of:.3f} of plain {verdict}; CPU time {cpu:.2f} s, "
              f"{cpu / medians['plain'][1]:.3f} of plain")
    bars.tell()


main()
