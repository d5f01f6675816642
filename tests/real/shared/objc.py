# SPDX-License-Identifier: MIT
"""What the tests of Objective-C share: compiling a program, GNUstep's options, and what programs say they counted."""
import os
import re
import subprocess

from shared.calls import HERE
from shared.cases import fresh


def compile_m(source, options):
    out = fresh(".program")
    done = subprocess.run(["gcc", "-g", "-w", "-pthread", os.path.join(HERE, source), "-o", out, *options],
                          capture_output=True, check=False, text=True)
    return out if done.returncode == 0 else None


def gnustep_flags():
    """What compiles and links against Foundation; None where there is none."""
    flags = []
    for kind in ("--objc-flags", "--base-libs"):
        try:
            done = subprocess.run(["gnustep-config", kind], capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            return None
        flags += [f for f in done.stdout.split() if not f.startswith(("-M", "-W"))]
    return flags


def counted(text):
    return {m[2]: int(m[1]) for m in re.finditer(r"^(\d+) ([-+]\[.*\])$", text, re.M)}
