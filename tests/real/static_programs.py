#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sonde record of a command that cannot load the agent, since it is statically linked: it is recorded from outside
from its first instruction, and neither it nor its caller sees a difference. The oracles are the program's own clock,
and a run without sonde."""
import os
import re
import signal
import subprocess

from helpers import (
    SONDE, TIMEOUT_SECONDS, child_of, children_of, compile_c, fresh, needs_agent, record, report, run_cases, skip, sonde, start_record,
    try_sonde, until, until_asleep)
from shared.serving import REFUSES

needs_agent()

SOURCE = """
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double used(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return t.tv_sec + t.tv_nsec / 1e9;
}
static void spins(double seconds) {
  for (double end = used() + seconds; used() < end;)
    for (volatile int i = 0; i < 10000; i++) {}
}
__attribute__((constructor)) static void begins(void) { if (getenv("BEGINS")) spins(0.04); }
static void goes_on(double seconds) { spins(seconds); }
static void *burns(void *unused) { spins(0.3); return unused; }

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  pthread_t thread;
  if (!strcmp(what, "works")) goes_on(0.2);
  if (!strcmp(what, "lasts")) goes_on(0.6);
  for (int i = 0; !strcmp(what, "slow") && i < 40; i++) {
    goes_on(0.02);
    usleep(50000);
  }
  if (!strcmp(what, "threads")) {
    pthread_create(&thread, NULL, burns, NULL);
    pthread_join(thread, NULL);
  }
  if (!strcmp(what, "waits")) sleep(600);
  if (!strcmp(what, "aborts")) abort();
  if (!strcmp(what, "killed")) raise(SIGKILL);
  if (!strcmp(what, "executes")) execvp(argv[2], argv + 2);
  if (!strcmp(what, "starts")) {
    if (!fork()) execvp(argv[2], argv + 2);
    wait(NULL);
  }
  return argc > 2 ? 0 : 7;
}
"""


def _functions(told):
    return {f["function"]: f["total"] for f in told["sample"]["functions"]}


def _run(*words, options=(), **how):
    path, done = record([STATIC, *words], *options, text=True, **how)
    return path, done, report(path, "--top", 1000)


def the_start_is_recorded_too():
    """What runs first, before main, takes a fifth of the CPU time of what follows."""
    _, done, told = _run("works", options=["--sample=500"], env=dict(os.environ, BEGINS="1"))
    assert done.returncode == 7, done
    sampled = _functions(told)
    print(sampled, told["sample"]["cpu_time"])
    assert 0.1 < sampled.get("begins", 0) / sampled["goes_on"] < 0.4, sampled
    assert told["exe"] == STATIC and told["from_outside"], told


def short_programs_have_a_name():
    for _ in range(20):
        _, done, told = _run()
        assert done.returncode == 7 and os.waitstatus_to_exitcode(told["wait_status"]) == 7, (done, told["wait_status"])
        assert told["exe"] == STATIC and told["arguments"] == [STATIC], told


def threads_and_waits_are_recorded():
    _, done, told = _run("threads")
    assert "CPU time, waits and stalls, but no allocations" in done.stderr, done.stderr
    assert "burns" in _functions(told), _functions(told)
    waits = {(p.get("syscall"), f.get("function")) for p in told["wall"]["stacks"] if p["where"] == "blocked"
             for f in p.get("frames", [])}
    assert ("futex", "main") in waits, waits


def the_end_is_the_commands_own():
    assert _run("aborts")[1].returncode == -signal.SIGABRT
    assert _run("killed")[1].returncode == -signal.SIGKILL
    path, recorder = start_record([STATIC, "waits"], stderr=subprocess.PIPE, text=True)
    with recorder:
        until(lambda: os.path.exists(path) and os.path.getsize(path) > 4096, "it is recorded")
        recorder.send_signal(signal.SIGTERM)
        _, said = recorder.communicate(timeout=TIMEOUT_SECONDS)
    assert recorder.returncode == -signal.SIGTERM, (recorder.returncode, said)
    assert report(path)["wait_status"] == signal.SIGTERM


def a_crash_is_named_without_a_promise():
    path, done, _ = _run("aborts")
    assert f"signal {int(signal.SIGABRT)} " in done.stderr and "'sonde why CORE'" in done.stderr, done.stderr
    assert "report" not in [line for line in done.stderr.splitlines() if "crashed" in line][0], done.stderr
    assert "SIGABRT" in sonde("why", path)


def the_program_sees_nothing():
    script = "env | sort; ls -l /proc/self/fd | wc -l; grep -E 'Sig(Blk|Ign|Cgt)|TracerPid' /proc/self/status; ulimit -n"
    plain = subprocess.run([STATIC, "executes", "sh", "-c", script], capture_output=True, text=True, check=True).stdout
    assert _run("executes", "sh", "-c", script)[1].stdout == plain, plain
    assert record([STATIC, "executes", "cat"], text=True, input="in\n")[1].stdout == "in\n"


def a_request_ends_the_recording_and_not_the_program():
    path, recorder = start_record([STATIC, "waits"], stderr=subprocess.PIPE, text=True)
    with recorder:
        until(lambda: os.path.exists(path) and os.path.getsize(path) > 4096, "it is recorded")
        program = child_of(recorder.pid)
        until_asleep(program)
        assert try_sonde("ctl", program, "stop").returncode == 0
        assert recorder.poll() is None
        os.kill(program, signal.SIGKILL)
        _, said = recorder.communicate(timeout=TIMEOUT_SECONDS)
    assert recorder.returncode == -signal.SIGKILL and "a request stopped it" in said, (recorder.returncode, said)


def sensors_that_need_the_agent_are_refused():
    for options, needs in (["--malloc"], "--malloc"), (["--malloc=live", "--sample"], "--malloc"), (["--leaks"], "--leaks"), \
            (["--trace"], "--trace"), (["--audit", "--sample"], "--audit"), (["--coverage"], "--coverage"):
        path, done = record([STATIC], *options, text=True)
        assert done.returncode == 125 and done.stderr.count("\n") == 1 and not os.path.exists(path), (options, done)
        assert f"and {needs} needs a library in it; link it dynamically, or leave out {needs}: --sample" in done.stderr
        assert "--audit without other sensors" in done.stderr, done.stderr


def where_tracing_is_refused_the_program_is_recorded():
    """It is not stopped at its first instruction then, so its start may be missing. To read its memory needs no ptrace
    call."""
    refuses = compile_c(REFUSES, "-w", "-DCALL=SYS_ptrace", "-DERROR=EPERM")
    path = fresh()
    words = [refuses, SONDE, "record", "--sample=200", "-o", path, "--", STATIC, "slow"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    assert done.returncode == 7, done
    assert "goes_on" in _functions(report(path, "--top", 1000)), report(path)["sample"]


def other_programs_and_children_are_recorded():
    _, done, told = _run("executes", STATIC, "works")
    assert done.returncode == 7 and told["programs"] == 2 and "goes_on" in _functions(told), (done, told["programs"])
    path, done, _ = _run("starts", STATIC, "slow", options=["--follow"])
    assert done.returncode == 0, done
    rows = report(path, "processes")["processes"]["list"]
    assert len(rows) == 2 and all("file" in row for row in rows), rows
    child = re.sub(r"\.sonde$", f".{rows[1]['pid']}.sonde", path)
    assert "goes_on" in _functions(report(child, "--top", 1000)), report(child)["sample"]


def _last(command, *options, programs=2, **how):
    """Records COMMAND, whose last program is the static one, and reads that program."""
    path, done = record(command, *options, text=True, **how)
    told = report(path, "--top", 1000)
    assert told["exe"] == STATIC and told["from_outside"] and told["programs"] == programs, (done, told)
    assert done.stderr.count("is statically linked, so sonde records it from outside") == 1, done.stderr
    assert "is not recorded" not in done.stderr, done.stderr
    return path, done, told


def behind_a_dynamic_program_it_is_recorded_from_its_start():
    """Without a sample of the program before it, nor of its CPU time."""
    for options in [], ["--sample=500"]:
        path, done, told = _last(["env", "BEGINS=1", STATIC, "works"], *options)
        assert done.returncode == 7 and told["arguments"] == [STATIC, "works"] and told["threads"] == 1, (done, told)
        sampled, times = _functions(told), told["sample"]["cpu_time"]
        print(sampled, times)
        assert set(sampled) & {"begins", "goes_on"} == {"begins", "goes_on"}, sampled
        assert sum(sampled[name] for name in ("begins", "goes_on")) >= 0.9 * told["sample"]["samples"], sampled
        assert 0.23e9 < times["cpu_ns"] < 0.4e9 and times["sampled_ns"] > 0.9 * times["cpu_ns"], times
        assert not [u for u in times["unsampled"] if u["cause"] == "no_agent"], times
        first = report(path, "--program", 1)
        assert os.path.basename(first["exe"]) == "env" and "from_outside" not in first, first
        assert "spins" in sonde("report", path) and not [key for key in told if "alloc" in key or "memory" in key], told
        assert "spins" in sonde("why", path), sonde("why", path)
        page = fresh(".html")
        sonde("view", path, "-o", page)
        assert os.path.getsize(page) > 10000, page


def the_default_sensors_see_its_waits():
    _, _, told = _last(["sh", "-c", f"exec env {STATIC} threads"], programs=3)
    waits = {(p.get("syscall"), f.get("function")) for p in told["wall"]["stacks"] if p["where"] == "blocked"
             for f in p.get("frames", [])}
    assert "burns" in _functions(told) and ("futex", "main") in waits, (told["wall"], _functions(told))


def short_programs_behind_others_have_a_name():
    for _ in range(10):
        _, done, told = _last(["env", STATIC])
        assert done.returncode == 7 and told["arguments"] == [STATIC], (done, told)


def a_later_program_with_the_agent_is_recorded_by_it():
    path, done = record(["env", STATIC, "executes", "/usr/bin/python3", "-c", "list(range(3000000)) and print('here')"],
                        "--malloc=malloc", "--sample=500", text=True)
    assert done.returncode == 0 and done.stdout == "here\n", done
    told = report(path, "malloc")
    assert "from_outside" not in told and "python" in told["exe"] and told["programs"] == 3, told
    assert told["threads"] == 1 and told["malloc"]["allocated"]["blocks"] > 1000, told["malloc"]
    second = report(path, "--program", 2)
    assert second["exe"] == STATIC and second["from_outside"], second


def without_sensors_for_it_one_note_names_the_program():
    for options, command in ((), ["env", STATIC]), (["--follow"], ["bash", "-c", f"{STATIC}; true"]):
        _, done = record(command, "--malloc=malloc", *options, text=True)
        assert done.stderr.count("is statically linked; 'sonde record -- ") == 1, done.stderr


def where_tracing_is_refused_it_is_recorded_behind_others():
    refuses = compile_c(REFUSES, "-w", "-DCALL=SYS_ptrace", "-DERROR=EPERM")
    path = fresh()
    words = [refuses, SONDE, "record", "--sample=200", "-o", path, "--", "env", STATIC, "slow"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    told = report(path, "--top", 1000)
    assert done.returncode == 7 and told["exe"] == STATIC and "goes_on" in _functions(told), (done, told)


FAILS = """
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
int main(int argc, char **argv) {
  char text[4096] = "";
  execv(argv[1], argv + 1);
  int why = errno;
  struct timespec rest = {.tv_nsec = 300000000};
  int rested = nanosleep(&rest, NULL);
  FILE *f = fopen("/proc/self/status", "r");
  fread(text, 1, sizeof text - 1, f);
  char *tracer = strstr(text, "TracerPid:");
  printf("%s, %d, %.12s\\n", strerror(why), rested, tracer);
}
"""


def a_failed_call_of_exec_changes_nothing(folder):
    path = folder / "static"
    path.write_bytes(open(STATIC, "rb").read())
    _, done = record([compile_c(FAILS, "-w"), path], "--sample", "--malloc=malloc", text=True)
    assert done.stdout == "Permission denied, 0, TracerPid:\t0\n", done
    assert "statically" not in done.stderr, done.stderr


def what_needs_the_agent_is_off_behind_others():
    """Also in the records of a change of the sensors."""
    path, recorder = start_record(["env", STATIC, "waits"], stderr=subprocess.PIPE, text=True)
    with recorder:
        until(lambda: os.path.exists(path) and children_of(recorder.pid), "it is recorded")
        program = child_of(recorder.pid)
        until(lambda: "without the agent" in try_sonde("ctl", program, "malloc=all").stderr, "the static program")
        assert "malloc off" in re.sub(" +", " ", sonde("ctl", program, "status")), sonde("ctl", program, "status")
        sonde("ctl", program, "sample=50")
        os.kill(program, signal.SIGKILL)
        recorder.communicate(timeout=TIMEOUT_SECONDS)
    assert "allocations (--malloc)" in sonde("why", path), sonde("why", path)


def signals_reach_a_program_behind_others():
    path, recorder = start_record(["env", STATIC, "waits"], stderr=subprocess.PIPE, text=True)
    with recorder:
        until(lambda: os.path.exists(path) and children_of(recorder.pid), "it is recorded")
        program = child_of(recorder.pid)
        until(lambda: os.path.samefile(f"/proc/{program}/exe", STATIC), "the static program")
        until_asleep(program)
        recorder.send_signal(signal.SIGTERM)
        _, said = recorder.communicate(timeout=TIMEOUT_SECONDS)
    assert report(path)["exe"] == STATIC, said
    assert recorder.returncode == -signal.SIGTERM, (recorder.returncode, said)


def _child(path, command=None):
    """The row of the child that executed the static program, or COMMAND, and the path of its own recording."""
    rows = report(path, "processes")["processes"]["list"]
    (row,) = [row for row in rows if row["command"] == command or (not command and row["command"].split(" ")[0] == STATIC)]
    return row, re.sub(r"\.sonde$", f".{row['pid']}.sonde", path)


SPAWNS = "import os,sys; pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ); os.waitpid(pid, 0)"


def children_of_dynamic_programs_are_recorded_from_outside():
    """A fork that executes it, as in bash; a vfork, as in dash; and posix_spawn. No such child waits for its recorder,
    so on a slow machine its first tenths of a second are missing."""
    for command in (["bash", "-c", f"{STATIC} lasts; true"], ["dash", "-c", f"{STATIC} lasts; true"],
                    ["/usr/bin/python3", "-c", SPAWNS, STATIC, "lasts"]):
        path, done = record(command, "--follow", text=True)
        assert "not recorded" not in done.stderr and "2 of 2 processes are recorded" in done.stderr, done.stderr
        row, own = _child(path)
        assert os.path.basename(row.get("file", "")) == os.path.basename(own), row
        told = report(own, "--top", 1000)
        print(_functions(told), told["sample"]["cpu_time"])
        assert told["exe"] == STATIC and told["from_outside"] and told["threads"] == 1, told
        assert "goes_on" in _functions(told) and told["sample"]["cpu_time"]["sampled_ns"] > 0.1e9, told["sample"]
        assert told["sample"]["cpu_time"]["cpu_ns"] < 0.8e9, told["sample"]["cpu_time"]  # its last moment is not seen
        assert "spins" in sonde("report", own), own


def children_of_static_programs_behind_others_are_recorded():
    for command, processes in ([["env", STATIC, "starts", STATIC, "slow"], 2], [["sh", "-c", f"{STATIC} starts {STATIC} slow; true"], 3]):
        path, done = record(command, "--follow", text=True)
        assert "not recorded" not in done.stderr, done.stderr
        assert f"{processes} of {processes} processes are recorded" in done.stderr, done.stderr
        row, own = _child(path, command=f"{STATIC} slow")
        told = report(own, "--top", 1000)
        assert told["exe"] == STATIC and "goes_on" in _functions(told), told["sample"]


def a_command_that_cannot_run_is_refused(folder):
    path = folder / "static"
    path.write_bytes(open(STATIC, "rb").read())
    _, done = record([path], text=True)
    assert done.returncode == 126 and "Permission denied" in done.stderr, done


if __name__ == "__main__":
    try:
        STATIC = compile_c(SOURCE, "-O1", "-g", "-static", "-pthread", "-fno-inline", "-fno-optimize-sibling-calls")
    except AssertionError:
        skip("no static C library")
    run_cases(globals())
