#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What `sonde stacks` does to the process it looks at: nothing that it would notice.

- waiting threads see no EINTR, however often they are looked at
- a sonde that is killed at a random instant leaves no thread stopped, and no signal lost
- signals that arrive while threads are held are all delivered
- --zero-touch makes no ptrace call at all (strace is the witness)
- the frame pointer of code without optimization is found without a stop
- a stopped process stays stopped and runs not one instruction

What must come is waited for, however long it takes; what must not have happened is counted by the program."""
import atexit
import ctypes
import errno
import json
import mmap
import os
import platform
import random
import signal
import struct
import subprocess
import time

from helpers import (
    FIXTURES, SEED, SONDE, compile_c, fresh, kill, needs, run_cases, skip, sonde, start_ready, states_of, try_sonde,
    until, until_asleep)

KILLS = int(os.environ.get("SONDE_KILLS", "200"))
RTMIN = signal.SIGRTMIN
LIBC = ctypes.CDLL(None, use_errno=True)
UNDER_WAY = 16


class Waits:
    """The fixture, while a `with` lasts."""

    def __init__(self, waiting, spinning):
        self.file = fresh(".counts")
        self.process = subprocess.Popen([FIXTURES / "waits", str(waiting), str(spinning), self.file],
                                        stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid

    def __enter__(self):
        assert self.process.stdout.readline() == "ready\n"
        until_asleep(self.pid)  # the first thread goes on to wait
        with open(self.file, "rb") as file:
            self.counts = mmap.mmap(file.fileno(), 24, prot=mmap.PROT_READ)
        return self

    def __exit__(self, *_):
        kill(self.process)

    def counted(self):
        """(interrupted, signals, turns)"""
        return struct.unpack("3Q", self.counts[:])

    def look(self, *options):
        return try_sonde("stacks", *options, self.pid)

    def states(self):
        return "".join(states_of(self.pid).values())

    def until_free(self):
        """A thread that was left stopped is so for ever."""
        until(lambda: not set(self.states()) & {"t", "T"}, lambda: f"a thread is stopped: {self.states()}")

    def signal(self, sent):
        """Sends one more when few are under way. How many were sent. Beyond RLIMIT_SIGPENDING, which is of
        all processes of a user together, kill(2) drops such a signal without a word; sigqueue(3) says so."""
        if sent - self.counted()[1] >= UNDER_WAY:
            return sent
        if LIBC.sigqueue(self.pid, RTMIN, None) == 0:
            return sent + 1
        assert ctypes.get_errno() == errno.EAGAIN, os.strerror(ctypes.get_errno())
        return sent

    def until_arrived(self, sent):
        until(lambda: self.counted()[1] >= sent, lambda: f"{self.counted()[1]} of {sent} signals arrived")
        assert self.counted()[1] == sent


def sonde_on(program, **how):
    return subprocess.Popen([SONDE, "stacks", "--no-lines", str(program.pid)], stdout=subprocess.DEVNULL, **how)


def no_eintr():
    with Waits(30, 0) as program:
        for i in range(20):
            looked = program.look(*(["--zero-touch"] if i % 2 else []))
            assert looked.returncode == 0, looked.stderr
            assert "31 threads" in looked.stdout and "not complete" not in looked.stdout, looked.stdout[:200]
            assert "none was stopped" in looked.stdout, looked.stdout[:200]
        assert program.counted()[0] == 0, f"{program.counted()[0]} waits were interrupted"


def killed():
    rng, sent = random.Random(SEED), 0
    with Waits(3, 4) as program:
        for _ in range(KILLS):
            looker = sonde_on(program, stderr=subprocess.DEVNULL)
            end = time.monotonic() + rng.random() * 0.015
            while time.monotonic() < end:
                sent = program.signal(sent)
            kill(looker)
            program.until_free()
        program.until_arrived(sent)
    print(f"{KILLS} sondes killed at random instants, {sent} signals")


def signals_arrive():
    sent = 0
    with Waits(0, 3) as program:
        for _ in range(15):
            looker = sonde_on(program)
            while looker.poll() is None:
                sent = program.signal(sent)
            assert looker.returncode == 0
        program.until_arrived(sent)
    print(f"{sent} signals sent while threads were held")


def zero_touch():
    needs("strace")
    told = fresh(".strace")
    with Waits(3, 2) as program:
        looked = subprocess.run(["strace", "-f", "-o", told, "-e",
                                 "trace=ptrace,kill,tkill,tgkill,rt_sigqueueinfo", SONDE, "stacks",
                                 "--zero-touch", "--json", str(program.pid)], capture_output=True,
                                text=True, timeout=120, check=False,
                                # LeakSanitizer cannot work under another ptrace.
                                env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"})
    assert looked.returncode == 0, looked.stderr
    with open(told, encoding="utf-8") as lines:
        calls = [line for line in lines if "(" in line]
    assert not calls, calls
    assert looked.stdout.count('"state":"running"') == 2, looked.stdout


SLEEPS_IN_MAIN = """
#include <stdio.h>
#include <unistd.h>
int main(void) { puts("ready"); fflush(stdout); for (int i = 0; i < 1000; i++) usleep(500000); }
"""


def main_without_optimization():
    """Its rule needs the frame pointer. The frame of its caller holds the address of main, and the bytes
    before main look like a call to some: only the slot that the prologue tells is right."""
    if platform.machine() != "x86_64":
        skip("other prologues are not read")
    program = compile_c(SLEEPS_IN_MAIN, "-O0", "-g", "-fno-omit-frame-pointer")
    process = start_ready([program])
    thread, = json.loads(sonde("stacks", "--json", "--zero-touch", process.pid))["threads"]
    kill(process)
    assert thread["complete"], thread


def stopped_stays_stopped():
    with Waits(3, 2) as program:
        os.kill(program.pid, signal.SIGSTOP)
        until(lambda: program.states() == "TTTTTT", lambda: f"stopped: {program.states()}")
        turns = program.counted()[2]
        looked = program.look()
        assert looked.returncode == 0 and "not complete" not in looked.stdout, looked.stdout
        # What was held goes back into the stop by itself.
        until(lambda: program.states() == "TTTTTT", lambda: f"stopped again: {program.states()}")
        assert program.counted()[2] == turns
        os.kill(program.pid, signal.SIGCONT)
        until(lambda: program.counted()[2] > turns, "goes on")


def _group():
    """A control group that gets 10 ms of processor time each second; None where there is none to be made."""
    for folder, limits in (("/sys/fs/cgroup", {"cpu.max": "10000 1000000"}),
                           ("/sys/fs/cgroup/cpu", {"cpu.cfs_period_us": "1000000", "cpu.cfs_quota_us": "10000"})):
        group = f"{folder}/sonde-test-{os.getpid()}"
        try:
            os.mkdir(group)
            atexit.register(os.rmdir, group)
            for name, value in limits.items():
                with open(f"{group}/{name}", "r+", encoding="utf-8") as file:
                    file.write(value)
            return group
        except OSError:
            continue
    return None


def a_starved_thread_is_waited_for():
    group = _group()
    if not group:
        skip("no control group with a share of the processor can be made")
    with Waits(0, 1) as program:
        try:
            with open(f"{group}/cgroup.procs", "w", encoding="utf-8") as file:
                file.write(str(program.pid))
        except OSError as error:
            skip(f"no control group can be entered: {error}")
        for _ in range(3):
            looked = program.look("--no-lines")
            assert looked.returncode == 0 and "not complete" not in looked.stdout, looked.stdout
            assert "1 stopped briefly" in looked.stdout, looked.stdout


run_cases(globals())
