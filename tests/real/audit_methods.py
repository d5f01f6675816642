#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Methods of Objective-C in an audit policy, on programs of the GNU runtime that count their methods themselves: the
audit counts the same, by method, with who called them."""
import collections
import re
import subprocess

from helpers import needs_agent, run_cases, sonde, try_sonde, write
from shared.audits import audit_of, compile_audited, record_audit
from shared.calls import paths_of, trace_of
from shared.objc import compile_m, counted, needs_gnustep, needs_objc

needs_agent()

MESSAGES = ["-std=gnu11", "-O1", "-fobjc-exceptions"]
needs_objc()

POLICY = """version: 1
extends: none
categories:
  - id: acme.base
    methods: ["-[Base add:to:]", "+[Base make]", "-[Nobody is:]"]
  - id: acme.derived
    methods: ["-[Derived *]", "-[Derived big:]"]
    except: ["-[Derived m*]"]
allow:
  - category: acme.base
    function: "+[Base *]"
    owner: messages
    reason: that is how they are made
owners:
  - library: "*.program"
    name: messages
"""


def audited(found, category):
    """{method: calls} of a category: under its own name, or as the argument of a glob."""
    counts = collections.Counter()
    for row in found:
        if row["category"] == category:
            counts[row["arguments"].strip('"') or row["function"]] += row["calls"]
    return dict(counts)


def check_program(program, arguments, policy, wanted, *options):
    plain = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=150, check=True)
    path, done = record_audit([program, *arguments], policy, *options)
    assert (done.returncode, done.stdout) == (0, plain.stdout.encode()), done
    expected = {name: n for name, n in counted(plain.stdout).items() if wanted(name)}
    return path, audit_of(path), expected


def methods_are_counted_allowed_and_owned():
    program = compile_m("messages.m", [*MESSAGES, "-lobjc"])
    policy = write(POLICY, ".yaml")
    path, audit, expected = check_program(program, ["300"], policy, lambda n: True)
    found = audit["findings"]
    base = audited(found, "acme.base")
    assert base == {n: expected[n] for n in ("-[Base add:to:]", "+[Base make]")}, base
    derived = audited(found, "acme.derived")
    # Named twice, by a glob and by itself: counted as either.
    big = sum(r["calls"] for r in found if r["function"] == "-[Derived big:]")
    assert big == expected["-[Derived big:]"], found
    derived["-[Derived big:]"] -= big
    assert derived == {n: c for n, c in expected.items() if n.startswith("-[Derived ") and not n.startswith("-[Derived m")}, derived
    assert all(r["owner"] == "messages" for r in found), found
    assert {r["function"] for r in found if r.get("allowed")} == {"+[Base make]"}, found
    assert not "-[Nobody is:]" in audit["not_present"], audit
    sarif = sonde("export", "--as", "sarif", path)
    assert "-[Base add:to:]() is called by messages" in sarif
    old = write(sonde("audit", "baseline", path), ".json")
    assert sonde("diff", "--by", "audit", old, path) == ""


def beside_the_tracing_of_messages():
    program = compile_m("messages.m", [*MESSAGES, "-lobjc"])
    policy = write(POLICY, ".yaml")
    path, audit, expected = check_program(program, ["50"], policy, lambda n: True, "--trace=*[*]")
    assert audited(audit["findings"], "acme.base")["-[Base add:to:]"] == 50, audit["findings"]
    traced = collections.Counter()
    for names, calls in paths_of(trace_of(path)).items():
        traced[re.split(r"/(?=[-+]\[)", names)[-1]] += calls
    assert traced == expected


def a_runtime_that_is_loaded_later():
    library = compile_m("messages.m", [*MESSAGES, "-shared", "-fPIC", "-lobjc"])
    program = compile_audited("""
#include <dlfcn.h>
int main(int argc, char **argv) {
  void *lib = dlopen(argv[1], RTLD_NOW);
  return lib ? ((int (*)(int, char **))dlsym(lib, "main"))(argc - 1, argv + 1) : 9;
}""", "-ldl")
    _, audit, expected = check_program(program, [library, "20"], write(POLICY, ".yaml"), lambda n: True)
    assert audited(audit["findings"], "acme.base") == {n: expected[n] for n in ("-[Base add:to:]", "+[Base make]")}
    assert not "-[Nobody is:]" in audit["not_present"], audit


def foundation_is_audited():
    flags = needs_gnustep()
    program = compile_m("foundation.m", ["-std=gnu11", *flags])
    policy = write("""version: 1
extends: apple
categories:
  - id: acme.accounts
    methods: ["-[Account *]"]
  - id: foundation
    methods: ["+[NSString *]"]
""", ".yaml")
    _, audit, expected = check_program(program, [], policy, lambda n: n.startswith("-[Account "))
    found = audited(audit["findings"], "acme.accounts")
    assert {n: found.get(n) for n in expected} == expected, (found, expected)
    assert audited(audit["findings"], "foundation"), audit["findings"]
    # The methods of Apple's list are defined by GNUstep too.
    other = compile_m("defaults.m", ["-std=gnu11", *flags])
    path, done = record_audit([other], "apple")
    assert done.returncode == 0, done
    found = audited(audit_of(path)["findings"], "apple.defaults")
    assert found.get("+[NSUserDefaults standardUserDefaults]") and found.get("-[NSUserDefaults integerForKey:]") == 3, found
    assert "CA92.1" in sonde("export", "--as", "xcprivacy", path)


def what_is_no_method_is_refused():
    for name in ("[Base x]", "-[Base]", "-[Base x", "-Base x]", "-[ x]", "-[Base ]", "-[Base x] ", "-[Base x y]", "-[[Base x]"):
        policy = write(f'version: 1\nextends: none\ncategories:\n  - id: a\n    methods:\n      - "{name}"\n', ".yaml")
        done = try_sonde("audit", "check", policy)
        assert done.returncode == 2 and f"{policy}:6: '{name}' is not a method" in done.stderr, (name, done)


run_cases(globals())
