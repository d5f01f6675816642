#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`sonde top` on a terminal of tmux, at 80 and 200 columns, and as printed frames: a program with three threads of
known behavior. One computes in `burn`, one waits for a condition variable, one reads a pipe."""
import os
import re
import signal
import subprocess

from helpers import (
    SANITIZED, SONDE, child_of, compile_c, fresh, kill, others_can_run_sonde, run_cases, skip, start_ready, try_sonde, until)
from terminal import Terminal

PROGRAM = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static int ends[2];
static void *kept[100];
volatile unsigned long sink;
__attribute__((noinline)) void burn(void) { for (int i = 0; i < 1000000; i++) sink += (unsigned long)i * 7; }
__attribute__((noinline)) void hoard(int i) {
  free(kept[i % 100]);
  kept[i % 100] = malloc(200000);
  memset(kept[i % 100], 1, 200000);
}
static void *spin(void *x) { for (;;) burn(); return x; }
static void *wait_forever(void *x) {
  pthread_mutex_lock(&mutex);
  for (;;) pthread_cond_wait(&never, &mutex);
  return x;
}
static void *read_pipe(void *x) { char c; while (read(ends[0], &c, 1) > 0) {} return x; }
int main(int argc, char **argv) {
  static const char *const names[] = {"spinner", "\033[2Jwaiter", "reader"};
  static void *(*const functions[])(void *) = {spin, wait_forever, read_pipe};
  if (pipe(ends)) return 1;
  for (int i = 0; i < 3; i++) {
    pthread_t thread;
    pthread_create(&thread, NULL, functions[i], NULL);
    pthread_setname_np(thread, names[i]);
  }
  puts("ready");
  fflush(stdout);
  for (int i = 0; argc > 1; i++) { hoard(i); usleep(3000); }
  pause();
  execv(argv[0], argv);
}
"""
# Runs a command to which the kernel refuses perf_event_open(2).
NO_PERF = r"""
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv) {
  struct sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                                 BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_perf_event_open, 0, 1),
                                 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
                                 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  struct sock_fprog program = {4, filter};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (argc < 2 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 9;
  execv(argv[1], argv + 1);
  return 8;
}
"""
BINARY = compile_c(PROGRAM, "-g", "-O1", "-pthread", "-w")
_started = []


def _program():
    """The program, which all cases share until one of them ends it."""
    if not _started:
        _started.append(start_ready([BINARY]))
    return _started[0]


class _Screen(Terminal):
    """A terminal in which a shell runs top."""

    def __init__(self, *words, columns=80, **environment):
        super().__init__(columns=columns, **environment)
        self.words = words

    def __enter__(self):
        super().__enter__()
        self.type(f"sonde top -d 0.2 {' '.join(map(str, self.words))}; echo left $?\n")
        return self

    def until(self, *patterns):
        """Waits until the screen matches all PATTERNS; returns it."""
        shown = [""]

        def matches():
            shown[0] = self.screen()
            return all(re.search(pattern, shown[0], re.M) for pattern in patterns)

        until(matches, lambda: f"{patterns}\n{shown[0]}")
        return shown[0]

    def keys(self, *keys):
        for key in keys:
            self.key(key)

    def left(self, status):
        """Waits for the end of top, and checks that the terminal is as it was before."""
        shown = self.until(rf"^left {status}$")
        assert "sonde top" in shown and "TID" not in shown, shown
        assert self.tmux("display-message", "-p", "#{alternate_on}#{cursor_flag}").strip() == "01"
        self.type("stty -a\n")
        shown = self.until(r"\bicanon\b")
        assert not re.search(r"-(icanon|echo|isig|onlcr)\b", shown), shown


def _watch(screen, columns):
    """The first screen."""
    shown = screen.until(r"^ +\d+ spinner +\d+\.\d (running|runnable)", r"\?\[2Jwaiter +0\.0 waiting +\S+ s pthread_cond_wait never$",
                         r" reader +0\.0 waiting +\S+ s read fd \d+ pipe:\[\d+\]", r"^ +\d+\.\d +\d+\.\d burn +\S+\.c:\d+")
    total, own = re.search(r"^ +(\d+\.\d) +(\d+\.\d) burn", shown, re.M).groups()
    first = re.search(r"OWN %.*\n +\S+ +\S+ (\S+)", shown)[1]
    assert first == "burn" and float(own) > 90 and float(total) >= float(own), shown
    assert "without the agent" in shown and "threads 4" in shown, shown
    assert max(map(len, shown.splitlines())) <= columns, shown


def narrow():
    with _Screen(_program().pid, columns=80) as terminal:
        _watch(terminal, 80)
        terminal.type("/waiter\n")
        terminal.until(r"^/waiter")
        terminal.key("Enter")  # the stack of the thread that is left
        terminal.until(r"^thread \d+ \?\[2Jwaiter: waiting in pthread_cond_wait", r"^#\d+ +wait_forever +\S+\.c:\d+")
        terminal.key("Escape")
        terminal.until(r"waiter", r"^ +TOTAL %")
        terminal.key("Escape")
        terminal.until(r"^ +\d+ spinner")
        terminal.type("tt")
        terminal.until(r"t functions", r"^ +\S+ +\S+ burn")
        terminal.type("p")
        terminal.until(r"^FROZEN")
        terminal.type("p?")
        terminal.until(r"any key returns", r"^OWN %")
        terminal.type("xm")
        terminal.until(r"no recorder")
        terminal.type("ttsss")
        terminal.until(r"s by tid")
        terminal.tmux("resize-window", "-x", "40", "-y", "8")
        shown = terminal.until(r"^ +TID THREAD", r"q quit")
        assert len(shown.splitlines()) <= 8, shown
        terminal.tmux("resize-window", "-x", "120", "-y", "40")
        terminal.until(r"PLACE$", r"q quit  \? help  t overview  s by tid  Enter stack  p freeze")
        terminal.key("C-c")
        terminal.left(0)


def wide():
    """In a locale without UTF-8, without color, ended by a signal."""
    with _Screen(_program().pid, columns=200, LC_ALL="C", NO_COLOR="1") as terminal:
        _watch(terminal, 200)
        shell = int(terminal.tmux("display-message", "-p", "#{pane_pid}"))
        os.kill(child_of(shell), signal.SIGTERM)
        terminal.left(128 + signal.SIGTERM)


def program_ends():
    process = start_ready([BINARY])
    with _Screen(process.pid) as terminal:
        terminal.until(r"spinner", r"burn")
        kill(process)
        terminal.until(r"the program has ended; this is the last state", r"spinner")
        terminal.type("j\n")
        terminal.until(r"^thread \d+")
        terminal.type("q")
        terminal.left(0)


def command(folder):
    if SANITIZED:
        skip("the agent is not built with a sanitizer")
    with _Screen("--", BINARY, "x", TMPDIR=str(folder)) as terminal:
        shown = terminal.until(r"^heap \d\S+ .B live, \d\S+ .B/s allocated \(estimates\)", r"^ +\d+ spinner")
        pid = int(re.search(r"pid (\d+)", shown)[1])
        terminal.type("ttt")
        terminal.until(r"ALLOC/S", r"^ +\S+ .B +\S+ .B hoard ")
        terminal.type("m")
        terminal.until(r"^allocations: the sensor malloc is off; m switches it on")
        terminal.type("m")
        terminal.until(r"^heap at least \d")
        terminal.type("q")
        terminal.until(r"^ready$")  # the program's output
        terminal.left(0)
    assert not os.path.exists(f"/proc/{pid}")
    assert not os.listdir(folder), os.listdir(folder)


def frames():
    """Output that is no terminal."""
    done = try_sonde("top", "-n", 2, "-d", "0.2", _program().pid, env={**os.environ, "COLUMNS": "80", "LC_ALL": "C"})
    assert done.returncode == 0 and not done.stderr, done
    assert done.stdout.count("TID THREAD") == 2 and "\033" not in done.stdout and done.stdout.isascii(), done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80, done.stdout
    assert "pthread_cond_wait" in done.stdout and "?[2Jwaiter " in done.stdout, done.stdout


def executes():
    """Another program in the same process, and the same one at other addresses."""
    process = subprocess.Popen(["sh", "-c", 'read line; exec "$0"', BINARY], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    with _Screen(process.pid) as terminal:
        terminal.until(r" sh +\S+ waiting")
        process.stdin.write(b"\n")
        process.stdin.flush()
        terminal.until(r"^1\.program", r"^ +\S+ +\S+ burn +\S+\.c:\d+")
    kill(process)


def without_perf():
    """Running threads are stopped instead."""
    launcher = compile_c(NO_PERF)
    done = subprocess.run([launcher, SONDE, "top", "-n", "4", "-d", "0.3", str(_program().pid)], capture_output=True, text=True,
                          env={**os.environ, "COLUMNS": "100"}, check=False)
    assert done.returncode == 0 and "perf is refused" in done.stdout, done
    assert re.search(r"^ +100\.0 +100\.0 burn", done.stdout, re.M), done.stdout


def kept_recording():
    if SANITIZED:
        skip("the agent is not built with a sanitizer")
    path = fresh()
    top = subprocess.Popen([SONDE, "top", "-n", "1000", "-d", "0.1", "-o", path, "--", BINARY, "x"], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True)
    shown = ""
    while not re.search(r"^ +\S+ +\S+ burn ", shown, re.M):  # so the program has said that it is ready
        shown = top.stdout.readline()
        assert shown, top.stderr.read()
    top.send_signal(signal.SIGINT)
    _, said = top.communicate()
    assert top.returncode == 0 and "ready" in said, (top.returncode, said)
    assert "sample" in try_sonde("report", path).stdout
    done = try_sonde("top", "--once", "--", "/nonexistent")
    assert done.returncode == 2 and "cannot run '/nonexistent'" in done.stderr and not done.stdout, done


def closed_pipe():
    """Whoever reads the frames ends: top ends its program and fails."""
    if SANITIZED:
        skip("the agent is not built with a sanitizer")
    top = subprocess.Popen([SONDE, "top", "-n", "1000", "-d", "0.1", "--", BINARY, "x"], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True)
    pid = re.search(r"pid (\d+)", top.stdout.readline())[1]
    top.stdout.close()
    said = top.stderr.read()
    assert top.wait() == 2 and "cannot write the output" in said, said
    assert not os.path.exists(f"/proc/{pid}")


def refused():
    for words in (["999999999"], ["x"], [], ["1", "2"], ["-d", "0", "1"], ["-n", "0", "1"], ["-o", "x", "1"]):
        done = try_sonde("top", *words)
        assert done.returncode == 2 and done.stderr.startswith("sonde top:") and not done.stdout, (words, done)
    if os.geteuid() == 0 and others_can_run_sonde():
        done = subprocess.run(["setpriv", "--reuid=65534", "--clear-groups", SONDE, "top", "--once", str(_program().pid)],
                              capture_output=True, text=True, check=False)
        assert done.returncode == 2 and "sonde top:" in done.stderr and not done.stdout, done


run_cases(globals())
