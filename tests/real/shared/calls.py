# SPDX-License-Identifier: MIT
"""What scripts about traced calls share: recording them, and the call tree as counts of paths."""
import collections
import json
import os
import subprocess

from shared.cases import fresh

SONDE = os.environ["SONDE"]
HERE = os.path.join(os.environ["SONDE_SOURCE"], "tests", "real", "trace")


def record(program, *arguments, trace="--trace", options=(), **how):
    path = fresh()
    done = subprocess.run([SONDE, "record", trace, "-o", path, *options, "--", program, *arguments],
                          capture_output=True, check=False, **{"timeout": 150, **how})
    assert os.path.exists(path), done.stderr
    return path, done


def report(path, *options):
    done = subprocess.run([SONDE, "report", "--json", *options, path, "trace"], capture_output=True,
                          check=True, timeout=150)
    return json.loads(done.stdout)


def paths_of(told):
    """How often each path of functions was called."""
    names, counts = {0: ()}, collections.Counter()
    for node in told["trace"]["nodes"]:
        names[node["node"]] = names[node["parent"]] + (node["function"],)
        if node["calls"]:
            counts["/".join(names[node["node"]])] += node["calls"]
    return counts


def nothing_missing(told):
    assert not any(told["missing"].values()), told["missing"]
    t = told["trace"]
    assert t["lost"] == t["strays"] == t["unknown"] == 0, t
