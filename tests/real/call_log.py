#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`sonde export --as calls`: one line a call with depth and duration, in the order of the calls' beginnings,
against what the program itself says. `report --all --tree` shows every child. Patterns of --trace and
--function match names as reports print them."""
import json
import os
import re
import subprocess

from helpers import INCLUDE, LINK_SHARED, compile_c, fresh, needs_agent, record, report, run_cases, sonde

needs_agent()

# Prints the calls of net:: that it makes, as indented names, by itself. 300 children are below 1 %.
PROGRAM = r"""
#include <cstdio>
#include <ctime>
#include <pthread.h>
#define NOT_TRACED __attribute__((no_instrument_function))
static thread_local int depth;
struct Said {
  NOT_TRACED Said(const char *name) { std::printf("%*s%s\n", 2 * depth++, "", name); }
  NOT_TRACED ~Said() { depth--; }
};
#define SAY Said said(__func__)
namespace net {
struct Socket {
  void read(int n) { SAY; if (n) read(n - 1); }
  template <typename T> void write(T) { SAY; }
};
void parse(Socket &s) { SAY; s.read(2); s.write(1); }
void wait() { SAY; timespec t = {0, 30000000}; nanosleep(&t, nullptr); }
}
template <int N> struct Small { static void call() { SAY; Small<N - 1>::call_next(); } static void call_next() { if (N) call(); } };
template <> void Small<0>::call() {}
int main() { SAY; net::Socket s; net::parse(s); net::wait(); Small<20>::call(); s.read(0); }
"""
LINE = re.compile(r"^ *(\d+) +(\d+\.\d{6}) +(\d+\.\d{6})  ( *)(.*)$")


def _calls(text):
    """(depth, ms, start, name) of each line."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    found = [LINE.match(line) for line in lines]
    assert all(found), [line for line, match in zip(lines, found) if not match]
    assert all(len(m[4]) == 2 * int(m[1]) for m in found), text
    return [(int(m[1]), float(m[2]), float(m[3]), m[5]) for m in found]


def _program(*options):
    return compile_c(PROGRAM, "-O1", "-g", "-fno-inline", "-fno-optimize-sibling-calls", "-Wno-unused", *options,
                     compiler="g++", out=None)


def the_log_is_what_the_program_says():
    path, done = record([_program("-finstrument-functions", "-x", "c++")], "--trace", "--no-waits", text=True)
    log = sonde("export", "--as", "calls", path)
    assert log.startswith("# thread ") and log.splitlines()[1].split() == ["#", "depth", "duration", "ms", "start", "ms", "call"]
    calls = [call for call in _calls(log) if "call_next" not in call[3]]
    said = [(line.count("  "), line.strip()) for line in done.stdout.splitlines()]
    names = [name.replace("<int>", "").split("::")[-1] for _, _, _, name in calls]
    assert names == [name for _, name in said], (names, said)
    assert [start for _, _, start, _ in calls] == sorted(start for _, _, start, _ in calls)
    (main, waits) = ([call for call in calls if call[3].endswith(name)][0] for name in ("main", "net::wait"))
    assert main[0] == 0 and waits[0] == 1 and 30 <= waits[1] <= main[1], (main, waits)
    long = _calls(sonde("export", "--as", "calls", "--least", "20ms", path))
    assert [call[3] for call in long] == [call[3] for call in _calls(log) if call[1] >= 20], long
    assert {"main", "net::wait"} <= {call[3] for call in long}, long
    outer = _calls(sonde("export", "--as", "calls", "--depth", "2", path))
    assert outer == [call for call in _calls(log) if call[0] < 2], outer
    whole = sonde("report", "--all", "--tree", path, "trace").split("call tree")[1].split("slowest")[0].splitlines()
    nodes = report(path, "trace", "--all")["trace"]["nodes"]
    assert len([line for line in whole[2:] if line]) == len(nodes) > 20, (whole, len(nodes))
    assert not [line for line in whole if "more, shorter" in line], whole


def patterns_are_names_of_reports():
    program = _program("-fpatchable-function-entry=5", "-x", "c++")
    for pattern, functions in (("net::Socket::read", {"net::Socket::read"}),
                               ("net::Socket::read(int)", {"net::Socket::read"}),
                               ("net::Socket::*", {"net::Socket::read", "net::Socket::write"}),
                               ("net::wait,net::par*", {"net::wait", "net::parse"})):
        path, done = record([program], f"--trace={pattern}", text=True)
        said = {call[3].replace("<int>", "") for call in _calls(sonde("export", "--as", "calls", path))}
        assert said == functions, (pattern, said, done.stderr)
    path, _done = record([program], "--trace=net::*", text=True)
    for pattern in "net::Socket::read", "net::Socket::read(int)", "net::*::read":
        nodes = report(path, "trace", "--function", pattern)["trace"]["functions"]
        assert {node["function"] for node in nodes} == {"net::Socket::read(int)"}, (pattern, nodes)


# Every kind of name that a function of the program itself may have.
KINDS = """
volatile int v;
#define WORK for (int i = 0; i < 100; i++) v += i
#define FUNCTION __attribute__((noinline, noclone))
static FUNCTION int slow(int n) { WORK; return v + n; }
FUNCTION int slow(double) { WORK; return v; }
struct B { B(); ~B(); int operator()(int); };
FUNCTION B::B() { WORK; }
FUNCTION B::~B() { WORK; }
FUNCTION int B::operator()(int n) { WORK; return n; }
namespace { FUNCTION int anon(int n) { WORK; return n; } }
template <class T> struct W { FUNCTION T get() { WORK; return T(v); } };
FUNCTION int run() {
  auto first = [&](int n) FUNCTION { WORK; return n; };
  auto second = [&](char c) FUNCTION { WORK; return c; };
  WORK;
  return first(1) + second(2);
}
int main() { B b; W<int> w; return !(b(1) + slow(1) + slow(1.0) + anon(2) + w.get() + run()); }
"""


def functions_of_the_program_are_named_as_in_reports():
    program = compile_c(KINDS, "-O1", "-x", "c++", compiler="g++")
    for pattern, names in (("slow", ["slow", "slow"]), ("B::B", ["B::B"]), ("B::~B", ["B::~B"]), ("B::operator()", ["B::operator()"]),
                           ("(anonymous namespace)::anon", ["(anonymous namespace)::anon"]), ("W<int>::get", ["W<int>::get"]),
                           ("run()::{lambda(char)#2}", ["run::{lambda#2}"]), ("run", ["run"])):
        for image in "!", "":  # a function alone is one of the program, too
            path, done = record([program], f"--trace={image}{pattern}", "--no-waits", text=True)
            said = [call[3] for call in _calls(sonde("export", "--as", "calls", path))]
            assert said == names, (image, pattern, said, done.stderr)
    _path, done = record([program], "--trace=!net::nothing", text=True)
    assert "no traceable function or method matches '!net::nothing'" in done.stderr, done


SCOPES = """#include <sonde/sonde.h>
int main(int argc, char **argv) {
  sonde_trace_start(0);
  { sonde_trace_scope("load settings"); }
  { sonde_trace_scope("GET /index.html?a=1 HTTP"); }
  { sonde_trace_scope("two\\nlines (of)\\ttext"); }
  sonde_trace_stop();
  sonde_trace_print(2);
  return sonde_trace_save(argv[1]) != 0;
}"""


def names_of_scopes_are_whole():
    """They are any text, and no names of functions, which a report shortens."""
    names = ["load settings", "GET /index.html?a=1 HTTP", r"two\nlines (of)\ttext"]
    path = fresh()
    printed = subprocess.run([compile_c(SCOPES, INCLUDE, *LINK_SHARED), path], capture_output=True, text=True, check=True)
    assert {line.split(None, 6)[6] for line in printed.stderr.splitlines()[1:]} == {*names[:2], "two?lines (of)?text"}, printed
    assert [call[3] for call in _calls(sonde("export", "--as", "calls", path))] == names
    assert [call[3] for call in _calls(sonde("export", "--as", "calls", "--full-names", path))] == names
    timeline = json.loads(sonde("export", "--as", "chrome-trace", path))["traceEvents"]
    assert [event["name"] for event in timeline if event["ph"] == "X"] == names, timeline
    shown = sonde("report", "--all", path, "trace").split("slowest")[0].splitlines()
    assert all(any(line.endswith(name) for line in shown) for name in names), shown
    told = report(path, "trace", "--function", "GET *")["trace"]["functions"]
    assert [function["function"] for function in told] == names[1:2], told


def imported_functions_are_demangled():
    library = compile_c("namespace net { int read(const char *text) { return *text; } }", "-x", "c++", "-shared", "-fPIC",
                        compiler="g++", out=fresh(".so"))
    program = compile_c("namespace net { int read(const char *text); } int main() { return net::read(\"\"); }", "-x", "c++",
                        "-x", "none", "-Wl,-rpath," + os.path.dirname(library), library, compiler="g++")
    path, _done = record([program], "--trace=net::read")
    assert [call[3] for call in _calls(sonde("export", "--as", "calls", path))] == ["net::read"]
    assert [f["function"] for f in report(path, "trace")["trace"]["functions"]] == ["net::read(char const*)"]


run_cases(globals())
