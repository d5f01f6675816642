#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The export for heaptrack: its totals are those of `sonde report`, by heaptrack_print. heaptrack_gui, which needs a display,
is not run; the conditions that it has beyond those of heaptrack_print are checked here."""
import functools
import os
import pathlib
import re

from helpers import check, compile_c, events, fresh, needs, needs_agent, output_of, record, report, run_cases, sonde
from shared.timeline import PROGRAM

needs_agent()


@functools.cache
def recorded():
    path = fresh()
    record(["/usr/bin/python3", "-c", PROGRAM], "--malloc=all", path=path)
    return path


@functools.cache
def exported():
    path = fresh(".heaptrack")
    sonde("export", "--as", "heaptrack", recorded(), "-o", path)
    return path


def figures_of(*arguments):
    """The totals that heaptrack_print ends with; it rounds bytes to two digits behind the point."""
    needs("heaptrack_print")
    told = output_of("heaptrack_print", "--disable-builtin-suppressions", *arguments)[-3000:]
    figures = {}
    for what in "calls to allocation functions", "temporary memory allocations", "peak heap memory consumption", "total memory leaked":
        text = re.search(rf"^{what}: (-?[\d.]+)([KMG]?)", told, re.M)
        check(text, told)
        figures[what.split()[0]] = float(text[1]) * {"": 1, "K": 1e3, "M": 1e6, "G": 1e9}[text[2]]
    return figures


def in_order(file):
    """heaptrack_gui counts the sizes of blocks in a list, which grows by the number of an allocation that is next in the
    list. A number that no block has would let it write beyond the end of the list."""
    next_number = 0
    for line in pathlib.Path(file).read_text(errors="replace").splitlines():
        if line.startswith("+ "):
            number = int(line[2:], 16)
            check(number <= next_number, f"block {number} of {next_number}: {file}")
            next_number = max(next_number, number + 1)
    check(next_number, file)


def freed_at_once(path):
    """How many blocks the next call frees: the next one of the thread, and the next one of all threads."""
    of_thread, of_all, last, lasts = 0, 0, None, {}
    for e in events(path):
        if "address" not in e:
            continue
        block = e["address"], e["tid"]
        if e["event"] == "free":
            of_thread += lasts.get(e["tid"]) == block
            of_all += last == lasts.get(e["tid"]) == block
        last = lasts[e["tid"]] = None if e["event"] == "free" else block
    return of_thread, of_all


def totals():
    """heaptrack knows no threads: a block is temporary there if the next call of all threads frees it."""
    malloc = report(recorded())["malloc"]
    found = figures_of(exported())
    check(found["calls"] == malloc["allocated"]["blocks"], found)
    of_thread, of_all = freed_at_once(recorded())
    check(malloc["temporary"] == of_thread > 0, (malloc["temporary"], of_thread))
    check(of_all <= found["temporary"] <= of_thread, (of_all, found, of_thread))
    in_order(exported())
    page_bytes, pages = re.findall(r"^I (\w+) (\w+)$", pathlib.Path(exported()).read_text(errors="replace"), re.M)[-1]
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")
    check(int(page_bytes, 16) * int(pages, 16) == machine, (page_bytes, pages, machine))
    for what, amount in ("peak", malloc["peak"]), ("total", malloc["live"]):
        check(abs(found[what] - amount["bytes"]) <= amount["bytes"] * 0.01 + 1, (what, amount, found))


def changes():
    """In a program of one thread temporary allocations are the same. heaptrack_print compares two recordings."""
    program = compile_c("""
        #include <stdlib.h>
        __attribute__((noinline)) void *get(size_t size) {
          void *volatile block = malloc(size);
          return block;
        }
        int main(int argc, char **argv) {
          static void *kept[100];
          int many = argc > 1 ? atoi(argv[1]) : 0;
          for (int i = 0; i < many; i++) kept[i] = get(100);
          for (int i = 0; i < 3 * many; i++) free(get(50));
        }""", "-O1")
    files, told = [], []
    for many in "20", "70":
        path, file = fresh(), fresh(".heaptrack")
        record([program, many], "--malloc=all", path=path)
        sonde("export", "--as", "heaptrack", path, "-o", file)
        files.append(file)
        told.append(report(path)["malloc"])
        found = figures_of(file)
        check(found["temporary"] == told[-1]["temporary"] >= 3 * int(many), (found, told[-1]))
    found = figures_of(files[1], "-d", files[0])
    check(found["calls"] == told[1]["allocated"]["blocks"] - told[0]["allocated"]["blocks"] == 200, found)
    check(found["temporary"] == 150, found)
    check(found["total"] == told[1]["live"]["bytes"] - told[0]["live"]["bytes"] == 5000, found)


def temporary():
    """heaptrack_print counts a block as temporary if the next call frees it, like the report. A block of the same size and
    stack is another block, and a realloc is no free."""
    path, file = fresh(), fresh(".heaptrack")
    record([compile_c("""
        #include <stdlib.h>
        __attribute__((noinline)) void *get(size_t size) {
          void *volatile block = malloc(size);
          return block;
        }
        int main() {
          static void *kept[40];
          for (int round = 0; round < 7; round++) {
            for (int i = 0; i < 40; i++) kept[i] = get(10);
            for (int i = 0; i < 40; i++) free(kept[i]); /* in the order of the allocations: none is temporary */
          }
          for (int i = 0; i < 40; i++) kept[i] = get(10);
          for (int i = 39; i >= 0; i--) free(kept[i]); /* the last one alone */
          for (int i = 0; i < 5; i++) free(get(20)); /* each */
          for (int i = 0; i < 11; i++) free(realloc(get(30), 3000)); /* the block of realloc */
          for (int i = 0; i < 3; i++) {
            void *first = get(70), *second = get(70);
            free(first); /* not the last one */
            free(second); /* not the next call */
          }
          for (int i = 0; i < 2; i++) kept[i] = get(40);
        }""", "-O1")], "--malloc=all", path=path)
    sonde("export", "--as", "heaptrack", path, "-o", file)
    in_order(file)
    told, found = report(path)["malloc"], figures_of(file)
    expected = {"calls": 8 * 40 + 5 + 2 * 11 + 2 * 3 + 2, "temporary": 1 + 5 + 11, "peak": 3000, "total": 2 * 40}
    check(found == expected, (found, expected))
    check([told["allocated"]["blocks"], told["temporary"], told["peak"]["bytes"], told["live"]["bytes"]] ==
          list(expected.values()), (told, expected))


run_cases([totals, changes, temporary])
