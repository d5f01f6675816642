#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sonde record -p: a running process is recorded from outside, and is unchanged by it. The oracles are the
kernel's clocks of its threads, and what the program says of its own calls."""
import json
import os
import pathlib
import re
import signal
import subprocess
import time

from helpers import (
    SONDE, TIMEOUT_SECONDS, children_of, compile_c, events, fresh, needs_plain_build, report, run_cases, skip, sonde,
    source_file, try_sonde, until, until_asleep)
from shared.serving import REFUSES, start_observing

OPTIONS = ("-O1", "-g", "-pthread", "-fno-inline", "-fno-optimize-sibling-calls")


GENERATED = """
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
static uint64_t calls(uint64_t (*generated)(uint64_t), uint64_t n) { return generated(n) + 1; }
int main(void) {
  /* push rbp; mov rbp, rsp; call inner; pop rbp; ret; and at 16 the same with a loop: dec rdi; jne loop; xor eax, eax */
  static const uint8_t code[] = {0x55, 0x48, 0x89, 0xe5, 0xe8, 7,    0,    0,    0,    0x5d, 0xc3, 0, 0, 0, 0, 0,
                                 0x55, 0x48, 0x89, 0xe5, 0x48, 0xff, 0xcf, 0x75, 0xfb, 0x31, 0xc0, 0x5d, 0xc3};
  void *place = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(place, code, sizeof code);
  puts("ready");
  fflush(stdout);
  for (volatile uint64_t sum = 0;;) sum += calls((uint64_t(*)(uint64_t))place, 100000000);
}
"""


# Threads that rest; when its input ends, the program executes another one.
MANY_THREADS = """#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void *rest(void *unused) { for (;;) pause(); return unused; }
int main(void) {
  pthread_attr_t small;
  pthread_t thread;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 65536);
  for (int i = 0; i < %d; i++) pthread_create(&thread, &small, rest, NULL);
  puts("ready");
  fflush(stdout);
  while (getchar() != EOF) {}
  execlp("sleep", "sleep", "1.5", (char *)NULL);
}"""


class Running:
    """A program that runs before it is recorded."""

    def __init__(self, *command, stdin=None):
        self.process = subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.process.kill()
        self.process.communicate(timeout=TIMEOUT_SECONDS)

    def end_input(self):
        self.process.stdin.close()
        self.process.stdin = None

    def end(self):
        """How many calls it made, and how many of them ended with EINTR."""
        self.process.terminate()
        text, _ = self.process.communicate(timeout=TIMEOUT_SECONDS)
        assert self.process.returncode == 0, self.process.returncode
        return [int(word) for word in text.split()]

    def state(self):
        """What must not change: mappings but those that grow, descriptors, threads, signals."""
        def read(name):
            with open(f"/proc/{self.pid}/{name}", encoding="utf-8") as file:
                return file.read()
        maps = [line for line in read("maps").splitlines() if not line.endswith(("[heap]", "[stack]"))]
        descriptors = sorted((fd, os.readlink(f"/proc/{self.pid}/fd/{fd}")) for fd in os.listdir(f"/proc/{self.pid}/fd"))
        status = re.findall(r"^(?:TracerPid|Threads|Sig(?:Blk|Ign|Cgt)|Seccomp\w*):.*", read("status"), re.M)
        return maps, descriptors, status, os.readlink(f"/proc/{self.pid}/exe")


def _start(program=None):
    running = Running(program or PROGRAM)
    assert running.process.stdout.readline() == "ready\n"
    return running


def _unchanged(running, before):
    after = running.state()
    for old, new in zip(before, after):
        assert old == new, [part for part in (set(old) ^ set(new))]


def _observe(running, *options, within=(), seconds=1):
    path = fresh()
    done = subprocess.run([*within, SONDE, "record", "-p", str(running.pid), "--seconds", str(seconds), "-o", path,
                           *options], capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    assert done.returncode == 0, done
    return path


def _times(pid):
    times = {}
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/schedstat", encoding="utf-8") as file:
            times[int(tid)] = int(file.read().split()[0])
    return times


def _cpu_is_accounted(running, *options, within=()):
    before, started = _times(running.pid), time.monotonic()
    path = _observe(running, "--sample=200", *options, within=within)
    after, lasted = _times(running.pid), time.monotonic() - started
    told = report(path, "sample", "cpu", "--top", 1000)
    times = told["sample"]["cpu_time"]
    used = sum(after[tid] - before[tid] for tid in after)
    print(f"{told['sample']['samples']} samples; {times['sampled_ns'] / 1e9:.3f} of {times['cpu_ns'] / 1e9:.3f} s; "
          f"in {lasted:.2f} s the threads used {used / 1e9:.3f} s; not sampled: {times['unsampled']}")
    assert times["cpu_ns"] == times["sampled_ns"] + times["unsampled_ns"], times
    assert 0 < times["cpu_ns"] <= used, (times, used)
    functions = {f["function"]: f["total"] for f in told["sample"]["functions"]}
    assert functions.get("burns"), functions
    assert not {"rests", "asks"} & set(functions), functions
    complete = [stack.get("complete") for stack in told["sample"]["stacks"]]
    assert sum(map(bool, complete)) >= 0.9 * len(complete), complete
    return times


def threads_are_sampled_and_nothing_is_loaded():
    with _start() as running:
        before = running.state()
        path = _observe(running)
        _unchanged(running, before)
        told = report(path, "--top", 1000)
        assert told["pid"] == running.pid and told["exe"] == PROGRAM and "wait_status" not in told, told["exe"]
        where = {(f.get("function"), p.get("syscall")) for p in told["wall"]["stacks"] if p["where"] == "blocked"
                 for f in p.get("frames", [])}
        assert {("rests", "futex"), ("turns", "epoll_wait"), ("main", "epoll_wait")} <= where, where
        names = {t["name"] for t in told["wall"]["threads"]}
        assert {"burns", "rests", "turns", "answerer"} <= names, names
        for thread in told["wall"]["threads"]:  # the time before the recording does not count
            assert thread["cpu_ns"] + thread["waited_for_cpu_ns"] <= 1.2 * told["duration_ns"], thread
        assert told["usage"]["rss_bytes"]["last"] > 1e5 and told["usage"]["threads"]["last"] == 7, told["usage"]
        calls, interrupted = running.end()
        assert calls and not interrupted, (calls, interrupted)


def the_kernel_samples_running_threads():
    with _start() as running:
        times = _cpu_is_accounted(running)
        refused = sum(u["time_ns"] for u in times["unsampled"] if u["cause"] == "refused")
        assert refused == 0, times


def where_the_kernel_refuses_threads_are_stopped_unseen():
    with _start() as running:
        before = running.state()
        times = _cpu_is_accounted(running, within=[compile_c(REFUSES, "-w")])
        if os.uname().machine == "x86_64":
            assert times["sampled_ns"] > 0.5 * times["cpu_ns"], times
        _unchanged(running, before)
        calls, interrupted = running.end()
        print(f"{calls} calls, {interrupted} ended with EINTR")
        assert calls and not interrupted, (calls, interrupted)


def the_doctor_says_how_threads_are_sampled():
    done = subprocess.run([compile_c(REFUSES, "-w"), SONDE, "doctor"], capture_output=True, text=True,
                          timeout=TIMEOUT_SECONDS, check=False)
    assert "limited  the kernel does not sample running threads (perf_event_open: Operation not permitted)" in done.stdout, done


def a_long_wait_inside_an_iteration_is_a_stall():
    with _start() as running:
        told = report(_observe(running, "--stall=100", seconds=2), "stalls")["stalls"]
    places = {s["hot_path"]["function"] for s in told["stalls"]}
    print(places, [s["length_ns"] for s in told["stalls"]])
    assert told["stalls"] and places == {"asks"}, told
    assert any("from outside" in text for text in told["unsampled"]), told["unsampled"]


def a_static_program_is_recorded():
    try:
        program = compile_c(source_file("real", "record", "observed.c"), *OPTIONS, "-static")
    except AssertionError:
        skip("no static C library")
    with _start(program) as running:
        _cpu_is_accounted(running)


def a_sandboxed_program_is_recorded():
    """What its filter refuses does not matter: sonde makes no system call in it. Containers have such filters."""
    command = [compile_c(REFUSES, "-w", "-DCALL=SYS_ptrace", "-DERROR=EPERM"), PROGRAM]
    with Running(*command) as running:
        assert running.process.stdout.readline() == "ready\n"
        told = report(_observe(running, seconds=3), "sample")
    assert not told["missing"].get("stopped"), told["missing"]
    assert told["sample"]["samples"] > 50, told["sample"]["samples"]


def generated_code_is_walked():
    if os.uname().machine != "x86_64":
        skip("the code is for x86_64")
    with _start(compile_c(GENERATED, *OPTIONS, "-w")) as running:
        told = report(_observe(running, "--sample=200"), "sample")["sample"]
    assert told["stacks"] and all(stack.get("complete") for stack in told["stacks"]), told["stacks"]
    for stack in told["stacks"]:
        assert {"calls", "main"} <= {frame.get("function") for frame in stack["frames"]}, stack


def _reads(pid):
    """How often a process has called read (proc_pid_io(5)), and now."""
    return int(re.search(r"syscr: (\d+)", pathlib.Path(f"/proc/{pid}/io").read_text())[1]), time.monotonic()


def _read_rate(pid, threads):
    """Reads of the process PID in a second, for each of the THREADS that it looks at."""
    before, began = _reads(pid)
    time.sleep(2)
    after, ended = _reads(pid)
    return (after - before) / (ended - began) / threads


def an_idle_program_is_not_read_again_and_again():
    """A hundred polls a second read none of the threads while the clock of the process stands still. Each second, once,
    some files of each thread are read."""
    threads = 300
    program = compile_c(MANY_THREADS % threads, "-pthread")
    with Running(program, stdin=subprocess.PIPE) as running:
        assert running.process.stdout.readline() == "ready\n"
        path, recorder = start_observing(running.pid, "--wall=100", "--sample", "--stall")
        until(lambda: report(path).get("threads", 0) >= threads, "all threads are known")
        until(lambda: _read_rate(recorder.pid, threads) < 6, "the first stacks are read, and none again")
        rate = _read_rate(recorder.pid, threads)
        recorder.send_signal(signal.SIGINT)
        _, said = recorder.communicate(timeout=TIMEOUT_SECONDS)
        assert recorder.returncode == 0, said
    assert rate < 6, f"{rate:.1f} reads a second for each thread"
    stacks = report(path, "wall")["wall"]["stacks"]
    assert any("pause" in (stack.get("syscall"), stack.get("called")) for stack in stacks), stacks


def the_recording_ends_by_a_signal_or_with_the_process():
    for end in (signal.SIGINT, signal.SIGTERM, None):
        with _start() as running:
            path = fresh()
            with subprocess.Popen([SONDE, "record", "-p", str(running.pid), "-o", path], stderr=subprocess.PIPE,
                                  text=True) as recorder:
                until(lambda: os.path.exists(path) and os.path.getsize(path) > 4096, "the recording begins")
                if end:
                    recorder.send_signal(end)
                else:
                    running.process.kill()
                _, said = recorder.communicate(timeout=TIMEOUT_SECONDS)
                assert recorder.returncode == 0, (end, recorder.returncode, said)
            assert "recorded to" in said, said
            head = sonde("report", path).splitlines()[2]
            assert ("still ran" in head) == bool(end), (end, head)
            assert running.process.poll() is None or not end
            assert report(path)["finished"]


def kernels_without_pidfd_open_are_enough():
    refuses = compile_c(REFUSES, "-w", "-DCALL=SYS_pidfd_open", "-DERROR=ENOSYS")
    with Running("sh", "-c", "read line; sleep 1 >/dev/null & sleep 1.5", stdin=subprocess.PIPE) as running:
        path, recorder = start_observing(running.pid, "--follow", within=[refuses])
        running.end_input()
        _, said = recorder.communicate(timeout=TIMEOUT_SECONDS)
        assert recorder.returncode == 0, said
    assert "from outside, ended" in sonde("report", path).splitlines()[2]
    rows = report(path, "processes")["processes"]["list"]
    assert [row for row in rows if row["command"] == "sleep 1" and row["duration_ns"] and "file" in row], rows


def a_request_ends_the_recording():
    with _start() as running:
        path = fresh()
        with subprocess.Popen([SONDE, "record", "-p", str(running.pid), "-o", path], stderr=subprocess.PIPE,
                              text=True) as recorder:
            until(lambda: try_sonde("ctl", running.pid, "stop").returncode == 0, "the recorder listens")
            _, said = recorder.communicate(timeout=TIMEOUT_SECONDS)
            assert recorder.returncode == 0 and "recorded to" in said, (recorder.returncode, said)
        assert running.process.poll() is None
        assert "still ran" in sonde("report", path).splitlines()[2]


def the_recording_is_named_after_the_program(folder):
    with Running("bash", "-c", "exec -a 'server: worker *:80' sleep 30") as running:
        until_asleep(running.pid)
        until(lambda: "server" in pathlib.Path(f"/proc/{running.pid}/cmdline").read_text(encoding="utf-8"), "it runs")
        done = try_sonde("record", "-p", running.pid, "--seconds", 1, cwd=folder)
    assert done.returncode == 0, done
    assert [path.name for path in folder.iterdir()] == [f"server.{running.pid}.sonde"], list(folder.iterdir())


def another_program_of_the_process_is_recorded_too():
    with Running(PROGRAM, "exec", stdin=subprocess.PIPE) as running:
        path, recorder = start_observing(running.pid, "--budget=off")
        until(lambda: report(path).get("exe") == PROGRAM, "its program is known")
        running.end_input()
        _, said = recorder.communicate(timeout=TIMEOUT_SECONDS)
        assert recorder.returncode == 0, said
        first, last = report(path, "--program", 1), report(path)
    assert (first["programs"], first["exe"]) == (2, PROGRAM), (first["programs"], first["exe"])
    assert os.path.basename(last["exe"]) in ("sleep", "coreutils"), last["exe"]
    calls = {p.get("syscall") for p in last["wall"]["stacks"] if "stack" in p}
    assert "clock_nanosleep" in calls, last["wall"]["stacks"]


def _programs(path):
    """The executable and the first argument of each program of the recording."""
    count = report(path).get("programs", 1)
    told = [report(path, "--program", number) for number in range(1, count + 1)]
    return [(each.get("exe"), (each.get("arguments") or [None])[0]) for each in told]


def a_short_program_is_known_after_one_that_is_costly_to_read():
    """Reading hundreds of threads takes so long that the monitor of resources then rests for seconds."""
    program = compile_c(MANY_THREADS % 500, "-pthread")
    with Running(program, stdin=subprocess.PIPE) as running:
        assert running.process.stdout.readline() == "ready\n"
        path, recorder = start_observing(running.pid)
        until(lambda: report(path).get("threads", 0) >= 500, "all threads are known")
        running.end_input()
        _, said = recorder.communicate(timeout=TIMEOUT_SECONDS)
        assert recorder.returncode == 0, said
    programs = _programs(path)
    assert len(programs) == 2 and programs[0] == (program, program) and programs[1][1] == "sleep", programs
    assert os.path.basename(programs[1][0]) in ("sleep", "coreutils"), programs


SLOW_EXECS = """
#include <stdlib.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>
/* Executes itself with so many arguments that the kernel takes tens of milliseconds. */
int main(int argc, char **argv) {
  static char *words[600002], left[8];
  struct rlimit stack;
  getrlimit(RLIMIT_STACK, &stack);
  stack.rlim_cur = stack.rlim_max < 64 << 20 ? stack.rlim_max : 64 << 20;
  setrlimit(RLIMIT_STACK, &stack);
  if (argc < 2) puts("ready"), fflush(stdout), getchar();
  int rest = argc < 2 ? %d : atoi(argv[1]) - 1;
  snprintf(left, sizeof left, "%%d", rest);
  words[0] = argv[0], words[1] = left;
  for (int i = 2; i < 600000; i++) words[i] = "";
  usleep(150000);
  return rest ? execv("/proc/self/exe", words) : 0;
}"""


def a_program_that_is_being_executed_counts_once():
    """While the kernel copies many arguments, /proc shows the new executable without arguments."""
    count = 10
    program = compile_c(SLOW_EXECS % count)
    with Running(program, stdin=subprocess.PIPE) as running:
        assert running.process.stdout.readline() == "ready\n"
        path, recorder = start_observing(running.pid)
        until(lambda: report(path).get("exe"), "its program is known")
        running.end_input()
        _, said = recorder.communicate(timeout=TIMEOUT_SECONDS)
        assert recorder.returncode == 0, said
    programs = _programs(path)
    assert 1 < len(programs) <= count + 1 and set(programs) == {(program, program)}, programs  # a slow machine misses some


WORKS_AT_THE_END = """
#include <stdio.h>
#include <time.h>
static double used(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}
__attribute__((noinline)) static void works(double seconds) {
  for (double end = used() + seconds; used() < end;)
    for (volatile int i = 0; i < 10000; i++) {}
}
int main(void) {
  do {
    puts("ready");
    fflush(stdout);
  } while (getchar() != EOF && (works(0.3), 1));
  works(0.5);
  return 0;
}"""


def what_a_late_recorder_did_not_see_is_recorded():
    """The kernel has samples and the CPU time of a thread that ended while the recorder got no CPU time. Its buffer
    may be full; the samples in it count for the time of the others."""
    with Running(compile_c(WORKS_AT_THE_END, "-O1", "-g", "-w"), stdin=subprocess.PIPE) as running:
        path, recorder = start_observing(running.pid, "--sample=100")

        def is_sampled():
            assert running.process.stdout.readline() == "ready\n"
            running.process.stdin.write("\n")
            running.process.stdin.flush()
            return report(path, "sample")["sample"]["samples"]

        until(is_sampled, "the recorder samples it")
        assert running.process.stdout.readline() == "ready\n"
        before = report(path, "sample")["sample"]["cpu_time"]["cpu_ns"]
        recorder.send_signal(signal.SIGSTOP)
        running.end_input()
        running.process.wait(TIMEOUT_SECONDS)
        recorder.send_signal(signal.SIGCONT)
        _, said = recorder.communicate(timeout=TIMEOUT_SECONDS)
        assert recorder.returncode == 0, said
    told = report(path, "sample")["sample"]
    works = sum(function["total"] for function in told["functions"] if function["function"] == "works")
    print(works, told["cpu_time"])
    assert told["cpu_time"]["cpu_ns"] > before + 0.45e9, (before, told["cpu_time"])
    assert works >= 0.9 * told["samples"], told


def _sleeper(pid):
    """The child that sleeps for 30 s, once it is there."""
    commands = {child: pathlib.Path(f"/proc/{child}/cmdline").read_bytes() for child in children_of(pid)}
    return next((child for child, command in commands.items() if command == b"sleep\x0030\0"), None)


def _calls(path):
    """The system calls in which the growing recording of a child shows its threads; [] before it can be read."""
    told = try_sonde("report", "--json", path, "wall")
    return [] if told.returncode else [stack.get("syscall") for stack in json.loads(told.stdout)["wall"]["stacks"]]


def children_are_recorded_too():
    with Running("sh", "-c", "read line; sleep 30 >/dev/null & wait", stdin=subprocess.PIPE) as running:
        path, recorder = start_observing(running.pid, "--follow")
        running.end_input()
        until(lambda: _sleeper(running.pid), "a child")
        child = _sleeper(running.pid)
        own = f"{path.removesuffix('.sonde')}.{child}.sonde"
        until(lambda: "clock_nanosleep" in _calls(own), "where the child waits")
        recorder.send_signal(signal.SIGINT)
        _, said = recorder.communicate(timeout=TIMEOUT_SECONDS)
        os.kill(child, signal.SIGKILL)
        assert recorder.returncode == 0, said
    rows = [row for row in report(path, "processes")["processes"]["list"] if row["command"] == "sleep 30"]
    assert [os.path.join(os.path.dirname(path), row["file"]) for row in rows] == [own], rows


def what_a_running_process_cannot_have_is_refused():
    with _start() as running:
        done = try_sonde("record", "-p", running.pid, "--jit")
        assert done.returncode == 2 and "sets the environment of a command" in done.stderr, done
        done = try_sonde("record", "-p", running.pid, "--", "true")
        assert done.returncode == 2 and "a command cannot be run" in done.stderr, done
        path = fresh()
        with subprocess.Popen([SONDE, "record", "-p", str(running.pid), "-o", path],
                              stderr=subprocess.DEVNULL) as recorder:
            until(lambda: try_sonde("ctl", running.pid, "status").returncode == 0, "the recorder listens")
            done = try_sonde("record", "-p", running.pid)
            assert done.returncode == 2 and "is being recorded" in done.stderr, done
            done = try_sonde("ctl", running.pid, "malloc=all")
            assert done.returncode == 2 and "without the agent" in done.stderr, done
            done = try_sonde("leaks", running.pid)
            assert done.returncode == 2 and "the program has no agent" in done.stderr, done
            assert "seconds" in sonde("ctl", running.pid, "mark", "here")
            recorder.send_signal(signal.SIGINT)
        names = [e["name"] for e in events(path) if e["event"] == "marker"]
        paces = [name for name in names if re.match(r"sonde samples (1/\d+ )?as often", name)]  # beyond its budget
        assert [name for name in names if name not in paces] == ["here"], names
    done = try_sonde("record", "-p", running.pid)
    assert done.returncode == 2 and f"no process has the id {running.pid}" in done.stderr, done
    done = try_sonde("record", "--seconds", 1, "--", "true")
    assert done.returncode == 125 and "--seconds needs -p" in done.stderr, done


needs_plain_build()
PROGRAM = compile_c(source_file("real", "record", "observed.c"), *OPTIONS)
run_cases(globals())
