#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The audit's coverage, against strace on programs that nobody here wrote, and against counts of a program's own."""
import collections
import os
import re
import select
import shutil
import signal
import stat
import subprocess

from helpers import (
    NOT_FOR_OTHERS, SONDE, WORK, fresh, needs_agent, needs_strace, others_can_run_sonde, report, run_cases,
    skip, skip_part, sonde, start_record)
from shared.audits import audit_of, compile_audited, compare_commands, record_audit

needs_agent()

HOME = os.path.join(WORK, "home")  # empty, so that both runs of a program do the same
AGENT = "libsonde-agent.so"
# Those which take a path as the first string that strace shows.
PATHS = {"open", "openat", "openat2", "creat", "unlink", "unlinkat", "rmdir", "rename", "truncate", "statfs", "execve", "chroot"}
CALLS = PATHS | {"renameat", "renameat2", "fstatfs", "connect", "sendto", "bind", "listen", "execveat", "memfd_create", "inotify_add_watch",
                 "uname", "sysinfo", "ptrace", "process_vm_readv", "process_vm_writev", "kill", "setuid", "setgid", "setreuid",
                 "setregid", "setresuid", "setresgid", "setgroups", "capset", "mount", "umount2", "setns", "unshare", "prctl"}
PROGRAMS = [["id", "root"], ["curl", "-s", "http://127.0.0.1:9/"],
            ["/usr/bin/python3", "-c", "import socket, os; socket.getaddrinfo('localhost', 80); os.stat('/')"],
            ["git", "-C", "/", "status"], ["sqlite3", os.path.join(WORK, "x.db"), "create table t(a); insert into t values(1);"]]


def _surroundings():
    os.makedirs(HOME, exist_ok=True)
    return {**os.environ, "HOME": HOME, "GIT_CONFIG_NOSYSTEM": "1"}


def covered(command, *options, **how):
    path, done = record_audit(command, "linux", "--coverage", *options, **how)
    coverage = audit_of(path)["coverage"]
    assert coverage["complete"] and not coverage["detached"], coverage
    return coverage, done, path


def counted(rows, *classes):
    out = collections.Counter()
    for row in rows:
        if row["class"] in classes:
            text = re.search(r'"([^"]*)"', row["arguments"]) if row["call"] in PATHS else None
            out[row["call"], text[1] if text else ""] += row["calls"]
    return out


def straced(command):
    """What the program itself calls from its first instruction on, children left out."""
    trace = fresh(".txt")
    done = subprocess.run(["strace", "-o", trace, "-e", "trace=" + ",".join("?" + c for c in CALLS), *command],
                          capture_output=True, env=_surroundings(), stdin=subprocess.DEVNULL)
    out = collections.Counter()
    with open(trace) as f:
        for line in f:
            if m := re.match(r"(\w+)\(", line):
                text = re.search(r'"([^"]*)"', line) if m[1] in PATHS else None
                out[m[1], text[1] if text else ""] += 1
    first = next(key for key in out if key[0] == "execve")
    out[first] -= 1
    return +out, done


def every_call_that_strace_sees_is_told():
    needs_strace()
    for command in PROGRAMS:
        if not shutil.which(command[0]):
            skip_part(command[0], "it is not installed")
            continue
        for leftover in (f for f in os.listdir(WORK) if f.startswith("x.db")):
            os.unlink(os.path.join(WORK, leftover))
        expected, _ = straced(command)
        for leftover in (f for f in os.listdir(WORK) if f.startswith("x.db")):
            os.unlink(os.path.join(WORK, leftover))
        coverage, _, path = covered(command, env=_surroundings(), stdin=subprocess.DEVNULL)
        rows = coverage["system_calls"]
        seen = counted(rows, "early", "hooked", "below", "unexplained")
        for key in [k for k in seen if k[1].endswith(AGENT)]:
            del seen[key]  # the preload itself
        assert seen == expected, (command, seen - expected, expected - seen)
        early = counted(rows, "early")
        libraries = set(re.findall(r"=> (/\S+) ", subprocess.run(["ldd", shutil.which(command[0])], capture_output=True, text=True).stdout))
        assert libraries <= {text for call, text in early if call == "openat"}, (command, libraries, early)
        hooked, below = (sum(counted(rows, c).values()) for c in ("hooked", "below"))
        assert (hooked, below) == (coverage["hooked"], coverage["below"]) and coverage["unexplained"] == 0, coverage
        assert coverage["ratio"] == hooked / (hooked + below), coverage
        assert all(row["frames"] for row in rows if row["class"] == "below")
        text = sonde("report", path, "audit")
        assert f"{sum(early.values())} before the agent started, {hooked} observed by hooks, {below} made below them, 0 unexplained" in text
        assert f"{100 * coverage['ratio']:.1f} %" in text, text
        print(f"{command[0]}: {sum(expected.values())} calls as strace has them, {sum(early.values())} early, {hooked} hooked, {below} below")


COUNTS = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static long n;
__attribute__((noinline)) static void raw_open(void) {
  for (long i = 0; i < n; i++) syscall(SYS_openat, AT_FDCWD, "/nonexistent/raw", O_RDONLY);
}
__attribute__((noinline)) static void inline_open(void) {
#ifdef __x86_64__
  for (long i = 0; i < n; i++) {
    long result = SYS_openat;
    register long flags __asm__("r10") = 0;
    __asm__ volatile("syscall" : "+a"(result) : "D"(-100L), "S"("/nonexistent/inline"), "d"(0L), "r"(flags) : "rcx", "r11", "memory");
  }
#endif
}
static void *run(void *unused) {
  raw_open();
  for (long i = 0; i < 2 * n; i++) open("/nonexistent/hooked", O_RDONLY);
  inline_open();
  return unused;
}
int main(int argc, char **argv) {
  n = atol(argv[1]);
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, run, 0);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
  int status;
  if (fork() == 0) {
    open("/nonexistent/child", O_RDONLY); /* a child's calls are its own */
    _exit(3);
  }
  wait(&status);
  return system("exit 4") == 4 << 8 && WEXITSTATUS(status) == 3 ? 5 : 9;
}"""


def counts_are_the_programs_own():
    program = compile_audited(COUNTS, "-pthread", "-g")
    n = 100
    coverage, done, _ = covered([program, str(n)])
    assert done.returncode == 5, done
    rows = {row["arguments"].split('"')[1]: row for row in coverage["system_calls"] if "/nonexistent/" in row["arguments"]}
    expected = {"/nonexistent/raw": ("below", 4 * n), "/nonexistent/hooked": ("hooked", 8 * n)}
    if os.uname().machine == "x86_64":
        expected["/nonexistent/inline"] = ("below", 4 * n)
    assert {k: (r["class"], r["calls"]) for k, r in rows.items()} == expected, rows
    functions = [f["function"] for f in rows["/nonexistent/raw"]["frames"]]
    assert functions[:3] == ["syscall", "raw_open", "run"], functions
    assert rows["/nonexistent/raw"]["module"] == os.path.basename(program)


def a_call_that_is_over_is_not_taken_for_one_under_way():
    """The same call instruction, the same depth: first a hooked function, then one that makes the call itself."""
    program = compile_audited("""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
__attribute__((noinline)) static int own(const char *path, int flags) { return syscall(SYS_openat, AT_FDCWD, path, flags); }
__attribute__((noinline)) static int own_connect(const char *path, int flags) { return syscall(SYS_connect, -1, path, flags); }
int main(void) {
  int (*volatile table[])(const char *, int) = {(void *)unlink, own, (void *)getenv, own_connect};
  for (int i = 0; i < 4; i++) table[i]("/nonexistent/x", 0);
  return 0;
}""")
    coverage, _, _ = covered([program])
    got = {row["call"]: (row["class"], row["calls"]) for row in coverage["system_calls"] if row["class"] != "own" and row["class"] != "early"}
    unlink = "unlinkat" if os.uname().machine == "aarch64" else "unlink"  # there is no other there
    assert got == {unlink: ("hooked", 1), "openat": ("below", 1), "connect": ("below", 1)}, got


def who_gains_rights_is_let_go():
    """A set-user-ID program gets its rights although what started it was traced."""
    if os.geteuid():
        skip("only root can make such a file")
    if not others_can_run_sonde():
        skip(NOT_FOR_OTHERS)
    private = os.path.join("/tmp", f"sonde-setuid-{os.getpid()}")
    os.makedirs(private, mode=0o755)
    try:
        program = os.path.join(private, "id")
        shutil.copy(shutil.which("id"), program)
        os.chmod(program, stat.S_ISUID | 0o755)
        out = os.path.join(private, "out")
        os.makedirs(out)
        os.chmod(out, 0o777)
        nobody = ["setpriv", "--reuid=65534", "--clear-groups"]
        plain = subprocess.run([*nobody, program, "-u"], capture_output=True)
        if plain.stdout != b"0\n" or subprocess.run([*nobody, SONDE, "--version"], capture_output=True).returncode:
            skip("set-user-ID files, or sonde for others, do not work here")
        path = os.path.join(out, "x.sonde")
        done = subprocess.run([*nobody, SONDE, "record", "--audit", "--coverage", "-o", path, "--", "sh", "-c", f"exec {program} -u"],
                              capture_output=True, cwd=out)
        assert done.stdout == b"0\n", done
        coverage = report(path, "audit")["audit"]["coverage"]
        assert coverage["detached"] and coverage["early"] > 0, coverage
        # Root is not what counts: the right to trace is.
        command = [SONDE, "record", "--audit", "--coverage", "-o", os.path.join(out, "y.sonde"), "--", *nobody, "sh", "-c",
                   f"exec {program} -u"]
        done = subprocess.run(["setpriv", "--bounding-set=-sys_ptrace", *command], capture_output=True, cwd=out)
        assert done.stdout == b"0\n", done
    finally:
        shutil.rmtree(private)


# The handler may run inside print.
STOPS = """import os, signal, sys
signal.signal(signal.SIGTSTP, lambda *rest: os.write(1, b"handled\\n"))
print("ready", flush=True)
sys.stdin.readline()"""


def a_terminal_stops_nobody_who_handles_it():
    """The tracer gets the signals of its terminal too; while it stood, so would the program."""
    _, program = start_record(["/usr/bin/python3", "-c", STOPS], "--audit", "--coverage", stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True, preexec_fn=os.setpgrp)
    assert program.stdout.readline() == "ready\n"
    os.killpg(program.pid, signal.SIGTSTP)
    first = select.select([program.stdout], [], [], 120)[0] and program.stdout.readline()
    os.killpg(program.pid, signal.SIGCONT)
    assert first == "handled\n", first
    assert program.communicate("\n", timeout=150)[0] == "" and program.returncode == 0


def programs_do_what_they_did_while_watched():
    compare_commands("--coverage")


STATIC = """
#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/socket.h>
#include <unistd.h>
__attribute__((noinline)) void reads_settings(const char *path) { close(open(path, O_RDONLY | O_CLOEXEC)); }
__attribute__((noinline)) void looks(const char *path) { struct stat s; stat(path, &s); fstat(0, &s); }
__attribute__((noinline)) void calls_home(void) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9), .sin_addr = {htonl(INADDR_LOOPBACK)}};
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  connect(fd, (void *)&to, sizeof to);
  close(fd);
}
int main(int count, char **words) {
  for (int i = 0; i < 3; i++) reads_settings("/etc/passwd");
  for (int i = 0; i < 5; i++) looks("/etc");
  reads_settings("/sonde/nothing");
  calls_home();
  if (count > 1) execl(words[1], words[1], (char *)0);
  return 7;
}
"""


def outcomes(rows, calls):
    """How often each of CALLS succeeded ("") or failed with an error."""
    out = collections.Counter()
    for row in (row for row in rows if row["call"] in calls):
        out[row["call"], ""] += row["results"]["succeeded"]
        for error in row["results"].get("errors", []):
            out[row["call"], error["name"]] += error["calls"]
    return +out


def a_static_program_is_traced_alone():
    """Who calls is compared with the source, and what with strace."""
    program = compile_audited(STATIC, "-static", "-O0", "-g")
    path, done = record_audit([program], "files,net")
    assert done.returncode == 7 and b"its system calls are recorded" in done.stderr, done
    rows = audit_of(path)["coverage"]["system_calls"]
    assert all(row["class"] == "below" for row in rows), rows
    by = {(row["call"], row["arguments"]): (row["calls"], row["frames"], row["category"]) for row in rows}
    by_function = {key: (calls, category) for key, (calls, frames, category) in by.items()
                   if any(frame["function"] in ("reads_settings", "looks", "calls_home") for frame in frames)}
    look = next(call for call, _ in by_function if call in ("newfstatat", "statx", "stat"))
    assert by_function == {
        ("openat", '"/etc/passwd", O_RDONLY|O_CLOEXEC'): (3, "file.open"),
        ("openat", '"/sonde/nothing", O_RDONLY|O_CLOEXEC'): (1, "file.open"), (look, '"/etc"'): (5, "file.look"),
        ("socket", "AF_INET, SOCK_DGRAM, 0"): (1, "net.socket"), ("connect", "3, 127.0.0.1:9"): (1, "net.connect")}, by
    if shutil.which("strace"):
        trace = fresh(".txt")
        subprocess.run(["strace", "-o", trace, "-e", "trace=openat,socket,connect,readlink", program], check=False)
        with open(trace) as f:
            lines = re.findall(r"^(\w+)\(.* = (-?\d+)(?: (E[A-Z]+))?", f.read(), re.M)
        seen = collections.Counter(call for call, _, _ in lines)
        traced = collections.Counter()
        for (call, _), (calls, _, _) in by.items():
            traced[call] += calls
        assert all(traced[call] == seen[call] for call in ("openat", "socket", "connect", "readlink")), (traced, seen)
        results = collections.Counter((call, error) for call, _, error in lines)
        assert outcomes(rows, seen) == results and results["openat", "ENOENT"], (outcomes(rows, seen), results)
        descriptor = next(value for call, value, _ in lines if call == "socket")
        assert next(row for row in rows if row["call"] == "socket")["results"]["value"] == int(descriptor), (rows, lines)
    text = sonde("report", path)
    assert "      reads_settings  " in text and " = 3  " in text, text
    text = sonde("report", "--top", "20", path)
    assert text.count("      reads_settings") == 2 and '"/sonde/nothing", O_RDONLY|O_CLOEXEC) = -1 ENOENT (No such' in text, text
    path, _ = record_audit([program])
    assert "calls_home" in sonde("why", path) and "connect(" in sonde("why", path), sonde("why", path)


def a_static_program_may_execute_others():
    """Each program has its own part of the recording, static or not."""
    last = compile_audited(STATIC, "-O0")
    program = compile_audited(STATIC, "-static", "-O0", "-g")
    path, done = record_audit([program, last], "files")
    assert done.returncode == 7 and b"executed 2 programs" in done.stderr, done
    for number in "1", "2":
        text = sonde("report", "--program", number, path, "audit")
        assert "reads_settings" in text and '3 ×  openat("/etc/passwd", O_RDONLY|O_CLOEXEC)' in text, (number, text)
        assert "incomplete" not in text, (number, text)


def rings_are_said_to_be_unseen():
    program = compile_audited("""
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void) {
  char parameters[120];
  memset(parameters, 0, sizeof parameters);
  int fd = syscall(425, 4, parameters); /* io_uring_setup */
  syscall(426, fd, 3, 0, 0, 0, 0);      /* io_uring_enter */
  return 0;
}""")
    coverage, _, path = covered([program])
    assert coverage["io_uring"] == 4, coverage
    assert "io_uring" in sonde("report", path, "audit")


run_cases(globals())
