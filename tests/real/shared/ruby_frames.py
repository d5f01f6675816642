# SPDX-License-Identifier: MIT
"""Stacks of Ruby programs, compared with what Ruby itself says of its threads (ruby/states.rb)."""
from helpers import source_file
from shared import told


def start(ruby, seed, nests):
    """The running program, and what it says: frames by native thread id. NESTS: how many random stacks."""
    return told.start(ruby, source_file("real", "ruby", "states.rb"), seed, nests)


def ruby_frames(thread):
    return told.frames_of(thread, "ruby")


def compare(said, stacks):
    """Compares the Ruby frames of all threads. Returns the numbers of threads and frames."""
    return told.compare(said, stacks, "ruby", "rb_vm_exec")
