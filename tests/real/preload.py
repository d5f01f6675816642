#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the agent takes out of the environment of a program is its own, wherever in the list it stands, and no other's."""
import os
import subprocess

from helpers import LIB, needs_agent, run_cases, skip

needs_agent()

AGENT = os.path.realpath(os.path.join(LIB, "libsonde-agent.so"))
OTHER = "libm.so.6"


def _environment_of(command, **settings):
    # There is no such recording: the agent cleans up behind itself all the same.
    done = subprocess.run(command, env={**os.environ, "SONDE_RECORD": "1:2:3:4", **settings}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)


def the_lists_of_others_stay():
    for given, left in (AGENT, None), (f"{AGENT}:{OTHER}", OTHER), (f"{OTHER}:{AGENT}", OTHER), (f"{OTHER} {AGENT}:{OTHER}", f"{OTHER} {OTHER}"):
        seen = _environment_of(["env"], LD_PRELOAD=given)
        assert seen.get("LD_PRELOAD") == left and "SONDE_RECORD" not in seen, (given, seen.get("LD_PRELOAD"))


def an_agent_that_is_not_in_the_list_takes_nothing_of_it():
    # The one that Python itself is run by, which need not be the only one here.
    with open("/proc/self/maps") as f:
        loaders = sorted({line.split()[-1] for line in f if os.path.basename(line.split()[-1]).startswith("ld-linux")})
    if not loaders or b"--preload" not in subprocess.run([loaders[0], "--help"], capture_output=True).stdout:
        skip("no loader that takes --preload")
    seen = _environment_of([loaders[0], "--preload", AGENT, "/usr/bin/env"], LD_PRELOAD=OTHER)
    assert seen.get("LD_PRELOAD") == OTHER and "SONDE_RECORD" not in seen, seen


run_cases(globals())
