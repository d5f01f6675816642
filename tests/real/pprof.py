#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sonde export --as pprof: what is in the profile is what the report says, read by a few lines of
protobuf written here from the published schema, and by Go's own pprof where it is."""
import gzip
import os
import sys

from helpers import WORK, needs, needs_agent, output_of, report, run_cases, sonde

needs_agent()

RECORDING, PROFILE = os.path.join(WORK, "run.sonde"), os.path.join(WORK, "run.pb.gz")
PROGRAM = "x = [str(i) * 3 for i in range(400000)]; y = {a: [a] for a in x}; print(len(y))"


def fields(data):
    """(number, value) of a protobuf message; a value is a number or bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            assert key & 7 == 2, key
            size = varint()
            yield key >> 3, data[at:at + size]
            at += size


def numbers(packed):
    value = shift = 0
    for byte in packed:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield value
            value = shift = 0


def read(path):
    with gzip.open(path) as f:
        message = list(fields(f.read()))
    strings = [v.decode() for n, v in message if n == 6]
    types = [strings[dict(fields(v))[1]] for n, v in message if n == 1]
    functions = {f[1]: strings[f[2]] for f in (dict(fields(v)) for n, v in message if n == 5)}
    locations = {}
    for n, v in message:
        if n == 4:
            location = list(fields(v))
            lines = [dict(fields(line)) for k, line in location if k == 4]
            locations[dict(location)[1]] = [functions[line[1]] for line in lines]
    samples = []
    for n, v in message:
        if n == 2:
            sample = dict(fields(v))
            names = [f for i in numbers(sample.get(1, b"")) for f in locations[i]]
            samples.append((names, dict(zip(types, numbers(sample[2])))))
    assert strings[0] == ""
    return types, samples


def _export(*options):
    sonde("export", "--as", "pprof", *options, "-o", PROFILE, RECORDING)
    return read(PROFILE)


def the_heap_is_the_reports():
    types, samples = _export("--by", "peak")
    assert types == ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space", "peak_objects", "peak_space"]
    for kind, key in ("alloc", "allocated"), ("inuse", "live"), ("peak", "peak"):
        for what, name in ("objects", "blocks"), ("space", "bytes"):
            total = sum(values[f"{kind}_{what}"] for _, values in samples)
            assert total == TOLD["malloc"][key][name], (kind, what, total, TOLD["malloc"][key])
    assert any(names and names[-1] == "_start" for names, _ in samples)


def gos_own_pprof_reads_it():
    needs("go")
    _export("--by", "peak")
    top = output_of("go", "tool", "pprof", "-top", "-sample_index=alloc_space", PROFILE)
    print(top[:300])
    assert "flat%" in top


def the_samples_are_the_reports():
    types, samples = _export("--by", "sample")
    assert types == ["samples"]
    assert sum(values["samples"] for _, values in samples) == TOLD["sample"]["samples"] > 10


sonde("record", "--malloc", "--sample=500", "-o", RECORDING, "--", sys.executable, "-c", PROGRAM)
TOLD = report(RECORDING)
run_cases(globals())
