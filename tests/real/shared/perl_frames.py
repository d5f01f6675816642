# SPDX-License-Identifier: MIT
"""Stacks of a Perl program, compared with its own `caller` at the same moment (perl/states.pl)."""
import subprocess

from helpers import source_file
from shared import told


def start(perl, seed, rounds, *options):
    """Perl itself crashes in a few programs, rarely before they say anything: then it is the program of the next seed."""
    settings = ("env", "PERL_HASH_SEED=0", "PERL_PERTURB_KEYS=0") # else a seed is not one program
    for attempt in range(10):
        try:
            return told.start(*settings, perl, source_file("real", "perl", "states.pl"), seed + attempt, rounds,
                              source_file("real", "perl"), *options)
        except AssertionError:
            continue
    raise AssertionError("no program says anything")


def compare(said, stacks):
    return told.compare(said, stacks, "perl", "runops")


def compare_rounds(perl, seed, rounds, *options):
    return told.compare_rounds(start(perl, seed, rounds, *options), f"seed {seed} of states.pl", "perl", "runops")


def is_known(perl):
    """Whether sonde knows the frames of the command PERL."""
    try:
        found = subprocess.run([perl, "-MConfig", "-MStorable", "-e", "print \"$Config{version} $Config{usethreads}\""], stdout=subprocess.PIPE,
                               text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return False
    return found.startswith("5.36.") and found.endswith(" define")
