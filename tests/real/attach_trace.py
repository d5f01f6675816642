#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sonde record -p --trace: calls of imported functions, of instrumented ones and of patched ones in a program that
already runs. The oracles are the program's own counts, and its code and slots before and after."""
import shutil
import signal
import subprocess

from helpers import (
    SONDE, TIMEOUT_SECONDS, compile_c, kill, needs_agent, report, run_cases, skip_part, start_ready, try_sonde, until,
    until_threads)
from shared.attached import Attached, Program, compile_program
from shared.calls import no_call_missing

needs_agent()

# Each work calls step 1,000 times in each of 4 threads, and step calls half, which calls getppid.
CALLS = r"""
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
#define ONCE __attribute__((noinline, noclone))
static pid_t (*volatile asks)(void);
static volatile long sum;
ONCE int half(int value) { return (int)getppid() + value / 2; }
ONCE int step(int value) { return half(value) + half(value + 1); }
static void *work(void *unused) {
  for (int i = 0; i < 1000; i++) sum = step(i);
  return unused;
}
static void *waits(void *unused) { for (;;) pause(); return unused; }
int main(void) {
  char line;
  pthread_t threads[4];
  pthread_create(threads, NULL, waits, NULL);
  if (write(1, "ready\n", 6) != 6) return 1;
  while (read(0, &line, 1) == 1) {
    if (line == 'k') asks = (pid_t (*)(void))dlsym(RTLD_DEFAULT, "getppid");
    if (asks && asks() != getppid()) return 3;
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    if (write(1, "done\n", 5) != 5) return 1;
  }
  return 0;
}
"""
FUNCTIONS = {"step": 4000, "half": 8000}
# Calls nothing but its own function between the order and the answer; a library is loaded at the order l.
LIBRARY = "int answer(int value);\nint answer(int value) { return value + 1; }\n"
LOADS = r"""
#include <dlfcn.h>
#include <unistd.h>
int main(int count, char **arguments) {
  char line;
  if (count < 2 || write(1, "ready\n", 6) != 6) return 1;
  while (read(0, &line, 1) == 1) {
    void *library = dlopen(arguments[1], RTLD_NOW);
    int (*answer)(int) = library ? (int (*)(int))dlsym(library, "answer") : NULL;
    for (int i = 0; i < 500; i++) if (!answer || answer(i) != i + 1) return 3;
    dlclose(library);
    if (write(1, "done\n", 5) != 5) return 1;
  }
  return 0;
}
"""
# A traced function is left by an exception, which passes the frames of trampolines, in each of the threads.
THROWS = r"""
#include <pthread.h>
#include <unistd.h>
#define ONCE __attribute__((noinline, noclone))
struct Guard { int &count; ~Guard() { count++; } };
ONCE int fails(int value) { if (value % 2) throw value; return value; }
ONCE int passes(int value, int &guards) { Guard guard{guards}; return fails(value) + 1; }
static void *work(void *unused) {
  int guards = 0, caught = 0;
  for (int i = 0; i < 1000; i++) { try { passes(i, guards); } catch (int) { caught++; } }
  return guards == 1000 && caught == 500 ? unused : nullptr;
}
int main() {
  char line;
  if (write(1, "ready\n", 6) != 6) return 1;
  while (read(0, &line, 1) == 1) {
    pthread_t thread;
    void *result;
    pthread_create(&thread, nullptr, work, &thread);
    pthread_join(thread, &result);
    if (!result) return 3;
    if (write(1, "done\n", 5) != 5) return 1;
  }
  return 0;
}
"""
# Two threads wait in a traced call; one is canceled later, and one gets an exception out of it, at the orders c and t.
WAITS = r"""
#include <pthread.h>
#include <unistd.h>
#define ONCE __attribute__((noinline, noclone))
struct Guard { int &count; ~Guard() { count++; } };
static int pipes[2][2], canceled, thrown, caught;
extern "C" ONCE void waits(int fd) { char c; if (read(fd, &c, 1) == 1) throw 1; }
static void *is_canceled(void *unused) { Guard guard{canceled}; waits(pipes[0][0]); return unused; }
static void *throws(void *unused) {
  try { Guard guard{thrown}; waits(pipes[1][0]); } catch (int) { caught++; }
  return unused;
}
int main() {
  char line;
  pthread_t threads[2];
  if (pipe(pipes[0]) || pipe(pipes[1]) || write(1, "ready\n", 6) != 6) return 1;
  while (read(0, &line, 1) == 1) {
    if (line == 's') {
      pthread_create(&threads[0], nullptr, is_canceled, nullptr);
      pthread_create(&threads[1], nullptr, throws, nullptr);
    }
    if (line == 'e') {
      pthread_cancel(threads[0]);
      if (write(pipes[1][1], "x", 1) != 1) return 1;
      for (pthread_t thread : threads) pthread_join(thread, nullptr);
      if (canceled != 1 || thrown != 1 || caught != 1) return 3;
      canceled = thrown = caught = 0;
    }
    if (write(1, "done\n", 5) != 5) return 1;
  }
  return 0;
}
"""


def _calls(told):
    """Calls by function."""
    no_call_missing(told)
    counts = {}
    for node in told["trace"]["nodes"]:
        counts[node["function"]] = counts.get(node["function"], 0) + node["calls"]
    return counts


def _end(attached, asleep):
    attached.recorder.send_signal(signal.SIGINT)
    _, said = attached.recorder.communicate(timeout=TIMEOUT_SECONDS)
    assert attached.recorder.returncode == 0 and ("asleep" in said) == asleep, said
    return _calls(report(attached.path, "trace")), said


def calls_of_imports(folder):
    with Program(compile_program(CALLS, "-ldl")) as program:
        program.work()
        until_threads(program.pid, 2)  # joined ones may still end
        state, code = program.state(), program.code()
        for _ in range(3):  # the later ones use the agent that sleeps
            with Attached(program, "--trace=getppid") as attached:
                program.work()
                inside = program.gates()
                counts, _ = _end(attached, asleep=True)
            assert counts["getppid"] == 8000, counts
            until_threads(program.pid, 2)
            assert program.state(sleeps=True) == state and program.code() == code and not program.slots_into(inside[0])
            program.work()
        assert program.end() == 0


def an_address_that_the_program_keeps_stays_valid(folder):
    with Program(compile_program(CALLS, "-ldl")) as program:
        with Attached(program, "--trace=getppid") as attached:
            program.work(b"k")
            _end(attached, asleep=True)
        program.work()
        with Attached(program, "--malloc=all") as attached:
            program.work()
            attached.end(sleeps=True)
        program.work()
        assert program.end() == 0


def functions_of_the_program_are_patched(folder):
    """Of a running program, while other threads run and wait. Another pattern follows, and the first one again."""
    with Program(compile_program(CALLS, "-ldl")) as program:
        program.work()
        code = program.code()
        for pattern, names in ("!step,!half", ("step", "half")), ("!half", ("half",)), ("!step,!half", ("step", "half")):
            with Attached(program, f"--trace={pattern}") as attached:
                program.work()
                assert program.code() != code
                counts, said = _end(attached, asleep=True)
            assert {name: counts.get(name) for name in names} == {name: FUNCTIONS[name] for name in names}, (counts, said)
            assert len([name for name in counts if counts[name]]) == len(names), counts
            assert program.code() == code, "each function has its own bytes again"
            program.work()
        assert program.end() == 0


def instrumented_functions_are_traced_and_the_agent_leaves(folder):
    with Program(compile_program(CALLS, "-finstrument-functions", "-ldl")) as program:
        until_threads(program.pid, 2)
        state, code = program.state(), program.code()
        for _ in range(2):
            with Attached(program, "--trace") as attached:
                program.work()
                counts, _ = _end(attached, asleep=False)
            assert {name: counts[name] for name in FUNCTIONS} == FUNCTIONS, counts
            until_threads(program.pid, 2)
            assert program.state() == state and program.code() == code
            program.work()
        assert program.end() == 0


def prepared_entries_are_patched(folder):
    with Program(compile_program(CALLS, "-fpatchable-function-entry=5", "-ldl")) as program:
        code = program.code()
        for _ in range(2):
            with Attached(program, "--trace") as attached:
                program.work()
                counts, _ = _end(attached, asleep=True)
            assert {name: counts[name] for name in FUNCTIONS} == FUNCTIONS, counts
            assert program.code() == code
            program.work()
        assert program.end() == 0


def sleds_are_patched(folder):
    if not shutil.which("clang"):
        return skip_part("sleds", "clang is not installed")
    with Program(compile_program(CALLS, "-fxray-instrument", "-fxray-instruction-threshold=1", "-ldl",
                                 compiler="clang")) as program:
        for _ in range(2):
            with Attached(program, "--trace") as attached:
                program.work()
                counts, _ = _end(attached, asleep=True)
            assert {name: counts[name] for name in FUNCTIONS} == FUNCTIONS, counts
            program.work()
        assert program.end() == 0


def functions_of_a_library_that_is_loaded_later(folder):
    library = compile_c(LIBRARY, "-O1", "-shared", "-fPIC", out=f"{folder}/library.so")
    with Program(compile_program(LOADS, "-ldl"), str(library)) as program:
        with Attached(program, "--trace=library.so!answer") as attached:
            program.work()
            counts, _ = _end(attached, asleep=True)
        assert counts["answer"] == 500, counts
        program.work()
        assert program.end() == 0


def exceptions_pass_traced_calls(folder):
    with Program(compile_program(THROWS, compiler="c++")) as program:
        with Attached(program, "--trace=!fails*,!passes*,!*fails*,!*passes*") as attached:
            program.work()
            counts, said = _end(attached, asleep=True)
        assert sorted(counts.values())[-2:] == [1000, 1000], (counts, said)
        program.work()
        assert program.end() == 0


def exceptions_pass_calls_that_the_recording_did_not_see_end(folder):
    with Program(compile_program(WAITS, compiler="c++")) as program:
        with Attached(program, "--malloc=all") as attached:
            attached.end()
        gates = program.gates()[0]
        assert not program.slots_into(gates)
        for _ in range(2):
            with Attached(program, "--trace=!waits,read") as attached:
                program.work(b"s")
                until(lambda: all(program.waits_in("read", tid) for tid in program.threads()[1:]), "they wait")
                _end(attached, asleep=True)
            program.work(b"e")
            with Attached(program, "--malloc=all") as attached:
                attached.end(sleeps=True)
            assert not program.slots_into(gates), "nothing can pass a frame of the agent any more"
        assert program.end() == 0


def tracing_is_switched_on_later(folder):
    """Where the agent joins a recording from outside, instrumented functions are traced on demand."""
    path = f"{folder}/joined.sonde"
    with Program(compile_program(CALLS, "-finstrument-functions", "-ldl")) as program:
        def control(*words):
            done = try_sonde("ctl", program.pid, *words)
            return done.stdout if done.returncode == 0 else done.stderr

        with subprocess.Popen([SONDE, "record", "-p", str(program.pid), "-o", path], stderr=subprocess.PIPE) as recorder:
            until(lambda: "pid" in control("status"), "the recorder listens")
            assert "without the agent that trace needs" in control("trace=on")
            until(lambda: control("attach") == "agent attached\n", "the agent is there")
            program.work()
            assert control("trace=on") == "trace on\n"
            program.work()
            assert control("trace=off") == "trace off\n"
            program.work()
            assert control("trace=on") == "trace on\n"
            assert control("detach") == "agent detached\n"
            program.work()
            recorder.send_signal(signal.SIGINT)
            recorder.communicate(timeout=TIMEOUT_SECONDS)
        assert program.end() == 0
    counts = _calls(report(path, "trace"))
    assert {name: counts[name] for name in FUNCTIONS} == FUNCTIONS, counts


def a_killed_recorder_leaves_a_program_that_works(folder):
    """The next agent ends what the recording of the killed one has patched."""
    with Program(compile_program(CALLS, "-ldl")) as program:
        program.work()
        code = program.code()
        with Attached(program, "--trace=!step,!half,getppid") as attached:
            program.work()
            attached.recorder.kill()
            attached.recorder.wait(timeout=TIMEOUT_SECONDS)
            program.work()
        with Attached(program, "--trace=!half") as attached:
            program.work()
            counts, _ = _end(attached, asleep=True)
        assert counts["half"] == 8000 and not counts.get("step"), counts
        assert program.code() == code
        program.work()
        assert program.end() == 0


BUSY = r"""
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
__attribute__((noinline, noclone)) static int work_a(int x) { for (volatile int i = 0; i < 10; i++) x += i; return x; }
__attribute__((noinline, noclone)) static int work_b(int x) { for (volatile int i = 0; i < 10; i++) x -= i; return x; }
static void *go(void *number) {
  for (;;) {
    work_a(1), work_b(2);
    usleep(number > (void *)2 ? 20000 : 1000);
  }
  return number;
}
int main(void) {
  pthread_t thread;
  for (long i = 0; i < 100; i++) pthread_create(&thread, 0, go, (void *)i);
  puts("ready");
  fflush(stdout);
  go((void *)9);
}
"""


def recordings_of_a_busy_program_follow_each_other(folder):
    """The agent stays asleep after each. A thread that is in it when the next one begins finds that one complete."""
    program = start_ready([compile_c(BUSY, "-pthread", "-O1")], asleep=False)
    for _ in range(8):
        done = try_sonde("record", "-p", program.pid, "--trace=!work*", "--seconds", 1, "--force", "-o", folder / "run.sonde")
        assert program.poll() is None and done.returncode == 0, (program.returncode, done)
        assert report(folder / "run.sonde", "trace")["trace"]["calls"] > 0, done
    kill(program)


run_cases(globals())
