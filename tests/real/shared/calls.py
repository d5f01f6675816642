# SPDX-License-Identifier: MIT
"""What the tests of traced calls share: recording them, and the call tree as counts of paths."""
import collections
import os

from helpers import nothing_missing, record, report, source_file


def trace_source(name):
    """The path of a source of traced programs."""
    return source_file("real", "trace", name)


def record_trace(program, *arguments, trace="--trace", options=(), waits=False, **how):
    """WAITS: whether calls that can block are traced besides, as is the default."""
    path, done = record([program, *arguments], trace, *([] if waits else ["--no-waits"]), *options, **how)
    assert os.path.exists(path), done.stderr
    return path, done


def trace_of(path, *options):
    return report(path, *options, "trace")


def paths_of(told):
    """How often each path of functions was called."""
    names, counts = {0: ()}, collections.Counter()
    for node in told["trace"]["nodes"]:
        names[node["node"]] = names[node["parent"]] + (node["function"],)
        if node["calls"]:
            counts["/".join(names[node["node"]])] += node["calls"]
    return counts


def no_call_missing(told):
    nothing_missing(told)
    t = told["trace"]
    assert t["lost"] == t["unmatched"] == t["unknown"] == 0, t
