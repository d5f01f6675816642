#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What tracing every call costs, in nanoseconds a call of a function that does nothing else (fib),
beside a plain run, the floor (hooks with two clock reads and two stores), uftrace and clang's own XRay
runtime; bench/imports.py has ltrace. Variants in turn; the least and the median of all rounds. With the
variable FUNTRACE, the folder of funtrace's source (github.com/yosefk/funtrace), funtrace too: its hooks
are in the program and keep a thread's last MB of events, 16 bytes each.

usage: bench/trace.py [ROUNDS [N]]      after a build"""
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("SONDE_BUILD", os.path.join(ROOT, "build-test"))
SONDE = os.path.join(BUILD, "bin", "sonde")
HERE = os.path.join(ROOT, "bench", "trace")
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 7
N = sys.argv[2] if len(sys.argv) > 2 else "29"
FUNTRACE = os.environ.get("FUNTRACE")
FLAGS = ["-O2", "-fno-inline", "-fno-optimize-sibling-calls"]


def build(folder, name, how=(), main=(), link=(), compiler="gcc"):
    """fib.c (MAIN's options) and fib_of.c (HOW's) as FOLDER/NAME."""
    out = os.path.join(folder, name)
    subprocess.run([compiler, *FLAGS, *main, f"-I{ROOT}/include", "-c", f"{HERE}/fib.c", "-o", out + ".m.o"],
                   check=True)
    subprocess.run([compiler, *FLAGS, *how, "-c", f"{HERE}/fib_of.c", "-o", out + ".o"], check=True)
    done = subprocess.run([compiler, out + ".m.o", out + ".o", *link, "-o", out], capture_output=True,
                          check=False)
    return out if done.returncode == 0 else None


def variants(folder):
    hooks, lib = ["-finstrument-functions"], os.path.join(BUILD, "lib")
    own = [f"{lib}/libsonde.a"]
    shared = [f"-L{lib}", "-lsonde", f"-Wl,-rpath,{lib}"]
    subprocess.run(["gcc", "-O2", "-c", f"{HERE}/floor.c", "-o", f"{folder}/floor.o"], check=True)
    subprocess.run(["gcc", "-O2", "-fPIC", "-shared", f"{HERE}/floor.c", "-o", f"{folder}/libfloor.so"],
                   check=True)
    made = {
        "plain": [build(folder, "plain")],
        "off, hooks in the program": [build(folder, "static", hooks, (), own)],
        "off, hooks in libsonde.so": [build(folder, "shared", hooks, (), shared)],
        "floor, hooks in the program": [build(folder, "floor_in", hooks, (), [f"{folder}/floor.o"])],
        "floor, hooks in a library": [build(folder, "floor_so", hooks, (), [
            f"-L{folder}", "-lfloor", f"-Wl,-rpath,{folder}"])],
        "on, hooks in the program": [build(folder, "on", hooks, ["-DSTART"], own)],
        "on, hooks in libsonde.so": [build(folder, "on_so", hooks, ["-DSTART"], shared)],
        "sonde record --trace": [SONDE, "record", "--trace", "-o", f"{folder}/x.sonde", "--",
                                 build(folder, "hooked", hooks)],
    }
    entries = build(folder, "entries", ["-fpatchable-function-entry=5"])
    made["off, patchable entries"] = [entries]
    made["sonde record, entries"] = [SONDE, "record", "--trace", "-o", f"{folder}/x.sonde", "--", entries]
    made["sonde record, any function"] = [SONDE, "record", "--trace=!fib", "-o", f"{folder}/x.sonde", "--",
                                          made["plain"][0]]
    if shutil.which("uftrace"):
        uftrace = ["uftrace", "record", "--no-libcall", "--no-event", "-d", f"{folder}/uftrace"]
        made["uftrace, the same hooks"] = [*uftrace, build(folder, "uft", hooks)]
        made["uftrace, -pg"] = [*uftrace, build(folder, "pg", ["-pg"], (), ["-pg"])]
        made["uftrace, patched entries"] = [*uftrace, "-P", ".", build(
            folder, "patchable", ["-fpatchable-function-entry=5"])]
        made["uftrace, any function"] = [*uftrace, "-P", "^fib$", made["plain"][0]]
    if FUNTRACE:
        runtime = ["g++", "-O2", "-w", "-DFUNTRACE_FTRACE_EVENTS_IN_BUF=0", "-c", f"{FUNTRACE}/funtrace.cpp"]
        subprocess.run([*runtime, "-o", f"{folder}/runtime.o"], check=True)
        made["funtrace, the same hooks"] = [build(folder, "funtrace", hooks, (), [
            f"{folder}/runtime.o", "-lstdc++", "-pthread", f"-Wl,--dynamic-list={FUNTRACE}/funtrace.dyn"])]
    if shutil.which("clang"):
        sleds = ["-fxray-instrument", "-fxray-instruction-threshold=1"]
        patched = build(folder, "sleds", sleds, (), (), "clang")
        made["off, sleds"] = [patched]
        made["sonde record, sleds"] = [SONDE, "record", "--trace", "-o", f"{folder}/x.sonde", "--",
                                       patched]
        xray = build(folder, "xray", sleds, (), sleds, "clang")
        if xray:
            made["XRay's runtime, basic"] = [xray]
    return {name: command for name, command in made.items() if command[-1]}


def run(name, command, folder):
    env = dict(os.environ)
    if name.startswith("XRay"):
        env["XRAY_OPTIONS"] = f"patch_premain=true xray_mode=xray-basic xray_logfile_base={folder}/xray."
        env["XRAY_BASIC_OPTIONS"] = "func_duration_threshold_us=0"
    for old in os.listdir(folder):
        if old.startswith(("x.sonde", "xray.", "uftrace")):
            path = os.path.join(folder, old)
            shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
    done = subprocess.run([*command, N], capture_output=True, text=True, env=env, check=True, cwd=folder)
    return float(re.search(r"^\d+\.\d+$", done.stdout, re.M)[0])


def size_of_an_event(folder):
    path = os.path.join(folder, "size.sonde")
    program = os.path.join(folder, "hooked")
    subprocess.run([SONDE, "record", "--trace", "-o", path, "--", program, "25"], capture_output=True, check=True)
    told = subprocess.run([SONDE, "report", path, "trace"], capture_output=True, text=True, check=True)
    print(re.search(r"  traced .*", told.stdout)[0].strip(), "(two events a call)")


def main():
    with tempfile.TemporaryDirectory() as folder:
        all_of_them = variants(folder)
        times = {name: [] for name in all_of_them}
        for _ in range(ROUNDS):
            for name, command in all_of_them.items():
                times[name].append(run(name, command, folder))
        plain = min(times["plain"])
        print(f"fib({N}), ns a call: least, median, and least added to plain")
        for name, found in times.items():
            print(f"  {name:28} {min(found):8.2f} {statistics.median(found):8.2f} {min(found) - plain:+9.2f}")
        added = {name: min(found) - plain for name, found in times.items()}
        for ours, other in (("on, hooks in the program", "floor, hooks in the program"),
                            ("on, hooks in libsonde.so", "floor, hooks in a library"),
                            ("sonde record --trace", "floor, hooks in a library"),
                            ("on, hooks in the program", "funtrace, the same hooks")):
            if ours in times and other in times:
                print(f"  {ours} / {other}: {min(times[ours]) / min(times[other]):.2f}")
        if "uftrace, the same hooks" in added:
            print("  added, sonde record --trace / uftrace with the same hooks: "
                  f"{added['sonde record --trace'] / added['uftrace, the same hooks']:.2f}; the floor: "
                  f"{added['floor, hooks in a library'] / added['uftrace, the same hooks']:.2f}")
        if "uftrace, any function" in added:
            print("  added, sonde record with any function / uftrace with the same: "
                  f"{added['sonde record, any function'] / added['uftrace, any function']:.2f}")
        for what in "entries", "sleds":
            if "uftrace, patched entries" in added and f"sonde record, {what}" in added:
                print(f"  added, sonde record with {what} / uftrace with patched entries: "
                      f"{added[f'sonde record, {what}'] / added['uftrace, patched entries']:.2f}")
        size_of_an_event(folder)


main()
