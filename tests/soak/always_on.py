#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What `sonde record` with its default sensors costs for a long time: each server runs twice side by side, once
recorded, and both answer the same number of requests a second. CPU time of program and recorder is compared with that
of the twin, from /proc, and so is memory. No request may fail. With PIPELINE, each client sends that many requests at a
time, so that the servers make few system calls and many allocations.

The limits: 1 % of a CPU, and 16 MB (the proportional set size of the recorder, and what the program has beyond its
twin). Processes of postgres are recorded with --follow, by one recorder; its memory is that of all processes.

usage: [PIPELINE=N] always_on.py [MINUTES [SERVER…]]"""
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import threading
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1]), str(pathlib.Path(__file__).resolve().parents[1] / "real")]

from helpers import SONDE, TIMEOUT_SECONDS, connect, free_port, fresh, report, until  # noqa: E402  (the path is set above)
from shared.serving import SERVICES  # noqa: E402

MINUTES = float(sys.argv[1]) if len(sys.argv) > 1 else 20
TICKS = os.sysconf("SC_CLK_TCK")
PIPELINE = int(os.environ.get("PIPELINE", 1))
# Connections, and how often a second each of them sends.
LOADS = {"redis-server": (50, 40), "nginx": (50, 30), "node": (20, 30), "python3": (8, 25), "postgres": (4, 30)}
CPU_LIMIT, MEMORY_LIMIT_KB = 0.01, 16 << 10
SETTLE_SECONDS = 20


def descendants(pid):
    """PID and all below it."""
    found = [pid]
    for parent in found:
        try:
            for tid in os.listdir(f"/proc/{parent}/task"):
                found += map(int, pathlib.Path(f"/proc/{parent}/task/{tid}/children").read_text().split())
        except OSError:
            pass  # it ended
    return found


class Cost:
    """CPU seconds and memory of the processes below PID: those of the program and those of sonde."""

    def __init__(self, pid):
        self.program = self.sonde = 0.0
        self.program_kb = self.program_rss_kb = self.sonde_kb = self.sonde_rss_kb = 0
        for one in descendants(pid):
            try:
                is_sonde = os.path.samefile(f"/proc/{one}/exe", SONDE)
                times = pathlib.Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
                memory = pathlib.Path(f"/proc/{one}/smaps_rollup").read_text()
            except OSError:
                continue  # it ended: its parent has its CPU time
            own = sum(map(int, times[11:13])) / TICKS
            kb, rss = (int(re.search(name + r":\s+(\d+)", memory)[1]) for name in ("Pss", "Rss"))
            if is_sonde:  # its own children's CPU time is the program's
                self.sonde, self.sonde_kb, self.sonde_rss_kb = self.sonde + own, self.sonde_kb + kb, self.sonde_rss_kb + rss
            else:
                self.program += own + sum(map(int, times[13:15])) / TICKS
                self.program_kb, self.program_rss_kb = self.program_kb + kb, self.program_rss_kb + rss


class Paced:
    """A server that gets a fixed number of requests a second, by one client, which sends on all connections and then
    receives."""

    def __init__(self, name, within=()):
        command, request, self.answer, *greeting = SERVICES[name]
        self.port, self.folder = free_port(), fresh(".served")
        os.mkdir(self.folder)
        words = command(self.port, self.folder)
        if within and words[0] in ("setpriv", "sh"):  # postgres: what initdb does is not of interest
            shell = words[-1].replace("exec ", "exec " + " ".join(within) + " ")
            words = [*words[:-1], shell]
        else:
            words = [*within, *words]
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.request, self.greeting = request, greeting
        self.requests, self.late, self.failure, self.ended = 0, 0, None, False
        connections, self.times = LOADS[name]
        self.clients = [self._connect() for _ in range(connections)]
        self.size = len([self._ask_once(client, request, self.answer) for client in self.clients][0])
        self.thread = threading.Thread(target=self._talk, daemon=True)
        self.thread.start()

    def _connect(self):
        """postgres refuses while it starts."""
        last = None
        for _ in range(200):
            client = connect(self.port)
            client.settimeout(TIMEOUT_SECONDS)
            try:
                if self.greeting:
                    self._ask_once(client, *self.greeting)
                return client
            except OSError as error:
                last = error
                client.close()
                time.sleep(0.1)
        raise last

    def _ask_once(self, client, request, expected):
        answer = b""
        client.sendall(request)
        while not expected.match(answer):
            part = client.recv(65536)
            if not part or len(answer) > 4096:
                raise ConnectionError(f"answer {answer[:200]}")
            answer += part
        return answer

    def _receive(self, client):
        left = self.size * PIPELINE
        while left:
            part = client.recv(left)
            if not part:
                raise ConnectionError("closed")
            left -= len(part)

    def _talk(self):
        due = time.monotonic()
        try:
            while not self.ended:
                for client in self.clients:
                    client.sendall(self.request * PIPELINE)
                for client in self.clients:
                    self._receive(client)
                self.requests += PIPELINE * len(self.clients)
                due += 1 / self.times
                self.late += time.monotonic() > due
                time.sleep(max(0, due - time.monotonic()))
        except OSError as error:
            self.failure = error

    def end(self):
        self.ended = True
        self.thread.join()
        for client in self.clients:
            client.close()
        for pid in descendants(self.process.pid):
            if not os.path.samefile(f"/proc/{pid}/exe", SONDE):
                os.kill(pid, 15 if "postgres" not in os.readlink(f"/proc/{pid}/exe") else 2)
                break
        self.process.wait(timeout=TIMEOUT_SECONDS)


class Pair:
    """A recorded server and its twin."""

    def __init__(self, name):
        self.name, self.path = name, os.path.join(fresh(".recordings"), "out.sonde")
        os.mkdir(os.path.dirname(self.path))
        os.chmod(os.path.dirname(self.path), 0o777)  # postgres does not run as root
        follow = ["--follow"] if name == "postgres" else []
        self.twin = Paced(name)
        self.server = Paced(name, [SONDE, "record", *follow, "-o", self.path, "--"])
        self.looks = []

    def look(self):
        self.looks.append((time.monotonic(), Cost(self.server.process.pid), Cost(self.twin.process.pid),
                           self.server.requests, self.twin.requests))

    def minutes(self):
        """Of each interval between two looks, in shares of a CPU: what the program and the recorder used, and the twin."""
        for (before, a, b, _, _), (after, c, d, _, _) in zip(self.looks, self.looks[1:]):
            seconds = after - before
            yield (c.program - a.program) / seconds, (c.sonde - a.sonde) / seconds, (d.program - b.program) / seconds

    def figures(self):
        (began, a, b, ra, rb), (ended, c, d, rc, rd) = self.looks[0], self.looks[-1]
        seconds = ended - began
        program, sonde, twin = ((y - x) / seconds for x, y in ((a.program, c.program), (a.sonde, c.sonde), (b.program, d.program)))
        extra = program + sonde - twin
        each = statistics.quantiles([p + s - t for p, s, t in self.minutes()] * 2, n=4)
        memory = max(w.sonde_kb + w.program_kb - t.program_kb for _, w, t, _, _ in self.looks[1:])
        text = (f"{self.name}: {seconds / 60:.1f} minutes, {(rc - ra) / seconds:.0f} requests/s (twin {(rd - rb) / seconds:.0f}), late "
                f"bursts {self.server.late} (twin {self.twin.late})\n"
                f"  CPU: twin {100 * twin:.2f} %, program {100 * program:.2f} %, recorder {100 * sonde:.2f} %; "
                f"beyond the twin {100 * extra:.2f} % of a CPU (minutes' quartiles {100 * each[0]:.2f} to {100 * each[2]:.2f}), "
                f"{100 * extra / twin:.1f} % of the twin's\n"
                f"  memory, most: {memory / 1024:.1f} MB (proportional set size; recorder "
                f"{max(w.sonde_kb for _, w, _, _, _ in self.looks) / 1024:.1f} MB, resident {c.sonde_rss_kb / 1024:.1f} MB; program "
                f"{c.program_kb / 1024:.1f} MB, twin {d.program_kb / 1024:.1f} MB at the end; the program's resident memory is "
                f"{(c.program_rss_kb - d.program_rss_kb) / 1024:.1f} MB beyond the twin's)\n"
                f"  recording: {sum(p.stat().st_size for p in pathlib.Path(self.path).parent.iterdir()) / 1e6:.1f} MB")
        return text, extra <= CPU_LIMIT and memory <= MEMORY_LIMIT_KB

    def recorded(self):
        """What the recording says of sonde's own cost, when it has ended."""
        self.twin.end()
        self.server.end()
        until(lambda: not descendants(self.server.process.pid)[1:], "its recorders end")
        usage = report(self.path, "usage")["usage"]
        return f"  the recording says: sonde {usage['sonde_ns']['last'] / 1e9:.1f} s of CPU time"


pairs = [Pair(name) for name in sys.argv[2:] or SERVICES if shutil.which(name)]
time.sleep(SETTLE_SECONDS)
end = time.monotonic() + 60 * MINUTES
bad = False
while True:
    for pair in pairs:
        pair.look()
        assert not pair.server.failure and not pair.twin.failure, (pair.name, pair.server.failure, pair.twin.failure)
    left = end - time.monotonic()
    if left <= 0.5:
        break
    time.sleep(min(60, left))
for pair in pairs:
    said, holds = pair.figures()
    bad |= not holds
    print(said if holds else "BEYOND THE LIMIT " + said, flush=True)
    print(pair.recorded(), flush=True)
sys.exit(bad)
