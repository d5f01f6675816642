#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Code that a program registers with GDB's JIT interface: of a program that registers object files itself, and of LLVM's
lli. gdb, which reads the same interface, is the oracle for stacks; the program's own clock for recordings."""
import json
import re

from helpers import (SANITIZED, compile_c, fresh, kill, needs, output_of, record, run_cases, skip, sonde, source_file,
                     start_ready, try_sonde, write)

# The code has no relocations: what it calls is a parameter, or in the same section. So any place will do.
OBJECT = """
static __attribute__((noinline)) long {name}_inner(void (*f)(long), long n) {{
  for (volatile long i = 0; i < n; i++);
  f(n);
  return n + 1;
}}
__attribute__((noinline)) long {name}(void (*f)(long), long n);
long {name}(void (*f)(long), long n) {{ return {name}_inner(f, n) + 1; }}
"""
_built = {}


def _program():
    if "program" not in _built:
        _built["program"] = compile_c(source_file("real", "gdb", "registers.c"), "-g", "-O1")
    return _built["program"]


def _made(name):
    return compile_c(OBJECT.format(name=name), "-c", "-O1", out=fresh(".o"))


def _gdb_names(*words):
    """Names of the first thread's frames, innermost first."""
    said = output_of("gdb", "-nx", "-batch", "-ex", "set debuginfod enabled off", *words, "-ex", "bt")
    return re.findall(r"^#\d+\s+(?:0x[0-9a-f]+ in )?([^ (]+)", said, re.M)


def _names_of(answer):
    return [frame.get("function", "?") for frame in answer["threads"][0]["frames"]]


def frames_like_gdb():
    """In a process, and in a core file of it."""
    needs("gdb", "gcore")
    process = start_ready([_program(), "wait", _made("made_waits")])
    theirs = _gdb_names("-p", process.pid)
    assert "made_waits" in theirs, theirs
    ours = json.loads(sonde("stacks", "--json", process.pid))
    assert _names_of(ours)[1:len(theirs)] == theirs[1:], (_names_of(ours), theirs)  # the first has an alias
    assert _names_of(ours)[-1] == "_start" and "main" in _names_of(ours), ours
    text = sonde("stacks", process.pid)
    assert re.search(r"made_waits_inner\+0x", text), text
    core = fresh(".core")
    output_of("gcore", "-o", core, process.pid)
    assert _names_of(json.loads(sonde("stacks", "--json", "--core", f"{core}.{process.pid}"))) == _names_of(ours)
    assert "GDB's JIT interface" in sonde("doctor", process.pid)
    kill(process)
    return "the names are gdb's"


def a_stripped_program():
    """The descriptor is exported, as that of a library is."""
    stripped = compile_c(source_file("real", "gdb", "registers.c"), "-O1", "-rdynamic", "-s")
    process = start_ready([stripped, "wait", _made("made_waits")])
    assert "made_waits" in _names_of(json.loads(sonde("stacks", "--json", process.pid)))
    kill(process)


def damaged_lists():
    process = start_ready([_program(), "damaged", _made("made_waits")])
    found = _names_of(json.loads(sonde("stacks", "--json", process.pid)))
    kill(process)
    assert "made_waits" in found and "made_waits_inner" in found, found


def _seconds_of(path):
    """Seconds of CPU time by generated function, of all samples."""
    out = {}
    for line in sonde("export", path, "--as", "collapsed").splitlines():
        stack, value = line.rsplit(" ", 1)
        names = [name for name in stack.split(";") if "made_" in name]
        name = names[-1] if names else "?"
        out[name] = out.get(name, 0) + int(value)
    return out


def codes_at_one_address():
    """Each is named while it is there. sonde looks five times a second; both are named in between."""
    if SANITIZED:
        skip("the agent is not built with a sanitizer")
    objects = [_made(f"made_{word}") for word in ("first", "second", "third")]
    path, done = record([_program(), "spin", *objects], "--sample=500", text=True)
    ran = {line.split()[0]: int(line.split()[1]) for line in done.stdout.splitlines()}
    assert len(ran) == 3, done
    found = _seconds_of(path)
    total, whole = sum(found.values()), sum(ran.values())
    for name, ns in ran.items():
        sure = sum(value for key, value in found.items() if key in (name, name + "_inner"))
        doubtful = sum(value for key, value in found.items() if name in key and "|" in key)
        assert sure / total < ns / whole + 0.06, (name, found, ran)
        assert (sure + doubtful) / total > ns / whole - 0.06, (name, found, ran)
    assert found.get("?", 0) < 0.1 * total, found
    return str(found)


# Runs code that nobody names, and then what the library of argument 1 does.
LATE = r"""
#include <dlfcn.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
int main(int argc, char **argv) {
  static const unsigned char spin[] = {
#if defined(__x86_64__)
      0x48, 0xff, 0xcf, 0x75, 0xfb, 0xc3}; /* dec %rdi; jne; ret */
#else
      0x00, 0x04, 0x00, 0xf1, 0xe1, 0xff, 0xff, 0x54, 0xc0, 0x03, 0x5f, 0xd6}; /* subs x0, x0, #1; b.ne; ret */
#endif
  void *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(code, spin, sizeof spin);
  __builtin___clear_cache(code, (char *)code + sizeof spin);
  while (clock() < CLOCKS_PER_SEC / 2) ((void (*)(long))code)(1000000);
  void *library = dlopen(argv[1], RTLD_NOW);
  int (*run)(int, char **) = library ? (int (*)(int, char **))dlsym(library, "registers_main") : 0;
  return run ? run(argc - 1, argv + 1) : 1;
}
"""


def a_library_that_is_loaded_later():
    """sonde has then searched the images before; it searches again, at most two seconds later."""
    if SANITIZED:
        skip("the agent is not built with a sanitizer")
    library = compile_c(source_file("real", "gdb", "registers.c"), "-g", "-O1", "-shared", "-fPIC", "-Dmain=registers_main",
                        out=fresh(".so"))
    objects = [_made(f"made_{number}") for number in range(5)]
    path, _ = record([compile_c(LATE, "-O1", "-ldl"), library, "spin", *objects], "--sample=500", text=True)
    found = _seconds_of(path)
    assert "made_4_inner" in found, found
    return str(found)


def recorded_from_outside():
    process = start_ready([_program(), "wait", _made("made_waits")])
    path = fresh()
    done = try_sonde("record", "-p", process.pid, "--wall", "--seconds", "2", "-o", path)
    kill(process)
    assert done.returncode == 0, done
    assert "made_waits_inner" in sonde("report", path, "wall", "waits"), sonde("report", path)


# C++ names are demangled. clang must not evaluate or inline the functions.
LLI = r"""
#include <cstdio>
#include <unistd.h>
namespace made { __attribute__((noinline)) int inner(int n) { puts("ready"); fflush(stdout); pause(); return n + 1; }
__attribute__((noinline)) int outer(int n) { return inner(n) + 1; } }
int main(int argc, char **) { return made::outer(argc); }
"""


def llvm():
    needs("lli", "clang++")
    bitcode = fresh(".ll")
    output_of("clang++", "-x", "c++", "-O1", "-S", "-emit-llvm", write(LLI, ".cc"), "-o", bitcode)
    process = start_ready(["lli", "--jit-kind=mcjit", bitcode])
    found = _names_of(json.loads(sonde("stacks", "--json", process.pid)))
    kill(process)
    assert found.index("made::inner(int)") < found.index("made::outer(int)") < found.index("main"), found
    return "lli"


run_cases(globals())
