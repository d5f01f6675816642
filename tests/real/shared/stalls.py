# SPDX-License-Identifier: MIT
"""What the tests of stalls share."""
import os
import struct
import subprocess

from helpers import WORK, compile_c, output_of, report, source_file, start_record


def build(name):
    """Twins and tail calls would change who the culprit is."""
    options = ["-O2", "-g", "-pthread", "-fno-optimize-sibling-calls"]
    if "clang" not in output_of("cc", "--version"):
        options.append("-fno-ipa-icf")
    return compile_c(source_file("real", "stall", name + ".c"), *options, out=os.path.join(WORK, name))


def start(command, threshold_ms, path, **how):
    return start_record(command, f"--stall={threshold_ms}", path=path, stderr=subprocess.PIPE, text=True, **how)[1]


def stalls(path):
    return report(path, "stalls")["stalls"]


def start_us(path):
    """When the recording began, by CLOCK_MONOTONIC."""
    with open(path, "rb") as f:
        return struct.unpack_from("<Q", f.read(64), 48)[0] / 1000


def name(stall, key="hot_path"):
    return stall.get(key, {}).get("function", "-")


def overlap(stall, began_us, took_us, start):
    a, b = start + stall["began_ns"] / 1000, start + (stall["began_ns"] + stall["total_ns"]) / 1000
    return max(0, min(b, began_us + took_us) - max(a, began_us))
