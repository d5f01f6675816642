#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Recordings whose pairs of native stacks and chains of Python frames, or whose names of generated code, would need more
memory or time than those of any program: their reports end within bounds."""
import json

from helpers import run_cases
from shared.bounded import bounded_sonde
from shared.recordings import numbers, recording, table, string

FRAME, NODE, CHAIN, MERGED, CALL = 5, 6, 7, 8, 9
# SECONDS of CPU time. The reports need 1 to 4 of them, and without the bounds over a minute.
DEPTH, STACKS, SECONDS = 40000, 5000, 12
PYTHON_PC = 0x5079 << 48


def _tables(records, size=1 << 18):
    """The records in chunks."""
    chunks, chunk = [], b""
    for kind, values in records:
        chunk += table(kind, numbers(*values))
        if len(chunk) > size:
            chunks.append(chunk)
            chunk = b""
    return [*chunks, chunk]


def _report(folder, what, records):
    events = bytes([1, 1]) + numbers(64, 1)
    path = recording(folder / "run.sonde", events, table(1, numbers(1)), *_tables(records))
    run = bounded_sonde("report", "--json", path, "malloc", seconds=SECONDS, megabytes=1024)
    assert run.returncode == 0, (what, run.returncode, run.stderr[-300:])
    return json.loads(run.stdout)


def _frames(count=2):
    return [(FRAME, (i + 1, PYTHON_PC + i if i else 4096, 0, 0)) for i in range(count)]


def _stacks_of_one_native_stack(chains):
    """A deep native stack with many CHAINS."""
    return ([(NODE, (i + 1, i, 1)) for i in range(DEPTH)] + chains
            + [(MERGED, (1 << 24 | i, DEPTH, DEPTH + 1 + i)) for i in range(STACKS)])


def many_stacks_without_calls(folder):
    """No frame is a call of the evaluator, so no stack fits its chain. Each pair looks like a new path."""
    _report(folder, "no calls", _frames() + _stacks_of_one_native_stack(
        [(CHAIN, (DEPTH + 1 + i, 0, 2, 1)) for i in range(STACKS)]))


def chains_in_a_circle(folder):
    """Each native frame runs a chain that leads to itself."""
    circle = [(CHAIN, (DEPTH + 1 + i, DEPTH + 1 + (i + 1) % (3 * STACKS), 2, i == 7)) for i in range(3 * STACKS)]
    _report(folder, "circle", _frames() + [(CALL, (1,))] + _stacks_of_one_native_stack(circle))


def the_highest_id(folder):
    """No id is left for the nodes of merged stacks."""
    nodes = [(NODE, (1 + i, i, 1)) for i in range(2 * DEPTH)] + [(NODE, (0xffffffff, 0, 1))]
    chains = [(CHAIN, (2 * DEPTH + 1 + i, 0, 2, 1)) for i in range(12 * STACKS)]
    _report(folder, "highest", _frames() + nodes + [(CALL, (1,))] + chains
            + [(MERGED, (1 << 24 | i, 1, 2 * DEPTH + 1 + i)) for i in range(12 * STACKS)])


def many_interpreters(folder):
    """Each image seems to be an interpreter."""
    count = 30000
    images = [table(2, numbers(i + 1, 0, 4096, 8192, 0) + string(b"") + string(b"/lib/%d" % i)) for i in range(count)]
    frames = [(FRAME, (1 + i, 4097, i + 1, 0)) for i in range(count)]
    nodes = [(NODE, (1 + 2 * i, 0, 1 + i)) for i in range(count)] + [
        (NODE, (2 + 2 * i, 1 + 2 * i, count + 1)) for i in range(count)]
    events = bytes([1, 1]) + numbers(64, 1)
    path = recording(folder / "run.sonde", events, table(1, numbers(1)), b"".join(images[::2]), b"".join(images[1::2]),
                     *_tables(frames + [(FRAME, (count + 1, PYTHON_PC, 0, 0))] + nodes))
    assert bounded_sonde("events", path, seconds=SECONDS, megabytes=1024).returncode == 0


def much_code_at_one_address(folder):
    """Any of 4,096 functions may have been at each of many addresses."""
    codes = b"".join(table(25, numbers(65536, 1 << 20, i, i + 1, i, 0) + string(b"f%d" % i)) for i in range(4096))
    frames = [(FRAME, (1 + i, 65537 + i, 0, 0)) for i in range(STACKS * 6)]
    path = recording(folder / "run.sonde", bytes([1, 1]) + numbers(64, 1), table(1, numbers(1)), codes, *_tables(
        frames + [(NODE, (1, 0, 1))]))
    run = bounded_sonde("events", path, seconds=SECONDS)
    assert run.returncode == 0, run


run_cases(globals())
