#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What tracing an imported function costs a call: sonde record --trace=PATTERN, uftrace's and ltrace's
hooks of the procedure linkage, and the program alone, in turns. The least of the rounds counts."""
import os
import shutil
import subprocess
import tempfile

SONDE = os.environ.get("SONDE", "build-test/bin/sonde")
CALLS, ROUNDS = 2_000_000, 7
WORK = tempfile.mkdtemp(prefix="sonde-bench-imports-")
LIBRARY = "int work(int x);\nint work(int x) { return x * 3 + 1; }\n"
PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int work(int x);
int main(int count, char **arguments) {
  long calls = count > 1 ? atol(arguments[1]) : 1;
  int x = 0;
  struct timespec a, b;
  clock_gettime(CLOCK_MONOTONIC, &a);
  for (long i = 0; i < calls; i++) x = work(x);
  clock_gettime(CLOCK_MONOTONIC, &b);
  printf("%.3f %d\\n", ((b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec)) / calls, x);
}
"""


def build():
    for name, text in (("work.c", LIBRARY), ("program.c", PROGRAM)):
        with open(os.path.join(WORK, name), "w") as f:
            f.write(text)
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", "libwork.so", "work.c"], cwd=WORK, check=True)
    subprocess.run(["cc", "-O2", "-o", "program", "program.c", "-L.", "-lwork", "-Wl,-rpath,$ORIGIN",
                    "-Wl,-z,lazy"], cwd=WORK, check=True)


def run(command, calls):
    subprocess.run(["rm", "-rf", "out"], cwd=WORK)
    done = subprocess.run([*command, "./program", str(calls)], cwd=WORK, capture_output=True, text=True)
    return float(done.stdout.split()[0])


def main():
    build()
    rivals = {"alone": ([], CALLS),
              "sonde --trace": ([os.path.abspath(SONDE), "record", "--trace=libwork*:*", "-o", "out", "--"], CALLS)}
    if shutil.which("uftrace"):
        rivals["uftrace record"] = (["uftrace", "record", "--force", "--no-event", "-d", "out"], CALLS)
    if shutil.which("ltrace"):
        rivals["ltrace -c"] = (["ltrace", "-c", "-o", "out", "-e", "work"], CALLS // 200)
    times = {name: [] for name in rivals}
    for _ in range(ROUNDS):
        for name, (command, calls) in rivals.items():
            times[name].append(run(command, calls))
    alone = min(times["alone"])
    print(f"{'an imported function':24}{'ns a call':>12}{'added':>12}{'of uftrace':>12}{'of ltrace':>12}")
    added = {name: min(values) - alone for name, values in times.items()}
    for name, values in times.items():
        ratios = [added[name] / added[other] if other in added and name != "alone" else None
                  for other in ("uftrace record", "ltrace -c")]
        print(f"{name:24}{min(values):12.1f}{added[name]:12.1f}"
              + "".join(f"{r:12.4f}" if r is not None else f"{'':12}" for r in ratios))
    shutil.rmtree(WORK)


if __name__ == "__main__":
    main()
