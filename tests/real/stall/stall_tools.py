# SPDX-License-Identifier: MIT
"""What the tests of stalls share."""
import json
import os
import struct
import subprocess

from shared.cases import WORK, fresh, needs_agent  # noqa: F401

needs_agent()

SONDE = os.environ["SONDE"]
HERE = os.path.dirname(os.path.abspath(__file__))
SEED = int(os.environ.get("SONDE_SEED", str(os.getpid())))


def build(name):
    """Twins and tail calls would change who the culprit is."""
    out = os.path.join(WORK, name)
    options = ["-O2", "-g", "-pthread", "-fno-optimize-sibling-calls"]
    if "clang" not in subprocess.check_output(["cc", "--version"], text=True):
        options.append("-fno-ipa-icf")
    subprocess.run(["cc", *options, "-o", out, os.path.join(HERE, name + ".c")], check=True)
    return out


def start(command, threshold_ms, path, **how):
    return subprocess.Popen([SONDE, "record", f"--stall={threshold_ms}", "-o", path, "--", *command],
                            stderr=subprocess.PIPE, text=True, **how)


def stalls(path):
    done = subprocess.run([SONDE, "report", "--json", path, "stalls"], capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["stalls"]


def start_us(path):
    """When the recording began, by CLOCK_MONOTONIC."""
    with open(path, "rb") as f:
        return struct.unpack_from("<Q", f.read(64), 48)[0] / 1000


def name(stall, key="culprit"):
    return stall.get(key, {}).get("function", "-")


def overlap(stall, began_us, took_us, start):
    a, b = start + stall["began_ns"] / 1000, start + (stall["began_ns"] + stall["total_ns"]) / 1000
    return max(0, min(b, began_us + took_us) - max(a, began_us))
