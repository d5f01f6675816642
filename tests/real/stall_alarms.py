#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""No false alarms: programs that never stall, while they are stopped, frozen, debugged and starved,
while the recorder is stopped, while their clock jumps by a day (a time namespace), and while they
change their loops. Not here: a step of CLOCK_REALTIME, which nothing here reads, and a sleep of the
machine; other programs would feel both. The unit test simulates the latter."""
import os
import random
import shutil
import signal
import subprocess
import time

from helpers import SEED, fresh, kill, needs_agent, run_cases, skip_part, until, until_child
from shared.stalls import build, stalls, start

draw = random.Random(SEED)
CALM = build("calm")
THRESHOLD = 250
SPINNERS = int(os.environ.get("SONDE_SPINNERS", "10"))
OVERLOADED = 1.5 if SPINNERS == 10 else 2.5  # seconds; longer in the soak
results = []


def program_of(recorder):
    pid = until_child(recorder.pid)
    until(lambda: os.path.basename(os.readlink(f"/proc/{pid}/exe")) == "calm", "the program starts")
    return pid


def watch(what, kind, seconds, provoke=None, within=()):
    path = fresh()
    recorder = start([*within, CALM, kind, str(seconds)], THRESHOLD, path)
    pid = program_of(recorder)
    time.sleep(0.7)  # its loop is known by now
    try:
        if provoke:
            provoke(recorder.pid, pid)
    except FileNotFoundError as missing:
        recorder.kill()
        os.kill(pid, signal.SIGKILL)
        skip_part(what, missing)
        return
    _, complaints = recorder.communicate(timeout=150)
    assert recorder.returncode == 0, complaints
    told = stalls(path)
    turns = sum(loop["iterations"] for loop in told["loops"])
    results.append((what, len(told["stalls"])))
    print(f"{what:32} {turns:6} turns, {len(told['stalls'])} stalls {'! ' if told['stalls'] else ''}")
    for s in told["stalls"]:
        print("   ", {k: s[k] for k in s if k not in ("frames", "why")}, s["why"])


def stop(seconds, *targets):
    def provoke(recorder, program):
        pids = [{"recorder": recorder, "program": program}[t] for t in targets]
        for _ in range(3):
            time.sleep(draw.uniform(0.05, 0.25))
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            time.sleep(seconds)
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
    return provoke


def debug(_, program):
    if not shutil.which("gdb"):
        raise FileNotFoundError("no gdb")
    subprocess.run(["gdb", "-q", "-batch", "-ex", "shell sleep 1", "-p", str(program)],
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=150)


def freeze(_, program):
    group = f"/sys/fs/cgroup/sonde-test-{os.getpid()}"
    v1 = f"/sys/fs/cgroup/freezer/sonde-test-{os.getpid()}"
    try:
        if os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
            os.mkdir(group)
            file, on, off = "cgroup.freeze", "1", "0"
        else:
            group = v1
            os.mkdir(group)
            file, on, off = "freezer.state", "FROZEN", "THAWED"
    except OSError as error:
        raise FileNotFoundError(f"no cgroup can be made: {error.strerror}") from error
    try:
        for name, text, pause in (("cgroup.procs", str(program), 0.2), (file, on, 1), (file, off, 0)):
            with open(os.path.join(group, name), "w") as f:
                f.write(text)
            time.sleep(pause)
    except OSError as error:
        raise FileNotFoundError(f"{name} of a cgroup cannot be written: {error.strerror}") from error
    finally:
        deadline = time.time() + 10
        while time.time() < deadline:
            try:
                os.rmdir(group)
                break
            except OSError:
                time.sleep(0.1)


def overload(_, program):
    os.setpriority(os.PRIO_PROCESS, program, 5)
    spinners = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(SPINNERS)]
    time.sleep(OVERLOADED)
    for spinner in spinners:
        kill(spinner)


def no_false_alarms():
    for kind in ("turns", "blocks"):
        watch(f"{kind}, SIGSTOP", kind, 2.6, stop(0.5, "program"))
        watch(f"{kind}, a cgroup is frozen", kind, 2.6, freeze)
        if kind == "blocks" and SPINNERS == 10:
            continue  # the rest of them in the soak
        watch(f"{kind}, nothing done", kind, 1.5)
        watch(f"{kind}, the machine pauses", kind, 2.6, stop(0.5, "recorder", "program"))
        watch(f"{kind}, the recorder is stopped", kind, 2.6, stop(0.5, "recorder"))
        watch(f"{kind}, a debugger", kind, 2.6, debug)
    another_day = ["unshare", "--time", "--monotonic", "86400"]
    if subprocess.run([*another_day, "true"], stderr=subprocess.DEVNULL).returncode == 0:
        watch("turns, the clock jumps by a day", "turns", 1.5, within=another_day)
    else:
        skip_part("turns, the clock jumps by a day", "no time namespace can be made")
    watch("turns, ten times overloaded", "turns", OVERLOADED + 1, overload)
    for kind, seconds in (("phases", 2.5), ("dialog", 2.5), ("sleeps", 1.6), ("batch", 1.2),
                          ("children", 2.2)):
        watch(kind, kind, seconds)
    alarms = sum(count for _, count in results)
    assert alarms == 0
    return f"{alarms} false alarms in {len(results)} situations"


needs_agent()
run_cases([no_false_alarms])
