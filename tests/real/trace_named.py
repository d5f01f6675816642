#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Functions that are asked for by name: the last component of a name selects functions of C++ and Rust, and the report
shows them before the waits that are traced besides."""
import os
import platform
import re

from helpers import compile_c, fresh, needs, needs_agent, output_of, report, run_cases, skip, sonde, write
from shared.calls import record_trace, trace_of

needs_agent()
if platform.machine() != "x86_64":
    skip("functions are patched on x86_64")

SHOP = """
#include <pthread.h>
#include <time.h>
#define FUNCTION __attribute__((noinline, noclone))
volatile int v;
static void wait_ms(int ms) { timespec t = {0, ms * 1000000L}; nanosleep(&t, nullptr); }
namespace shop {
struct Text { int n; };
FUNCTION int checkpoint(int n) { for (int i = 0; i < 1000; i++) v += i; return v + n; }
FUNCTION int checkpoint(double) { v++; return v; }
FUNCTION int parse(const Text &t) { v += t.n; return v; }
FUNCTION int call(int (*f)(int), int n) { v++; return f(n) + v; }
template <class T> struct Store { FUNCTION int checkpoint() { v++; return v; } };
}
int look(int n) { v += n; return v; }
static void *nap(void *) { wait_ms(300); return nullptr; }
int main() {
  pthread_t thread;
  pthread_create(&thread, nullptr, nap, nullptr);
  shop::Store<shop::Text> store;
  int n = shop::checkpoint(1) + shop::checkpoint(1.0) + shop::parse({2}) + shop::call(look, 3) + store.checkpoint();
  pthread_join(thread, nullptr);
  for (int i = 0; i < 3; i++) wait_ms(20);
  return n == 0;
}
"""
CHECKPOINTS = {"shop::checkpoint(int)", "shop::checkpoint(double)", "shop::Store<shop::Text>::checkpoint()"}


def _program():
    return compile_c(SHOP, "-g", "-O1", "-pthread", "-x", "c++", compiler="g++")


def a_last_component_selects():
    program = _program()
    for pattern, expected in (("!checkpoint", CHECKPOINTS), ("checkpoint", CHECKPOINTS), ("!check*", CHECKPOINTS),
                              ("!shop::checkpoint", {"shop::checkpoint(int)", "shop::checkpoint(double)"}),
                              ("!Text", set()), ("!Store", set()), ("look,!call", {"look(int)", "shop::call(int (*)(int), int)"})):
        path, done = record_trace(program, trace=f"--trace={pattern}", text=True)
        found = {f["function"] for f in trace_of(path)["trace"].get("functions", [])}
        assert found == expected, (pattern, found, done.stderr)
        assert expected or "an inlined function has no calls" in done.stderr, done


def a_last_component_selects_in_rust():
    source = write("""mod bank {
    pub struct Account(pub u32);
    impl Account { #[inline(never)] pub fn settle(&mut self, n: u32) { unsafe { std::ptr::write_volatile(&mut self.0, n) } } }
    #[inline(never)] pub fn settle(n: u32) -> u32 { let mut a = Account(n); a.settle(n + 1); a.0 }
    #[inline(never)] pub fn other(n: u32) -> u32 { std::hint::black_box(n) }
}
fn main() { std::process::exit((bank::settle(1) + bank::other(1) == 0) as i32) }
""", ".rs")
    needs("rustc")
    for scheme in ["-C", "symbol-mangling-version=v0"], ["-Z", "unstable-options", "-C", "symbol-mangling-version=legacy"]:
        program = fresh(".program")
        output_of("rustc", "-O", "-g", *scheme, "-o", program, source, env={**os.environ, "RUSTC_BOOTSTRAP": "1"})
        path, done = record_trace(program, trace="--trace=!settle", text=True)
        calls = sum(f["calls"] for f in trace_of(path)["trace"].get("functions", []))
        assert calls == 2, (scheme, calls, done.stderr)


def what_was_asked_for_comes_before_waits():
    path, _done = record_trace(_program(), trace="--trace=!checkpoint", waits=True)
    names = [f["function"] for f in report(path, "trace")["trace"]["functions"]]
    assert set(names[:3]) == CHECKPOINTS and {"pthread_join", "nanosleep"} <= {n.lstrip("_") for n in names[3:]}, names
    text = sonde("report", path, "trace")
    for part in "calls by function", "call tree":
        rows = text.split(part)[1].split("\n\n")[0].splitlines()[2:]
        shown = ["checkpoint" if "checkpoint" in row else "wait" for row in rows]
        assert shown[:3] == ["checkpoint"] * 3 and "wait" in shown, (part, rows)
    few = sonde("report", "--top", "3", path, "trace").split("call tree")[1].split("slowest")[0]
    assert few.count("checkpoint") == 3 and re.search("… [12] more\n", few), few  # not "shorter"


def calls_that_only_waited_are_apart():
    """The thread that waits for the others waits longer than any call works."""
    work = """
#include <pthread.h>
#include <unistd.h>
volatile int v;
__attribute__((noinline)) static int work(int n) { for (int i = 0; i < n * 100000; i++) v += i; return v; }
__attribute__((noinline)) static void take(void) { usleep(60000); }
static void *serve(void *unused) { for (int i = 0; i < 3; i++) { take(); work(1 + i); } return unused; }
int main(void) { pthread_t thread; pthread_create(&thread, 0, serve, 0); pthread_join(thread, 0); return 0; }
"""
    path, _ = record_trace(compile_c(work, "-g", "-O1", "-pthread"), trace="--trace=!*", waits=True)
    told = trace_of(path)["trace"]
    assert {call["function"] for call in told["slowest"]} >= {"work"} and \
        not {call["function"] for call in told["slowest"]} & {"usleep", "take", "pthread_join"}, told["slowest"]
    assert {"usleep", "take"} <= {call["function"] for call in told["longest_waits"]}, told["longest_waits"]
    text = sonde("report", path, "trace")
    slowest, waits = text.split("\nslowest calls\n")[1].split("\nlongest waits\n")
    assert " work\n" in slowest and "usleep" not in slowest, text
    assert waits.count(" usleep\n             take\n             serve\n") == 3, text
    text = sonde("report", "--function", "take", path, "trace")
    assert "longest waits" not in text and text.split("\nslowest calls\n")[1].count(" take\n") == 3, text


run_cases(globals())
