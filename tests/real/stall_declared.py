#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Turns that a program declares by sonde/stall.h: heartbeats, scopes with limits, expected waits; told to a
recorder, and to the monitor of a program that watches itself."""
import subprocess

from helpers import (
    INCLUDE, LINK_SHARED, compile_c, Delays, fresh, needs, needs_agent, output_of, run_cases, source_file)
from shared.stalls import name, stalls, start

EINVAL, EUNSUPPORTED, EBUSY = -1, -11, -15
BEGAN, GOES_ON, ENDED = range(3)


def build(compiler, source, *options):
    return compile_c(source_file("real", "stall", source), "-O2", "-g", "-fno-optimize-sibling-calls", *options, INCLUDE,
                     *LINK_SHARED, compiler=compiler)


def told_to_a_recorder():
    program, path = build("cc", "declares.c", "-fno-ipa-icf"), fresh()
    alone = subprocess.run([program], capture_output=True, text=True, timeout=150)
    assert alone.stdout.split()[:2] == [str(EUNSUPPORTED)] * 2, alone.stdout
    with Delays() as delays:
        recorder = start([program], 150, path, stdout=subprocess.PIPE)
        out, complaints = recorder.communicate(timeout=150)
    status, refused, missed, exceeded = map(int, out.split())
    assert recorder.returncode == 0 and (status, refused) == (0, EINVAL), (out, complaints)
    told = [(name(s), s["total_ns"] / 1e6) for s in stalls(path)["stalls"]]
    print(told)
    assert [t[0] for t in told] == ["misses_a_heartbeat", "exceeds_its_scope"]
    off = 5 + 1e3 * delays.sum
    assert abs(told[0][1] - missed / 1e3) < off and abs(told[1][1] - exceeded / 1e3) < off, (missed, exceeded, off)


def functions(program):
    """From nm: where each begins, in order."""
    out = output_of("nm", "--defined-only", "-n", program)
    return [(int(line.split()[0], 16), line.split()[2]) for line in out.splitlines() if line.split()[1] in "Tt"]


def name_of(table, pc):
    return (["?"] + [function for begins, function in table if begins < pc])[-1]


def told_to_the_program_itself():
    needs("c++")
    program = build("c++", "watches.cc", "-no-pie", "-pthread")
    with Delays() as delays:
        lines = subprocess.check_output([program], text=True, timeout=150).splitlines()
    late = 1e3 * delays.sum
    print(f"the machine was late by {late:.0f} ms in all")
    before, second, bad, ended, after, calls, idle_us = map(int, lines.pop().split()[1:])
    assert (before, second, bad, ended, after) == (EUNSUPPORTED, EBUSY, EINVAL, 0, EUNSUPPORTED)
    *parts, burned_us = map(int, lines.pop().split()[1:])
    assert calls == len(lines)
    table, told = functions(program), {}
    for line in lines:
        phase, number, _, length_us, limit_us, percent, culprits, *pcs = line.split()
        culprit, (count, *pcs) = pcs[:int(culprits)], pcs[int(culprits):]
        assert len(pcs) == max(0, int(count)) and limit_us == "150000", line
        names, blamed = ([name_of(table, int(pc, 16)) for pc in some] for some in (pcs, culprit))
        told.setdefault(int(number), []).append((int(phase), int(length_us) / 1e3, names, blamed, int(percent)))
    assert list(told) == [1, 2, 3], lines
    for calls, culprit in zip(told.values(), ("sleeps_too_long", "burns_too_long")):
        print(culprit, [(phase, length, percent) for phase, length, _, _, percent in calls])
        assert [phase for phase, *_ in calls] == [BEGAN, GOES_ON, ENDED]
        # No stack, where the thread was given no processor to say it in time.
        assert all(culprit in names or late and not names for _, _, names, *_ in calls[:2]), calls
        assert all(blamed[0] == culprit and percent >= 90 for *_, blamed, percent in calls), calls
        assert 150 <= calls[0][1] and 2 * calls[0][1] <= calls[1][1] <= calls[2][1]
        wanted = burned_us / 1e3 if culprit == "burns_too_long" else 500
        assert 495 - late <= calls[2][1] < wanted + 60 + late, (calls, burned_us)
    share = 100 * parts[0] / sum(parts)
    for phase, length, names, blamed, percent in told[3]:
        print("two parts", phase, length, "at", names[0] if names else None, "blamed", blamed[0], percent)
        # Two parts of 130 and 70 ms are told apart by looks, where looks were not as late as that.
        assert late > 30 or blamed[0] == "holds_most" and "works" in blamed[1], blamed
    assert abs(told[3][-1][4] - share) <= 10 + late / 2, (told[3], share)
    print(f"its monitor used {idle_us} us of CPU time in an idle second")
    assert idle_us < 1000


needs_agent()
run_cases(globals())
