#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Names of generated code in recordings: of a program that makes code itself, so that what ran at which time is known,
and of node and Java."""
import functools
import os
import pathlib
import re
import subprocess

from helpers import SCALE, SONDE, compile_c, fresh, needs, needs_agent, record, report, run_cases, skip, sonde, write

needs_agent()

# The program puts codes at one address, one after the other, and runs each for MILLISECONDS (from the environment, or 700)
# of CPU time. It writes their names to a perf map, or with their times to a jitdump file. It prints the CPU time of each code.
MAKER = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
static uint64_t now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec; }
static uint64_t used(void) { struct timespec t; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec; }
static void dump(FILE *out, uint64_t address, uint64_t index, const char *name) {
  uint32_t size = (uint32_t)(56 + strlen(name) + 1 + 16), head[2] = {0, size}, ids[2] = {(uint32_t)getpid(), 0};
  uint64_t time = now(), words[] = {address, address, 16, index};
  fwrite(head, 8, 1, out); fwrite(&time, 8, 1, out); fwrite(ids, 8, 1, out); fwrite(words, 32, 1, out);
  fwrite(name, strlen(name) + 1, 1, out); fwrite((void *)address, 16, 1, out); fflush(out); }
int main(int argc, char **argv) {
  /* mov ecx, 30000000; 1: dec ecx; jnz 1b; ret */
  static const unsigned char code[16] = {0xb9, 0x80, 0xc3, 0xc9, 0x01, 0xff, 0xc9, 0x75, 0xfc, 0xc3};
  int is_dump = argc > 1 && !strcmp(argv[1], "dump"); char path[64];
  const char *text = getenv("MILLISECONDS"); uint64_t long_ns = (text ? strtoul(text, NULL, 10) : 700) * 1000000;
  unsigned char *made = mmap(0, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (!is_dump && argc > 1 && !strcmp(argv[1], "map")) snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
  else if (is_dump) snprintf(path, sizeof path, "/tmp/jit-%d.dump", getpid());
  else snprintf(path, sizeof path, "/dev/null");
  FILE *out = fopen(path, "a"); if (!out) return 1;
  uint32_t header[10] = {0x4a695444, 1, 40, 62, 0, (uint32_t)getpid()};
  if (is_dump) fwrite(header, 40, 1, out);
  memcpy(made, code, sizeof code);
  if (argc <= 2) { ((void (*)(void))made)(); return 0; }
  for (int i = 2; i < argc; i++) {
    if (is_dump) dump(out, (uint64_t)made, (uint64_t)i, argv[i]);
    else { fprintf(out, "%lx 10 %s\n", (long)made, argv[i]); fflush(out); }
    uint64_t start = used();
    while (used() - start < long_ns) ((void (*)(void))made)();
    printf("%s %lu\n", argv[i], (unsigned long)(used() - start)); }
  return 0; }
"""


@functools.lru_cache(maxsize=None)
def maker():
    if os.uname().machine != "x86_64":
        skip("the code that is made is x86_64's")
    return compile_c(MAKER, "-g", "-O1", compiler="gcc")




def seconds_of(path):
    """Function: seconds of CPU time as innermost function."""
    folded = sonde("export", path, "--as", "collapsed")
    out = {}
    for line in folded.splitlines():
        stack, value = line.rsplit(" ", 1)
        name = stack.split(";")[-1]
        out[name] = out.get(name, 0) + int(value)
    return out


def run_maker(*words, milliseconds=700):
    path = fresh()
    done = subprocess.run([SONDE, "record", "--sample=500", "-o", path, "--", maker(), *words], check=True, text=True,
                          capture_output=True, env=dict(os.environ, MILLISECONDS=str(SCALE * milliseconds)))
    for name in ("perf-{}.map", "jit-{}.dump"):
        pathlib.Path("/tmp", name.format(report(path, "--json")["pid"])).unlink(missing_ok=True)
    return path, done


def one_code():
    """The file is gone when the report is made."""
    path, _ = run_maker("map", "made_alone", milliseconds=300)
    found = seconds_of(path)
    assert found.get("made_alone", 0) > 0.9 * sum(found.values()), found
    assert "made_alone" in sonde("report", path, "sample").split("by innermost")[0], "it is not the program's own function"
    return "a name is in the recording when the map is gone"


def reused_by_time():
    """Three codes at one address: what the jitdump file says of their times divides the samples."""
    path, done = run_maker("dump", "first", "second", "third", milliseconds=300)
    ran = {line.split()[0]: int(line.split()[1]) for line in done.stdout.splitlines()}
    found = seconds_of(path)
    total, whole = sum(found.values()), sum(ran.values())
    for name, ns in ran.items():
        assert abs(found.get(name, 0) / total - ns / whole) < 0.06, (found, ran)
    assert not [name for name in found if "|" in name], found
    return "codes at one address, by the times of a jitdump file: " + str(found)


def reused_in_a_map():
    """A map has no times, so the recorder's readings of it are the times. In between, both are named."""
    path, _ = run_maker("map", *[f"made_{i}" for i in range(4)])
    found = seconds_of(path)
    known = {f"made_{i}" for i in range(4)}
    named = {part for name in found for part in name.split("|")}
    assert known <= named, found
    assert not [name for name in named if name.startswith("made_") and name not in known], found
    return "codes at one address, by the readings of a map: " + str(found)


def refused(make, *words):
    """What the command says if MAKE puts something at the map's path."""
    program = maker()
    shell = write('p=/tmp/perf-$$.map; ' + make + f'; exec {program} none made_x', ".sh")
    path = fresh()
    done = subprocess.run([SONDE, "record", "--sample", "-o", path, "--", "sh", shell], check=True, text=True,
                          capture_output=True, env=dict(os.environ, MILLISECONDS="100"))
    pid = report(path, "--json")["pid"]
    pathlib.Path(f"/tmp/perf-{pid}.map").unlink(missing_ok=True)
    for word in words:
        assert word in done.stderr, (make, done.stderr)
    assert "made_evil" not in sonde("report", path, "sample"), make


def untrusted_files():
    refused('ln -s /etc/passwd "$p"', "is not used: it is a symbolic link")
    refused('mkfifo "$p"', "is not used: it is not a regular file")
    refused('truncate -s 5G "$p"', "is not used: it is larger than 4 GB")
    refused('echo "0 7fffffffffff made_evil" >"$p"; touch -d "1 hour ago" "$p"', "it is older than the process")
    if os.getuid() == 0:
        refused('echo "0 7fffffffffff made_evil" >"$p"; chown 65534 "$p"', "it belongs to another user")
    return "links, FIFOs, large, old and other users' files are refused"


def damaged_lines():
    """What is no line of a map is skipped, and the rest used."""
    noise = r"printf 'nonsense\n1 2\nffffffffffffffff 20 wraps\n\000\377 1 2\n' >>/tmp/perf-$$.map"
    path = fresh()
    record(["sh", write(f"{noise}; exec {maker()} map made_whole", ".sh")], "--sample", path=path,
           env=dict(os.environ, MILLISECONDS="200"))
    pathlib.Path(f"/tmp/perf-{report(path, '--json')['pid']}.map").unlink()
    assert "made_whole" in sonde("report", path, "sample")
    return "damaged lines are skipped"


FIB = """
function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
function busy(ms) { let x = 0; while (process.cpuUsage().user < ms * 1000) x += fib(18); return x; }
console.log(busy(600) > 0);
"""


def node():
    needs("node")
    script = write(FIB.replace("600", str(SCALE * 600)), ".js")
    hint = subprocess.run([SONDE, "record", "--sample", "-o", fresh(), "--", "node", script], check=True, text=True,
                          capture_output=True).stderr
    assert "node --perf-basic-prof" in hint and "--jit" in hint, hint
    path = fresh()
    said = subprocess.run([SONDE, "record", "--jit", "--sample", "-o", path, "--", "node", script], check=True,
                          text=True, capture_output=True).stderr
    assert "no names" not in said, said
    pid = report(path, "--json")["pid"]
    pathlib.Path(f"/tmp/perf-{pid}.map").unlink()
    found = seconds_of(path)
    fib = sum(value for name, value in found.items() if name == "fib")
    assert fib > 0.6 * sum(found.values()), found
    path = fresh()
    folder = os.path.dirname(script)
    record(["node", "--perf-prof", script], "--sample", path=path, cwd=folder)
    pid = report(path, "--json")["pid"]
    pathlib.Path(f"{folder}/jit-{pid}.dump").unlink()
    assert re.search(r"fib .*\.js:2", sonde("report", path, "sample")), sonde("report", path, "sample")
    for log in pathlib.Path(folder).glob("isolate-*-v8.log"):
        log.unlink()
    return "node: fib has its name, from a map and from a jitdump file"


JAVA = """
public class Fib {
  static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
  public static void main(String[] words) {
    int x = 0;
    for (int i = 0; i < 20000; i++) x += fib(20);
    System.out.println(x != 0); } }
"""


def java():
    needs("java", "javac")
    script = write(JAVA, ".java")
    path = fresh()
    said = subprocess.run([SONDE, "record", "--jit", "--sample", "-o", path, "--", "java", script], text=True,
                          capture_output=True)
    if "DumpPerfMapAtExit" in said.stderr and "nrecognized" in said.stderr.replace("IgnoreUnrecognized", ""):
        skip("this Java writes no perf map")
    if said.returncode == 0 and "no names" in said.stderr:
        skip("this Java writes no perf map")
    pid = report(path, "--json")["pid"]
    pathlib.Path(f"/tmp/perf-{pid}.map").unlink(missing_ok=True)
    assert "Fib.fib(int)" in sonde("report", path, "sample"), said.stderr
    return "java: fib has its name, from a map that is written at the end"


run_cases([one_code, reused_by_time, reused_in_a_map, untrusted_files, damaged_lines, node, java])
