#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sonde record -p --malloc: the agent is loaded into a running program and leaves it again. The oracles are the
program's own counts, and its memory, descriptors, threads and signal handlers before and after."""
import os
import pathlib
import signal
import subprocess
import types

from helpers import (
    SONDE, TIMEOUT_SECONDS, child_of, compile_c, needs_agent, report, run_cases, runs_on, skip, try_sonde, until, until_threads)
from shared.attached import BUFFERS, Attached, Program, compile_program
from shared.serving import record_again_and_again

needs_agent()

COUNTED = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void *old[1000], *volatile kept[10];
static void *work(void *count) {
  for (long i = 0; i < (long)count; i++) {
    void *volatile block = malloc((size_t)(16 + i % 100));
    block = realloc(block, (size_t)(200 + i % 50));
    free(block);
  }
  return NULL;
}
static void *waits(void *unused) { for (;;) pause(); return unused; }
static void keep(void) { for (int i = 0; i < 10; i++) kept[i] = calloc(1, 1000); }
int main(void) {
  char line;
  pthread_t threads[4];
  for (int i = 0; i < 1000; i++) old[i] = malloc(50);
  pthread_create(threads, NULL, waits, NULL);
  if (write(1, "ready\n", 6) != 6) return 1;
  while (read(0, &line, 1) == 1) {
    for (int i = 0; i < 1000; i++) { free(old[i]); old[i] = NULL; }
    work((void *)1000);
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work, (void *)5000);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    keep();
    if (write(1, "done\n", 5) != 5) return 1;
  }
  return 0;
}
"""

# The array has old return addresses of the agent, which no thread returns to.
ARRAYS = r"""
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((noinline)) static int deep(int frames) {
  void *volatile block = malloc(100);
  int sum = frames ? deep(frames - 1) + 1 : 0;
  free(block);
  return sum;
}
__attribute__((noinline)) static int waits(void) {
  volatile char room[50000];
  struct pollfd in = {.fd = 0, .events = POLLIN};
  room[0] = 1;
  return poll(&in, 1, -1) + room[0];
}
int main(void) {
  char line;
  if (write(1, "ready\n", 6) != 6) return 1;
  while (waits() && read(0, &line, 1) == 1)
    if (deep(400) != 400 || write(1, "done\n", 5) != 5) return 1;
  return 0;
}
"""

# Ends the program at calls that container runtimes forbid, and refuses memory that was written as code.
FILTERS = r"""
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IF(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no)
#define RESULT(value) BPF_STMT(BPF_RET | BPF_K, value)
#define KILL(call) IF(SYS_##call, 0, 1), RESULT(SECCOMP_RET_KILL_PROCESS)
int main(int count, char **arguments) {
  struct sock_filter code[] = {
      LOAD(nr), KILL(ptrace), KILL(process_vm_readv), KILL(process_vm_writev), KILL(perf_event_open), KILL(bpf),
      KILL(userfaultfd), KILL(kcmp), KILL(mount), KILL(unshare), KILL(setns), KILL(open_by_handle_at), KILL(keyctl),
      KILL(personality), KILL(move_pages), KILL(mbind), KILL(get_mempolicy),
      IF(SYS_clone3, 0, 1), RESULT(SECCOMP_RET_ERRNO | 38), /* ENOSYS */
      IF(SYS_clone, 0, 4), LOAD(args[0]), BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x7e020000, 0, 1),
      RESULT(SECCOMP_RET_KILL_PROCESS), LOAD(nr), /* CLONE_NEW… */
      IF(SYS_mprotect, 0, 4), LOAD(args[2]), BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1),
      RESULT(SECCOMP_RET_ERRNO | 1), LOAD(nr),
      IF(SYS_mmap, 0, 3), LOAD(args[2]), IF(PROT_READ | PROT_WRITE | PROT_EXEC, 0, 1), RESULT(SECCOMP_RET_ERRNO | 1),
      RESULT(SECCOMP_RET_ALLOW)};
  struct sock_fprog filter = {sizeof code / sizeof *code, code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) return 3;
  return count > 1 ? execvp(arguments[1], arguments + 1) : 127;
}
"""

LIBRARY = """
#include <stdlib.h>
void *volatile block;
void call(int count) { for (int i = 0; i < count; i++) { block = malloc(100); free(block); } }
"""

LOADS = r"""
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>
int main(int count, char **arguments) {
  char line;
  if (count < 2 || write(1, "ready\n", 6) != 6) return 1;
  while (read(0, &line, 1) == 1) {
    void *library = dlopen(arguments[1], RTLD_NOW);
    void (*call)(int) = (void (*)(int))dlsym(library, "call");
    call(1234);
    dlclose(library);
    if (write(1, "done\n", 5) != 5) return 1;
  }
  return 0;
}
"""

# An exception passes the frames of the agent: those of dl_iterate_phdr and of the callback that it passes on.
THROWS = r"""
#include <link.h>
#include <stdlib.h>
#include <unistd.h>
struct Guard { int &count; ~Guard() { count++; } };
static int guards, caught;
static int visit(dl_phdr_info *, size_t, void *) { Guard guard{guards}; throw 1; }
int main() {
  char line;
  if (write(1, "ready\n", 6) != 6) return 1;
  while (read(0, &line, 1) == 1) {
    void (*volatile release)(void *) = free; // an address that the program keeps
    try { Guard guard{guards}; dl_iterate_phdr(visit, nullptr); } catch (int) { caught++; }
    release(malloc(10));
    if (write(1, "done\n", 5) != 5) return 1;
  }
  return guards == 2 * caught && caught ? 0 : 3;
}
"""


OPENS = r"""
#include <fcntl.h>
#include <unistd.h>
static void opens(void) { close(open("/dev/null", O_RDONLY)); }
int main(void) {
  char line;
  if (write(1, "ready\n", 6) != 6) return 1;
  while (read(0, &line, 1) == 1) {
    for (int i = 0; i < 1000; i++) opens();
    if (write(1, "done\n", 5) != 5) return 1;
  }
  return 0;
}
"""

# Keeps what it finds at its first work, and calls that each time.
KEEPS = r"""
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
static void *(*volatile from_slot)(void *, const char *), *(*volatile found)(void *, const char *);
static int (*volatile opens)(const char *, int, ...);
static void *(*volatile allocates)(size_t);
int main(void) {
  char line;
  if (write(1, "ready\n", 6) != 6) return 1;
  while (read(0, &line, 1) == 1) {
    if (!found) {
      found = (void *(*)(void *, const char *))dlsym(RTLD_DEFAULT, "dlsym");
      opens = (int (*)(const char *, int, ...))dlsym(RTLD_DEFAULT, "open");
      allocates = (void *(*)(size_t))dlsym(RTLD_DEFAULT, "malloc");
      from_slot = dlsym;
    }
    for (int i = 0; i < 100; i++) free(allocates(50));
    if (!found(RTLD_DEFAULT, "getpid") || found(RTLD_DEFAULT, "getpid") != from_slot(RTLD_DEFAULT, "getpid")) return 3;
    if (close(opens("/dev/null", O_RDONLY)) != 0) return 4;
    if (write(1, "done\n", 5) != 5) return 1;
  }
  return 0;
}
"""

FORKS = r"""
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>
static void *volatile block;
int main(void) {
  char line;
  pid_t child = 0;
  if (write(1, "ready\n", 6) != 6) return 1;
  while (read(0, &line, 1) == 1) {
    if (!child && (child = fork()) == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (;;) { block = malloc(10); free(block); usleep(1000); }
    }
    if (write(1, "done\n", 5) != 5) return 1;
  }
  return 0;
}
"""

# Blocks of one function, and blocks of functions whose code dies; the next ones get its memory. At its end, the
# deallocator in the type of code objects is the interpreter's own.
PYTHON = r"""
import ctypes, os, sys, types
deallocator = ctypes.c_uint64.from_address(id(types.CodeType) + 48)
before = deallocator.value
kept = [None] * 500
def keep(i):
    kept[i] = "x" * (2000 + i)
def work(number):
    for i in range(500):
        keep(i)
    for i in range(50):
        scope = {}
        exec(compile(f"def short_{number}_{i}(j): return 'y' * (1500 + j)", "short.py", "exec"), scope)
        function = scope.popitem()[1]
        blocks = [function(j) for j in range(10)]
        del scope, function
os.write(1, b"ready\n")
number = 0
while os.read(0, 1):
    work(number)
    number += 1
    os.write(1, b"done\n")
sys.exit(deallocator.value != before)
"""


def blocks_equal_the_programs_own_count(folder):
    with Program(compile_program(COUNTED)) as program, Attached(program) as attached:
        program.work()
        told = attached.end()
        program.work()
        assert program.end() == 0
    # A realloc is an allocation as well.
    assert told["allocated"]["blocks"] == 42010 and told["reallocs"] == 21000, told
    assert told["frees"] == 22000 and told["prerecording_frees"] == 1000, told
    assert told["unknown_frees"] == 0, told


def nothing_stays_but_the_gates(folder):
    with Program(compile_program(COUNTED)) as program:
        program.work()
        until_threads(program.pid, 2)  # the first one, and the one that waits
        state, code = program.state(), program.code()
        for cycle in range(3):
            with Attached(program) as attached:
                program.work()
                inside = program.gates()
                assert len(inside) == 1 and program.slots_into(inside[0]), inside
                attached.end()
            assert program.gates() == inside, "each agent uses the same gates"
            until_threads(program.pid, 2)  # the joined ones of its work may still end
            assert program.state() == state, cycle
            assert program.code() == code, cycle
            assert not program.slots_into(inside[0]), cycle
            program.work()
        assert program.end() == 0


def an_audit_counts_each_call(folder):
    with Program(compile_program(OPENS)) as program:
        for _ in range(3):  # the later ones use the agent that sleeps
            with Attached(program, "--audit=files") as attached:
                program.work()
                told = attached.end("audit", sleeps=True)
            program.work()
            assert [finding["calls"] for finding in told["findings"]] == [1000], told
        assert program.end() == 0


def an_equal_policy_is_mapped_once(folder):
    """The agent that sleeps between the recordings keeps it."""
    counts = []
    with Program(compile_program(OPENS)) as program:
        for _ in range(4):
            with Attached(program, "--audit=files") as attached:
                program.work()
                attached.end("audit", sleeps=True)
            mappings = list(program.mappings())
            counts.append(len(mappings))
            assert not [file for *_, file in mappings if file.startswith(BUFFERS + "policy")], mappings
        assert len(set(counts[1:])) == 1, counts
        assert program.end() == 0


def kept_addresses_of_dlsym_stay_valid(folder):
    with Program(compile_program(KEEPS, "-ldl")) as program:
        for _ in range(2):  # the second agent sees calls of addresses from the first one's time
            with Attached(program) as attached:
                program.work()
                told = attached.end()
            program.work()
            assert (told["allocated"]["blocks"], told["frees"], told["unknown_frees"]) == (100, 100, 0), told
        assert program.end() == 0


def kept_addresses_of_an_audit_outlive_later_recordings(folder):
    with Program(compile_program(KEEPS, "-ldl")) as program:
        with Attached(program, "--audit=files") as attached:
            program.work()
            told = attached.end("audit", sleeps=True)
        assert [finding["calls"] for finding in told["findings"]] == [1], told
        program.work()
        with Attached(program) as attached:
            program.work()
            told = attached.end(sleeps=True)
        assert (told["allocated"]["blocks"], told["frees"]) == (100, 100), told
        program.work()
        assert program.end() == 0


def a_child_of_a_fork_is_attached_to(folder):
    with Program(compile_program(FORKS)) as program, Attached(program) as parent:
        program.work()
        child = types.SimpleNamespace(pid=child_of(program.pid))
        for _ in range(2):
            with Attached(child) as attached:
                until(attached.blocks, "blocks of the child are recorded")
                told = attached.end(sleeps=True)
            assert told["allocated"]["blocks"] > 0 and told["unknown_frees"] == 0, told
        assert runs_on(child.pid)
        parent.end()
        program.work()
        assert program.end() == 0


def a_refused_recorder_leaves_the_agent_to_the_other(folder):
    words = ["unshare", "-n", SONDE, "record", "-p"]  # in its own network it cannot ask the first recorder
    if os.geteuid() != 0 or subprocess.run(["unshare", "-n", "true"], check=False, stderr=subprocess.DEVNULL).returncode:
        skip("a new network namespace needs root")
    with Program(compile_program(COUNTED)) as program, Attached(program) as attached:
        done = subprocess.run([*words, str(program.pid), "--malloc=all", "-o", f"{folder}/second.sonde"],
                              check=False, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
        assert done.returncode != 0 and "already at work" in done.stderr, done
        program.work()
        told = attached.end()
        program.work()
        assert program.end() == 0
    assert told["allocated"]["blocks"] == 42010, told


def the_agent_joins_a_recording_from_outside(folder):
    path = f"{folder}/joined.sonde"
    with Program(compile_program(COUNTED)) as program:
        def control(*words):
            done = try_sonde("ctl", program.pid, *words)
            return done.stdout if done.returncode == 0 else done.stderr

        with subprocess.Popen([SONDE, "record", "-p", str(program.pid), "-o", path], stderr=subprocess.PIPE) as recorder:
            until(lambda: "pid" in control("status"), "the recorder listens")
            program.work()
            assert "ctl" in control("malloc=all") and "no agent" in control("detach")
            until(lambda: control("attach") == "agent attached\n", "the agent is there")
            assert "already" in control("attach")
            assert control("malloc=all") == "malloc all\n"
            program.work()
            assert control("detach") == "agent detached\n"
            program.work()
            recorder.send_signal(signal.SIGINT)
            recorder.communicate(timeout=TIMEOUT_SECONDS)
        assert program.end() == 0
    told = report(path, "malloc")["malloc"]
    # The first work has freed the blocks from before the agent.
    assert told["allocated"]["blocks"] == 42010 and told["frees"] == 21000, told


def a_library_that_is_loaded_later_is_seen(folder):
    library = compile_c(LIBRARY, "-O1", "-shared", "-fPIC", out=f"{folder}/library.so")
    with Program(compile_program(LOADS, "-ldl"), str(library)) as program, Attached(program) as attached:
        program.work()
        told = attached.end()
        program.work()
        assert program.end() == 0
    assert told["allocated"]["blocks"] >= 1234, told


def exceptions_pass_the_agents_frames(folder):
    with Program(compile_program(THROWS, compiler="c++")) as program:
        with Attached(program) as attached:
            program.work()
            told = attached.end()
        program.work()
        assert program.end() == 0
    # The program's block and the exception.
    assert told["allocated"]["blocks"] == told["frees"] == 2 and told["unknown_frees"] == 0, told


def a_killed_recorder_is_replaced(folder):
    with Program(compile_program(COUNTED)) as program:
        with Attached(program) as attached:
            program.work()
            attached.recorder.kill()
        with Attached(program) as attached:
            program.work()
            told = attached.end()
        program.work()
        assert program.end() == 0
    assert told["allocated"]["blocks"] == 42010, told


def functions_of_python_are_named(folder):
    python = "/usr/bin/python3"
    if not os.path.exists(python):
        skip("no python3")
    runs = (("--malloc=all",), False), (("--malloc=all", "--python-lines"), False), (("--audit=files",), True), \
        (("--malloc=all",), True)  # the last one uses the agent that sleeps
    with Program(python, "-c", PYTHON) as program:
        for number, (options, sleeps) in enumerate(runs):
            with Attached(program, *options) as attached:
                program.work()
                attached.end("audit" if "--audit=files" in options else "malloc", sleeps=sleeps)
            if "--audit=files" in options:
                continue
            rows = report(attached.path, "--top", "1000", "--by", "allocated", "malloc")["malloc"]["functions"]
            blocks = {row["function"]: row["allocated"]["blocks"] for row in rows}
            wanted = {f"short_{number}_{i}": 10 for i in range(50)} | {"keep": 500}
            assert {name: blocks.get(name) for name in wanted} == wanted, (number, options, blocks)
            assert not [name for name in blocks if name.startswith("short_") and name not in wanted], blocks
        program.work()
        assert program.end() == 0, "the deallocator is another one"


def filters_that_permit_the_agent_are_no_hindrance(folder):
    if os.geteuid() != 0:
        skip("filters can be read by root only")
    with Program(compile_program(FILTERS, "-w"), compile_program(COUNTED)) as program:
        assert "\nSeccomp:\t2\n" in pathlib.Path(f"/proc/{program.pid}/status").read_text(encoding="utf-8")
        before = program.state()
        for _ in range(2):
            with Attached(program) as attached:
                program.work()
                told = attached.end()
            assert told["allocated"]["blocks"] == 42010 and not told["unknown_frees"], told
        assert program.state() == before, "its descriptors, threads or handlers differ"
        program.work()
        assert program.end() == 0


def old_words_on_a_stack_do_not_keep_the_agent(folder):
    with Program(compile_program(ARRAYS)) as program:
        for _ in range(3):
            with Attached(program) as attached:
                program.work()
                attached.end()  # the agent is not asleep
        assert program.end() == 0


def a_server_serves_on(folder):
    return record_again_and_again("redis-server", 5, 0.2, agent=True) or skip("redis-server is not installed")


def what_cannot_be_attached_to_is_refused(folder):
    with Program(compile_program(COUNTED, "-static")) as program:
        done = try_sonde("record", "-p", str(program.pid), "--malloc=all", "-o", f"{folder}/a.sonde")
        assert done.returncode == 2 and "static" in done.stderr, done
        assert not pathlib.Path(f"{folder}/a.sonde").exists()
        program.work()
        assert program.end() == 0


run_cases(globals())
