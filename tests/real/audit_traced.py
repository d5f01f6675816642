#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reports and exports of a static program, whose system calls are traced. Its stacks are deep: the program's own functions
are below many of a library, as those of a Go program are below its standard library."""
import csv
import io
import json
import re
import subprocess

from helpers import SONDE, needs_agent, run_cases, sonde
from shared.audits import audit_of, compile_audited, record_audit

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


def the_head_names_the_program():
    path, done = record_audit([compile_audited("int main(void) { return 0; }", "-static"), "one", "two words"], "files")
    assert done.returncode == 0, done
    program = json.loads(sonde("report", "--json", path))
    assert program["arguments"][1:] == ["one", "two words"], program
    assert re.search(r"^  program    \S+ one two words$", sonde("report", path, "audit"), re.M), sonde("report", path, "audit")


def the_head_says_that_calls_were_traced():
    text = sonde("report", _recorded(), "audit")
    head = re.search(r"^audit\n(  .*\n(?:   .*\n)*)", text, re.M)[1]
    told = re.match(r"  calls      (\d+) system calls with (\d+) distinct stacks or arguments, seen by tracing;", head)
    rows = audit_of(_recorded())["coverage"]["system_calls"]
    assert (int(told[1]), int(told[2])) == (sum(row["calls"] for row in rows), len(rows)), head
    assert "the program is statically linked, so no function was hooked" in " ".join(head.split()), head


def _csv(path):
    text = sonde("export", "--as", "csv", path)
    return list(csv.DictReader(io.StringIO(text)))


def _is_in_csv(path, call, arguments, caller, calls):
    rows = [row for row in _csv(path) if row["function"] == call and row["arguments"].startswith(arguments)]
    assert {row["caller"] for row in rows} == {caller} and sum(int(row["calls"]) for row in rows) == calls, rows


def exports_have_the_traced_calls():
    path = _recorded()
    _is_in_csv(path, "socket", "AF_INET, SOCK_STREAM", "fetch_page", 6)
    _is_in_csv(path, "openat", '"/etc/passwd"', "save_file", 3)
    results = json.loads(sonde("export", "--as", "sarif", path))["runs"][0]["results"]
    made = next(result for result in results if result["ruleId"] == "net.socket")
    functions = [frame["location"]["logicalLocations"][0]["name"] for frame in made["stacks"][0]["frames"]]
    assert made["occurrenceCount"] == 6 and "library_0" in functions and "fetch_page" in functions, made
    assert made["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].endswith("crawl.c"), made
    findings = audit_of(path)["findings"]
    assert sum(f["calls"] for f in findings if f["category"] == "net.socket" and f["traced"]) == 6, findings


def an_old_baseline_does_not_know_new_traced_calls():
    """What a gate of audits compares."""
    quiet, _ = record_audit([compile_audited("int main(void) { return 0; }", "-static")], "files,net")
    done = subprocess.run([SONDE, "diff", "--by", "audit", quiet, _recorded()], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "fetch_page" in done.stdout, done


# As the Go runtime does, in a program with the agent.
OWN_CALLS = """
#include <fcntl.h>
#include <sys/syscall.h>
__attribute__((noinline, noclone)) long own_openat(const char *path) {
#ifdef __x86_64__
  long result = SYS_openat;
  register long mode __asm__("r10") = 0;
  __asm__ volatile("syscall" : "+a"(result) : "D"((long)AT_FDCWD), "S"(path), "d"(0L), "r"(mode) : "rcx", "r11", "memory");
  return result;
#else
  register long x0 __asm__("x0") = AT_FDCWD, x1 __asm__("x1") = (long)path, x2 __asm__("x2") = 0, x3 __asm__("x3") = 0,
                x8 __asm__("x8") = SYS_openat;
  __asm__ volatile("svc #0" : "+r"(x0) : "r"(x1), "r"(x2), "r"(x3), "r"(x8) : "memory");
  return x0;
#endif
}
int main(int count, char **words) {
  for (int i = 0; i < 4; i++) own_openat("/nonexistent/own");
  if (count > 1) open("/nonexistent/hooked", O_RDONLY);
  return 0;
}"""


def a_program_that_makes_its_calls_itself():
    program = compile_audited(OWN_CALLS, "-g")
    path, done = record_audit([program], "files", "--coverage")
    assert done.returncode == 0, done
    text = " ".join(sonde("report", path, "audit").split())
    assert "seen by tracing; the program makes them itself and called no hooked function" in text, text
    assert "4 made by the program itself" in text and "hooks observed" not in text, text
    _is_in_csv(path, "openat", '"/nonexistent/own"', "own_openat", 4)


def hooked_calls_are_still_counted_as_such():
    path, done = record_audit([compile_audited(OWN_CALLS, "-g"), "hooked"], "files", "--coverage")
    assert done.returncode == 0, done
    text = " ".join(sonde("report", path, "audit").split())
    assert "1 observed by hooks, 4 made below them" in text and "hooks observed 20.0 %" in text, text
    _is_in_csv(path, "openat", '"/nonexistent/own"', "own_openat", 4)
    hooked = [row for row in _csv(path) if "/nonexistent/hooked" in row["arguments"]]
    assert len(hooked) == 1 and hooked[0]["calls"] == "1", hooked


run_cases([a_cut_stack_keeps_the_programs_functions, all_cuts_no_stack, cut_rows_and_cut_frames_differ,
           the_head_names_the_program, the_head_says_that_calls_were_traced, exports_have_the_traced_calls, an_old_baseline_does_not_know_new_traced_calls,
           a_program_that_makes_its_calls_itself, hooked_calls_are_still_counted_as_such])
