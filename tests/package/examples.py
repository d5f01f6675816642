#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every public header has an example, which is compiled as its comment says and prints what it should."""
import os
import pathlib
import re
import subprocess

from helpers import (BUILD, INCLUDE, LINK_SHARED, SOURCE, TIMEOUT_SECONDS, check, fresh, needs_agent, output_of, run_cases,
                     skip, sonde)

needs_agent()
EXAMPLES, HEADERS = pathlib.Path(SOURCE, "examples"), pathlib.Path(SOURCE, "include/sonde")
# By the tests of the glue, with the real frameworks, and by crash_handler.py and log.py.
ELSEWHERE = {"gtest.hpp", "catch2.hpp"}


def _run(name, *arguments, status=0):
    """What build/examples/NAME prints."""
    done = subprocess.run([os.path.join(BUILD, "examples", name), *arguments], capture_output=True, text=True,
                          timeout=TIMEOUT_SECONDS, check=False)
    check(done.returncode == status, f"{name}: status {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def _shows(text, *patterns):
    for pattern in patterns:
        check(re.search(pattern, text, re.M), f"no '{pattern}' in:\n{text}")


def every_header():
    text = "".join(path.read_text() for path in EXAMPLES.iterdir() if path.is_file())
    named = set(re.findall(r"\bsonde/(\w+\.hp*)|[ (,](\w+\.h)\b", text))
    named = {one or other for one, other in named}
    missing = {path.name for path in HEADERS.iterdir()} - named - ELSEWHERE
    check(not missing, f"no example for {missing}")


def own_stack():
    _shows(_run("own_stack"), r"^#0 .* print_caller\+", r"^#1 .* main\+", "^three captures, one id$", r"^#0 .* where\+",
           "^print_caller is in image", r"^the program is /.*/own_stack, build-id of 20 bytes", "^several images$")


def threads():
    _shows(_run("threads"), r'thread "threads", R, complete\n(#.*\n)*#\d+ .* print_all\+.*\n(#.*\n)*#\d+ .* main\+',
           r'thread "waiter", S, complete\n(#.*\n)*#\d+ .* wait_for_lock\+')


def hook():
    text = _run("hook")
    _shows(text, r'^getenv\("HOME"\)$', "^hooked: yes$")
    check("PATH" not in text, text)


def intercept():
    _shows(_run("intercept"), r'^call 1: getenv\("NO_SUCH_VARIABLE"\) = NULL$', r"^half\(17, 2\)$", "^= 4.25$", "^4.25$", "^4$")


def trace():
    path = fresh()
    _shows(_run("trace", path), "sort", "fill", "qsort")
    _shows(sonde("report", path, "trace"), "sort", "fill", "qsort")


def stall():
    _shows(_run("stall"), r"^a stall, at least 50 ms, blocked in a call; ", r"^#0 .* handle\+")


def cpu():
    _shows(_run("cpu"), r'^thread \d+ "cpu" used \d+ % of a CPU for \d+ s; \d+ samples$', r"^ *\d+ %  +poll_without_a_pause  \(.*/cpu\+0x",
           r"^ *\d+ %  +retry  \(")


def audit():
    policy, path = fresh(".aud"), fresh()
    sonde("audit", "compile", "linux", "-o", policy)
    _shows(_run("audit", policy, path), "^audit ended: success$")
    _shows(sonde("report", path, "audit"), r"unlink\(.*/nonexistent/file")


def malloc_log():
    path, summary = fresh(), fresh()
    _shows(_run("malloc_log", path, summary), r"^1234 bytes, 1000 before", "^not a live block", "^summary: 0 stacks are left out$",
           "^recording stopped: success$")
    _shows(sonde("report", summary, "malloc"), r"\bmain\b.*malloc_log")


def apple_log():
    """Only Apple's systems have this log; the Mach-O loader's tests call these functions on stand-ins."""
    _shows(_run("apple_log"), "^no log: not supported")


def scopes():
    text = _run("scopes")
    _shows(text, "^main is on the stack$", r"^srand\(7\) is called$")
    check("srand(8)" not in text, text)


def limits():
    _shows(_run("limits"), "^400 bytes are not freed, allowed are 0:", r"^    forget\(\)$", "^    main$")


def objc():
    program = fresh("")
    if subprocess.run(["gcc", "-x", "objective-c", "-fsyntax-only", "-include", "objc/objc.h", os.devnull], capture_output=True,
                      check=False).returncode:
        skip("gcc has no Objective-C")
    output_of("gcc", "-x", "objective-c", INCLUDE, EXAMPLES / "objc.m", "-o", program, *LINK_SHARED, "-lobjc")
    _shows(output_of(program), "^rate: is called with 2$", "^replaced: 21$", "^restored: 20$")


def demo():
    """The first screen fits a terminal, and names the program's own functions and fault."""
    text = output_of("sh", "examples/demo.sh", BUILD, cwd=SOURCE)
    lines = text.splitlines()
    check(len(lines) <= 30, f"{len(lines)} lines")
    check(max(map(len, lines)) <= 80, [line for line in lines if len(line) > 80])
    _shows(text, r"^1\..*heap grows", r"by remember\b", r"^ +\d.*% +read_orders +orders\.cpp:\d+$", r"^ +\d.*% +sum_by_customer ")


run_cases(globals())
