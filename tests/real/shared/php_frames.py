# SPDX-License-Identifier: MIT
"""Stacks of a PHP program, compared with its own debug_backtrace at the same moment (php/states.php)."""
import json
import pathlib

from helpers import kill, sonde, source_file, until
from shared import told


def start(php, seed, rounds):
    return told.start(php, "-n", source_file("real", "php", "states.php"), seed, rounds)


def waits(program):
    """Whether the program has read all that it was given, and reads on."""
    return pathlib.Path(f"/proc/{program.pid}/syscall").read_text().startswith("0 0x0 ")


def compare(said, stacks):
    return told.compare(said, stacks, "php", "execute_ex")


def compare_rounds(php, seed, rounds):
    """Compares one random stack after the other. Returns the numbers of stacks, of their frames, and of the stacks that
    sonde says are incomplete."""
    program, said = start(php, seed, rounds)
    count = frames = incomplete = 0
    try:
        while said:
            until(lambda: waits(program), "the program does not wait")
            stacks = json.loads(sonde("stacks", "--json", program.pid))
            if "php_missing" in stacks["threads"][0]:
                assert not told.frames_of(stacks["threads"][0], "php"), stacks
                incomplete += 1
            else:
                frames += compare(said, stacks)[1]
            count += 1
            program.stdin.write("\n")
            program.stdin.flush()
            line = program.stdout.readline()
            said = {int(pid): its for pid, its in json.loads(line).items()} if line else None
    except AssertionError:
        print(f"seed {seed} of states.php", flush=True)
        raise
    finally:
        kill(program)
    return count, frames, incomplete
