#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Functions of unmodified programs, patched at run time: the outputs are the plain ones, and every count
of calls is that of breakpoints at the functions of .eh_frame. The set of programs is larger with SOAK=1.

Some counts depend on the environment: on the number of variables and mappings, on random seeds and clocks.
So each program is counted twice (with SOAK=1 four times), with different ones, and functions whose counts
differ are left out. Two counts may be equal by chance, so the seeds of hashes are fixed where a variable does that."""
import collections
import functools
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import threading

from helpers import (
    FIXTURES, SOAK, SONDE, TIMEOUT_SECONDS, compile_c, fresh, needs, needs_agent, output_of, run_cases, skip, skip_part, sonde, start_record, try_sonde, until, write)
from shared.calls import code_in_memory, no_call_missing, record_trace, switched, trace_of, trace_source

needs_agent()
needs("readelf", "nm")
if platform.machine() != "x86_64":
    skip("the counter of breakpoints is for x86_64")

os.environ.update(PYTHONHASHSEED="0", PERL_HASH_SEED="0", PERL_PERTURB_KEYS="0")
# Every call stops at a breakpoint, which takes longest.
LINE_COUNT, ROWS, TURNS = (500, 150, 40) if SOAK else (150, 50, 12)
LINES = "".join(f"{n} {n * 7919 % 1000} text {n % 13}\n" for n in range(LINE_COUNT))
SQL = (f"create table t(a,b); with recursive c(x) as (select 1 union all select x+1 from c where x<{ROWS}) "
       "insert into t select x, x*x from c; select sum(a), max(b) from t; select count(*) from t where b%3=1;")
# What to run; the image whose functions are counted: "" is the program. LINES is a file of lines.
PROGRAMS = {
    "gzip": (["gzip", "-c", "LINES"], ""),
    "sed": (["sed", "-n", "s/7/x/gp", "LINES"], ""),
    "sort": (["sort", "-n", "-k2", "--parallel=1", "LINES"], ""),
    "bash": (["bash", "-c", "f() { echo $(($1 * 2)); }; x=1; while [ $x -lt %d ]; do f $x; x=$((x+1)); done" % TURNS], ""),
    "sqlite": (["sqlite3", ":memory:", SQL], "libsqlite3.so"),
    "xz": (["xz", "-0", "-c", "LINES"], "liblzma.so"),
}
MORE = {
    "awk": (["awk", "{s+=$2} END{print s}", "LINES"], ""),
    "grep": (["grep", "-c", "-E", "7[0-9]+ text", "LINES"], ""),
    "perl": (["perl", "-e", 'my %h; $h{$_ % 10} .= $_ for 1..50; print join(",", map { $h{$_} } sort keys %h)'], ""),
    "git": (["git", "--version"], ""),
    "openssl": (["openssl", "dgst", "-sha256", "LINES"], ""),
    "crypto": (["openssl", "dgst", "-sha256", "LINES"], "libcrypto.so"),
    "lua": (["lua5.4", "-e", "local t = {} for i = 1, 100 do t[i] = i * i end print(#t)"], ""),
    "python": (["/usr/bin/python3", "-S", "-c", "print(sum(x * x for x in range(50)))"], ""),
    "tar": (["tar", "-cf", "-", "--mtime=@0", "LINES"], ""),
    "diff": (["diff", "LINES", "/dev/null"], ""),
    "find": (["find", "/usr/share/misc"], ""),
    "ls": (["ls", "-l", "/usr/share"], ""),
    "cat": (["cat", "-n", "LINES"], ""),
    "wc": (["wc", "LINES"], ""),
    "sha256sum": (["sha256sum", "LINES"], ""),
    "od": (["od", "-c", "LINES"], ""),
    "cut": (["cut", "-d", " ", "-f2", "LINES"], ""),
    "tr": (["tr", "a-z", "A-Z"], ""),
    "uniq": (["uniq", "-c", "LINES"], ""),
    "bzip2": (["bzip2", "-c", "LINES"], "libbz2.so"),
    "zstd": (["zstd", "-q", "-c", "--single-thread", "--no-asyncio", "LINES"], ""),
    "readelf": (["readelf", "-h", "/bin/ls"], ""),
    "objdump": (["objdump", "-f", "/bin/ls"], "libbfd"),
    "gcc": (["gcc", "--version"], ""),
    "make": (["make", "--version"], ""),
    "file": (["file", "LINES"], "libmagic.so"),
    "m4": (["m4", "LINES"], ""),
    "bc": (["bc", "-q", "/dev/null"], ""),
    "redis": (["redis-server", "--version"], ""),
    "nginx": (["nginx", "-V"], ""),
    "curl": (["curl", "--version"], "libcurl"),
    "strip": (["strip", "--version"], ""),
}


def image_of(command, image):
    """The path of the image whose functions are counted."""
    program = os.path.realpath(shutil.which(command[0]))
    if not image:
        return program
    listed = re.search(rf"=> (\S*/{re.escape(image)}\S*)", output_of("ldd", program))
    return os.path.realpath(listed[1]) if listed else None


def functions_of(path):
    """The addresses that .eh_frame has, and the lowest address of the image."""
    frames = subprocess.run(["readelf", "--debug-dump=frames", path], capture_output=True, text=True).stdout
    starts = sorted({int(m[1], 16) for m in re.finditer(r" FDE .* pc=([0-9a-f]+)\.\.", frames)})
    segments = re.findall(r"LOAD +0x[0-9a-f]+ (0x[0-9a-f]+)", output_of("readelf", "-lW", path))
    return starts, min(int(s, 16) for s in segments) & ~4095


def names_of(path, offsets):
    """The name that a report gives the function at each of OFFSETS, which depends on the debug packages that are
    installed; "": it has none. The name is absent for a part that lies apart and is none by itself (.cold)."""
    told = try_sonde("symbolize", "--json", "--no-lines", "--image", path, input="\n".join(map(hex, offsets))).stdout
    outermost = {int(row["address"], 16): (row["frames"] or [{}])[-1] for row in json.loads(told)["addresses"]}
    return {offset: frame.get("function", "") for offset, frame in outermost.items()
            if "function" not in frame or "function_offset" in frame}


@functools.lru_cache(maxsize=None)
def counter():
    return compile_c(trace_source("breakpoints.c"), "-O1", out=fresh(".program"))


def counted(command, path, stdin, status, env=None):
    """How often each function of PATH is entered: by breakpoints."""
    starts, lowest = functions_of(path)
    offsets = write("\n".join(f"{n:x}" for n in [lowest, *starts]), ".txt")
    out = fresh(".txt")
    with open(stdin) as lines:
        done = subprocess.run([counter(), out, path, offsets, "--", *command], stdin=lines,
                              env=env, capture_output=True, timeout=600)
    assert done.returncode == status and os.path.getsize(out), done
    with open(out) as lines:
        return {int(a, 16): int(n) for a, n in (line.split() for line in lines)}


def not_functions(path):
    """Addresses of .eh_frame that are none: stubs of the linker, and where the kernel enters."""
    stubs = re.findall(r"\.plt\S* +PROGBITS +([0-9a-f]+)", output_of("readelf", "-SW", path))
    entry = re.search(r"Entry point address: +(0x[0-9a-f]+)", output_of("readelf", "-h", path))
    return {*(int(s, 16) for s in stubs), int(entry[1], 16)}


def compare(command, image):
    lines = write(LINES, ".txt")
    command = [lines if word == "LINES" else word for word in command]
    if not shutil.which(command[0]) or not image_of(command, image):
        return skip_part(command[0], "it is not installed")
    path = image_of(command, image)
    with open(lines) as file:
        plain = subprocess.run(command, stdin=file, capture_output=True, timeout=60)
    env = dict(os.environ, LD_PRELOAD="libutil.so.1:libanl.so.1", ONE_MORE="1", AND_ANOTHER="2")
    # With a random seed (redis) two counts may be equal by chance.
    environments = [None, env, *([None, env] if SOAK else ())]
    first, *others = (counted(command, path, lines, plain.returncode, e) for e in environments)
    pattern = (image or os.path.basename(path)) + "*!*"
    with open(lines) as file:
        recording, done = record_trace(command[0], *command[1:], trace=f"--trace={pattern}",
                                       options=("--limit", "200M"), stdin=file)
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout), done
    told = trace_of(recording)
    no_call_missing(told)
    found = collections.Counter()
    for row in told["trace"]["functions"]:
        found[row["function"]] += row["calls"]
    of_offset = {int(f.rpartition("+")[2], 16): f for f in found if re.search(r"\+0x[0-9a-f]+$", f)}
    sums, absent, unsure = collections.Counter(), {}, set()
    names = names_of(path, first)
    for offset, calls in first.items():
        if offset not in names:
            continue
        label = names[offset] if names[offset] in found else of_offset.get(offset)
        if any(other.get(offset) != calls for other in others):
            unsure.add(label)
        elif label is None:
            absent[offset] = calls
        else:
            sums[label] += calls  # a part of a function that .eh_frame has apart is named as that one
    sums = {label: calls for label, calls in sums.items() if label not in unsure}
    assert len(sums) + len(absent) > 0.7 * len(first), (len(sums), len(absent), len(first))
    wrong = {label: (found[label], calls) for label, calls in sums.items() if found[label] != calls}
    assert not wrong, wrong
    refused = sum(int(n) for n in re.findall(rb"(\d+) functions? (?:is|are) not patched", done.stderr))
    # The start code of older C libraries is never traced.
    left = [hex(offset) for offset in absent if offset not in not_functions(path) and not names[offset].startswith("__libc_csu_")]
    print(f"{os.path.basename(path)}: {sum(sums.values())} calls of {len(sums)} functions, of {len(first)} called; "
          f"{refused} functions were refused, {len(left)} of them were called:", *left)
    assert sums and len(left) <= refused, (absent, done.stderr)


def libraries_loaded_later_are_patched():
    library = os.path.join(FIXTURES, "libintercepted.so")
    program = compile_c(trace_source("reloads.c"), "-O1", "-pthread", "-ldl", out=fresh(".program"))
    recording, done = record_trace(program, library, trace="--trace=libintercepted*!*")
    assert (done.returncode, done.stdout) == (0, b"6 55\n" * 3), done
    told = trace_of(recording)
    no_call_missing(told)
    found = {f["function"]: f["calls"] for f in told["trace"]["functions"]}
    assert found == {"subject_mix": 3, "subject_deep": 33}, found


def functions_are_patched_while_threads_run():
    """The recorder stops the threads for it, and the code is the file's while tracing is off."""
    program = compile_c(trace_source("code_threads.c"), "-O1", "-g", "-pthread")
    path, out, changed, same = switched(program, "--trace=!mix,!half,!tree")
    assert out.endswith("right\n"), out
    told = trace_of(path)["trace"]
    functions = {row["function"] for row in told["functions"]}
    assert changed and same and told["lost"] == 0 and {"mix", "half", "tree"} <= functions, (changed, same, functions)
    return f"{changed + same} switches seen in the code, {told['calls']} calls"


LATE = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void *volatile block;
#define LATE(n) __attribute__((noinline)) int late_##n(int a) { volatile int b = a; return b * n; }
#define ALL(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9)
ALL(LATE)
#define CALL(n) late_##n(i);
static void *rest(void *unused) { for (;;) pause(); return unused; }
int main(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, rest, NULL);
  printf("%d\n", (int)getpid());
  fflush(stdout);
  while (getchar() == 'l') {
    block = malloc(10);
    free(block);
    for (int i = 0; i < 100; i++) { ALL(CALL) }
    puts("called");
    fflush(stdout);
  }
  return 0;
}
"""


def a_recorder_that_is_late_stops_the_threads_nevertheless():
    """It gets no CPU time for three seconds, as on a machine under load, when the program switches its patches on."""
    path, run = start_record([compile_c(LATE, "-O1", "-pthread")], "--trace=!late_*", "--no-waits",
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    pid = run.stdout.readline().strip()

    def call():
        run.stdin.write("l")
        run.stdin.flush()
        assert run.stdout.readline() == "called\n"

    sonde("ctl", pid, "trace=off")
    call()
    sonde("ctl", pid, "trace=on")
    run.send_signal(signal.SIGSTOP)
    later = threading.Timer(3, run.send_signal, [signal.SIGCONT])
    later.start()
    call()
    later.join()
    call()
    run.communicate(timeout=TIMEOUT_SECONDS)
    told = trace_of(path)["trace"]
    # The agent restored the functions before; so an address in one of them may be left over on the stack.
    found = {f["function"]: f["calls"] for f in told["functions"]}
    assert len(found) > 7 and set(found.values()) == {200}, told


AMONG = r"""
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static char bytes[1 << 20];
__attribute__((naked, noinline)) long fill(char *to, long count) {
  __asm__("mov %rsi, %rcx\n rep stosb\n mov %rcx, %rax\n ret");
}
__attribute__((noinline)) int never(int n) { volatile int m = n; return m + 2; }
__attribute__((noinline)) int other(int n) { volatile int m = n; return m + 1; }
static void *rest(void *unused) { for (;;) pause(); return unused; }
static void *load(void *library) {
  for (;; usleep(1000)) dlclose(dlopen(library, RTLD_NOW));
  return library;
}
int main(int count, char **words) {
  pthread_t thread;
  if (words[1][0] != 'n') pthread_create(&thread, NULL, words[1][0] == 'r' ? rest : load, words[3]);
  printf("%d\n", (int)getpid());
  long left = 0;
  for (fflush(stdout); other(1) && access(words[2], F_OK); ) left |= fill(bytes, sizeof bytes);
  puts(left ? "wrong" : "right");
  return count == 9;
}
"""


def until_switched(pid, program, word):
    def is_switched():
        try:
            now, file = code_in_memory(pid, program)
        except (OSError, StopIteration):
            return True  # it has ended
        return (now != file) == (word == "on")
    until(is_switched, "trace=" + word)


def switched_among(program, second):
    end = fresh(".txt")
    command = [program, second, end, os.path.join(FIXTURES, "libintercepted.so")]
    path, run = start_record(command, "--trace=!fill,!other,!never", "--no-waits",
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    pid = run.stdout.readline().strip()
    for word in 4 * ("off", "on"):
        try_sonde("ctl", pid, "trace=" + word)
        until_switched(pid, program, word)
    open(end, "w").close()
    out, _ = run.communicate(timeout=TIMEOUT_SECONDS)
    assert (run.returncode, out) == (0, "right\n"), (second, run.returncode, out)
    found = {f["function"] for f in trace_of(path)["trace"]["functions"]}
    assert {"other"} <= found <= {"fill", "other"}, (second, found)


def a_signal_interrupts_the_code_that_changes():
    """The thread that computes is nearly always among the instructions that a jump would replace. It learns of
    the switch by a signal, and its handler has another stack. A second thread rests, or loads libraries."""
    program = compile_c(AMONG, "-O1", "-pthread")
    for second in "none", "rests", "loads":
        switched_among(program, second)


INSIDE = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#define KEEP __attribute__((noinline))
static int ends[4][2], arrived;
static void *volatile block;
KEEP static int inner(int n) { volatile int m = n; return m + 1; }
KEEP static int middle(int n, int me) {
  char byte;
  __atomic_fetch_add(&arrived, 1, __ATOMIC_RELEASE);
  int got = (int)read(ends[me][0], &byte, 1);
  return inner(n) + got;
}
KEEP static int outer(int n, int me) { return middle(n, me) * 2; }
static void *work(void *me) {
  int sum = 0;
  for (int i = 0; i < 3; i++) sum += outer(i, (int)(long)me);
  if (sum != 18) puts("wrong");
  return me;
}
int main(void) {
  pthread_t t[4];
  for (long i = 0; i < 4; i++)
    if (pipe(ends[i]) || pthread_create(&t[i], NULL, work, (void *)i)) return 1;
  printf("%d\n", (int)getpid());
  fflush(stdout);
  for (int line, rounds = 0; (line = getchar()) != EOF;) {
    if (line == '\n') continue;
    block = malloc(10);
    free(block);
    if (line == 'g' && ++rounds)
      for (int i = 0; i < 4; i++)
        if (write(ends[i][1], "x", 1) != 1) return 1;
    while (rounds < 3 && __atomic_load_n(&arrived, __ATOMIC_ACQUIRE) < 4 * (rounds + 1)) usleep(100);
    puts("done");
    fflush(stdout);
  }
  for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
  puts("right");
  return 0;
}
"""


def threads_inside_traced_functions():
    """Four threads call three times; in each call they wait while tracing is switched off, on, and off and on."""
    path, run = start_record([compile_c(INSIDE, "-O1", "-pthread")], "--trace=!inner,!middle,!outer", "--no-waits",
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    pid = run.stdout.readline().strip()

    def tell(letter):
        run.stdin.write(letter + "\n")
        run.stdin.flush()
        assert run.stdout.readline() == "done\n"

    def switch(word):
        """The program notices in malloc, so it is kept at work."""
        ctl = subprocess.Popen([SONDE, "ctl", pid, "trace=" + word], stdout=subprocess.PIPE, text=True)
        while ctl.poll() is None:
            tell("n")
        assert ctl.communicate()[0] == f"trace {word}\n", word

    tell("n")
    for words in (["off"], ["on"], ["off", "on"]):
        for word in words:
            switch(word)
        tell("g")
    out, complaints = run.communicate(timeout=TIMEOUT_SECONDS)
    assert (run.returncode, out) == (0, "right\n"), (run.returncode, out, complaints)
    told = trace_of(path)["trace"]
    found = {f["function"]: f["calls"] for f in told["functions"]}
    # Eight calls begin while tracing is on. A function is left alone where a thread is in it or may return into it.
    left = sum(int(n) for n in re.findall(r"(\d+) functions? (?:is|are) not patched: a thread", complaints))
    fewer = [name for name in ("inner", "middle", "outer") if found.get(name, 0) < 8]
    assert set(found) <= {"inner", "middle", "outer"} and set(found.values()) <= {4, 8}, found
    assert found["outer"] >= 4 and found["middle"] >= 4 and len(fewer) <= left, (found, complaints)
    assert told["lost"] == 0 and told["unmatched"] <= 8, told
    return f"{found}, {told['unmatched']} returns of calls that began before tracing was switched"


def what_a_pattern_selects():
    program = compile_c(write("int one(int n) { return n + 1; } int two(int n) { return n * 17 + one(n); }"
                              "int main(int n, char **v) { return two(n) + one(n) == (int)v[0][0]; }", ".c"),
                        "-O0", out=fresh(".program"))
    for pattern, expected in (("!*", {"main": 1, "two": 1, "one": 2}), ("!t*", {"two": 1}), ("one", {"one": 2}),
                              (f"{os.path.basename(program)}!one", {"one": 2}), ("o*", {}), ("libc*:one", {}),
                              ("nothing!one", {}), ("*!one,!main", {"main": 1, "one": 2})):
        recording, done = record_trace(program, trace=f"--trace={pattern}")
        assert done.returncode == 0, (pattern, done)
        told = trace_of(recording)["trace"]
        found = {f["function"]: f["calls"] for f in told.get("functions", [])}
        assert found == expected, (pattern, found)
        assert not any("in_signal_handler" in call for call in told.get("slowest", [])), told


def _case(name):
    def case():
        compare(*{**PROGRAMS, **MORE}[name])
    case.__name__ = name
    return case


for _name in [*PROGRAMS, *(MORE if SOAK else ())]:
    globals()[_name] = _case(_name)
run_cases(globals())
