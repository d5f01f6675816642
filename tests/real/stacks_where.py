#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Programs whose files are not where they were: deleted, replaced, in a memfd, in another mount and
pid namespace; threads and shared objects by the thousand. Each must be read whole and named."""
import atexit
import json
import os
import platform
import pathlib
import resource
import shutil
import subprocess
import sys
import threading

from helpers import (
    COMMAND, FIXTURES, SONDE, child_of, compile_c, kill, needs, run_cases, skip, sonde, start_ready, states_of, until,
    until_asleep)


def look(pid, *options):
    return json.loads(sonde("stacks", "--json", *options, pid))


def check_busy(answer, threads):
    """Every thread whole, and the functions of the fixture named."""
    assert len(answer["threads"]) == threads, len(answer["threads"])
    for thread in answer["threads"]:
        assert thread["complete"], thread
        names = [frame.get("function") for frame in thread["frames"]]
        assert "plain" in names and "through_pointer" in names, names
        assert any(frame.get("line") for frame in thread["frames"]
                   if frame.get("function") == "plain"), thread


def deleted(folder):
    program = shutil.copy(FIXTURES / "busy-O2", folder / "gone")
    process = start_ready([program, "5"])
    os.unlink(program)
    check_busy(look(process.pid), 6)
    kill(process)
    return "a deleted program"


def replaced(folder):
    program = shutil.copy(FIXTURES / "busy-O2", folder / "replaced")
    process = start_ready([program, "5"])
    shutil.copy(FIXTURES / "waits", folder / "new")
    os.rename(folder / "new", program)
    check_busy(look(process.pid), 6)
    kill(process)
    return "a program whose file was replaced by another"


def from_memory(folder):
    """As `deleted`, without the privilege to open what is deleted: the bytes come from memory, where
    the section headers, and with them symbols and lines, are not mapped; the frames are whole."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        skip("needs root and setpriv")
    os.chmod(folder, 0o755)
    program = shutil.copy(FIXTURES / "busy-O2", folder / "from-memory")
    os.chmod(program, 0o755)
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    process = start_ready([*user, program, "5"])
    os.unlink(program)
    for path in COMMAND:
        shutil.copy(path, folder)
    run = subprocess.run([*user, folder / os.path.basename(SONDE), "stacks", "--json", str(process.pid)],
                         capture_output=True, text=True, timeout=150, check=False,
                         env=dict(os.environ, HOME="/nowhere"))
    assert run.returncode == 0, run.stderr
    threads = json.loads(run.stdout)["threads"]
    assert len(threads) == 6 and all(thread["complete"] for thread in threads), run.stdout[:2000]
    assert all(len(thread["frames"]) >= 20 for thread in threads)
    kill(process)
    return "a deleted program, by a user who may not open it: frames from its memory"


def in_memfd():
    runner = ("import os, sys; fd = os.memfd_create('program', 0); "
              "os.write(fd, open(sys.argv[1], 'rb').read()); "
              "os.execv(f'/proc/self/fd/{fd}', ['program', '5'])")
    process = start_ready([sys.executable, "-c", runner, str(FIXTURES / "busy-O2")])
    answer = look(process.pid)
    check_busy(answer, 6)
    kill(process)
    return "a program in a memfd"


def can_unshare():
    return shutil.which("unshare") and subprocess.run(
        ["unshare", "-m", "-p", "-f", "true"], capture_output=True, check=False).returncode == 0


def in_container():
    if not can_unshare():
        skip("no new namespaces here")
    script = ("mount -t tmpfs none /mnt && cp {0}/busy-O2 {0}/deadlock /mnt && "
              "exec /mnt/{1}").format(FIXTURES, "{}")
    outer = start_ready(["unshare", "-m", "-p", "-f", "sh", "-c", script.format("busy-O2 5")])
    inner = child_of(outer.pid)
    until_asleep(inner)
    answer = look(inner)
    assert answer["exe"] == "/mnt/busy-O2" and not os.path.exists("/mnt/busy-O2")
    check_busy(answer, 6)
    subprocess.run(["kill", "-9", str(inner)], check=True)
    outer.wait()
    outer = start_ready(["unshare", "-m", "-p", "-f", "sh", "-c", script.format("deadlock")])
    inner = child_of(outer.pid)
    until_asleep(inner)
    threads = {thread["tid"]: thread for thread in look(inner)["threads"]}
    locked = {thread["name"]: thread for thread in threads.values() if "deadlock" in thread}
    assert set(locked) == {"first", "second", "third", "itself"}, locked.keys()
    assert threads[locked["first"]["owner"]]["name"] == "second"
    subprocess.run(["kill", "-9", str(inner)], check=True)
    outer.wait()
    return "a program in another mount and pid namespace, its mutex owners as we number them"


def main_thread_ended():
    code = ("import ctypes, threading, time; libc = ctypes.CDLL(None); "
            "threading.Thread(target=lambda: (print('ready', flush=True), time.sleep(100))).start(); "
            "libc.syscall(60, 0)")
    if os.uname().machine != "x86_64":
        skip("the number of exit(2) is x86_64's")
    process = start_ready([sys.executable, "-c", code], asleep=False)
    until(lambda: "".join(states_of(process.pid).values()) == "ZS", "the first thread ends, the other sleeps")
    answer = look(process.pid)
    main, other = answer["threads"]
    assert main["state"] == "zombie" and main["frames"] == [] and "ended" in main["reason"]
    assert other["complete"] and other["syscall"] == "clock_nanosleep", other
    kill(process)
    return "a program whose main thread ended before the others"


MUSL = """
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static pthread_mutex_t a, b;
static pthread_barrier_t both;
static void *lock_two(void *first) {
  pthread_mutex_t *one = first ? &a : &b, *two = first ? &b : &a;
  pthread_mutex_lock(one); pthread_barrier_wait(&both); pthread_mutex_lock(two); return 0; }
int main(void) {
  pthread_mutexattr_t kind; pthread_t thread;
  pthread_mutexattr_init(&kind); pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&a, &kind); pthread_mutex_init(&b, &kind); pthread_barrier_init(&both, 0, 2);
  pthread_create(&thread, 0, lock_two, 0); pthread_create(&thread, 0, lock_two, &a);
  puts("ready"); fflush(stdout); pause(); }
"""


def check_musl(folder, *static):
    """Frames by scan: each has the right caller, says what it is, and nothing is called complete."""
    compile_c(MUSL, "-g", "-O1", *static, compiler="musl-gcc", out=folder / "two")
    process = start_ready([str(folder / "two")])
    until(lambda: "".join(states_of(process.pid).values()) == "SSS", "both wait for a mutex")
    threads = look(process.pid)["threads"]
    assert all(not thread["complete"] for thread in threads), threads
    names = [[frame.get("function") for frame in thread["frames"]] for thread in threads]
    assert "main" in names[0] and "lock_two" in names[1] and "lock_two" in names[2], names
    assert all(any(frame.get("guessed") for frame in thread["frames"]) for thread in threads)
    kill(process)
    return threads


def musl(folder):
    """musl's libc has no unwind information. Nothing is stopped for it."""
    needs("musl-gcc")
    threads = check_musl(folder)
    assert all(thread["stopped_us"] == 0 for thread in threads), threads
    assert threads[1]["owner"] == threads[2]["tid"] and threads[2]["owner"] == threads[1]["tid"]
    assert threads[1]["deadlock"] == threads[2]["deadlock"] == 1
    return "a program of musl: frames by scan, marked; its deadlock"


def musl_static(folder):
    """The same libc in an image that has unwind information for other code."""
    needs("musl-gcc")
    check_musl(folder, "-static")
    return "a static program of musl"


NO_ROWS = """
#include <stdio.h>
#include <unistd.h>
/* So much code that the rows of the start-up code are less than a 512th of it. */
__asm__(".text; .fill 400000, 1, 0x90");
static int (*volatile call[2])(int);
__attribute__((noinline)) static int inner(int n) { volatile char room[n + 8]; room[0] = (char)n;
  puts("ready"); fflush(stdout); pause(); return room[0]; }
__attribute__((noinline)) static int middle(int n) { return n > 3 ? call[1](n) * 3 : call[0](n + 1) + 2; }
int main(int argc, char **argv) { (void)argv; call[0] = middle; call[1] = inner; return middle(argc) + 1; }
"""


def no_rows(folder):
    """A browser's code has frame pointers and no unwind information, and calls through pointers."""
    for name, options in (("pointers", ["-fno-omit-frame-pointer"]), ("nothing", ["-fomit-frame-pointer"])):
        if name == "nothing" and platform.machine() != "x86_64":
            continue
        compile_c(NO_ROWS, "-O1", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", *options, out=folder / name)
        process = start_ready([str(folder / name)])
        until(lambda: set(states_of(process.pid).values()) == {"S"}, "it waits")
        (thread,) = look(process.pid)["threads"]
        names = [frame.get("function") for frame in thread["frames"]]
        own = [name for name in names if name in ("inner", "middle", "main")]
        assert thread["complete"] and own == ["inner", *["middle"] * 4, "main"], thread
        kill(process)
    return "code without unwind information, with and without frame pointers"


FRAMES = """
#include <stdio.h>
#include <unistd.h>
static int (*volatile call)(int);
__attribute__((noinline)) static int inner(int n) { volatile char room[n + 8]; room[0] = (char)n;
  puts("ready"); fflush(stdout); pause(); return room[0]; }
__attribute__((noinline)) static int outer(int n) { return call(n + 1) + 1; }
int main(int argc, char **argv) { (void)argv; call = inner; return outer(argc * 40) + 1; }
"""


def compressed_frames(folder):
    """.debug_frame alone, compressed, in every form there is."""
    (folder / "frames.c").write_text(FRAMES)
    for how in ("none", "zlib", "zlib-gnu", "zstd"):
        build = ["gcc", "-g", "-O2", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables",
                 f"-gz={how}", "frames.c", "-o", how]
        made = subprocess.run(build, cwd=folder, check=False, capture_output=True)
        if made.returncode != 0 and how == "zstd":
            continue  # before gcc 13
        assert made.returncode == 0, made.stderr
        process = start_ready([str(folder / how)])
        names = [f.get("function") for f in look(process.pid)["threads"][0]["frames"]]
        own = [n for n in names if n in ("inner", "outer", "main")]
        assert own == ["inner", "outer", "main"], names
        assert not any(f.get("guessed") for f in look(process.pid)["threads"][0]["frames"]), how
        kill(process)
    return "compressed .debug_frame"


JUMPS = """
#include <stdio.h>
#include <unistd.h>
static int (*volatile anywhere)(int);
__attribute__((noipa)) static int last(int n) { puts("ready"); fflush(stdout); pause(); return n + 1; }
__attribute__((noipa)) static int lost(int n) { return anywhere(n + 3); }
__attribute__((noipa)) static int jumps(int n) { return n & 1 ? last(n + 2) : lost(n); }
static inline __attribute__((always_inline)) int inlined(int n) { return jumps(n) * 3; }
__attribute__((noipa)) static int outer(int n) { return inlined(n) + 1; }
int main(int argc, char **argv) { (void)argv; return outer(argc) + 1; }
"""


def jump_after_inlined():
    """A tail call below a call that stands in inlined code, of which only debug information is certain."""
    if os.uname().machine != "x86_64":
        skip("what the compiler makes of it is known of x86_64")
    process = start_ready([compile_c(JUMPS, "-g", "-O2", compiler="gcc")])
    frames = look(process.pid)["threads"][0]["frames"][1:6]
    told = [(f.get("function"), f.get("tail_call", False), f.get("inlined", False)) for f in frames]
    assert told == [("last", False, False), ("jumps", True, False), ("inlined", False, True),
                    ("outer", False, False), ("main", False, False)], told
    kill(process)
    return "a tail call below inlined code"


GO = """
package main
import "fmt"
func inner(c chan int) int { return <-c }
func outer(c chan int) int { return inner(c) + 1 }
func spin(n int) int { for n != 0 { n |= 2 }; return n }
func main() { go spin(1); fmt.Println("ready"); outer(make(chan int)) }
"""


def go(folder):
    """Go's linker writes .debug_frame alone, and compresses it. What the scheduler has left of the
    main thread's own stack leads anywhere; goroutines and the other threads have a first frame."""
    needs("go")
    (folder / "two.go").write_text(GO)
    environment = dict(os.environ, GOCACHE=str(folder / "cache"), GO111MODULE="off")
    subprocess.run(["go", "build", "-gcflags=-l", "-o", "two", "two.go"], cwd=folder, check=True,
                   env=environment)
    process = start_ready([str(folder / "two")], asleep=False)  # its first thread may be the one that spins
    for _ in range(200):  # the scheduler interrupts by signal, a hundred times a second
        stacks = [[frame.get("function") or "" for frame in thread["frames"]]
                  for thread in look(process.pid)["threads"] if thread["complete"]]
        if any(stack[0] == "main.spin" for stack in stacks):
            break
    assert any(stack[0] == "main.spin" and stack[-1].startswith("runtime.goexit")
               for stack in stacks), stacks
    assert any("runtime.sysmon" in stack and stack[-1].startswith("runtime.clone")
               for stack in stacks), stacks
    kill(process)
    return "a program of Go: whole stacks by its compressed .debug_frame"


THREADS = """
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void *nap(void *none) { pause(); return none; }
int main(void) {
  pthread_attr_t small; pthread_t thread; int made = 0;
  pthread_attr_init(&small); pthread_attr_setstacksize(&small, 1 << 16);
  while (made < 10000 && pthread_create(&thread, &small, nap, 0) == 0) made++;
  puts(made == 10000 ? "ready" : "fewer"); fflush(stdout); nap(0); }
"""


def many_threads():
    process = subprocess.Popen([compile_c(THREADS, "-g", "-O1", "-pthread", compiler="gcc")], stdout=subprocess.PIPE,
                               text=True)
    atexit.register(process.kill)
    if process.stdout.readline() != "ready\n":
        kill(process)
        skip("no 10,000 threads here")
    until(lambda: set(states_of(process.pid).values()) == {"S"}, "all of them wait")
    threads = look(process.pid)["threads"]
    assert {thread["tid"] for thread in threads} == set(states_of(process.pid)) and len(threads) == 10001
    for thread in threads:
        assert thread["complete"] and "nap" in [frame.get("function") for frame in thread["frames"]], thread
    kill(process)
    return "10,000 threads"


OBJECT = """
typedef int step_t(void **, int);
int step(void **next, int n) { return ((step_t *)next[n + 1])(next, n + 1) + 1; }
"""
OBJECTS = """
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>
static void *next[5001];
static int last(void **list, int n) { puts("ready"); fflush(stdout); pause(); return n + !list; }
int main(int argc, char **argv) {
  for (int i = 0; i < 5000; i++) {
    char path[4096]; snprintf(path, sizeof path, "%s/%d.so", argv[1], i);
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!object || !(next[i] = dlsym(object, "step"))) return 1;
  }
  next[5000] = (void *)last;
  return ((int (*)(void **, int))next[0])(next, 0) + argc; }
"""


def many_objects(folder):
    """Each calls the next, so that one stack leads through all of them; the system's usual limit on
    open files is far lower."""
    (folder / "object.c").write_text(OBJECT)
    (folder / "objects.c").write_text(OBJECTS)
    for build in (["-s", "-shared", "-fPIC", "-Wl,-z,noseparate-code", "object.c", "-o", "object.so"],
                  ["-g", "objects.c", "-o", "objects", "-ldl"]):
        subprocess.run(["gcc", "-O2", *build], cwd=folder, check=True)
    object_bytes = (folder / "object.so").read_bytes()
    for i in range(5000):
        (folder / f"{i}.so").write_bytes(object_bytes)
    process = start_ready([folder / "objects", folder])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 16384:
        skip(f"at most {hard} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 1024), hard))
    answer = look(process.pid, "--depth", "6000")
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    thread = answer["threads"][0]
    steps = [frame["module"] for frame in thread["frames"] if frame.get("function") == "step"]
    assert thread["complete"] and steps == [f"{folder}/{i}.so" for i in reversed(range(5000))], thread["frames"][:9]
    kill(process)
    return "a stack through 5,000 shared objects"


JITTED = """
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static int wait_here(void) { puts("ready"); fflush(stdout); pause(); return 1; }
int main(void) {
  static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
  unsigned char *made = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char path[64]; snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
  FILE *map = fopen(path, "w"); fprintf(map, "%lx 8 made\\n", (long)made); fclose(map);
  memcpy(made, code, sizeof code); mprotect(made, 4096, PROT_READ | PROT_EXEC);
  return ((int (*)(int (*)(void)))made)(wait_here) + 1; }
"""


def start_jitted(folder, name):
    """The program and its perf map."""
    process = start_ready([compile_c(JITTED, "-g", "-O1", compiler="gcc", out=folder / name)])
    path = pathlib.Path(f"/tmp/perf-{process.pid}.map")
    atexit.register(path.unlink, missing_ok=True)
    return process, path


def perf_map_rewritten(folder):
    """A virtual machine writes its perf map anew while it is read."""
    if os.uname().machine != "x86_64":
        skip("the code that is made is x86_64's")
    process, path = start_jitted(folder, "jitted")
    first = path.read_text()
    text = first + "".join(f"{0x1000 + i * 64:x} 40 other\n" for i in range(100000))
    over = threading.Event()

    def rewrite():
        while not over.is_set():
            path.write_text(text)

    writer = threading.Thread(target=rewrite)
    writer.start()
    try:
        for _ in range(60):
            look(process.pid)
    finally:
        over.set()
        writer.join()
    assert "made" in [frame.get("function") for frame in look(process.pid)["threads"][0]["frames"]]
    kill(process)
    return "a perf map that is written anew while it is read"


def names_that_drive_terminals(folder):
    """Whoever names a file or makes code at run time may be someone else than who looks."""
    if os.uname().machine != "x86_64":
        skip("the code that is made is x86_64's")
    escape = "\x1b]0;title\x07"
    process, path = start_jitted(folder, "bold\x1b[1m\nprogram")
    path.write_text(path.read_text().replace("made", f"made {escape}"))
    said = sonde("stacks", process.pid)
    assert not [c for c in said if ord(c) < 32 and c != "\n"], said
    assert "made ?]0;title?+0x6" in said and "bold?[1m?program" in said, said
    answer = look(process.pid)
    assert answer["exe"].endswith("/bold\x1b[1m\nprogram"), answer["exe"]
    assert f"made {escape}" in [frame.get("function") for frame in answer["threads"][0]["frames"]], answer
    kill(process)
    return "names with control characters"


run_cases([deleted, replaced, from_memory, in_memfd, in_container, main_thread_ended, musl, musl_static, no_rows,
           compressed_frames, jump_after_inlined, go, many_threads, many_objects, perf_map_rewritten,
           names_that_drive_terminals])
