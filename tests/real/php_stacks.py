#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""PHP frames in `sonde stacks` of a process and of a core file, against what PHP itself says of its stack at the same
time (debug_backtrace): function, file and line of every frame."""
import shutil

from helpers import kill, run_cases, skip, sonde, until
from shared.php_frames import compare, compare_rounds, start
from shared.told import compare_core, waits

PHP = shutil.which("php8.2")


def process():
    count, frames, incomplete = compare_rounds(PHP, 1, 10)
    assert count >= 10 and not incomplete, (count, incomplete)
    return f"{count} stacks, {frames} frames"


def core(folder):
    return f"{compare_core(lambda: start(PHP, 2, 1), compare, folder)[1]} frames"


def text():
    program, _ = start(PHP, 2, 1)
    try:
        until(lambda: waits(program), "the program does not wait")
        printed, verdict = sonde("stacks", program.pid), sonde("doctor", program.pid)
    finally:
        kill(program)
    for wanted in (" fgets ", " wait ", " {main} ", "states.php:"):
        assert wanted in printed, (wanted, printed)
    assert "execute_ex" not in printed, printed
    assert "PHP 8.2: stacks show PHP functions" in verdict, verdict


if not PHP:
    skip("php8.2 is not installed")
run_cases(globals())
