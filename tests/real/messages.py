#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sonde record --trace='-[Class selector:]' on Objective-C programs of the GNU runtime: methods do what
they do without it, and are called as often as they themselves count."""
import collections
import os
import re
import subprocess

from helpers import INCLUDE, LIB, WORK, needs_agent, run_cases
from shared.calls import no_call_missing, paths_of, record_trace, trace_of
from shared.objc import compile_m, counted, needs_gnustep, needs_objc

needs_agent()


def _plain_objc():
    return compile_m("messages.m", ["-std=gnu11", "-O1", "-fobjc-exceptions", "-lobjc"])


needs_objc()


def methods(told):
    """Calls of each method; a method may have been called from many places."""
    counts = collections.Counter()
    for path, calls in paths_of(told).items():
        counts[re.split(r"/(?=[-+]\[)", path)[-1]] += calls
    return counts


def check_program(program, arguments, pattern, wanted):
    plain = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=150, check=True)
    path, done = record_trace(program, *arguments, trace=f"--trace={pattern}")
    assert (done.returncode, done.stdout) == (0, plain.stdout.encode()), done
    told = trace_of(path)
    no_call_missing(told)
    found = methods(told)
    expected = {name: n for name, n in counted(plain.stdout).items() if wanted(name)}
    assert expected, plain
    wrong = {name: (n, found[name]) for name, n in expected.items() if found[name] != n}
    assert not wrong, (pattern, wrong, found)
    return told, found, expected


def methods_are_called_as_often_as_they_count():
    program = _plain_objc()
    told, found, expected = check_program(program, ["300"], "*[*]", lambda name: True)
    assert found == expected, (found, expected)
    assert told["trace"]["left"] == told["trace"]["open"] == 0, told["trace"]
    paths = paths_of(told)
    assert paths["-[Derived overridden:]/-[Base overridden:]"] == 300, paths
    assert paths["/".join(["-[Derived throwAfter:]"] * 4)] == 300, paths
    print(sum(found.values()), "messages")


def patterns_choose_methods():
    program = _plain_objc()
    for pattern, wanted in (("-[Base *]", lambda n: n.startswith("-[Base ")),
                            ("+[*]", lambda n: n.startswith("+")),
                            ("-[Base add:to:],-[Derived big:]",
                             lambda n: n in ("-[Base add:to:]", "-[Derived big:]"))):
        _, found, expected = check_program(program, ["20"], pattern, wanted)
        assert found == expected, (pattern, found, expected)
    _, done = record_trace(program, trace="--trace=-[Nobody *]")
    assert b"matches '-[Nobody *]'" in done.stderr, done


def foundation_calls_and_is_called():
    program = compile_m("foundation.m", ["-std=gnu11", *needs_gnustep()])
    _, found, _ = check_program(program, [], "-[Account *]", lambda name: True)
    assert all(name.startswith("-[Account ") for name in found), found
    _, found, _ = check_program(program, [], "*[*]", lambda name: True)
    of_foundation = [name for name in found if not name.startswith("-[Account ")]
    assert len(of_foundation) > 50 and sum(found.values()) > 5000, found
    print(f"{len(of_foundation)} methods of Foundation, {sum(found.values())} messages")


def _checks_itself(source):
    for library in "libsonde.a", "libsonde.so":
        program = compile_m(source, ["-std=gnu11", "-O1", "-fobjc-exceptions", INCLUDE, os.path.join(LIB, library),
                                     f"-Wl,-rpath,{LIB}", "-lobjc"])
        done = subprocess.run([program], capture_output=True, text=True, check=False, timeout=150)
        assert done.returncode == 0, (library, done)


def methods_are_exchanged_and_put_back():
    _checks_itself("exchange.m")


def methods_are_intercepted():
    _checks_itself("intercepts.m")



def a_program_prints_its_methods_by_name():
    """Also if it is stripped: then no symbol table has the name."""
    source = os.path.join(WORK, "prints.m")
    with open(source, "w") as file:
        file.write('#include <sonde/trace.h>\n@interface Root { Class isa; }\n+ (void)greet;\n@end\n'
                   '@implementation Root\n+ (void)greet { __asm__ volatile(""); }\n@end\n'
                   'int main(void) { if (sonde_trace_start(0) != 0 || sonde_trace_calls("+[Root *]") != 0) return 2;\n'
                   'for (int i = 0; i < 3; i++) [Root greet];\nreturn sonde_trace_print(1) < 0; }\n')
    program = os.path.join(WORK, "prints")
    subprocess.run(["gcc", "-std=gnu11", "-s", "-O1", "-w", source, INCLUDE, os.path.join(LIB, "libsonde.so"), f"-Wl,-rpath,{LIB}",
                    "-lobjc", "-o", program], check=True, timeout=120)
    done = subprocess.run([program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "+[Root greet]" in done.stdout, done


run_cases(globals())
