#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""An object is loaded into programs of each kind, called and removed again, while the program counts: linked with
glibc or musl, dynamic or static, and in another pid namespace."""
import os
import re
import shutil
import subprocess

from helpers import BUILD, FIXTURES, compile_c, needs_plain_build, run_cases, skip

needs_plain_build()

CYCLES = 5
PROGRAM = r"""
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static volatile unsigned long turns;
static void *wait_often(void *unused) {
  for (;; turns++)
    if (usleep(2000)) return unused;
}
static void on_signal(int number) { (void)number; }
static void *answer(void *ended) {
  char line[64];
  if (ended) pthread_join(*(pthread_t *)ended, NULL);
  puts("ready");
  fflush(stdout);
  while (fgets(line, sizeof line, stdin)) {
    unsigned long before = turns;
    while (turns == before) usleep(1000);
    puts("alive");
    fflush(stdout);
  }
  exit(7);
}
int main(void) {
  pthread_t thread;
  signal(SIGUSR1, on_signal);
  pthread_create(&thread, NULL, wait_often, NULL);
#ifdef MAIN_ENDS
  static pthread_t own;
  own = pthread_self();
  pthread_create(&thread, NULL, answer, &own);
  pthread_exit(NULL);
#endif
  answer(NULL);
}
"""


def attach(pid):
    """Runs cycles on PID. None may fail, and none may leave the object behind."""
    done = subprocess.run([os.path.join(BUILD, "tests", "attach-cycles"), str(pid), FIXTURES / "libattach_toy.so",
                           str(CYCLES)], capture_output=True, text=True, timeout=120, check=False)
    assert f"cycles {CYCLES} failed 0 kept 0" in done.stdout, done.stdout + done.stderr


def try_program(program, *prefix):
    """The program answers after the cycles, has no mapping more, and ends as it should."""
    process = subprocess.Popen([*prefix, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    pid = process.pid
    if prefix:
        pid = int(open(f"/proc/{pid}/task/{pid}/children", encoding="ascii").read().split()[0])
    before = images(pid)
    attach(pid)
    assert images(pid) == before
    process.stdin.write("?\n")
    process.stdin.flush()
    assert process.stdout.readline() == "alive\n"
    process.stdin.close()
    status = process.wait(60)
    assert status == 7, status


def images(pid):
    """The executable mappings: addresses and names. A main thread that has ended does not show them."""
    with open(f"/proc/{max(map(int, os.listdir(f'/proc/{pid}/task')))}/maps", encoding="utf-8") as file:
        return re.findall(r"^(\S+) ..x. .*?(\S*)$", file.read(), re.M)


def glibc():
    try_program(compile_c(PROGRAM, "-pthread"))


def main_thread_ended():
    try_program(compile_c(PROGRAM, "-pthread", "-DMAIN_ENDS"))


def glibc_static():
    try_program(compile_c(PROGRAM, "-pthread", "-static"))


def glibc_static_pie():
    try_program(compile_c(PROGRAM, "-pthread", "-static-pie"))


def musl():
    if not shutil.which("musl-gcc"):
        skip("musl-gcc is not installed")
    try_program(compile_c(PROGRAM, compiler="musl-gcc"))


def musl_static():
    if not shutil.which("musl-gcc"):
        skip("musl-gcc is not installed")
    try_program(compile_c(PROGRAM, "-static", compiler="musl-gcc"))


def other_pid_namespace():
    unshare = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if os.geteuid() or subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        skip("no right to make a pid namespace")
    try_program(compile_c(PROGRAM, "-pthread"), *unshare)


run_cases(globals())
