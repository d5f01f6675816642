# SPDX-License-Identifier: MIT
"""Stacks of a PHP program, compared with its own debug_backtrace at the same moment (php/states.php)."""
from helpers import source_file
from shared import told


def start(php, seed, rounds):
    return told.start(php, "-n", source_file("real", "php", "states.php"), seed, rounds)


def compare(said, stacks):
    return told.compare(said, stacks, "php", "execute_ex")


def compare_rounds(php, seed, rounds):
    return told.compare_rounds(start(php, seed, rounds), f"seed {seed} of states.php", "php", "execute_ex")
