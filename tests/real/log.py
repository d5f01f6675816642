#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sonde/malloc.h: a log that a program keeps of itself, and the same calls under sonde record."""
import os
import re
import subprocess

from helpers import (
    BUILD, INCLUDE, LINK_SHARED, LINK_STATIC, SOURCE, WORK, compile_c, events, needs_plain_build,
    nothing_missing, record, report, run_cases, sonde, source_file)

needs_plain_build()
EXAMPLE = os.path.join(BUILD, "examples/malloc_log")


def check_output(text):
    assert re.search(r"1234 bytes, 1000 before that address, from:\n#0 .* main\+", text), text
    assert "not a live block: the address, name or id is unknown" in text, text
    blocks, size = map(int, re.search(r"(\d+) blocks are live, (\d+) bytes", text).groups())
    assert blocks >= 1 and size >= 1234
    assert text.endswith("recording stopped: success\n"), text


def check_report(told):
    nothing_missing(told)
    assert told["pools"]["allocated"] == {"blocks": 10, "bytes": 1000}, told["pools"]
    assert told["pools"]["live"] == {"blocks": 3, "bytes": 300} and not told["pools"]["unknown_frees"]
    m = told["malloc"]
    assert m["snapshots"] >= 1 and m["allocated"]["blocks"] >= 1
    assert m["unknown_frees"] == m["double_frees"] == m["address_reuses"] == 0, m


def a_program_logs_itself():
    path = os.path.join(WORK, "own.sonde")
    done = subprocess.run([EXAMPLE, path], capture_output=True, text=True, check=True)
    check_output(done.stdout)
    check_report(report(path))
    again = subprocess.run([EXAMPLE, path], capture_output=True, text=True)
    assert again.returncode == 2 and "file could not be" in again.stderr, again


def under_the_recorder_the_same_calls_act_on_it():
    for program in EXAMPLE, compile_c(os.path.join(SOURCE, "examples", "malloc_log.c"), INCLUDE, *LINK_STATIC):
        path, done = record([program], "--malloc=off", text=True)
        assert done.returncode == 0, done
        check_output(done.stdout)
        told = report(path)
        check_report(told)
        marks = [e for e in events(path) if e["event"] == "marker"]
        assert [m["name"] for m in marks] == ["with history"] and marks[0]["tid"] == told["pid"]


def build(name):
    return compile_c(source_file("real", "record", f"{name}.c"), "-O1", "-pthread", INCLUDE, *LINK_SHARED)


def pools_are_not_followed_while_it_is_off():
    path = os.path.join(WORK, "pools.sonde")
    subprocess.run([build("pools"), path], check=True, timeout=60)
    told = report(path)["pools"]
    assert told["allocated"] == {"blocks": 13, "bytes": 1300} and told["freed"] == 5, told
    assert told["live"] == {"blocks": 2, "bytes": 200} and not told["unknown_frees"], told


def marks_bound_what_is_told_and_an_address_inside_names_its_block():
    path, done = record([build("marked")], "--malloc", text=True)
    assert done.returncode == 0, done
    address = int(done.stdout, 16)

    def grown(*bounds):
        told = report(path, "--by", "growth", *bounds)
        rows = [(s["live"][what] - s["live_at_start"][what] for what in ("blocks", "bytes"))
                for s in told["malloc"]["stacks"]
                if any(f.get("function") == "hold" for f in s["frames"])]
        return [row for row in map(tuple, rows) if any(row)]

    for bounds, blocks in ((("--from", "loaded", "--to", "served"), 5), (("--from", "served"), 7),
                           (("--to", "loaded"), 3)):
        assert grown(*bounds) == [(blocks, 1000 * blocks)], (bounds, grown(*bounds))
    for inside, said in (0, True), (999, True), (1000, False), (-1, False):
        told = sonde("history", path, hex(address + inside))
        assert (hex(address) in told and "hold" in told) == said, (inside, told)


def it_begins_and_ends_while_threads_allocate(folder):
    program = build("logger")
    rounds, threads = os.environ.get("SONDE_LOG_ROUNDS", "8"), "6"
    done = subprocess.run([program, folder, rounds, threads], capture_output=True, timeout=90 + 2 * int(rounds))
    assert done.returncode == 0, done
    count = 0
    for i in range(int(rounds)):
        told = report(folder / f"{i}.sonde")
        m = told["malloc"]
        count += m["events"]
        assert told["finished"] and not any(told["missing"].values()), told["missing"]
        assert m["depth"]["undefined"] == 0 and m["prerecording_frees"] > 0 and m["snapshots"] == 1
        assert 54321 <= m["live"]["bytes"] < 54321 + 6 * 64 * 520, m["live"]
    print(f"{count} events in {rounds} logs")
    assert count > 1000


run_cases(globals())
