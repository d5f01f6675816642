#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`sonde store`: what a store holds is what `sonde report` says of the same recordings; each recording counts
once, whatever happens to the loader; equal stacks are one stack in every run, layout and copy."""
import collections
import contextlib
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys

from helpers import (SEED, SONDE, compile_c, fresh, needs_agent, record, report, run_cases, sonde, states_of, try_sonde,
                     until, write)
from shared.derived import Original

needs_agent()

PROGRAM = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void *kept[64];
__attribute__((noinline)) void *leak(int i) { return kept[i % 64] = malloc(1000 + i); }
__attribute__((noinline)) void churn(int i) { void *volatile block = malloc(100 + i); free(block); }
__attribute__((noinline)) double crunch(void) {
  volatile double x = 1;
  for (long i = 0; i < 60000000; i++) x = x * 1.0000001;
  return x;
}
int main(void) {
  for (int i = 0; i < 64; i++) leak(i);
  for (int i = 0; i < 1000; i++) churn(i);
  FILE *file = fopen("/dev/null", "r");
  fclose(file);
  return crunch() < 0;
}
"""
_made = {}


def _recording():
    """A recording of PROGRAM with everything that a store holds, and the path of the program."""
    if not _made:
        _made["program"] = compile_c(write(PROGRAM, ".c"), "-O1", "-g", "-pthread")
        _made["path"] = _record()
    return _made["path"]


def _record():
    path, done = record([_made["program"]], "--sample", "--malloc", "--wall", "--audit=files", "--trace=crunch")
    assert done.returncode == 0, done
    return path


def _store(url, *words, **how):
    return json.loads(sonde("store", "--json", "--to", url, *words, **how))


def _rows(path, sql, *values):
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
        return db.execute(sql, values).fetchall()


def _totals(path):
    """{measure: (count, amount)} over all sessions, by the totals and by the facts, which must agree."""
    by_totals = {name: (count, amount) for name, count, amount in _rows(path, """
        SELECT name, sum(count), sum(amount) FROM totals JOIN measures USING (measure) GROUP BY name""")}
    for table, count, amount in (
            ("samples", "samples", "ns"), ("stalls", "stalls", "ns"), ("waits", "samples", "ns"),
            ("allocations", "blocks", "bytes"), ("leaks", "blocks", "bytes"), ("calls", "calls", "ns"),
            ("audit", "rows", "calls"), ("crashes", "crashes", "amount")):
        facts = _rows(path, f"SELECT sum({count}), sum({amount}) FROM {table}")[0]
        assert facts == by_totals.get(table, (None, None)), (table, facts, by_totals.get(table))
    return by_totals


def a_store_holds_what_a_report_says():
    path, store = _recording(), fresh(".sqlite")
    done = _store(f"sqlite:{store}", "--device", "bench-7", "--build", "1.2", path)
    assert done["sessions"] == 1 and done["present"] == 0 and done["unreadable"] == 0, done
    told, totals = report(path, "--all"), _totals(store)
    assert totals["samples"][0] == told["sample"]["samples"], totals
    assert totals["allocations"] == tuple(told["malloc"]["allocated"].values()), totals
    assert totals["leaks"] == tuple(told["malloc"]["live"].values()), totals
    assert totals["audit"][1] == sum(row["calls"] for row in told["audit"]["findings"]), totals
    assert totals["calls"][0] == told["trace"]["calls"] == 1, totals
    sampled = told["sample"]["cpu_time"]["sampled_ns"]
    assert abs(totals["samples"][1] - sampled) <= len(told["sample"]["stacks"]) + 1, (totals, sampled)
    session = _rows(store, """SELECT devices.name, builds.name, program, pid, events > 0 FROM sessions
        JOIN devices USING (device) JOIN builds USING (build)""")
    assert session == [("bench-7", "1.2", os.path.basename(_made["program"]), told["pid"], 1)], session


def a_recording_and_its_copies_count_once():
    path, store = _recording(), fresh(".sqlite")
    packed, summary = fresh(), fresh()
    sonde("pack", "-o", packed, path)
    sonde("pack", "--summary", "-o", summary, path)
    assert _store(f"sqlite:{store}", path)["sessions"] == 1
    before = _totals(store)
    for again in (path, packed, summary):
        done = _store(f"sqlite:{store}", again)
        assert (done["sessions"], done["present"]) == (0, 1), done
    assert _totals(store) == before


def a_packed_copy_and_a_summary_have_the_same_facts():
    path, stores = _recording(), []
    for words in ([], ["--summary"]):
        copy, store = fresh(), fresh(".sqlite")
        sonde("pack", *words, "-o", copy, path)
        _store(f"sqlite:{store}", copy)
        stores.append(_totals(store))
    whole = fresh(".sqlite")
    _store(f"sqlite:{whole}", path)
    expected = _totals(whole)
    assert stores[0] == expected, (stores[0], expected)
    for measure in ("allocations", "leaks"):  # a summary has no calls, waits and findings
        assert stores[1][measure] == expected[measure], (stores[1], expected)
    assert stores[1]["samples"][0] == expected["samples"][0], (stores[1], expected)


def equal_stacks_of_two_runs_are_one():
    _recording()
    store = fresh(".sqlite")
    for _ in range(2):
        _store(f"sqlite:{store}", _record())
    starts = [row[0] for row in _rows(store, "SELECT start_ns FROM sessions")]
    assert len(set(starts)) == 2
    for table in ("leaks", "calls", "audit"):
        per_stack = _rows(store, f"SELECT stack, count(DISTINCT session) FROM {table} GROUP BY stack")
        assert per_stack and all(count == 2 for _, count in per_stack), (table, per_stack)
    assert len(_rows(store, "SELECT build FROM builds")) == 1


def layouts_share_stacks_and_builds_do_not(folder):
    original, store = Original(_recording(), _made["program"]), fresh(".sqlite")
    for number in range(6):
        build = (b"" if number < 3 else b"another build of it!")
        (folder / f"{number}.sonde").write_bytes(original.header(1000 + number) + original.layout(number, build))
    done = _store(f"sqlite:{store}", folder)
    assert done["sessions"] == 6, done
    alone = fresh(".sqlite")
    _store(f"sqlite:{alone}", _recording())
    one = {name: len(_rows(alone, f"SELECT DISTINCT stack FROM {name}")) for name in ("allocations", "samples")}
    for name, count in one.items():
        stacks = _rows(store, f"""SELECT build, count(DISTINCT stack), count(DISTINCT session) FROM {name}
            JOIN sessions USING (session) GROUP BY build""")
        assert [row[1:] for row in stacks] == [(count, 3)] * 2, (name, stacks, count)
    main = "SELECT DISTINCT stack FROM leaks JOIN sessions USING (session) WHERE build = ?"
    builds = [row[0] for row in _rows(store, "SELECT build FROM builds")]
    sets = [{row[0] for row in _rows(store, main, build)} for build in builds]
    assert len(builds) == 2 and not sets[0] & sets[1], "stacks through another executable are equal"
    check = {name: (count * 6, amount * 6) for name, (count, amount) in _totals(alone).items()}
    assert _totals(store) == check, (_totals(store), check)


def folders_are_read_and_bad_files_do_not_keep_the_others_out(folder):
    store = fresh(".sqlite")
    deep = folder / "a" / "b"
    deep.mkdir(parents=True)
    shutil.copy(_recording(), deep / "run.sonde")
    (folder / "broken.sonde").write_bytes(b"not a recording")
    (folder / "notes.txt").write_text("not one either")
    os.symlink(folder, deep / "loop")
    done = try_sonde("store", "--json", "--to", f"sqlite:{store}", folder)
    assert done.returncode == 2 and "broken.sonde" in done.stderr and len(done.stderr.splitlines()) == 1, done
    told = json.loads(done.stdout)
    assert (told["sessions"], told["unreadable"]) == (1, 1), told


def errors_are_one_line_and_status_2(folder):
    path = _recording()
    other, text = folder / "other.sqlite", folder / "text"
    sqlite3.connect(other).execute("CREATE TABLE mine (x)").connection.commit()
    text.write_text("some text that is no database at all, and is long enough for a header" * 20)
    for url, told in ((f"sqlite:{other}", "another program"), (f"sqlite:{text}", "not a database"),
                      ("mysql:x", "sqlite:FILE"), ("sqlite:", "followed by a file"),
                      ("sqlite:/nonexistent/x.sqlite", "unable to open"), (f"sqlite:{folder}", "unable to open")):
        done = try_sonde("store", "--to", url, path)
        assert done.returncode == 2 and told in done.stderr and len(done.stderr.splitlines()) == 1, (url, done)
    assert try_sonde("store").returncode == 2


def a_full_disk_stores_nothing_and_says_so(folder):
    store = folder / "s.sqlite"
    _store(f"sqlite:{store}", _recording())
    before = _totals(store)
    original = Original(_recording(), _made["program"])
    for number in range(20):
        (folder / f"{number}.sonde").write_bytes(original.header(1 + number) + original.layout(number, b"B%d" % number))
    words = ["sh", "-c", "ulimit -f 64; trap '' XFSZ; exec \"$@\"", "sh",
             SONDE, "store", "--to", f"sqlite:{store}", folder]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "cannot be written" in done.stderr, done
    left = _totals(store)
    assert all(left[name][0] % before[name][0] == 0 for name in before), (before, left)
    assert _store(f"sqlite:{store}", folder)["sessions"] + len(_rows(store, "SELECT 1 FROM sessions")) >= 21
    assert _totals(store) == {name: (21 * count, 21 * amount) for name, (count, amount) in before.items()}


def the_default_store_is_in_the_folder_for_data(folder):
    env = dict(os.environ, HOME=str(folder))
    env.pop("XDG_DATA_HOME", None)
    told = json.loads(sonde("store", "--json", _recording(), env=env))
    assert told["store"] == f"{folder}/.local/share/sonde/store.sqlite" and os.path.exists(told["store"]), told
    env["XDG_DATA_HOME"] = str(folder / "data")
    told = json.loads(sonde("store", "--json", _recording(), env=env))
    assert told["store"] == f"{folder}/data/sonde/store.sqlite", told


def two_loaders_at_once_count_each_recording_once(folder):
    original, store = Original(_recording(), _made["program"]), fresh(".sqlite")
    for number in range(40):
        (folder / f"{number}.sonde").write_bytes(original.header(1 + number) + original.layout(number))
    loaders = [subprocess.Popen([SONDE, "store", "--to", f"sqlite:{store}", folder], stdout=subprocess.DEVNULL)
               for _ in range(2)]
    assert [loader.wait() for loader in loaders] == [0, 0]
    assert len(_rows(store, "SELECT 1 FROM sessions")) == 40
    alone = fresh(".sqlite")
    _store(f"sqlite:{alone}", _recording())
    assert _totals(store) == {name: (40 * c, 40 * a) for name, (c, a) in _totals(alone).items()}


def loaders_that_create_a_store_wait_for_each_other(folder):
    """While another process is about to write to the new file, SQLite cannot change its journal, and does not wait by
    itself."""
    store = folder / "s.sqlite"
    with sqlite3.connect(store, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        loader = subprocess.Popen([SONDE, "store", "--to", f"sqlite:{store}", _recording()], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True)
        until(lambda: loader.poll() is not None or _is_waiting_with(loader.pid, store), "the loader waits")
        other.execute("ROLLBACK")
    assert loader.communicate()[1] == "" and loader.returncode == 0, loader
    assert len(_rows(store, "SELECT 1 FROM sessions")) == 1


def _is_waiting_with(pid, path):
    """A process that was not waited for has its folder, even if it has ended. It may close a file meanwhile."""
    opened = set()
    for number in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            opened.add(os.readlink(f"/proc/{pid}/fd/{number}"))
    return os.path.realpath(path) in opened and states_of(pid).get(pid) == "S"


def eight_loaders_create_one_store(folder):
    original, runs = Original(_recording(), _made["program"]), folder / "runs"
    runs.mkdir()
    for number in range(8):
        (runs / f"{number}.sonde").write_bytes(original.header(1 + number) + original.layout(number))
    for attempt in range(2):
        store = folder / f"{attempt}.sqlite"
        loaders = [subprocess.Popen([SONDE, "store", "--to", f"sqlite:{store}", runs], stdout=subprocess.DEVNULL)
                   for _ in range(8)]
        assert [loader.wait() for loader in loaders] == [0] * 8
        assert len(_rows(store, "SELECT 1 FROM sessions")) == 8
        assert _rows(store, "PRAGMA journal_mode") == [("wal",)]


def killed_loaders_leave_exact_totals(folder):
    """The loader is killed at random times; the next run continues. bench/store.py does it a hundred times."""
    original, store, rng = Original(_recording(), _made["program"]), fresh(".sqlite"), random.Random(SEED)
    for number in range(150):
        (folder / f"{number}.sonde").write_bytes(original.header(1 + number) + original.layout(number % 4))
    kills = 0
    for _ in range(20):
        loader = subprocess.Popen([SONDE, "store", "--to", f"sqlite:{store}", folder], stdout=subprocess.DEVNULL)
        try:
            loader.wait(timeout=rng.random() * 0.06)
        except subprocess.TimeoutExpired:
            loader.send_signal(signal.SIGKILL)
            loader.wait()
            kills += 1
    done = _store(f"sqlite:{store}", folder)
    assert done["sessions"] + done["present"] == 150, done
    alone = fresh(".sqlite")
    _store(f"sqlite:{alone}", _recording())
    assert _totals(store) == {name: (150 * c, 150 * a) for name, (c, a) in _totals(alone).items()}
    assert _rows(store, "PRAGMA integrity_check") == [("ok",)]
    return f"{kills} killed, SONDE_SEED={SEED}"


def python_functions_and_stored_names_are_in_the_store():
    store, packed = fresh(".sqlite"), fresh()
    sonde("pack", "--names", "-o", packed, _recording())
    _store(f"sqlite:{store}", packed)
    functions = collections.Counter(row[0] for row in _rows(store, "SELECT function FROM places"))
    for name in ("leak", "churn", "crunch", "main"):
        assert functions[name] >= 1, functions
    path, done = record([sys.executable, "-c", "def outer():\n  return [bytes(99999) for i in range(999)]\nouter()"],
                        "--malloc=sample:1K")
    assert done.returncode == 0, done
    _store(f"sqlite:{store}", path)
    assert _rows(store, "SELECT 1 FROM names WHERE function = 'outer'"), "no Python function"


def names_that_come_later_relate_stacks_again():
    store, packed = fresh(".sqlite"), fresh()
    sonde("pack", "--names", "-o", packed, _recording())
    _store(f"sqlite:{store}", _recording())
    before = dict(_rows(store, "SELECT stack, signature FROM stacks"))
    other = Original(_recording(), _made["program"])
    late = fresh()
    with open(late, "wb") as file:
        file.write(other.header(77) + other.layout(5))
    named = fresh()
    sonde("pack", "--names", "-o", named, late)  # the same stacks, in another session
    _store(f"sqlite:{store}", named)
    after = dict(_rows(store, "SELECT stack, signature FROM stacks"))
    assert after.keys() == before.keys()
    fresh_store = fresh(".sqlite")
    _store(f"sqlite:{fresh_store}", named)
    expected = dict(_rows(fresh_store, "SELECT stack, signature FROM stacks"))
    assert after == expected, "signatures depend on the order of names"


if __name__ == "__main__":
    run_cases(globals())
