#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sonde export --as pprof: what is in the profile is what the report says, read by a few lines of
protobuf written from the published schema (shared/profiles.py), and by Go's own pprof where it is."""
import gzip
import json
import os
import re
import sys

from helpers import WORK, needs, needs_agent, output_of, report, run_cases, sonde, try_sonde, write
from shared.profiles import fields, read_pprof

needs_agent()

RECORDING, PROFILE = os.path.join(WORK, "run.sonde"), os.path.join(WORK, "run.pb.gz")
WITHOUT = os.path.join(WORK, "without.sonde")
# Two phases of CPU time and waits.
PROGRAM = """
import os, subprocess, time
def work():
    x = [str(i) * 3 for i in range(400000)]
    y = {a: [a] for a in x}
    time.sleep(0.1)
work()
subprocess.run([os.environ["SONDE"], "ctl", str(os.getpid()), "mark", "second"], check=True)
work()
"""
# Names and numbers of github.com/google/pprof, proto/profile.proto.
PUBLISHED = """
syntax = "proto3";
package perftools.profiles;
message Profile {
  repeated ValueType sample_type = 1;
  repeated Sample sample = 2;
  repeated Mapping mapping = 3;
  repeated Location location = 4;
  repeated Function function = 5;
  repeated string string_table = 6;
  int64 drop_frames = 7;
  int64 keep_frames = 8;
  int64 time_nanos = 9;
  int64 duration_nanos = 10;
  ValueType period_type = 11;
  int64 period = 12;
  repeated int64 comment = 13;
  int64 default_sample_type = 14;
}
message ValueType { int64 type = 1; int64 unit = 2; }
message Sample {
  repeated uint64 location_id = 1;
  repeated int64 value = 2;
  repeated Label label = 3;
}
message Label { int64 key = 1; int64 str = 2; int64 num = 3; int64 num_unit = 4; }
message Mapping {
  uint64 id = 1;
  uint64 memory_start = 2;
  uint64 memory_limit = 3;
  uint64 file_offset = 4;
  int64 filename = 5;
  int64 build_id = 6;
  bool has_functions = 7;
  bool has_filenames = 8;
  bool has_line_numbers = 9;
  bool has_inline_frames = 10;
}
message Location {
  uint64 id = 1;
  uint64 mapping_id = 2;
  uint64 address = 3;
  repeated Line line = 4;
  bool is_folded = 5;
}
message Line { uint64 function_id = 1; int64 line = 2; int64 column = 3; }
message Function {
  int64 id = 1;
  int64 name = 2;
  int64 system_name = 3;
  int64 filename = 4;
  int64 start_line = 5;
}
"""


def _export(*options):
    sonde("export", "--as", "pprof", *options, "-o", PROFILE, RECORDING)
    with open(PROFILE, "rb") as file:
        return read_pprof(file.read())


def the_heap_is_the_reports():
    types, samples = _export("--by", "peak")
    with gzip.open(PROFILE) as f:
        message = list(fields(f.read()))
    drop = [v.decode() for n, v in message if n == 6][dict(message)[7]]
    assert re.fullmatch(drop, "operator new(unsigned long)") and not re.fullmatch(drop, "my_malloc"), drop
    assert types == ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space", "peak_objects", "peak_space"]
    for kind, key in ("alloc", "allocated"), ("inuse", "live"), ("peak", "peak"):
        for what, name in ("objects", "blocks"), ("space", "bytes"):
            total = sum(values[f"{kind}_{what}"] for _, values in samples)
            assert total == TOLD["malloc"][key][name], (kind, what, total, TOLD["malloc"][key])
    assert any(names and names[-1] == "_start" for names, _ in samples)


def gos_own_pprof_reads_it():
    needs("go")
    _export("--by", "peak")
    top = output_of("go", "tool", "pprof", "-top", "-unit=B", "-sample_index=alloc_space", PROFILE)
    assert f"of {TOLD['malloc']['allocated']['bytes']}B total" in top, top[:300]
    _export("--by", "sample")
    waits = output_of("go", "tool", "pprof", "-top", "-unit=ns", "-sample_index=wait", PROFILE)
    total = int(re.search(r"of (\d+)ns total", waits)[1])
    assert total == BLOCKED_NS, waits[:300]
    tags = output_of("go", "tool", "pprof", "-tags", PROFILE)
    assert "phase:" in tags and "cause:" in tags and "thread:" in tags, tags


def the_samples_are_the_reports():
    types, samples = _export("--by", "sample")
    assert types == ["samples", "cpu", "waits", "wait"]
    assert _total(samples, "samples") == TOLD["sample"]["samples"] > 10
    assert _total(samples, "cpu") == TOLD["sample"]["cpu_time"]["sampled_ns"]
    assert _total(samples, "wait") == BLOCKED_NS
    assert _total(samples, "waits") == TOLD["wall"]["samples"] > 5


def _total(samples, kind):
    return sum(values[kind] for _, values in samples)


def published_definitions_read_it():
    """protoc decodes it with the field names of pprof's own profile.proto, written here for the parts that count:
    labels, the period, and the program as the first mapping."""
    needs("protoc")
    _export("--by", "sample")
    proto = write(PUBLISHED, ".proto")
    with gzip.open(PROFILE) as f:
        text = output_of("protoc", "--decode=perftools.profiles.Profile", "-I", os.path.dirname(proto), proto,
                         input=f.read(), text=False).decode()
    strings = [json.loads(s) for s in re.findall(r'^string_table: (".*")$', text, re.M)]
    labels = {(strings[int(key)], strings[int(value)])
              for key, value in re.findall(r"label {\n *key: (\d+)\n *str: (\d+)\n", text)}
    assert ("phase", "second") in labels and any(key == "thread" for key, _ in labels), labels
    assert any(key == "cause" and "clock_nanosleep" in value for key, value in labels), labels
    program = strings[int(re.search(r"^mapping {\n(?:  .*\n)*?  filename: (\d+)", text, re.M)[1])]
    assert os.path.samefile(program, sys.executable), program
    assert int(re.search(r"^period: (\d+)", text, re.M)[1]) > 100000
    assert strings[int(re.search(r"^default_sample_type: (\d+)", text, re.M)[1])] == "cpu"


def collapsed_times_are_the_reports():
    """The weights of --by wait are the time that threads were blocked, each below its cause."""
    lines = [line.rsplit(" ", 1) for line in sonde("export", "--by", "wait", RECORDING).splitlines()]
    assert all(re.search(r";\[wait[:\]]|^\[unknown\];", stack) for stack, _ in lines), lines
    assert sum(int(ns) for _, ns in lines) == BLOCKED_NS
    wall = sum(int(line.rsplit(" ", 1)[1]) for line in sonde("export", "--by", "wall", RECORDING).splitlines())
    assert wall == BLOCKED_NS + TOLD["sample"]["cpu_time"]["sampled_ns"]
    run = try_sonde("export", "--by", "wait", WITHOUT)
    assert run.returncode == 2 and "--wall" in run.stderr, run


sonde("record", "--malloc", "--sample=500", "--wall=500", "-o", RECORDING, "--", sys.executable, "-c", PROGRAM)
sonde("record", "--malloc", "-o", WITHOUT, "--", "true")
TOLD = report(RECORDING)
# Of the threads that the sampler found blocked.
BLOCKED_NS = sum(thread["blocked_ns"] for thread in TOLD["wall"]["threads"] if thread["samples"])
run_cases(globals())
