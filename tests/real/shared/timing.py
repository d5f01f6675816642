# SPDX-License-Identifier: MIT
"""Comparing a time that sonde tells with the true one, on a machine that may be late."""
from helpers import skip_part


def near(told, true, what, delays):
    """The state between two looks is that of one of them, so a look that is late may be wrong about its delay. An
    error above the bound is no finding where the machine was late by as much in all."""
    off, bound = abs(told - true), 0.05 * true + 0.06 + 3 * delays.worst
    print(f"{what}: {true:.3f} s, told {told:.3f}; looks were at most {delays.worst:.3f} s late, {delays.sum:.3f} in all")
    if bound <= off < delays.sum:
        skip_part(what, f"{off:.3f} s off, and the machine was late by {delays.sum:.3f} s in all")
    else:
        assert off < bound, (what, told, true)
