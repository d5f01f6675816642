#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reports of a stripped program: a function without a name is one row, however many of its instructions were sampled.
The oracle is the symbol table that the program had before it was stripped."""
import re

from helpers import compile_c, needs, needs_agent, output_of, record, run_cases, sonde

needs_agent()
needs("nm", "strip")

SOURCE = """#include <time.h>
#define HIDDEN __attribute__((noinline, noclone)) static
HIDDEN double used(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return t.tv_sec + t.tv_nsec / 1e9;
}
static volatile unsigned a, b, c, d;
HIDDEN void mixes(void) {
  for (int i = 0; i < 20000; i++) {
    a += b ^ 3; b = b * 5 + c; c ^= a >> 3; d += c / (a | 1); a -= d % (b | 1); b ^= d << 2;
  }
}
HIDDEN void burns(double seconds) { for (double end = used() + seconds; used() < end;) mixes(); }
int main(void) { burns(0.6); return 0; }
"""


def one_row_a_function():
    program = compile_c(SOURCE, "-O1", "-Wl,--build-id")
    starts = {name: int(address, 16) for address, _, name in re.findall(r"^(\w+) (\w) (\w+)$", output_of("nm", program), re.M)}
    output_of("strip", program)
    path, done = record([program], "--sample=500")
    assert done.returncode == 0, done
    library = program.rsplit("/", 1)[1]
    text = sonde("report", "--by", "self", "--all", path, "sample")
    table = text[text.index("by innermost function"):text.index("by stack")]
    rows = re.findall(re.escape(library) + r"\+0x([0-9a-f]+)", table)
    assert len(set(rows)) == len(rows), table
    assert {int(row, 16) for row in rows} <= {starts[name] for name in ("mixes", "burns", "used", "main", "_start")}, (starts, table)
    assert f"{starts['mixes']:x}" in rows, (starts, table)
    # sonde why names it as well
    assert f"was spent in {library}+0x{starts['mixes']:x} (no symbol)" in " ".join(sonde("why", path).split()), sonde("why", path)


run_cases([one_row_a_function])
