#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Lambdas that a compiler inlined are named by their function and number, which they have no linkage name for. The
oracle is the symbol table of the same program without optimization. Names are the same with and without an index,
before and after other addresses of the unit were looked up. So are those of all other functions, and their lines."""
import os
import re

from helpers import compile_c, output_of, run_cases, sonde, write

SOURCE = r"""
#ifdef __OPTIMIZE__
#define MARK(name) asm volatile(".globl mark_" #name "\nmark_" #name ": nop")
#define INLINE __attribute__((always_inline))
#else
#define MARK(name) (void)#name
#define INLINE
#endif
volatile int sink;
template <class F> static inline INLINE void apply(F f) { f(sink); }
template <class F> static inline INLINE void apply_twice(F f) { f(sink, 1.0); }
namespace work {
void run(int n) {
  if (n) {
    auto other = [](int a, double) INLINE { MARK(other); sink = a; };
    apply_twice(other);
  }
  apply([](int a) INLINE { MARK(first); sink = a; });
  { int k = n; apply([k](int a) INLINE { MARK(second); sink = a + k; }); }
}
struct shop {
  void open(int n) { apply([this, n](int a) INLINE { MARK(member); sink = a + n + stock; }); }
  int stock;
};
}
namespace {
void hidden(int n) { apply([n](int a) INLINE { MARK(hidden); sink = a + n; }); }
}
int main(int argc, char **) {
  work::run(argc);
  work::shop s = {argc};
  s.open(argc);
  hidden(argc);
  apply([](int a) INLINE { MARK(main); sink = a; });
}
"""

# Functions without a linkage name in classes and functions, and functions inside of others.
NESTED = r"""
#include <cstdio>
#define NOINLINE __attribute__((noinline))
namespace {
struct local { int value; NOINLINE int get() const { return value + 1; } };
NOINLINE int hidden(int x) { return x * 3; }
}
struct outer { struct inner { static NOINLINE int get(int x) { return hidden(x) - 1; } }; };
template <class F> NOINLINE int sum(F f, int n) { int s = 0; for (int i = 0; i < n; i++) s += f(i); return s; }
extern "C" NOINLINE int plain(int x) {
  struct in_function {
    int operator()(int y) const { return y * hidden(y); }
    static NOINLINE int less(int z) { return z - 2; }
  };
  return in_function{}(x) + in_function::less(x);
}
static inline int tiny(int a) {
  auto two = [=](int b) { auto three = [=](int c) { return a + b + c; }; return sum(three, 3); };
  return sum(two, 4);
}
int main(int n, char **) {
  return printf("%d %d %d %d", plain(n), tiny(n), local{n}.get(), sum([](int x) { return outer::inner::get(x) ^ 3; }, n));
}
"""
NESTED_C = r"""
#include <stdio.h>
#define NOINLINE __attribute__((noinline))
static inline int add(int a) { return a + 1; }
static NOINLINE int twice(int a) { return add(add(a)); }
int main(int n, char **arguments) {
  (void)arguments;
  NOINLINE int nested(int x) {
    NOINLINE int deeper(int y) { return y * n; }
    return deeper(x) + n;
  }
  return printf("%d %d", nested(n), twice(n));
}
"""


def _plain(name):
    """Without parameters: names without a linkage name have none."""
    name = re.sub(r"\{lambda\([^)]*\)#", "{lambda#", name).split("::operator()")[0]
    return re.sub(r"\([^)]*\)(::)?", r"\1", name).removeprefix("::")


def _programs():
    path = write(SOURCE, ".cpp")
    return compile_c(path, "-O2", "-g", compiler="c++"), compile_c(path, "-O0", "-g", compiler="c++")


def inlined_lambdas_have_the_names_of_the_symbols():
    optimized, plain = _programs()
    # The symbols are in the order of their addresses, which nm -l adds lines to.
    lines = {str(number): re.search(r"MARK\((\w+)\);", line)[1]
             for number, line in enumerate(SOURCE.splitlines(), 1) if "MARK(" in line and "define" not in line}
    wanted = {}
    for name, line in re.findall(r"^[0-9a-f]+ [tTwW] (.*lambda.*operator\(\).*)\t.*:(\d+)$", output_of("nm", "-lC", plain), re.M):
        if line in lines and "apply" not in name:
            wanted[lines[line]] = _plain(name)
    marks = dict(reversed(line) for line in re.findall(r"^([0-9a-f]+) \w mark_(\w+)$", output_of("nm", optimized), re.M))
    assert len(marks) == 6 and len(wanted) == 6, (marks, wanted)
    cache = dict(os.environ, XDG_CACHE_HOME=os.path.dirname(optimized))
    for options in (["--no-index"], []):
        found = {}
        for name, address in marks.items():
            line = sonde("symbolize", *options, "--image", optimized, address, env=cache).splitlines()[0]
            found[name] = _plain(line.split(" ", 1)[1].split(" at ")[0])
        assert found == wanted, (options, found, wanted)
    several = sonde("symbolize", "--image", optimized, *list(marks.values()) * 2000, env=cache)
    assert {_plain(line) for line in re.findall(r"^0x\S+ (.*?) at ", several, re.M)} == set(wanted.values())


def _code_of(path):
    symbols = re.findall(r"^([0-9a-f]+) ([0-9a-f]+) [tTwW] ", output_of("nm", "-S", "--defined-only", path), re.M)
    return [f"{address:x}" for low, size in symbols for address in range(int(low, 16), int(low, 16) + int(size, 16), 2)]


def one_address_has_the_names_of_the_index():
    for compiler, source, suffix in (("c++", NESTED, ".cpp"), ("clang++", NESTED, ".cpp"), ("gcc", NESTED_C, ".c")):
        for level in ("-O0", "-O2"):
            program = compile_c(write(source, suffix), level, "-g", compiler=compiler)
            cache = dict(os.environ, XDG_CACHE_HOME=os.path.dirname(program))
            addresses = _code_of(program)
            indexed = sonde("symbolize", "--image", program, *addresses * 20, env=cache)
            of = dict(re.findall(r"^(0x\S+)((?: .*\n)+)", indexed, re.M))
            assert len(of) == len(set(addresses)) > 30, (len(of), len(addresses))
            for address in addresses[::7]:
                direct = sonde("symbolize", "--no-index", "--image", program, address, env=cache)
                assert direct == f"0x{address}" + of[f"0x{address}"], (compiler, level, direct, of[f"0x{address}"])


run_cases(globals())
