#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A library that is unloaded and comes back at another address is one library: its blocks, samples, waits and
system calls of the same places are counted together, whatever the address. The program keeps each of its places from it.
A library that is loaded by a relative path is recorded by its absolute one."""
import re

from helpers import compile_c, fresh, needs_agent, nothing_missing, output_of, record, report, run_cases, sonde, write
from shared.audits import audit_of, compile_audited, record_audit

needs_agent()
LOADS = 3
MAIN = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
int main(int argc, char **argv) {
  unsigned long bases[%d];
  for (int i = 0; i < %d; i++) {
    void *library = dlopen(argv[1], RTLD_NOW);
    if (!library) return 9;
    bases[i] = ((struct link_map *)library)->l_addr;
    if (i && bases[i] == bases[i - 1]) return 8;
    ((void (*)(void))dlsym(library, "work"))();
    if (dlclose(library)) return 7;
    /* What holds its first page keeps it away from there. */
    mmap((void *)bases[i], 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  }
  return 0;
}""" % (LOADS, LOADS)
LIBRARY = """
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#define KEEP __attribute__((noinline))
static void *volatile kept;
static volatile long sink;
KEEP static void take(int count) {
  for (int i = 0; i < count; i++) kept = malloc(777);
  free(kept);
}
KEEP static void rest(void) {
  struct timespec time = {0, 300000000};
  nanosleep(&time, NULL);
}
KEEP static void burn(void) {
  clock_t end = clock() + CLOCKS_PER_SEC / 3;
  while (clock() < end)
    for (int i = 0; i < 100000; i++) sink++;
}
/* By no function that a hook could stand before. */
KEEP static long look(const char *path) {
  long result;
#if defined(__x86_64__)
  __asm__ volatile("syscall" : "=a"(result) : "0"((long)SYS_openat), "D"((long)AT_FDCWD), "S"(path), "d"(0L) : "rcx", "r11", "memory");
#else
  register long x0 __asm__("x0") = AT_FDCWD, x2 __asm__("x2") = 0, x8 __asm__("x8") = SYS_openat;
  register const char *x1 __asm__("x1") = path;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x1), "r"(x2), "r"(x8) : "memory");
  result = x0;
#endif
  return result;
}
void work(void) {
  take(4);
  rest();
  burn();
  sink += look("/sonde/nothing");
}"""


def _program():
    return [compile_audited(MAIN, "-ldl"), compile_audited(LIBRARY, "-shared", "-fPIC", "-Wl,--build-id=sha1")]


def _functions(row):
    return [frame.get("function", "").split(".")[0] for frame in row.get("frames", ())]  # without .constprop


def _told(path, section):
    told = report(path, "--top", 100000, section)
    nothing_missing(told)
    return told[section]


def _blocks_are_of_one_place(path):
    rows = [row for row in _told(path, "malloc")["stacks"] if _functions(row)[:2] == ["take", "work"]]
    assert len(rows) == 1, rows
    row, = rows
    assert row["allocated"] == {"blocks": 4 * LOADS, "bytes": 777 * 4 * LOADS}, row
    assert row["live"] == {"blocks": 3 * LOADS, "bytes": 777 * 3 * LOADS}, row
    assert row["frees"] == 0, row


def blocks_and_samples():
    path, done = record(_program(), "--malloc=all", "--sample=499")
    assert done.returncode == 0, done
    _blocks_are_of_one_place(path)
    # A place, told by where in its page it lies: the library's code fills none.
    rows = [row for row in _told(path, "sample")["stacks"] if "burn" in _functions(row)]
    places = [tuple((f.get("function"), int(f["pc"], 16) % 4096) for f in row["frames"]) for row in rows]
    assert sum(row["samples"] for row in rows) > 50, rows
    assert len(places) == len(set(places)), rows
    summary = fresh()
    sonde("pack", "--summary", path, "-o", summary)
    _blocks_are_of_one_place(summary)


def waits():
    """A look at a sleeping thread finds it at one place of the library."""
    path, done = record(_program(), "--malloc=off", "--wall=499")
    assert done.returncode == 0, done
    rows = [row for row in _told(path, "wall")["stacks"] if "rest" in _functions(row) and "nanosleep" in row.get("syscall", "")]
    assert len(rows) == 1, rows


def system_calls():
    path, done = record_audit(_program(), "linux", "--coverage")
    assert done.returncode == 0, done
    rows = [row for row in audit_of(path)["coverage"]["system_calls"] if '"/sonde/nothing"' in row["arguments"]]
    assert [(row["class"], row["call"], row["calls"], _functions(row)[:2]) for row in rows] == [
        ("below", "openat", LOADS, ["look", "work"])], rows
    assert rows[0]["first_ns"] < rows[0]["last_ns"], rows


def relative_path(folder):
    """The report is read in another folder than the one that the path is relative to."""
    compile_c("#include <stdlib.h>\nvoid *kept; void plug_work(void) { for (int i = 0; i < 9; i++) kept = malloc(7777); }",
              "-g", "-shared", "-fPIC", out=folder / "plug.so")
    loads = compile_c("""#include <dlfcn.h>
        int main(void) { void *p = dlopen("./plug.so", RTLD_NOW); ((void (*)(void))dlsym(p, "plug_work"))(); }""", "-ldl")
    named = fresh(".program")
    sources = write("void plug_work(void); int main(void) { plug_work(); }", ".c")
    output_of("cc", sources, "./plug.so", "-o", named, cwd=folder)
    for program in (loads, named):
        path, done = record([program], "--malloc=all", cwd=folder)
        assert done.returncode == 0, done
        row, = [row for row in _told(path, "malloc")["stacks"] if row["allocated"]["bytes"] == 9 * 7777]
        assert _functions(row)[:2] == ["plug_work", "main"], row
        by_function = sonde("report", path, "malloc").split("live at the peak, by function")[1].split("by library")[0]
        assert re.search(r"70.0 KB .* 9  plug_work  .*\.c:2$", by_function, re.M), by_function


run_cases(globals())
