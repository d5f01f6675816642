#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What `sonde stacks` does to the process it looks at: nothing that it would notice.

- waiting threads see no EINTR, however often they are looked at
- a sonde that is killed at a random instant leaves no thread stopped
- signals that arrive while threads are held are all delivered
- --zero-touch makes no ptrace call at all (strace is the witness)
- a stopped process stays stopped, a traced one is read as far as that goes"""
import os
import random
import shutil
import signal
import subprocess
import sys
import time

SONDE = os.environ["SONDE"]
WAITS = os.path.join(os.environ["SONDE_FIXTURES"], "waits")
SEED = int(os.environ.get("SONDE_SEED", str(int(time.time()))))
RTMIN = signal.SIGRTMIN


class Waits:
    def __init__(self, waiting, spinning):
        self.process = subprocess.Popen([WAITS, str(waiting), str(spinning)],
                                        stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid
        assert self.process.stdout.readline() == "ready\n"
        time.sleep(0.3)  # the main thread goes on to wait

    def look(self, *options):
        return subprocess.run([SONDE, "stacks", *options, str(self.pid)], capture_output=True,
                              text=True, timeout=30, check=False)

    def states(self):
        states = ""
        for tid in os.listdir(f"/proc/{self.pid}/task"):
            with open(f"/proc/{self.pid}/task/{tid}/stat", encoding="utf-8") as stat:
                text = stat.read()
            states += text[text.rindex(")") + 2]
        return states

    def end(self):
        """(interrupted, signals, longest pause in µs)"""
        self.process.terminate()
        words = self.process.stdout.readline().split()
        self.process.wait()
        return tuple(int(word) for word in words)


def no_eintr():
    program = Waits(30, 0)
    for i in range(20):
        run = program.look(*(["--zero-touch"] if i % 2 else []))
        assert run.returncode == 0, run.stderr
        assert "31 threads" in run.stdout and "not complete" not in run.stdout, run.stdout[:200]
        assert "none was stopped" in run.stdout, run.stdout[:200]
    interrupted, _, _ = program.end()
    assert interrupted == 0, f"{interrupted} waits were interrupted"
    return "20 looks at 31 waiting threads: 0 EINTR, none was stopped"


def killed():
    program, rng = Waits(3, 4), random.Random(SEED)
    for i in range(200):
        sonde = subprocess.Popen([SONDE, "stacks", "--no-lines", str(program.pid)],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(rng.random() * 0.015)
        sonde.kill()
        sonde.wait()
        states = program.states()
        if "t" in states or "T" in states: # it may be on its way out of the stop
            time.sleep(0.05)
            states = program.states()
        assert "t" not in states and "T" not in states, f"after kill {i}: {states}"
    program.end()
    return "200 sondes killed at random instants: no thread was left stopped"


def signals_arrive():
    program, sent = Waits(0, 3), 0
    for _ in range(15):
        sonde = subprocess.Popen([SONDE, "stacks", "--no-lines", str(program.pid)],
                                 stdout=subprocess.DEVNULL)
        while sonde.poll() is None:
            os.kill(program.pid, RTMIN)
            sent += 1
        assert sonde.returncode == 0
    time.sleep(0.3)
    _, signals, _ = program.end()
    assert signals == sent, f"{signals} of {sent} signals arrived"
    return f"{sent} signals sent while threads were held: all arrived"


def zero_touch():
    if not shutil.which("strace"):
        return "skipped: no strace"
    program = Waits(3, 2)
    run = subprocess.run(["strace", "-f", "-o", "/dev/stdout", "-e",
                          "trace=ptrace,kill,tkill,tgkill,rt_sigqueueinfo", SONDE, "stacks",
                          "--zero-touch", "--json", str(program.pid)], capture_output=True,
                         text=True, timeout=60, check=False,
                         # LeakSanitizer cannot work under another ptrace.
                         env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"})
    calls = [line for line in run.stdout.splitlines()
             if any(name + "(" in line for name in ("ptrace", "kill", "tgkill"))]
    program.end()
    assert run.returncode == 0 and not calls, calls
    assert '"state":"running"' in run.stdout
    return "--zero-touch: no ptrace, no signal; running threads are listed as running"


def stopped_stays_stopped():
    program = Waits(3, 2)
    os.kill(program.pid, signal.SIGSTOP)
    time.sleep(0.1)
    assert set(program.states()) == {"T"}
    run = program.look()
    assert run.returncode == 0 and "not complete" not in run.stdout, run.stdout
    states = program.states()
    assert set(states) == {"T"}, states
    os.kill(program.pid, signal.SIGCONT)
    program.end()
    return "a stopped process is read and stays stopped"


def main():
    print("seed", SEED)
    for test in (no_eintr, killed, signals_arrive, zero_touch, stopped_stays_stopped):
        print(f"{test.__name__}: {test()}")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
