#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`sonde store drop`: what remains is what a store holds that never had the old sessions."""
import datetime
import json
import os
import random
import sqlite3

from helpers import SEED, compile_c, fresh, needs_agent, record, run_cases, sonde, try_sonde
from shared.derived import Original

needs_agent()

PROGRAM = """#include <stdlib.h>
static void *kept[64];
__attribute__((noinline)) void *leak(int i) { return kept[i] = malloc(1000 + i); }
__attribute__((noinline)) void churn(int i) { void *volatile block = malloc(100 + i); free(block); }
int main(int argc, char **argv) {
  for (int i = 0; i < 64; i++) argc > 1 ? churn(i) : (void)leak(i);
  return 0;
}"""
DAY_NS = 86400 * 10 ** 9
TABLES = {"devices": "*", "builds": "*", "images": "*", "frames": "*", "names": "*", "stacks": "*", "causes": "*",
          "sessions": "recording, device, build, pid, start_ns, day, length_ns, measured, events, threads",
          "totals": "*"}
_made = []


def _originals():
    """Two recordings that share some stacks and not others."""
    if not _made:
        program = compile_c(PROGRAM, "-O1", "-g", "-Wl,--build-id")
        for words in [program], [program, "churn"]:
            path, done = record(words, "--malloc", "--audit=files")
            assert done.returncode == 0, done
            _made.append(Original(path, program))
    return _made


def _runs(folder, rng, count=24):
    """[(path, day since the first, build, device)] of runs on several days."""
    runs = []
    for number in range(count):
        day, build, original = rng.randrange(6), rng.choice("abc"), rng.choice(_originals())
        path = folder / f"{number}.sonde"
        path.write_bytes(original.header(1 + number, later_ns=day * DAY_NS) +
                         original.layout(number, b"" if build == "a" else b"of build %s, 20 bytes" % build.encode()))
        runs.append((path, day, build, rng.choice("xy")))
    return runs


def _fill(store, runs):
    for path, _, build, device in runs:
        sonde("store", "--to", f"sqlite:{store}", "--build", build, "--device", device, path)


def _content(store):
    """All rows, without the numbers of sessions and the time of storing."""
    with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as db:
        rows = {table: sorted(db.execute(f"SELECT {columns} FROM {table}")) for table, columns in TABLES.items()}
        for fact in "samples", "stalls", "waits", "allocations", "leaks", "calls", "audit", "crashes":
            rows[fact] = sorted(db.execute(f"SELECT recording, {fact}.* FROM {fact} JOIN sessions USING (session)"))
            rows[fact] = [row[:1] + row[2:] for row in rows[fact]]
            assert db.execute(f"SELECT count(*) FROM {fact}").fetchone()[0] == len(rows[fact]), fact
        return rows


def _days(store):
    with sqlite3.connect(store) as db:
        return [row[0] for row in db.execute("SELECT DISTINCT day FROM sessions ORDER BY 1")]


def _drop(store, before, *words):
    date = datetime.date(1970, 1, 1) + datetime.timedelta(days=before)
    return json.loads(sonde("store", "drop", "--json", "--to", f"sqlite:{store}", "--before", date, *words))


def what_remains_is_a_store_of_the_later_runs(folder):
    runs, store = _runs(folder, random.Random(SEED)), fresh(".sqlite")
    _fill(store, runs)
    days = _days(store)
    first = days[0] - min(day for _, day, _, _ in runs)
    left = list(runs)
    for cut in sorted(random.Random(SEED).sample(range(1, 6), 3)) + [7]:
        told, before = _drop(store, first + cut), left
        left = [run for run in left if run[1] >= cut]
        assert told["dropped"] == len(before) - len(left), (told, cut)
        expected = fresh(".sqlite")
        _fill(expected, left or runs[:1])
        if not left:
            _drop(expected, first + 7)
        found, wanted = _content(store), _content(expected)
        for table, rows in wanted.items():
            assert found[table] == rows, (table, cut, found[table][:3], rows[:3])
        assert told["size_bytes"] == os.path.getsize(store)
    assert not any(rows for rows in _content(store).values())
    _fill(store, runs)  # what was dropped can be stored again
    with sqlite3.connect(store) as db:
        assert db.execute("SELECT count(*) FROM sessions").fetchone()[0] == len(runs)
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    return f"SONDE_SEED={SEED}"


def days_are_dates_or_counted_back(folder):
    runs, store = _runs(folder, random.Random(SEED), 2), fresh(".sqlite")
    _fill(store, runs)
    assert _drop(store, _days(store)[0])["dropped"] == 0, "the day itself stays"
    text = sonde("store", "drop", "--to", f"sqlite:{store}", "--before", "400d")
    assert text.startswith("0 sessions before 20") and len(text.splitlines()) == 2, text
    words = ["store", "drop", "--to", f"sqlite:{store}"]
    for more, text in ((["--before", "2026-02-30"], "takes a day"), (["--before", "tomorrow"], "takes a day"),
                       (["--before", "-1d"], "takes a day"), (["--before", "90"], "takes a day"), ([], "needs --before"),
                       (["--before", "1d", runs[0][0]], "takes no files")):
        done = try_sonde(*words, *more)
        assert done.returncode == 2 and text in done.stderr, (more, done)
    done = try_sonde("store", "--before", "1d", "--to", f"sqlite:{store}", runs[0][0])
    assert done.returncode == 2 and "needs 'drop'" in done.stderr, done
    done = try_sonde("store", "drop", "--before", "1d", "--to", f"sqlite:{folder}/none.sqlite")
    assert done.returncode == 2 and "no such file" in done.stderr and not (folder / "none.sqlite").exists(), done
    assert len(_content(store)["sessions"]) == 2


if __name__ == "__main__":
    run_cases(globals())
