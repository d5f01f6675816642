#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Programs that install a seccomp filter: whatever the filter does with a system call that only sonde makes,
output and status are as without sonde, no event is lost, and the report names what is not recorded."""
import glob
import os
import subprocess

from helpers import (TIMEOUT_SECONDS, WORK, check, compile_c, needs_agent, nothing_missing, record, report, run_cases,
                     sonde, source_file, start_record, until)

needs_agent()
PROGRAM = compile_c(source_file("real", "record", "sandboxed.c"), "-O2", "-lpthread")
SENSORS = {"sample": ["--sample=1000"], "all": ["--malloc=all"], "live": ["--malloc=live"], "wall": ["--wall"],
           "cpu": ["--cpu"], "stall": ["--stall"], "audit": ["--audit"], "trace": ["--trace=libc.so*:*"]}
EVERYTHING = ["--sample=1000", "--malloc=all", "--wall", "--cpu", "--stall", "--audit", "--trace=libc.so*:*print*"]
BLOCKS = 300 * 200  # of one run of work(), which each way of the program calls twice or more


def plain(*words):
    done = subprocess.run([PROGRAM, *words], capture_output=True, stdin=subprocess.DEVNULL, timeout=TIMEOUT_SECONDS,
                          check=False)
    return done.returncode, done.stdout


def recorded(words, options, path=None):
    """Records the program and compares it with a run without sonde. Returns the report and the path."""
    path, done = record([PROGRAM, *words], *options, path=path)
    got = done.returncode, done.stdout
    check(got == plain(*words), f"{words} {options}: {got}, {done.stderr}")
    return report(path), path, done


def stopped(told):
    return {stop["what"]: stop["call"] for stop in told["seccomp"][-1]["stopped"]}


def each_action_with_all_sensors():
    for action in ("kill", "thread", "trap", "errno", "zero", "trace", "notify"):
        told, path, _ = recorded([action, "syscall"], EVERYTHING)
        nothing_missing(told)
        blocks = told["malloc"]["allocated"]["blocks"]
        check(blocks >= 2 * BLOCKS, f"{action}: {blocks} blocks")
        check(stopped(told) == {"crashes": "rt_sigaction", "new-timers": "timer_create", "thread-names": "openat"},
              stopped(told))
        forbidden = told["seccomp"][0]["forbidden"]
        check({"gettid", "process_vm_readv", "pwrite64", "rt_sigaction"} <= set(forbidden), forbidden)
        check(not {"read", "mmap", "futex", "rt_sigreturn"} & set(forbidden), forbidden)


def each_sensor_alone_under_a_filter_that_kills():
    for name, options in SENSORS.items():
        told, _, _ = recorded(["kill", "prctl"], options)
        nothing_missing(told)
        if name == "sample":
            check(told["sample"]["samples"] >= 10, told["sample"]["samples"])
        if name == "live":
            check(told["malloc"]["live"]["blocks"] < 100, told["malloc"]["live"])
        if name == "trace":
            check(told["trace"]["calls"] >= 4 * BLOCKS, told["trace"]["calls"])


def each_way_to_install_a_filter():
    for how in ("tsync", "twice", "thread", "refused", "fork"):
        told, _, _ = recorded(["kill", how], ["--sample=1000", "--malloc=malloc"])
        nothing_missing(told)
        if how != "fork":
            blocks = told["malloc"]["allocated"]["blocks"]
            check(blocks >= (4 if how == "thread" else 2) * BLOCKS, f"{how}: {blocks}")
            check(("seccomp" in told) == (how != "refused"), how)


def a_filter_that_forbids_nothing():
    told, path, _ = recorded(["log", "prctl"], [])
    assert told["seccomp"][0]["forbidden"] == [] and told["seccomp"][0]["stopped"] == [], told["seccomp"]
    assert "seccomp" not in sonde("report", path)


def strict_mode_ends_the_recording():
    told, path, done = recorded(["strict"], EVERYTHING)
    assert stopped(told) == {"everything": "process_vm_readv"}, told["seccomp"]
    assert "seccomp filter" in told["missing"]["stopped"] and b"seccomp filter" in done.stderr, done.stderr
    assert told["malloc"]["allocated"]["blocks"] >= BLOCKS
    text = sonde("report", path)
    assert "nothing is recorded (process_vm_readv)" in text and max(map(len, text.splitlines()[:8])) <= 80, text


def a_filter_that_nobody_could_read():
    path, recorder = start_record([PROGRAM, "errno", "instruction"], "--sample=1000", "--malloc=malloc",
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    until(lambda: os.path.exists(path) and os.path.getsize(path), "the recording")
    until(lambda: "could not read" in report(path)["missing"].get("stopped", ""),
          "the end of the recording")
    out, _ = recorder.communicate()
    assert (recorder.returncode, out) == (3, b"done\n"), (recorder.returncode, out)
    assert report(path)["malloc"]["allocated"]["blocks"] >= BLOCKS


def children_of_a_sandbox():
    path = os.path.join(WORK, "fork.sonde")
    recorded(["kill", "fork"], ["--follow", "--sample=1000", "--malloc=malloc"], path)
    child, = glob.glob(os.path.join(WORK, "fork.*.sonde"))
    told = report(child)
    nothing_missing(told)
    assert told["malloc"]["allocated"]["blocks"] >= 2 * BLOCKS and stopped(told)["crashes"], told["seccomp"]


def a_program_executed_in_a_sandbox():
    command = ["kill", "exec", PROGRAM, "errno", "twice"]
    recorded(command, ["--follow", "--malloc=malloc"])  # the filter forbids what tells namespaces apart
    told, path, _ = recorded(command, ["--malloc=malloc"])
    assert told["programs"] == 2, told
    for program in told, report(path, "--program", 1):
        nothing_missing(program)
        blocks = program["malloc"]["allocated"]["blocks"]
        check(blocks >= BLOCKS and stopped(program), (blocks, program.get("seccomp")))


def a_program_executed_under_an_unknown_filter():
    for follow in [], ["--follow"]:
        _, path, _ = recorded(["kill", "hidden", "/bin/echo", "hidden"], [*follow, "--malloc=malloc"])
        assert report(path)["malloc"]["allocated"]["blocks"] >= BLOCKS


def handlers_of_a_forked_child_stay():
    """The child records nothing. It installs a handler, by the C library or by a system call, then a filter that traps."""
    program = compile_c(r"""
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static void trapped(int number) {
  (void)number;
  static const char text[] = "trapped\n";
  _exit(write(1, text, sizeof text - 1) != sizeof text - 1);
}
static int child(int raw) {
  struct sock_filter strict[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP)};
  struct sock_fprog program = {sizeof strict / sizeof *strict, strict};
  struct sigaction action = {.sa_handler = trapped};
  if (raw) {
    struct { void (*handler)(int); unsigned long flags; void (*restorer)(void); unsigned long mask; } kernel = {trapped, 0, 0, 0};
#ifdef __x86_64__
    kernel.flags = 0x04000000;
#endif
    syscall(SYS_rt_sigaction, SIGSYS, &kernel, NULL, 8);
  } else {
    sigaction(SIGSYS, &action, NULL);
  }
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
  syscall(SYS_getppid);
  return 1;
}
int main(void) {
  int failed = 0, status;
  for (int raw = 0; raw < 2; raw++) {
    if (fork() == 0) return child(raw);
    wait(&status);
    failed |= status;
  }
  return child(1) || failed;
}""", "-O1")
    alone = subprocess.run([program], capture_output=True, timeout=TIMEOUT_SECONDS, check=False)
    check(alone.stdout == b"trapped\n" * 3 and alone.returncode == 0, alone)
    for options in ["--stall"], ["--stall", "--follow"]:
        _, done = record([program], *options)
        check((done.returncode, done.stdout) == (0, alone.stdout), f"{options}: {done}")


run_cases(globals())
