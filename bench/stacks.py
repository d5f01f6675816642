#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sonde stacks beside eu-stack and gdb, on the same process, in turns.

- the time for 100 blocked threads of about 25 frames, with lines and without
- the longest pause of threads that spin while they are looked at
- 10,000 threads; 5,000 shared objects

usage: bench/stacks.py [ROUNDS]      from the build folder's parent, after a build"""
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("SONDE_BUILD", ROOT / "build-test"))
SONDE, FIXTURES = str(BUILD / "bin" / "sonde"), BUILD / "tests" / "fixtures"
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 9
QUIET = dict(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
ENVIRONMENT = dict(os.environ, DEBUGINFOD_URLS="")

RIVALS = {
    "sonde --no-lines": [SONDE, "stacks", "--no-lines", "PID"],
    "eu-stack": ["eu-stack", "-p", "PID"],
    "sonde": [SONDE, "stacks", "PID"],
    "eu-stack -s -i": ["eu-stack", "-s", "-i", "-p", "PID"],
    "gdb": ["gdb", "-nx", "-p", "PID", "-batch", "-ex", "thread apply all bt"],
}


class Program:
    def __init__(self, name, *arguments):
        self.process = subprocess.Popen([str(name), *map(str, arguments)], stdout=subprocess.PIPE,
                                        text=True)
        self.process.stdout.readline()
        time.sleep(0.2)

    def look(self, command):
        """The time that COMMAND takes on the program, in ms."""
        words = [word.replace("PID", str(self.process.pid)) for word in command]
        start = time.perf_counter()
        subprocess.run(words, env=ENVIRONMENT, **QUIET)
        return (time.perf_counter() - start) * 1e3

    def end(self):
        self.process.kill()
        self.process.wait()


def available():
    return {name: command for name, command in RIVALS.items() if shutil.which(command[0])}


def wall_time():
    program, times = Program(FIXTURES / "busy-O2", 99), {name: [] for name in available()}
    for name, command in available().items():
        program.look(command)  # the page cache and sonde's index are warm
    for _ in range(ROUNDS):
        for name, command in available().items():
            times[name].append(program.look(command))
    program.end()
    print("100 blocked threads of about 25 frames, ms: median (minimum)")
    for name, values in times.items():
        print(f"  {name:18} {statistics.median(values):8.1f} ({min(values):.1f})")
    ratio("--no-lines against eu-stack", times, "sonde --no-lines", "eu-stack")
    ratio("lines against eu-stack -s -i", times, "sonde", "eu-stack -s -i")
    ratio("lines against gdb", times, "sonde", "gdb")


def ratio(what, times, ours, theirs):
    if theirs in times:
        print(f"  ratio, {what}: "
              f"{statistics.median(times[ours]) / statistics.median(times[theirs]):.3f}")


def pauses():
    """The longest gap that spinning threads saw in their clock while they were captured."""
    print("longest pause of a spinning thread, µs: median (minimum) of the rounds")
    rivals = {"nothing": None} | {name: c for name, c in available().items() if name != "gdb"}
    results = {name: [] for name in rivals}
    for _ in range(ROUNDS):
        for name, command in rivals.items():
            program = Program(FIXTURES / "waits", 20, max(1, (os.cpu_count() or 2) - 1))
            program.process.send_signal(1)  # measure from now on
            time.sleep(0.02)
            if command:
                program.look(command)
            program.process.terminate()
            results[name].append(int(program.process.stdout.readline().split()[2]))
            program.process.wait()
    for name, values in results.items():
        print(f"  {name:18} {statistics.median(values):8.0f} ({min(values)})")


def many_threads():
    program = Program(FIXTURES / "busy-O2", 10000)
    print("10,000 threads, ms")
    for name, command in available().items():
        if name != "gdb":
            print(f"  {name:18} {program.look(command):8.0f}")
    program.end()


def many_objects():
    """A program that has loaded 5,000 shared objects and waits inside the last one."""
    with tempfile.TemporaryDirectory(prefix="sonde-bench-") as folder:
        (pathlib.Path(folder) / "object.c").write_text(
            "#include <unistd.h>\nvoid wait_here(void) { for (;;) pause(); }\n")
        (pathlib.Path(folder) / "load.c").write_text("""
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv) {
  void (*last)(void) = 0; char path[4096];
  for (int i = 0; i < 5000; i++) {
    snprintf(path, sizeof path, "%s/object-%d.so", argv[1], i);
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!object) return 1;
    last = (void (*)(void))dlsym(object, "wait_here");
  }
  puts("ready"); fflush(stdout); last(); return argc; }
""")
        run = dict(cwd=folder, check=True)
        subprocess.run(["cc", "-O2", "-g", "-shared", "-fPIC", "-o", "object.so", "object.c"], **run)
        subprocess.run(["cc", "-O2", "-o", "load", "load.c", "-ldl"], **run)
        for i in range(5000):
            shutil.copy(f"{folder}/object.so", f"{folder}/object-{i}.so")
        program = Program(f"{folder}/load", folder)
        print("5,000 shared objects, ms")
        for name, command in available().items():
            print(f"  {name:18} {program.look(command):8.0f}")
        program.end()


def main():
    if not shutil.which("eu-stack"):
        print("eu-stack is missing: its rows are omitted (package elfutils)")
    wall_time()
    pauses()
    many_threads()
    many_objects()


if __name__ == "__main__":
    main()
