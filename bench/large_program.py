#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The first `sonde stacks` of a program of a browser's size, beside gdb and eu-stack: 300 images with 2 GB of
debug information, 36 threads that wait under 24 frames in all of these images. The program is made of one part,
which big.so has 140 times under different names and each other image once. Files are in the page cache; sonde
runs twice, first without a cache. Told are seconds, CPU seconds, memory, and how many frames are printed with a
line (sonde prints equal stacks once). Each run gets five minutes.

It takes gigabytes of disk in the temporary folder, and needs lld.

usage: bench/large_program.py [ROUNDS [LIBRARIES PARTS]]      after a build"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("SONDE_BUILD", ROOT / "build-test"))
SONDE, HERE = str(BUILD / "bin" / "sonde"), ROOT / "bench" / "large"
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 1
LIBRARIES, PARTS = map(int, sys.argv[2:4] or (299, 140))
THREADS, LIMIT_SECONDS = 36, 300
LINK = ["g++", "-shared", "-fuse-ld=lld"]


def rename(folder, unit, number):
    """UNIT with other names of what it defines, so that the linker keeps all of it."""
    shown = subprocess.run(["nm", "--defined-only", "--extern-only", "--format=posix", unit], capture_output=True,
                           text=True, check=True).stdout
    names = folder / "names"
    names.write_text("".join(f"{line.split()[0]} {line.split()[0]}_{number}\n" for line in shown.splitlines()))
    out = folder / f"part{number}.o"
    subprocess.run(["objcopy", f"--redefine-syms={names}", unit, out], check=True)
    return out


def build(folder):
    unit = folder / "unit.o"
    subprocess.run(["g++", "-std=c++17", "-g", "-O1", "-fPIC", "-c", HERE / "unit.cc", "-o", unit], check=True)
    parts = [rename(folder, unit, number) for number in range(PARTS)]
    subprocess.run([*LINK, "-o", folder / "big.so", *parts], check=True)
    for part in parts:
        part.unlink()
    for number in range(LIBRARIES):
        subprocess.run([*LINK, f"-Wl,--build-id=0x{number + 1:040x}", "-o", folder / f"{number}.so", unit], check=True)
    subprocess.run(["gcc", "-g", "-O1", "-pthread", "-o", folder / "program", HERE / "program.c"], check=True)


def debug_bytes(path):
    shown = subprocess.run(["size", "-A", path], capture_output=True, text=True, check=True).stdout
    return sum(int(size) for size in re.findall(r"^\.debug\S+ +(\d+)", shown, re.M))


def run(name, command, env=None):
    began = time.perf_counter()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(["timeout", "--foreground", str(LIMIT_SECONDS), *command], stdout=out,
                                   stderr=subprocess.DEVNULL, env=env)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        name += " (not ready)" if process.returncode == 124 else ""
        out.seek(0)
        text = out.read().decode(errors="replace")
    lines = len(re.findall(r"unit_step.*unit\.cc:\d+", text))
    print(f"  {name:26} {time.perf_counter() - began:8.2f} s {used.ru_utime + used.ru_stime:8.2f} s CPU "
          f"{used.ru_maxrss / 1024:8.0f} MB {lines:6} frames with a line", flush=True)


def compare(pid, folder):
    env = dict(os.environ, XDG_CACHE_HOME=str(folder / "cache"), DEBUGINFOD_URLS="")
    shutil.rmtree(folder / "cache", ignore_errors=True)
    run("sonde", [SONDE, "stacks", pid], env)
    run("sonde, second run", [SONDE, "stacks", pid], env)
    run("sonde --no-lines", [SONDE, "stacks", "--no-lines", pid], env)
    if shutil.which("eu-stack"):
        run("eu-stack -s", ["eu-stack", "-s", "-p", pid], env)
    if shutil.which("gdb"):
        run("gdb", ["gdb", "-nx", "-p", pid, "-batch", "-ex", "thread apply all bt"], env)


def main():
    if not shutil.which("ld.lld"):
        print("ld.lld is not here")
        return
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        build(folder)
        images = [folder / "big.so", *(folder / f"{number}.so" for number in range(LIBRARIES))]
        print(f"{len(images)} images, {sum(map(debug_bytes, images)) / 1e9:.2f} GB of debug information, {THREADS} threads")
        program = subprocess.Popen([folder / "program", folder, str(LIBRARIES), str(PARTS), str(THREADS)],
                                   stdout=subprocess.PIPE)
        program.stdout.readline()
        subprocess.run(["cat", *images], stdout=subprocess.DEVNULL, check=True)
        for _ in range(ROUNDS):
            compare(str(program.pid), folder)
        program.kill()
        program.wait()


main()
