#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`sonde query`: answers about two builds of a program of which it is known what changed, in text, JSON and CSV;
equal builds have no regressions; the database stays as it is."""
import base64
import csv
import gzip
import io
import json
import os
import re
import resource
import sqlite3
import subprocess

from helpers import SONDE, compile_c, fresh, needs_agent, output_of, record, run_cases, sonde, try_sonde, write

needs_agent()

PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
static void *kept[1000];
__attribute__((noinline)) void *grow(int i) { return kept[i] = malloc(GROWS * (1 + (i + SALT) % 5)); }
__attribute__((noinline)) void *keep(int i) { return kept[i + 500] = malloc(64 + i); }
__attribute__((noinline)) int opened(void) {
  FILE *file = fopen("/dev/null", "r");
  if (file) fclose(file);
  return file != NULL;
}
__attribute__((noinline)) int connected(void) { return system("true"); }
__attribute__((noinline)) void crash(volatile int *where) { *where = 1; }
int main(int argc, char **argv) {
  (void)argv;
  for (int i = 0; i < COUNT + argc % 3; i++) grow(i), keep(i);
  int done = opened();
#if NEW
  done += connected();
#endif
  if (argc > 5) crash(0);
  return done > 5;
}
"""
SESSIONS = 6
_made = {}


def _build(name, *defines):
    """Stores SESSIONS runs of a build, of which one crashes."""
    program = compile_c(write(PROGRAM, ".c"), "-O1", "-g", "-fno-optimize-sibling-calls", *defines, out=os.path.join(os.path.dirname(fresh()), "app"))
    for number in range(SESSIONS):
        path, _ = record([program, *"x" * (number + (number == SESSIONS - 1))], "--malloc", "--audit=linux")
        packed = fresh()
        sonde("pack", "--names", "-o", packed, path)
        sonde("store", "--to", _made["url"], "--build", name, "--device", f"d{number % 2}", packed)


def _url():
    if not _made:
        _made["path"] = fresh(".sqlite")
        _made["url"] = f"sqlite:{_made['path']}"
        _build("1.0", "-DGROWS=100", "-DCOUNT=40", "-DNEW=0", "-DSALT=0")
        _build("1.1", "-DGROWS=100", "-DCOUNT=40", "-DNEW=0", "-DSALT=0", "-DUNUSED=1", "-O2")
        _build("2.0", "-DGROWS=900", "-DCOUNT=40", "-DNEW=1", "-DSALT=0")
    return _made["url"]


def _ask(*words, **how):
    told = json.loads(sonde("query", "--json", "--to", _url(), *words, **how))
    assert told["query"] == words[0], told
    return told["rows"]


def builds_are_listed_in_their_order():
    rows = _ask("builds")
    assert [(row["build"], row["program"], row["sessions"], row["devices"]) for row in rows] == [
        ("1.0", "app", SESSIONS, 2), ("1.1", "app", SESSIONS, 2), ("2.0", "app", SESSIONS, 2)], rows


def the_largest_of_each_build_come_first():
    rows = _ask("allocations", "--all")
    assert [build for i, build in enumerate(r["build"] for r in rows) if i == 0 or rows[i - 1]["build"] != build] == [
        "2.0", "1.1", "1.0"]
    for build in ("1.0", "2.0"):
        amounts = [row["bytes"] for row in rows if row["build"] == build]
        assert amounts == sorted(amounts, reverse=True), amounts
    first = _ask("allocations", "2.0", "--top", "1")
    assert len(first) == 1 and first[0]["function"].startswith("grow ("), first
    with sqlite3.connect(_made["path"]) as db:
        for build in ("1.0", "2.0"):
            told = sum(row["bytes"] for row in rows if row["build"] == build)
            assert (told,) == db.execute("""SELECT sum(bytes) FROM allocations JOIN sessions USING (session)
                JOIN builds USING (build) WHERE builds.name = ?""", (build,)).fetchone()


def a_build_is_found_by_its_build_id():
    whole = {row["build"]: row["build_id"] for row in _ask("builds")}
    assert _ask("leaks", whole["2.0"][:8]) == _ask("leaks", "2.0") != []


def leaks_grow_since_the_build_before():
    rows = {row["function"].split()[0]: row for row in _ask("leaks", "2.0")}
    assert rows["grow"]["growth_bytes"] > 8 * rows["grow"]["bytes_per_session"] // 10, rows
    assert rows["keep"]["growth_bytes"] == 0, rows


def regressions_are_what_was_built_in():
    done = try_sonde("query", "--json", "--to", _url(), "regressions", "1.0", "2.0")
    rows = json.loads(done.stdout)["rows"]
    found = {(row["measure"], row["function"]) for row in rows}
    assert done.returncode == 1, done
    assert {("allocations", "grow"), ("leaks", "grow"), ("audit", "connected")} <= found, rows
    assert not found & {("allocations", "keep"), ("leaks", "keep"), ("audit", "opened"), ("crashes", "crash")}, rows
    grown = next(row for row in rows if (row["measure"], row["function"]) == ("leaks", "grow"))
    assert grown["confidence"] > 0.95 and 0 < grown["detectable"] < grown["change"], grown
    assert grown["new"] == 9 * grown["old"] and grown["unit"] == "bytes", grown
    assert grown["old_n"] == grown["new_n"] >= 40 * SESSIONS, grown
    everything = _ask("regressions", "1.0", "2.0", "--all", status=1)
    assert ("leaks", "keep", 0) in {(row["measure"], row["function"], row["change"]) for row in everything}, everything


def equal_builds_have_no_regressions():
    """Another optimization: other offsets, so other stacks; the names relate them."""
    assert _ask("regressions", "1.0", "1.1") == []
    assert sonde("query", "--to", _url(), "regressions", "1.0", "1.1") == "none\n"
    assert "same build" in try_sonde("query", "--to", _url(), "regressions", "1.0", "1.0").stderr


def new_sensitive_calls_have_their_first_build():
    rows = _ask("audit")
    first = {(row["call"], row["function"].split()[0]): (row["build"], row["builds"]) for row in rows}
    made = [key for key in first if key[1] == "connected"]
    assert made and all(first[key] == ("2.0", 1) for key in made), rows
    assert all(build == "1.0" and builds == 3 for (call, _), (build, builds) in first.items() if call == "fopen"), rows


def crashes_are_counted_by_cause():
    rows = _ask("crashes")
    assert [(r["cause"], r["signal"], r["crashes"], r["builds"], r["first_build"], r["last_build"]) for r in rows] == [
        ("null_pointer", "SIGSEGV", 3, 3, "1.0", "2.0")], rows
    assert rows[0]["function"].startswith("crash ("), rows


def a_stack_has_a_history_of_all_builds():
    stack = next(row["stack"] for row in _ask("leaks", "2.0") if row["function"].startswith("grow "))
    rows = [row for row in _ask("stack", stack) if row["measure"] == "leaks"]
    assert [row["build"] for row in rows] == ["1.0", "1.1", "2.0"], rows
    assert rows[0]["amount"] == rows[1]["amount"] == rows[2]["amount"] / 9, rows
    text = sonde("query", "--to", _url(), "stack", stack)
    assert "grow" in text and "main" in text and "leaks" in text, text


def the_forms_agree_and_text_fits_the_screen():
    for words in (["builds"], ["leaks"], ["allocations"], ["audit"], ["crashes"]):
        rows = _ask(*words)
        table = list(csv.DictReader(io.StringIO(sonde("query", "--csv", "--to", _url(), *words), newline="")))
        assert [[str(v if v is not None else "") for v in row.values()] for row in rows] == [
            list(row.values()) for row in table], words
        text = sonde("query", "--to", _url(), *words)
        assert max(map(len, text.splitlines())) <= 80, text
    wide = try_sonde("query", "--to", _url(), "regressions", "1.0", "2.0", "--all").stdout
    assert max(map(len, wide.splitlines())) <= 80, wide


def _page(*words, status=0):
    """What the page of an answer has: its text, and the data that its program reads."""
    path = fresh(".html")
    done = try_sonde("query", "--to", _url(), *words, "--html", path)
    assert (done.returncode, done.stdout) == (status, path + "\n") and os.stat(path).st_mode & 0o77 == 0, done
    with open(path, encoding="utf-8") as file:
        text = file.read()
    packed = re.search(r'id="answer">([^<]*)<', text)[1]
    return text, json.loads(gzip.decompress(base64.b64decode(packed)))


def a_page_has_the_rows_and_the_frames_of_their_stacks():
    for words, status in (["leaks"], 0), (["regressions", "1.0", "2.0"], 1), (["builds"], 0):
        text, data = _page(*words, status=status)
        names = [column["name"] for column in data["columns"]]
        rows = json.loads(try_sonde("query", "--json", "--to", _url(), *words).stdout)["rows"]
        assert [dict(zip(names, row)) for row in data["rows"]] == rows != [], data
        assert f"<h1>{' '.join(words)}</h1>" in text and all(row.get("build", "")[:3] in text for row in rows)
        for row in rows:
            if "stack" in row:
                frames = data["stacks"][row["stack"]]
                assert row["function"].split(" (")[0] in [frame["function"] for frame in frames], (row, frames)
    leak = _ask("leaks", "2.0", "--top", "1")[0]["stack"]
    _, data = _page("stack", leak)
    assert list(data["stacks"]) == [leak] and len(data["rows"]) == len(_ask("stack", leak)), data
    _, data = _page("--sql", "SELECT 1 AS one, NULL AS absent, '</script>' AS mark")
    assert data["rows"] == [[1, None, "</script>"]], data
    _, data = _page("--sql", "SELECT 'void fill<int>(int const&)' AS function UNION ALL SELECT 'main'")
    assert data["short"] == {"void fill<int>(int const&)": "fill<int>"}, data


def sql_answers_the_rest_and_changes_nothing():
    rows = _ask_sql("SELECT count(*) AS n, 0.5 AS half, NULL AS no, 'a,\"b' AS text FROM sessions")
    assert rows == [{"n": 3 * SESSIONS, "half": 0.5, "no": None, "text": 'a,"b'}], rows
    assert sonde("query", "--csv", "--to", _url(), "--sql", "SELECT 'a,\"b' AS x", text=False) == b'x\r\n"a,""b"\r\n'
    for sql in ("DELETE FROM sessions", "DROP TABLE totals", "SELECT nothing", "", "SELECT 1; DELETE FROM sessions"):
        done = try_sonde("query", "--to", _url(), "--sql", sql)
        assert done.returncode == 2 and done.stdout == "" and len(done.stderr.splitlines()) == 1, (sql, done)
    for sql in ("SELECT 1; SELECT 2", "SELECT 1; nonsense", "SELECT 1;; /* and */ SELECT 2"):
        done = try_sonde("query", "--to", _url(), "--sql", sql)
        assert done.returncode == 2 and done.stdout == "" and "only one statement" in done.stderr, (sql, done)
    assert "no statement" in try_sonde("query", "--to", _url(), "--sql", "-- nothing").stderr
    assert _ask_sql("SELECT 1 AS n; ; -- the end\n /* of it */ ;") == [{"n": 1}]
    assert _ask_sql("SELECT count(*) AS n FROM sessions") == [{"n": 3 * SESSIONS}]


def sql_answers_are_not_kept():
    """Not in memory, of which there is little here; and not for nobody: the second query has no end."""
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (100 << 20, 100 << 20))
    numbers = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c {}) SELECT x, 'some text of a row' AS t FROM c"
    ask = [SONDE, "query", "--to", _url(), "--sql"]
    count = 1000001  # of which the last part has few
    text = output_of(*ask, numbers.format(f"WHERE x < {count}"), "--csv", preexec_fn=limit)
    lines = text.splitlines()
    assert len(lines) == count + 1 and lines[0] == "x,t" and lines[-1] == f"{count},some text of a row", lines[-1]
    rows = json.loads(output_of(*ask, numbers.format("WHERE x < 8193"), "--json"))["rows"]
    assert [row["x"] for row in rows] == list(range(1, 8194)), len(rows)
    for form in [], ["--json"], ["--csv"]:
        endless = subprocess.Popen([*ask, numbers.format(""), *form], stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=limit,
                                   restore_signals=False)
        assert endless.stdout.read(10)
        endless.stdout.close()
        said = endless.stderr.read()  # SIGPIPE is ignored
        assert endless.wait(60) == 2 and said == b"sonde query: cannot write the output: Broken pipe\n", (form, said)


def _ask_sql(sql):
    return json.loads(sonde("query", "--json", "--to", _url(), "--sql", sql))["rows"]


def wrong_use_is_one_line():
    for words in ([], ["nothing"], ["regressions", "1.0"], ["regressions", "1.0", "9.9"], ["leaks", "9.9"], ["stack"],
                  ["stack", "zebra"], ["stack", "0123"], ["builds", "1.0"], ["--json", "--csv", "builds"], ["--html", "x", "--json", "builds"],
                  ["--top", "0", "leaks"]):
        done = try_sonde("query", "--to", _url(), *words)
        assert done.returncode == 2 and done.stdout == "" and len(done.stderr.splitlines()) <= 2, (words, done)
    missing = fresh(".sqlite")
    done = try_sonde("query", "--to", f"sqlite:{missing}", "builds")
    assert done.returncode == 2 and "no such file" in done.stderr and not os.path.exists(missing), done


if __name__ == "__main__":
    run_cases(globals())
