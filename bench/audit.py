#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What auditing costs: one call at a known site beside strace's and ltrace's added cost for the same call, a program's
start, and whole runs under the whole default policy. Plain and audited runs in turn; medians.

usage: bench/audit.py [ROUNDS]      after a build"""
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SONDE = os.path.join(os.environ.get("SONDE_BUILD", os.path.join(ROOT, "build-test")), "bin", "sonde")
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 7

LOOP = """
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e9 * t.tv_sec + t.tv_nsec;
}
int main(int argc, char **argv) {
  long n = atol(argv[2]);
  const char *name = argv[3];
  if (argc > 4 && !strcmp(argv[4], "heap")) name = strdup(name);
  if (argc > 4 && !strcmp(argv[4], "mapped"))
    name = strcpy(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), name);
  double start = now();
  if (!strcmp(argv[1], "getenv"))
    for (long i = 0; i < n; i++) __asm__ volatile("" ::"r"(getenv(name)));
  else if (!strcmp(name, "literal"))
    for (long i = 0; i < n; i++) unlink("/nonexistent/literal");
  else
    for (long i = 0; i < n; i++) unlink(name);
  fprintf(stderr, "ns %.2f\\n", (now() - start) / n);
  return 0;
}
"""


def fresh(folder):
    path = os.path.join(folder, "bench.sonde")
    if os.path.exists(path):
        os.unlink(path)
    return path


def audited(folder, command):
    return [SONDE, "record", "--audit", "-o", fresh(folder), "--", *command]


def ns_of(command):
    done = subprocess.run(command, capture_output=True, text=True)
    return float([line for line in done.stderr.splitlines() if line.startswith("ns ")][0].split()[1])


def calls(folder, loop):
    print("one call: ns plain, and what is added")
    for kind, name, place, what in (
            ("getenv", "HOME", "", "no rule wants it"), ("getenv", "ACME_TOKEN", "", "recorded"), ("unlink", "literal", "", "recorded"),
            ("unlink", "/nonexistent/file", "argument", "recorded, text an argument of the program"),
            ("unlink", "/nonexistent/file", "heap", "recorded, text in the brk heap"),
            ("unlink", "/nonexistent/file", "mapped", "recorded, text in mapped memory")):
        plain, ours, strace, ltrace = [], [], [], []
        for _ in range(ROUNDS):
            plain.append(ns_of([loop, kind, "1000000", name, place]))
            ours.append(ns_of(audited(folder, [loop, kind, "1000000", name, place])))
            if kind == "unlink" and shutil.which("strace"):
                strace.append(ns_of(["strace", "-o", "/dev/null", "-e", "trace=unlink", loop, kind, "5000", name, place]))
            if shutil.which("ltrace"):
                ltrace.append(ns_of(["ltrace", "-o", "/dev/null", "-e", kind, loop, kind, "2000", name, place]))
        base = statistics.median(plain)
        added = statistics.median(ours) - base
        line = f"  {kind}({name}), {what}: {base:.1f}, sonde {added:+.1f}"
        for tool, times in (("strace", strace), ("ltrace", ltrace)):
            if times:
                more = statistics.median(times) - base
                line += f", {tool} {more:+.0f} (sonde is {added / more:.4f} of it)"
        print(line)


def watched(folder, loop):
    """Every system call under --coverage, beside strace that shows none of them."""
    plain, ours, strace = [], [], []
    for _ in range(ROUNDS):
        plain.append(ns_of([loop, "unlink", "100000", "literal"]))
        ours.append(ns_of([SONDE, "record", "--coverage", "-o", fresh(folder), "--", loop, "unlink", "20000", "literal"]))
        if shutil.which("strace"):
            strace.append(ns_of(["strace", "-o", "/dev/null", "-e", "trace=chroot", loop, "unlink", "20000", "literal"]))
    base, line = statistics.median(plain), ""
    if strace:
        line = f", strace that shows nothing {statistics.median(strace) - base:+.0f}"
    print(f"one system call while --coverage watches: {base:.1f}, sonde {statistics.median(ours) - base:+.0f}{line}")


def cpu_of(command, **how):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **how)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def wall_of(command):
    start = time.monotonic()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.monotonic() - start


def start_up(folder):
    plain, ours, recorder = [], [], []
    for _ in range(5 * ROUNDS):
        plain.append(wall_of(["id", "root"]))
        recorder.append(wall_of([SONDE, "record", "--malloc=vm", "-o", os.path.join(folder, f"s{len(plain)}"), "--", "id", "root"]))
        ours.append(wall_of(audited(folder, ["id", "root"])))
    a, b, c = (1e3 * statistics.median(t) for t in (plain, recorder, ours))
    print(f"start and end of id(1): {a:.2f} ms plain, {c:.2f} ms under the recorder and audited: "
          f"{c - a:+.2f} ms (the recorder without an audit {b - a:+.2f})")


def tree(folder):
    top = os.path.join(folder, "tree")
    for i in range(300):
        os.makedirs(f"{top}/{i}")
        for k in range(100):
            with open(f"{top}/{i}/{k}", "w") as f:
                f.write(str(k))
    git = ["git", "-C", top, "-c", "user.name=a", "-c", "user.email=b"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run([*git, *command], check=True, stdout=subprocess.DEVNULL)
    return top


PYTHON = """
import socket, os
for i in range(100000):
    with open('/etc/passwd') as f: f.read()
    socket.getaddrinfo('127.0.0.1', 80)
    os.environ.get('ACME_TOKEN')
"""


def times(count, command):
    """COMMAND, again and again in one shell: a run of a second or more."""
    return ["sh", "-c", f"i=0; while [ $i -lt {count} ]; do {command}; i=$((i + 1)); done"]


def whole_runs(folder):
    print("whole runs: user and system CPU, audited / plain")
    top = tree(folder)
    for name, command in (("git status, 30,000 files, 24 times in one shell", times(24, f"git -C {top} status")),
                          ("git log -p of this repository, 8 times in one shell", times(8, f"git -C {ROOT} log -p --no-ext-diff")),
                          ("python3: open, getaddrinfo, getenv", ["python3", "-c", PYTHON])):
        plain, ours = [], []
        for _ in range(ROUNDS):
            plain.append(cpu_of(command))
            ours.append(cpu_of(audited(folder, command)))
        a, b = statistics.median(plain), statistics.median(ours)
        short = "" if a >= 1 else ", of less than a second: too short to judge by"
        print(f"  {name}: {a:.2f} s, {b:.2f} s: x {b / a:.3f}{short}")


def redis(folder):
    if not shutil.which("redis-benchmark"):
        return
    rates = {"plain": [], "audited": []}
    for i in range(2 * ROUNDS):
        kind = "audited" if i % 2 else "plain"
        server = ["redis-server", "--port", "7391", "--save", "", "--appendonly", "no"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        child = subprocess.Popen(audited(folder, server) if i % 2 else server, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.7)
        subprocess.run(["redis-benchmark", "-p", "7391", "-q", "-t", "get,set", "-n", "100000"], stdout=subprocess.DEVNULL)
        subprocess.run(["redis-cli", "-p", "7391", "shutdown", "nosave"], stdout=subprocess.DEVNULL)
        child.wait()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        rates[kind].append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    a, b = statistics.median(rates["plain"]), statistics.median(rates["audited"])
    print(f"  redis-server and redis-benchmark, 200,000 requests: {a:.2f} s, {b:.2f} s: x {b / a:.3f}")


def main():
    with tempfile.TemporaryDirectory(prefix="sonde-bench-") as folder:
        loop = os.path.join(folder, "loop")
        subprocess.run(["cc", "-O2", "-x", "c", "-o", loop, "-"], input=LOOP.encode(), check=True)
        calls(folder, loop)
        watched(folder, loop)
        start_up(folder)
        whole_runs(folder)
        redis(folder)


main()
