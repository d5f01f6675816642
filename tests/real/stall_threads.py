#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Many event loops in one program, all stalled at once: each is told, with its name, also by a recorder that may
open few files; those beyond the limit are said to be not seen."""
import resource

from helpers import fresh, needs_agent, run_cases
from shared.stalls import build, name, stalls, start

PLACES = 256


def _few_files():
    """For the recorder and its program, which needs two descriptors a thread."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (280, 280))


def watch(count, **how):
    path = fresh()
    recorder = start([program, str(count)], 200, path, **how)
    _, complaints = recorder.communicate(timeout=150)
    assert recorder.returncode == 0, complaints
    told = stalls(path)
    names = sorted({s["thread"] for s in told["stalls"]})
    print(f"{count} loops: {len(told['stalls'])} stalls of {len(names)} threads, {told['unsampled']}")
    assert all(n.startswith("loop-") for n in names), names
    assert all(name(s) == "holds_up" and s["ending"] == "ended" for s in told["stalls"]), told
    return told, len(names), complaints


def a_recorder_of_few_files_sees_all():
    told, threads, _ = watch(120, preexec_fn=_few_files)
    assert threads == 120 and not told["unsampled"]


def loops_beyond_the_limit_are_said_to_be_not_seen():
    told, threads, complaints = watch(PLACES + 60)
    assert threads == PLACES and len(told["unsampled"]) == 1
    assert "more than 256 threads" in told["unsampled"][0] and "more than 256 threads" in complaints


needs_agent()
program = build("loops")
run_cases(globals())
