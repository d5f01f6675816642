#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The probes otel_memory:alloc and otel_memory:free. The oracles are readelf for the notes, a program that attaches by
uprobes with semaphores as eBPF profilers do, the events of the recording, and the program's own count of bytes."""
import os
import subprocess

from helpers import (
    LIB, TIMEOUT_SECONDS, child_of, compile_c, events, fresh, needs, needs_agent, run_cases, skip, source_file, start_record)
from shared.probes import notes, offset_of

needs_agent()

AGENT = os.path.join(LIB, "libsonde-agent.so")

ALLOCATES = r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void *blocks[1000];
int main(void) {
  char line;
  unsigned long total = 0;
  if (write(1, "ready\n", 6) != 6 || read(0, &line, 1) != 1) return 1;
  for (unsigned i = 0; i < 300000; i++) {
    size_t size = 1 + i * 2654435761u % 3000;
    void **block = &blocks[i % 1000];
    if (i % 7) {
      free(*block);
      *block = malloc(size);
    } else {
      *block = realloc(*block, size);
    }
    total += size;
  }
  dprintf(1, "%lu\n", total);
  if (read(0, &line, 1) != 1) return 1;
  return 0;
}
"""


def the_notes_are_complete():
    found = notes(AGENT)
    assert {name: len(note[2]) for name, note in found.items()} == {"alloc": 3, "free": 1}, found
    for location, semaphore, arguments in found.values():
        assert location and semaphore and all(argument.startswith("8@") for argument in arguments), notes
    # The command copies this one into programs; a probe in it could not be attached to.
    assert not notes(os.path.join(LIB, "libsonde-attached.so"))


def a_profiler_sees_the_sampled_blocks():
    needs("readelf")
    if os.geteuid():
        skip("uprobes need root")
    if not os.path.exists("/sys/bus/event_source/devices/uprobe"):
        skip("the kernel has no uprobes for perf_event_open")
    program = compile_c(ALLOCATES, "-O1", "-fno-builtin")
    profiler = compile_c(source_file("real", "heap", "probes.c"), "-O1")
    places = [str(offset_of(AGENT, place)) for name in ("alloc", "free") for place in notes(AGENT)[name][:2]]
    path, recorder = start_record([program], "--malloc=sample:64K", path=fresh(), stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True)
    assert recorder.stdout.readline() == "ready\n"
    with subprocess.Popen([profiler, str(child_of(recorder.pid)), AGENT, *places], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as attached:
        said = attached.stdout.readline()
        if said != "attached\n":
            recorder.kill()
            skip("the kernel refuses uprobes")
        recorder.stdin.write("x")
        recorder.stdin.flush()
        total = int(recorder.stdout.readline())
        hits = [line.split() for line in attached.communicate(timeout=TIMEOUT_SECONDS)[0].splitlines()]
    recorder.communicate("x", timeout=TIMEOUT_SECONDS)
    assert recorder.returncode == 0 and ["lost"] not in hits
    told = events(path)
    blocks = [(int(event["address"], 16), event["size"]) for event in told if event["event"] == "malloc"]
    frees = [int(event["address"], 16) for event in told if event["event"] == "free"]
    allocated = [(int(address), int(size)) for name, address, size, _ in hits if name == "alloc"]
    freed = [int(address) for name, address, *_ in hits if name == "free"]
    assert len(allocated) > 2000 and set(allocated) <= set(blocks), (len(allocated), len(blocks))
    # What the program allocated before the profiler came, and freed after it had gone, it does not see.
    assert len(blocks) - len(allocated) <= 3 and set(freed) <= set(frees) and len(freed) > 1000, (len(blocks), len(freed))
    weights = sum(int(weight) for name, _, _, weight in hits if name == "alloc")
    error = abs(weights / total - 1)
    assert error < 4 / len(allocated) ** 0.5 + 0.01, (weights, total)
    return f"{len(allocated)} blocks for {total} bytes; the estimate is off by {100 * error:.1f} %"


run_cases(globals())
