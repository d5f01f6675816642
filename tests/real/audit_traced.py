#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reports and exports of a static program, whose system calls are traced. Its stacks are deep: the program's own functions
are below many of a library, as those of a Go program are below its standard library."""
import re

from helpers import needs_agent, run_cases, sonde
from shared.audits import compile_audited, record_audit

needs_agent()

LIBRARY_FRAMES = 20
LIBRARY = "".join(f"HIDDEN int library_{i}(void) {{ int got = library_{i - 1}(); HERE; return got + 1; }}\n"
                  for i in range(1, LIBRARY_FRAMES))
SOURCE = f"""#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>
#define HIDDEN __attribute__((noinline)) static
#define HERE __asm__ volatile("")
# 1 "/usr/lib/library.c"
HIDDEN int library_0(void) {{ int fd = socket(AF_INET, SOCK_STREAM, 0); close(fd); return fd; }}
{LIBRARY}
# 1 "crawl.c"
HIDDEN int fetch_page(void) {{ int got = library_{LIBRARY_FRAMES - 1}(); HERE; return got; }}
HIDDEN int visit(void) {{ int got = fetch_page(); HERE; return got; }}
HIDDEN void save_file(const char *path) {{ close(open(path, O_RDONLY)); }}
int main(void) {{
  for (int i = 0; i < 6; i++) visit();
  for (int i = 0; i < 3; i++) save_file("/etc/passwd");
  return 0;
}}
"""


_recording = []


def _recorded():
    if not _recording:
        path, done = record_audit([compile_audited(SOURCE, "-static", "-O0", "-g")], "files,net")
        assert done.returncode == 0, done
        _recording.append(path)
    return _recording[0]


def stack_below(text, line):
    """The lines of the stack that TEXT has below the line with LINE."""
    lines = text[text.index(line):].split("\n")[1:]
    return [re.sub(r"\x1b\[\d*m", "", got).strip() for got in lines[:next(i for i, got in enumerate(lines) if not got.startswith("      "))]]


def a_cut_stack_keeps_the_programs_functions():
    stack = stack_below(sonde("report", _recorded(), "audit"), "6 ×  socket(")
    names = [line.split("  ")[0] for line in stack]
    cut = next(line for line in stack if line.startswith("…"))
    assert {"fetch_page", "visit", "main"} <= set(names) and "library_0" in names, stack
    hidden = {f"library_{i}" for i in range(LIBRARY_FRAMES)} - set(names)
    assert hidden and cut == f"… {len(hidden)} more frames (--all)", (hidden, stack)
    assert names.index("library_0") < names.index(cut) < names.index("fetch_page") < names.index("main"), stack
    for options in ["--top", "50"], ["--app-only"]:
        names = [line.split("  ")[0] for line in stack_below(sonde("report", *options, _recorded(), "audit"), "6 ×  socket(")]
        assert {"fetch_page", "visit", "main"} <= set(names), (options, names)


def all_cuts_no_stack():
    text = sonde("report", "--all", _recorded(), "audit")
    names = [line.split("  ")[0] for line in stack_below(text, "6 ×  socket(")]
    expected = [f"library_{i}" for i in range(LIBRARY_FRAMES)] + ["fetch_page", "visit", "main"]
    assert names[names.index("library_0"):][:len(expected)] == expected and "… " not in text, text


def cut_rows_and_cut_frames_differ():
    text = sonde("report", "--top", "1", _recorded(), "audit")
    assert re.search(r"^  … and \d+ more distinct calls? \(--all\)$", text, re.M), text
    assert "more frames (--all)" in text, text


run_cases([a_cut_stack_keeps_the_programs_functions, all_cuts_no_stack, cut_rows_and_cut_frames_differ])
