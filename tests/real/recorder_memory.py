#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The resident memory of the recorder: it grows neither with the symbols of the program nor with processes that end."""
import os
import pathlib
import re
import subprocess
import time

from helpers import compile_c, needs_agent, run_cases, start_record, until, until_child

needs_agent()

# The program has this many symbols: some 9 MB of tables.
SYMBOLS = 150_000

# Starts and awaits processes, then starts as many as the argument says, and ends when its input does.
FORKS = r"""
#include <poll.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void wait_for_input(void) {
  struct pollfd input = {.fd = 0, .events = POLLIN};
  while (poll(&input, 1, -1) < 0) {} /* a sample may interrupt it */
}
int main(int argc, char **argv) {
  for (int i = 0; i < 4; i++) {
    pid_t child = fork();
    if (!child) { free(malloc(100)); usleep(200000); _exit(0); }
    waitpid(child, NULL, 0);
  }
  for (int i = 0; i < atoi(argv[argc - 1]); i++)
    if (!fork()) { free(malloc(100)); wait_for_input(); _exit(0); }
  if (write(1, "ready\n", 6) != 6) return 1;
  wait_for_input();
  while (wait(NULL) > 0) {}
  return 0;
}
"""

# Computes in generated code until its input ends.
GENERATED = r"""
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#if defined __x86_64__ /* dec rdi; jne; ret */
static const unsigned char count_down[] = {0x48, 0xff, 0xcf, 0x75, 0xfb, 0xc3};
#else /* subs x0, x0, 1; b.ne; ret */
static const unsigned count_down[] = {0xf1000400, 0x54ffffe1, 0xd65f03c0};
#endif
int main(void) {
  struct pollfd input = {.fd = 0, .events = POLLIN};
  char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(code, count_down, sizeof count_down);
  if (mprotect(code, 4096, PROT_READ | PROT_EXEC)) return 1;
  __builtin___clear_cache(code, code + sizeof count_down);
  while (poll(&input, 1, 0) < 1) ((void (*)(unsigned long))code)(100000000);
  return 0;
}
"""


def _memory_kb(pid):
    """Of files, and of no file."""
    text = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return tuple(int(re.search(rf"{name}:\s+(\d+)", text)[1]) for name in ("RssFile", "RssAnon"))


def _threads(pid, name):
    """How many threads of the process PID have this name; one may end meanwhile."""
    count = 0
    for tid in os.listdir(f"/proc/{pid}/task"):
        try:
            count += pathlib.Path(f"/proc/{pid}/task/{tid}/comm").read_text(encoding="utf-8").strip() == name
        except OSError:
            pass
    return count


def _end(recorder):
    recorder.stdin.close()
    assert recorder.wait() == 0


def symbols_of_the_program():
    names = "".join(f'".globl a_function_with_a_long_name_{i}\\na_function_with_a_long_name_{i}: .byte 0\\n"\n'
                    for i in range(SYMBOLS))
    kb = []
    for source in GENERATED, GENERATED + f"__asm__(\".text\\n\"\n{names});\n":
        _, recorder = start_record([compile_c(source, "-O1")], stdin=subprocess.PIPE)
        until_child(recorder.pid)
        time.sleep(3)  # the threads of the recorder read the program in its first seconds
        kb.append(_memory_kb(recorder.pid)[0])
        _end(recorder)
    print(f"files: {kb[0]} KB, {kb[1]} KB with {SYMBOLS} symbols")
    assert kb[1] < kb[0] + 3000, kb


def processes_that_end():
    kb = []
    for count in 1, 6:
        _, recorder = start_record([compile_c(FORKS, "-O1"), count], "--follow", stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)
        assert recorder.stdout.readline() == "ready\n"
        until(lambda pid=recorder.pid, n=count: _threads(pid, "sonde-stall") > n, "all processes are recorded")
        kb.append(_memory_kb(recorder.pid)[1])
        _end(recorder)
    print(f"memory: {kb[0]} KB with 2 processes, {kb[1]} KB with 7")
    assert max(kb) < 3000, kb


run_cases(globals())
