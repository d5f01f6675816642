#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Servers under load, recorded many times, each beside a twin that is not recorded. From outside: sampled by the
kernel, sampled by stops where the kernel refuses, and with a recorder that is killed. Then with the agent, which is
loaded and removed each time. No request may fail, and no descriptor, thread, mapping of a file or byte of code may
differ afterwards.

usage: attach.py [CYCLES [SERVER…]]"""
import os
import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1]), str(pathlib.Path(__file__).resolve().parents[1] / "real")]

from shared.serving import SERVICES, record_again_and_again  # noqa: E402  (the path is set above)

CYCLES = int(sys.argv[1]) if len(sys.argv) > 1 else 100

failed = False
for name in sys.argv[2:] or SERVICES:
    for agent in False, True:
        how = "with the agent" if agent else "from outside"
        try:
            print(f"{how}: {record_again_and_again(name, CYCLES, agent=agent) or name + ': not installed'}", flush=True)
        except AssertionError as error:
            print(f"{how}: {name}: FAILED: {error}", flush=True)
            failed = True
sys.stdout.flush()
os._exit(failed)  # clients of a server that hangs do not end
