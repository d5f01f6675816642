#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Core files against gdb: one that gdb wrote of a live process, one that the kernel wrote of a crash,
and what becomes of them when they are cut short or belong to another build."""
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess

from helpers import (
    FIXTURES, SEED, compile_c, kill, needs, output_of, run_cases, skip, sonde, source_file, start_ready,
    try_sonde)


def stacks(core, *options):
    return json.loads(sonde("stacks", "--json", "--core", core, *options))


def gdb_frames(program, core):
    run = subprocess.run(["gdb", "-nx", "-batch", "-ex", "set debuginfod enabled off", str(program),
                          str(core), "-x", source_file("real", "gdb", "frames.py")], capture_output=True,
                         text=True, timeout=100, check=False)
    for line in run.stdout.splitlines():
        if line.startswith("FRAMES "):
            return {int(tid): frames for tid, frames in json.loads(line[7:]).items()}
    raise AssertionError(run.stderr[-500:])


def compare(program, core, *options):
    """sonde's pcs are gdb's, thread by thread; returns how many threads and frames."""
    answer, theirs, count = stacks(core, *options), gdb_frames(program, core), 0
    ours = {thread["tid"]: thread for thread in answer["threads"]}
    assert set(ours) == set(theirs), (set(ours), set(theirs))
    for tid, frames in theirs.items():
        expected = [frame[0] for frame in frames if frame[3] not in ("inlined", "tail")]
        found = [int(frame["pc"], 16) for frame in ours[tid]["frames"]
                 if not frame.get("inlined") and not frame.get("tail_call")]
        assert found == expected, (tid, [hex(pc) for pc in found], [hex(pc) for pc in expected])
        assert ours[tid]["complete"], ours[tid]
        count += len(expected)
    return len(theirs), count


def of_gdb(folder):
    needs("gcore")
    process = start_ready([FIXTURES / "busy-O2", "20", "2"])
    output_of("gcore", "-o", folder / "core", process.pid)
    kill(process)
    core = folder / f"core.{process.pid}"
    threads, frames = compare(FIXTURES / "busy-O2", core)
    answer = stacks(core)
    assert answer["pid"] == process.pid and answer["exe"].endswith("/busy-O2")
    # aarch64 has no poll and no epoll_wait; a call that a stop has interrupted is restarted there
    other = {"ppoll": "poll", "epoll_pwait": "epoll_wait", "restart_syscall": "poll"}
    waits = {thread.get("syscall") for thread in answer["threads"]}
    waits = {other.get(name, name) for name in waits}
    assert {"epoll_wait", "poll", "read", "futex"} <= waits, waits
    return f"written by gdb: {threads} threads, {frames} frames as gdb's"


def kernel_core(folder, program, *arguments):
    """Crashes PROGRAM in FOLDER; skips where the kernel does not write core files to the folder."""
    pattern = pathlib.Path("/proc/sys/kernel/core_pattern").read_text(encoding="utf-8").strip()
    if "/" in pattern or pattern.startswith("|"):
        skip("the kernel writes core files elsewhere")
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    process = start_ready([program, *arguments], cwd=folder,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, unlimited))
    process.send_signal(signal.SIGSEGV)
    process.wait()
    cores = list(folder.glob("core*"))
    if not cores:
        skip("the kernel wrote no core file")
    return cores[0]


def of_kernel(folder):
    core = kernel_core(folder, FIXTURES / "busy-O2", "20", "2")
    threads, frames = compare(FIXTURES / "busy-O2", core)
    assert any(thread.get("signal") == signal.SIGSEGV for thread in stacks(core)["threads"])
    return f"written by the kernel: {threads} threads, {frames} frames as gdb's"


def of_a_program_below_a_sysroot(folder):
    """The program is gone from its path, where another build is now, and stands below a sysroot."""
    there, sysroot = folder / "there", folder / "sysroot"
    there.mkdir()
    program = there / "busy"
    shutil.copy(FIXTURES / "busy-O2", program)
    core = kernel_core(folder, program, "20", "2")  # without code
    moved = pathlib.Path(f"{sysroot}{program}")
    moved.parent.mkdir(parents=True)
    program.rename(moved)
    wanted = [thread["frames"] for thread in stacks(core, "--exe", moved)["threads"]]
    def own_names(*options):
        return {frame.get("function") for thread in stacks(core, *options)["threads"] for frame in thread["frames"]} & {"plain", "leaf"}

    for here in None, FIXTURES / "busy-O0":
        if here:
            shutil.copy(here, program)
        assert not own_names(), "named without the program"
        found = stacks(core, "--sysroot", sysroot)["threads"]
        assert all(thread["complete"] and not any(f.get("guessed") for f in thread["frames"]) for thread in found), found
        names = [[(f["pc"], f.get("function")) for f in thread["frames"]] for thread in found]
        assert names == [[(f["pc"], f.get("function")) for f in frames] for frames in wanted], names
    moved.write_bytes((FIXTURES / "busy-O0").read_bytes())
    program.unlink()
    assert not own_names("--sysroot", sysroot), "another build was used"
    return "the program below a sysroot: found, and another build refused"


def moved_program(folder):
    """The program is where --exe says; and a program of another build is refused."""
    program = shutil.copy(FIXTURES / "busy-O2", folder / "program")
    core = kernel_core(folder, program, "3", "0")
    os.rename(program, folder / "moved")
    compare(folder / "moved", core, "--exe", str(folder / "moved"))
    shutil.copy(FIXTURES / "waits", program)
    answer = stacks(core)
    named = [frame for thread in answer["threads"] for frame in thread["frames"]
             if frame.get("module") == str(program) and "function" in frame]
    assert not named, named[:3]
    assert "another build" in json.dumps(answer)
    return "a program elsewhere is found by --exe; one of another build names nothing"


def cut_short(folder):
    core = kernel_core(folder, FIXTURES / "busy-O2", "5", "0")
    whole, rng = core.read_bytes(), random.Random(SEED)
    for _ in range(60):
        damaged = bytearray(whole[:rng.randrange(len(whole))])
        for _ in range(rng.randrange(20) if damaged else 0):
            damaged[rng.randrange(min(len(damaged), 8192))] = rng.randrange(256)
        (folder / "damaged").write_bytes(damaged)
        done = try_sonde("stacks", "--core", folder / "damaged", text=False)
        assert done.returncode in (0, 2), done
        assert done.returncode == 0 or done.stderr.count(b"\n") == 1, done.stderr
    return "60 damaged or cut ones: an answer or one line, no crash"


CRASH = """
#include <stdio.h>
#include <string.h>
#define NOINLINE __attribute__((noinline))
NOINLINE void inner(volatile int *p) { char b[100]; memset(b, 1, 100); *p = b[3];
  __asm__ volatile("" ::"r"(b) : "memory"); }
NOINLINE void middle(int n) { if (n) { middle(n - 1); __asm__ volatile(""); }
  else inner((volatile int *)8); __asm__ volatile(""); }
int main(void) { puts("ready"); fflush(stdout); middle(5); return 0; }
"""


def of_another_machine(folder):
    """An aarch64 program's core file is read on whatever machine this is."""
    needs("aarch64-linux-gnu-gcc", "qemu-aarch64")
    compile_c(CRASH, "-g", "-O2", "-static", compiler="aarch64-linux-gnu-gcc", out=folder / "crash")
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    subprocess.run(["qemu-aarch64", "./crash"], cwd=folder, check=False,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, unlimited))
    cores = list(folder.glob("qemu_crash*.core"))
    if not cores:
        skip("qemu-aarch64 wrote no core file")
    thread, = stacks(cores[0], "--exe", str(folder / "crash"))["threads"]
    names = [frame.get("function") for frame in thread["frames"]]
    assert names[:8] == ["inner"] + ["middle"] * 6 + ["main"], names
    assert thread["complete"], thread
    lines = {frame.get("line") for frame in thread["frames"][:8]}
    assert None not in lines, thread["frames"]
    return "of an aarch64 program, without a list of its files: " + " ".join(names[:8])


needs("gdb")
run_cases([of_gdb, of_a_program_below_a_sysroot, of_kernel, moved_program, cut_short, of_another_machine])
