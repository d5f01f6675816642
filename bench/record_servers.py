#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the default sensors of `sonde record` cost servers that are busy all the time: requests a second beside the
plain server's. Server and recorder have the first processor, the client has the last one, so each nanosecond of
either reduces the requests. Plain and recorded servers in turn; each pair's ratio. redis is in record_redis.py.

usage: bench/record_servers.py [ROUNDS [SERVER…]]      after a build"""
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(ROOT, "bench", "record"), os.path.join(ROOT, "tests"), os.path.join(ROOT, "tests", "real")]
from measure import SONDE, Bars, version  # noqa: E402
from helpers import free_port  # noqa: E402
from shared.serving import SERVICES  # noqa: E402

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 5
NAMES = sys.argv[2:] or ["nginx", "node", "python3"]
SECONDS, LEAST = 4, 0.99
CPUS = sorted(os.sched_getaffinity(0))
bars = Bars()


def on(cpu, command):
    return ["taskset", "-c", str(cpu), *command]


def client(port):
    return ["wrk", "-t1", "-c8", f"-d{SECONDS}s", f"http://127.0.0.1:{port}/index.html"]


def is_recorder(pid):
    with open(f"/proc/{pid}/cmdline", "rb") as line:
        return os.path.basename(line.read().split(b"\0")[0]) == b"sonde"


def stop(process):
    """Ends the program, not its recorder."""
    pids = [process.pid]
    for pid in pids:
        if is_recorder(pid):
            with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as children:
                pids += map(int, children.read().split())
    for pid in pids:
        if not is_recorder(pid):
            os.kill(pid, signal.SIGINT)
    process.wait(timeout=60)


def serve(name, prefix, folder):
    """A server that listens, and its port. Another program may take the port first; then the server ends."""
    for _ in range(3):
        port = free_port()
        words = SERVICES[name][0](port, folder)
        process = subprocess.Popen(on(CPUS[0], [*prefix, *words]), stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        while process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return process, port
            time.sleep(0.02)
    raise SystemExit(f"{name} does not start")


def rate(name, prefix):
    with tempfile.TemporaryDirectory() as folder:
        process, port = serve(name, prefix, folder)
        done = subprocess.run(on(CPUS[-1], client(port)), capture_output=True, text=True, check=True)
        stop(process)
        return float(re.search(r"Requests/sec:\s+([\d.]+)", done.stdout)[1])


def measure(name, folder):
    prefix = [SONDE, "record", "-o", os.path.join(folder, "x.sonde"), "--"]
    plain, recorded = [], []
    for _ in range(ROUNDS):
        os.mkdir(folder)
        plain.append(rate(name, []))
        recorded.append(rate(name, prefix))
        if not os.listdir(folder):
            raise SystemExit(f"{name}: nothing was recorded")
        shutil.rmtree(folder)
    of = statistics.median(mine / theirs for mine, theirs in zip(recorded, plain))
    if of < LEAST:
        bars.missed.append(f"{name}, of the plain throughput: {of:.3f}, bar {LEAST}")
    print(f"  {name:9} {statistics.median(plain):8.0f} requests a second; recorded, {of:.3f} of plain (bar {LEAST}), best of "
          f"each {max(recorded) / max(plain):.3f}", flush=True)


def main():
    print(f"{version('wrk')}, default sensors, {SECONDS} s each, rounds {ROUNDS}")
    with tempfile.TemporaryDirectory() as folder:
        for name in NAMES:
            if shutil.which(name) and shutil.which("wrk"):
                measure(name, os.path.join(folder, "recorded"))
            else:
                print(f"  {name}: it or wrk is not installed")
    bars.tell()


main()
