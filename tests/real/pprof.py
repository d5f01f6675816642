#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sonde export --as pprof: what is in the profile is what the report says, read by a few lines of
protobuf written from the published schema (shared/profiles.py), and by Go's own pprof where it is."""
import os
import sys

from helpers import WORK, needs, needs_agent, output_of, report, run_cases, sonde
from shared.profiles import read_pprof

needs_agent()

RECORDING, PROFILE = os.path.join(WORK, "run.sonde"), os.path.join(WORK, "run.pb.gz")
PROGRAM = "x = [str(i) * 3 for i in range(400000)]; y = {a: [a] for a in x}; print(len(y))"


def _export(*options):
    sonde("export", "--as", "pprof", *options, "-o", PROFILE, RECORDING)
    with open(PROFILE, "rb") as file:
        return read_pprof(file.read())


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
    assert types == ["samples", "cpu"]
    assert sum(values["samples"] for _, values in samples) == TOLD["sample"]["samples"] > 10
    sampled = TOLD["sample"]["cpu_time"]["sampled_ns"]
    assert abs(sum(values["cpu"] for _, values in samples) - sampled) <= len(samples), (sampled, samples)


sonde("record", "--malloc", "--sample=500", "-o", RECORDING, "--", sys.executable, "-c", PROGRAM)
TOLD = report(RECORDING)
run_cases(globals())
