#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sonde diff --markdown: a table that a pull request shows, whatever the names of the functions are."""
import re

from helpers import check, compile_c, needs_agent, output_of, record, run_cases, sonde, try_sonde, write

needs_agent()

PROGRAM = """
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((noinline)) void *keep(int n) { return malloc(1000 * n); }
enum size {};
__attribute__((noinline)) void *operator|(size n, size) { return malloc(n); }
void *volatile kept[2];
int main(int argc, char **argv) {
  kept[0] = keep(atoi(argv[1]));
  kept[1] = size(atoi(argv[1])) | size();
  if (argc > 2) unlink("/nonexistent/file");
  return 0;
}
"""


def _recorded(*words, sensor="--malloc"):
    return record([_PROGRAM, *words], sensor)[0]


_PROGRAM = compile_c(write(PROGRAM, ".cpp"), "-O1", "-g", compiler="g++")


def memory():
    old, new = _recorded("1"), _recorded("3")
    text = sonde("diff", "--markdown", old, new)
    check(re.search(r"^\*\*sonde:\*\* peak: 1\.0 KB → 3\.0 KB, \+2\.0 KB", text, re.M), text)
    rows = [line for line in text.splitlines() if line.startswith("|")]
    check(rows[:2] == ["| change | old | new | function |", "|---:|---:|---:|---|"], text)
    check(all(len(re.findall(r"(?<!\\)\|", row)) == 5 for row in rows), rows)
    check(any(re.fullmatch(r"\| \+2\.0 KB \| 1\.0 KB \| 3\.0 KB \| `keep\(int\)` \|", row) for row in rows), rows)
    check(any(re.search(r"\| `operator\\\|(\(.*\))?` \|$", row) for row in rows), rows)
    check(try_sonde("diff", "--markdown", "--max-growth", "0", old, new).returncode == 1, "the gate did not fail")


def calls():
    old, new = _recorded("1", sensor="--audit"), _recorded("1", "delete", sensor="--audit")
    text = sonde("diff", "--markdown", old, new, status=1)
    check(re.search(r"^```\nnew .*unlink\(.*\n(.*\n)*```\n\Z", text, re.M), text)


def builds_without_names(folder):
    """Frames without names count by library, so these stacks are one; the note says why."""
    recorded = []
    for name, count in ("old", "1"), ("new", "3"):
        (folder / name).mkdir()
        output_of("strip", "-o", folder / name / "app", _PROGRAM)
        recorded.append(record([folder / name / "app", count], "--malloc")[0])
    said = sonde("diff", *recorded)
    check("note 100 % of the changes are in stacks with functions that have no name" in said, said)
    check(re.search(r"^ +\+2\.0 KB +1\.0 KB +3\.0 KB  app$", said, re.M), said)
    check("have no name" not in sonde("diff", _recorded("1"), _recorded("3")), "a note about named functions")


def wrong_use():
    done = try_sonde("diff", "--markdown", "--json", "a", "b")
    check(done.returncode == 2 and "exclude" in done.stderr, done)


run_cases(globals())
