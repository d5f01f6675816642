#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What `sonde ctl` and the recorder do with an agent in a running program: it is asleep or still at work when it is
detached, it is lost when the program executes another, and memory runs out while it is loaded."""
import os
import pathlib
import re
import resource
import signal
import subprocess

from helpers import SONDE, TIMEOUT_SECONDS, fresh, needs_agent, report, run_cases, runs_on, try_sonde, until
from shared.attached import Attached, Program, compile_program
from shared.serving import agents_in

needs_agent()

OPENS = r"""
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
static void *volatile block;
static void opens(void) { close(open("/dev/null", O_RDONLY)); }
int main(int count, char **arguments) {
  char line;
  if (write(1, "ready\n", 6) != 6) return 1;
  while (read(0, &line, 1) == 1) {
    for (int i = 0; i < 1000; i++) { opens(); block = malloc(30); free(block); }
    if (write(1, "done\n", 5) != 5) return 1;
    if (line == 'e') execv("/proc/self/exe", arguments);
  }
  return count < 1;
}
"""
# Keeps the address of malloc, and calls that each time.
KEEPS = r"""
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>
static void *(*volatile allocates)(size_t), *(*volatile finds)(void *, const char *);
int main(void) {
  char line;
  if (write(1, "ready\n", 6) != 6) return 1;
  while (read(0, &line, 1) == 1) {
    if (!finds) finds = (void *(*)(void *, const char *))dlsym(RTLD_DEFAULT, "dlsym");
    if (!allocates) allocates = (void *(*)(size_t))finds(RTLD_DEFAULT, "malloc");
    if (!finds(RTLD_DEFAULT, "getpid")) return 3;
    for (int i = 0; i < 1000; i++) free(allocates(50));
    if (write(1, "done\n", 5) != 5) return 1;
  }
  return 0;
}
"""
# With the order f it forks a child that allocates, with e one that executes another such program. Prints its pid.
CHURNS = r"""
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>
static void *volatile block;
static void churn(void) {
  for (;; usleep(1000)) { block = malloc(30); free(block); }
}
int main(int count, char **arguments) {
  char line;
  if (count > 1) churn();
  printf("ready\n");
  fflush(stdout);
  while (read(0, &line, 1) == 1) {
    pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, 9);
      if (line == 'e') execl("/proc/self/exe", arguments[0], "churn", NULL);
      churn();
    }
    printf("%d\n", (int)child);
    fflush(stdout);
  }
  return 0;
}
"""
FORKS = r"""
#include <sys/prctl.h>
#include <unistd.h>
int main(void) {
  char line;
  if (write(1, "ready\n", 6) != 6) return 1;
  while (read(0, &line, 1) == 1) {
    if (fork() == 0) {
      prctl(PR_SET_PDEATHSIG, 9);
      for (;;) pause();
    }
    if (write(1, "done\n", 5) != 5) return 1;
  }
  return 0;
}
"""


def _control(pid, *words):
    done = try_sonde("ctl", pid, *words)
    return done.returncode, (done.stdout if done.returncode == 0 else done.stderr).strip()


def an_agent_that_must_stay_is_asleep(folder):
    with Program(compile_program(OPENS)) as program, Attached(program, "--audit=files") as attached:
        program.work()
        status, told = _control(program.pid, "detach")
        assert status == 0 and told == (
            f"the agent stays in process {program.pid}, asleep: the program may have kept addresses of hooked functions; "
            "the next recording uses it again"), told
        assert agents_in(program.pid)
        program.work()  # is not recorded
        assert "no agent" in _control(program.pid, "detach")[1]
        attached.recorder.send_signal(signal.SIGINT)
        attached.recorder.communicate(timeout=TIMEOUT_SECONDS)
        assert [finding["calls"] for finding in report(attached.path, "audit")["audit"]["findings"]] == [1000]


def an_agent_that_was_not_stopped_is_at_work(folder):
    with Program(compile_program(OPENS)) as program, Attached(program) as attached:
        with subprocess.Popen(["strace", "-o", f"{folder}/strace", "-p", str(program.pid)],
                              stderr=subprocess.PIPE, text=True) as tracer:
            assert "attached" in tracer.stderr.readline()
            status, told = _control(program.pid, "detach")
            assert status != 0 and f"is traced by process {tracer.pid}" in told, told
            tracer.terminate()
            tracer.communicate(timeout=TIMEOUT_SECONDS)
        assert agents_in(program.pid)
        assert _control(program.pid, "malloc=all") == (0, "malloc all")
        program.work()
        assert _control(program.pid, "detach") == (0, "agent detached")
        assert attached.end()["allocated"]["blocks"] == 1000


def an_audit_is_switched_off_and_on(folder):
    with Program(compile_program(OPENS)) as program, Attached(program, "--audit=files") as attached:
        program.work()
        assert _control(program.pid, "audit=off") == (0, "audit off")
        program.work()
        assert _control(program.pid, "audit=on") == (0, "audit on")
        program.work()
        assert [finding["calls"] for finding in attached.end("audit", sleeps=True)["findings"]] == [2000]


def an_audit_needs_a_policy(folder):
    with Program(compile_program(OPENS)) as program, Attached(program) as attached:
        status, told = _control(program.pid, "audit=on")
        assert status != 0 and "no policy" in told and "--audit" in told, told
        attached.end()


def a_child_that_is_recorded_from_outside_gets_no_agent(folder):
    path = f"{folder}/all.sonde"
    with Program(compile_program(FORKS)) as program:
        with subprocess.Popen([SONDE, "record", "-p", str(program.pid), "--follow", "-o", path],
                              stderr=subprocess.PIPE) as recorder:
            until(lambda: _control(program.pid, "status")[0] == 0, "the recorder listens")
            program.work()
            with open(f"/proc/{program.pid}/task/{program.pid}/children", encoding="utf-8") as file:
                child = int(file.read())
            until(lambda: _control(child, "status")[0] == 0, "the child is recorded")
            status, told = _control(child, "attach")
            assert status != 0 and "as a child of another one" in told, told
            status, told = _control(child, "malloc=all")
            assert status != 0 and told.endswith("without the agent that malloc needs"), told
            recorder.send_signal(signal.SIGINT)
            recorder.communicate(timeout=TIMEOUT_SECONDS)
        assert program.end() == 0


def children_get_the_agent_as_well(folder):
    """One that was forked before, one that the program forks with the agent in it, and one that executes a program."""
    path = f"{folder}/all.sonde"
    program_path = compile_program(CHURNS)
    with Program(program_path) as program:
        before = int(program.work(b"f"))
        with Attached(program, "--malloc=all", "--follow", path=path) as attached:
            until(lambda: agents_in(before), "the child from before has the agent")
            forked, executes = int(program.work(b"f")), int(program.work(b"e"))
            for child in forked, executes:
                until(lambda child=child: _control(child, "status")[1].count("malloc all"), f"{child} is recorded")
            until(lambda: pathlib.Path(f"/proc/{executes}/cmdline").read_bytes().endswith(b"\0churn\0"), "it executes a program")
            until(lambda: agents_in(executes), "the new program gets an agent of its own")
            for child in before, forked, executes:
                path_of = f"{folder}/all.{child}.sonde"
                until(lambda path_of=path_of: attached.blocks(path_of) > 100, f"a hundred blocks of {child}")
            attached.recorder.send_signal(signal.SIGINT)
            _, said = attached.recorder.communicate(timeout=TIMEOUT_SECONDS)
        assert attached.recorder.returncode == 0, said
        for child in before, forked, executes:
            assert runs_on(child)
            told = report(f"{folder}/all.{child}.sonde", "malloc")["malloc"]
            assert told["allocated"]["blocks"] > 100 and told["unknown_frees"] == 0, told
            os.kill(child, signal.SIGKILL)
        # A copy by fork cannot be unmapped, as its threads' stacks were copied with it.
        assert re.findall(r"stays in process (\d+), asleep: a fork copied it", said) == [str(forked)], said
        assert program.end() == 0


def an_executed_program_has_no_agent_until_it_is_attached(folder):
    with Program(compile_program(OPENS)) as program, Attached(program) as attached:
        program.work()
        program.work(b"e", ready=True)
        until(lambda: "without the agent" in _control(program.pid, "malloc=all")[1], "the new program is noticed")
        program.work()  # is not recorded
        assert _control(program.pid, "attach") == (0, "agent attached")
        program.work()
        attached.recorder.send_signal(signal.SIGINT)
        _, said = attached.recorder.communicate(timeout=TIMEOUT_SECONDS)
        assert attached.recorder.returncode == 0, said
        assert f"process {program.pid} executes another program, which has no agent" in said, said
        assert f"'sonde ctl {program.pid} attach' loads it again" in said, said
        assert not agents_in(program.pid)
        # Each program of the process has its own part.
        blocks = [report(attached.path, "malloc", "--program", str(i))["malloc"]["allocated"]["blocks"] for i in (1, 2)]
        assert blocks == [2000, 1000], blocks
        assert program.end() == 0


def _attach_within(program, used, room):
    """Why the agent was not attached to PROGRAM with ROOM bytes of address space left; None if it was."""
    resource.prlimit(program.pid, resource.RLIMIT_AS, (used + room, resource.RLIM_INFINITY))
    with subprocess.Popen([SONDE, "record", "-p", str(program.pid), "--malloc=all", "-o", fresh()],
                          stderr=subprocess.PIPE, text=True) as recorder:
        said = recorder.stderr.readline()
        worked = "with the agent in it" in said
        if worked:
            recorder.send_signal(signal.SIGINT)
        said += recorder.stderr.read()
    program.work()
    assert not agents_in(program.pid), said
    assert recorder.returncode == (0 if worked else 2), said
    return None if worked else re.sub(r"\d+", "N", said.strip())


def memory_that_runs_out_harms_nobody(folder):
    """Each limit on the address space lets another allocation of the agent fail. Addresses that the program keeps from
    an earlier agent are called after each failure."""
    failures = set()
    with Program(compile_program(KEEPS, "-ldl")) as program:
        with Attached(program) as attached:
            program.work()
            attached.end()
        with open(f"/proc/{program.pid}/statm", encoding="utf-8") as file:
            used = int(file.read().split()[0]) * 4096
        low, high = 0, 1 << 20
        while failed := _attach_within(program, used, high):
            failures.add(failed)
            low, high = high, 2 * high
        while high - low > 65536:
            middle = (low + high) // 2
            failed = _attach_within(program, used, middle)
            failures.add(failed)
            low, high = (middle, high) if failed else (low, middle)
        assert program.end() == 0
    return "; ".join(sorted(failures - {None}))


def a_recorder_may_trace_the_program_that_it_starts(folder):
    """Yama allows it to processes that the program names, before its code is changed (prctl(2))."""
    log = f"{folder}/calls"
    subprocess.run(["strace", "-f", "-e", "trace=prctl", "-o", log, SONDE, "record", "--trace=true!*", "-o", fresh(),
                    "--", "true"], check=True, stderr=subprocess.DEVNULL, timeout=TIMEOUT_SECONDS)
    text = pathlib.Path(log).read_text(encoding="utf-8")
    recorder = text.splitlines()[-1].split()[0]  # it ends last
    assert re.search(rf"PR_SET_PTRACER, {recorder}\b", text), text


run_cases(globals())
