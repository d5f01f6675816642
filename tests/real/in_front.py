#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Functions that the agent has in front of the C library's are the C library's wherever a library is named: in
what is asked for and in what is told. The oracle is the loader, in a run without the agent."""
from helpers import compile_c, needs_agent, output_of, run_cases, write
from shared.audits import audit_of, record_audit
from shared.calls import no_call_missing, record_trace, trace_of, trace_source

needs_agent()


def _program():
    """It, and for each function its library and how often it is called."""
    program = compile_c(trace_source("in_front.c"), "-O0", "-U_FORTIFY_SOURCE", "-fno-builtin", "-pthread", "-ldl")
    said = output_of(program, "tell")
    expected = {name: (library, int(count)) for name, library, count in map(str.split, said.splitlines())}
    assert len(expected) == 14, said
    return program, expected


def traced_calls():
    program, expected = _program()
    pattern = ",".join(f"{library}:{name}" for name, (library, _) in expected.items())
    path, done = record_trace(program, trace="--trace=" + pattern, options=["--malloc=off"])
    assert done.returncode == 0, done
    told = trace_of(path)
    no_call_missing(told)
    found = {row["function"]: (row["module"], row["calls"]) for row in told["trace"]["functions"]}
    assert found == expected, (found, expected)


def audited_calls():
    program, expected = _program()
    lines = "".join(f'      - "{library}:{name}()"\n' for name, (library, _) in expected.items())
    policy = "version: 1\nextends: none\ncategories:\n  - id: my.calls\n    title: Mine\n    functions:\n" + lines
    path, done = record_audit([program], write(policy, ".yaml"), "--malloc=off")
    assert done.returncode == 0, done
    found = {row["function"]: row["calls"] for row in audit_of(path)["findings"]}
    assert found == {name: count for name, (_, count) in expected.items()}, found


run_cases(globals())
