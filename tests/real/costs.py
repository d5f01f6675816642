#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a recording costs where it could explode: a full disk, and two sensors at once."""
import os
import re
import subprocess

from helpers import (
    SONDE, WORK, fresh, needs_agent, needs_strace, nothing_missing, output_of, record, report, run_cases, skip)

needs_agent()

# Fills the disk, waits until there is space again, and allocates more from another function.
GAP = """
import os, sys, time
folder = sys.argv[1]
os.system(f"head -c 8M /dev/zero >{folder}/filler 2>/dev/null")
kept = [bytes(i % 99) for i in range(50000)]
time.sleep(1)  # so that the recorder, however late it is, finds the disk full for a while
os.unlink(folder + "/filler")
time.sleep(0.4)
kept = [bytes(i % 99) for i in range(20000)]
time.sleep(0.4)
print(sum(map(len, sorted(kept))))
"""


def _record_in_small_folder(script, *options):
    """Runs SCRIPT with a folder of 4 MB in which its recording is, and returns a copy of that."""
    folder, path = os.path.join(WORK, "small"), fresh()
    os.makedirs(folder, exist_ok=True)
    shell = ('mount -t tmpfs -o size=4m none "$1" && "$2" record "${@:5}" -o "$1/x.sonde" -- '
             'python3 -c "$4" "$1"; s=$?; cp "$1/x.sonde" "$3"; exit $s')
    done = subprocess.run(["unshare", "-m", "bash", "-c", shell, "bash", folder, SONDE, path, script, *options],
                          capture_output=True, text=True, timeout=100,
                          env=dict(os.environ, PYTHONMALLOC="malloc", PYTHONHASHSEED="0"))
    if "unshare" in done.stderr or "mount:" in done.stderr:
        skip("no mount namespace can be made")
    return path, done


def _events_of(path):
    told = report(path, "malloc", "trace")
    return told["malloc"]["events"] + 2 * told["trace"]["calls"]


def recording_continues_when_there_is_space_again():
    for options in [["--malloc=all", "--trace=libc.so*:malloc", "--keep-free=0"]]:
        whole = os.path.join(WORK, "whole")
        os.makedirs(whole, exist_ok=True)
        path, plain = record(["python3", "-c", GAP, whole], *options, text=True,
                             env=dict(os.environ, PYTHONMALLOC="malloc", PYTHONHASHSEED="0"))
        wanted = _events_of(path)
        path, done = _record_in_small_folder(GAP, *options)
        assert done.returncode == 0 and done.stdout == plain.stdout, done
        assert re.search(r"could not be written for \d+\.\d s: the disk is full", done.stderr), done.stderr
        lost = report(path)["missing"]
        assert "stopped" not in lost and lost["gaps"] and lost["events"], lost
        assert 300e6 < lost["gaps_ns"] < 60e9 and "disk is full" in lost["gap_reason"], lost
        assert not lost["damaged_chunks"] and not lost["skipped_bytes"], lost
        assert not lost["damaged_records"] and not lost["definitions"], lost
        there = _events_of(path) + lost["events"]
        assert abs(there - wanted) < wanted / 100, (options, there, wanted, lost)


SQL = ("create table t(a integer primary key, b text); with recursive n(x) as (select 1 union all "
       "select x + 1 from n where x < 3000) insert into t select x, 'text ' || x from n; "
       "create index i on t(b); select count(*), min(b), max(b) from t where b like 'text 1%';")


def _faults(*options):
    """Page faults of a recorder and its program, the least of three runs."""
    counts = []
    for _ in range(3):
        recorder = os.posix_spawn(SONDE, [SONDE, "record", *options, "-o", fresh(), "--", "/bin/true"], os.environ)
        _, status, usage = os.wait4(recorder, 0)
        assert status == 0, (options, status)
        counts.append(usage.ru_minflt)
    return min(counts)


def unused_tables_are_not_touched():
    """The recorder's tables are of the size that many threads need; a short program has few."""
    plain, stalls = _faults("--malloc"), _faults("--stall")
    print(f"page faults: {plain} with --malloc, {stalls} with --stall")
    assert stalls < plain + 100, (plain, stalls)


def _stacks_of(*options):
    path, _ = record(["sqlite3", ":memory:", SQL], "--malloc=all", *options)
    nothing_missing(report(path))
    return sorted(output_of(SONDE, "export", "--as", "collapsed", "--by", "allocated", path).splitlines())


def traced_calls_leave_the_stacks_of_blocks_as_they_are():
    alone, traced = _stacks_of(), _stacks_of("--trace=lib*:*")
    assert len(alone) > 100 and alone == traced, sorted(set(alone) ^ set(traced))[:4]


def traced_calls_leave_the_cost_of_stacks_as_it_is():
    """A walk through a trampoline needs no guarded read: once it took seventy for each block."""
    needs_strace()
    log, path = os.path.join(WORK, "calls"), fresh()
    output_of("strace", "-f", "-c", "-o", log, "-e", "trace=process_vm_readv", SONDE, "record",
              "--malloc=all", "--trace=lib*:*", "-o", path, "--", "sqlite3", ":memory:", SQL)
    calls = [int(m[1]) for m in re.finditer(r"\s(\d+)\s+(?:\d+\s+)?process_vm_readv$", open(log).read(), re.M)]
    blocks = report(path)["malloc"]["allocated"]["blocks"]
    assert blocks > 3000 and sum(calls) < blocks / 4, (blocks, calls)


run_cases(globals())
