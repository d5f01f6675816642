#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`sonde store symbolize`: addresses of stripped programs get the names that their debug files have, by build-id
alone, each once, and again when better files arrive; signatures then relate the stacks of builds."""
import json
import os
import shutil
import sqlite3

from helpers import compile_c, fresh, needs, needs_agent, output_of, record, run_cases, sonde, try_sonde, write

needs_agent()
needs("objcopy", "strip")

PROGRAM = r"""
#include <stdlib.h>
static void *kept[99];
static inline __attribute__((always_inline)) void *inner(int i) { return kept[i] = malloc(100 + i); }
__attribute__((noinline)) void *leak(int i) { kept[98] = inner(i); return kept[98]; }
int main(void) { for (int i = 0; i < 40 + MORE; i++) leak(i); return 0; }
"""


def _stripped(folder, name, *options, runs=1):
    """A recording, or a list of RUNS recordings, of a program without symbols, whose debug file is in FOLDER/debug."""
    program = compile_c(write(PROGRAM, ".c"), "-g", "-Wl,--build-id", "-fno-optimize-sibling-calls", *options,
                        out=str(folder / name))
    debug = folder / "debug"
    debug.mkdir(exist_ok=True)
    output_of("objcopy", "--only-keep-debug", program, debug / f"{name}.debug")
    output_of("strip", program)
    paths = [record([program], "--malloc")[0] for _ in range(runs)]
    os.unlink(program)  # nothing but the build-id leads to the names
    return paths if runs > 1 else paths[0]


def _rows(store, sql):
    with sqlite3.connect(store) as db:
        return db.execute(sql).fetchall()


def _symbolize(store, *words, **how):
    return json.loads(sonde("store", "symbolize", "--json", "--to", f"sqlite:{store}", *words, **how))


def _functions(store):
    return {row[0] for row in _rows(store, "SELECT function FROM names")}


def names_come_by_build_id_and_once(folder):
    store = fresh(".sqlite")
    sonde("store", "--to", f"sqlite:{store}", _stripped(folder, "app", "-O1", "-DMORE=0"))
    assert not _functions(store) & {"leak", "main", "inner"}
    first = _symbolize(store, "--debug-dir", folder / "debug")
    assert first["named"] >= 2, first
    names = _rows(store, """SELECT n.depth, n.function, n.line > 0 FROM names n WHERE frame IN
        (SELECT frame FROM names WHERE function = 'leak') ORDER BY depth""")
    assert names[:2] == [(0, "inner", 1), (1, "leak", 1)], names
    again = _symbolize(store, "--debug-dir", folder / "debug")
    assert again["named"] == 0 and again["addresses"] == first["addresses"] - first["named"], (first, again)
    whole = _symbolize(store, "--debug-dir", folder / "debug", "--again")
    assert whole["named"] == first["named"] and _rows(store, "SELECT count(*) FROM names") == [
        (len(set(_rows(store, "SELECT frame, depth FROM names"))),)]


def better_files_replace_names(folder):
    store = fresh(".sqlite")
    sonde("store", "--to", f"sqlite:{store}", _stripped(folder, "app", "-O1", "-DMORE=0"))
    plain = folder / "plain"
    plain.mkdir()
    shutil.copy(folder / "debug" / "app.debug", plain)
    output_of("objcopy", "--strip-debug", plain / "app.debug")  # a symbol table without lines
    _symbolize(store, "--debug-dir", plain)
    assert "leak" in _functions(store) and "inner" not in _functions(store), _functions(store)
    _symbolize(store, "--debug-dir", folder / "debug")
    assert "inner" not in _functions(store)
    _symbolize(store, "--debug-dir", folder / "debug", "--again")
    assert "inner" in _functions(store), _functions(store)


def names_relate_the_builds(folder):
    store = fresh(".sqlite")
    for name, options in (("1", ["-O1", "-DMORE=0"]), ("2", ["-O0", "-DMORE=20"])):
        (folder / name).mkdir()
        sonde("store", "--to", f"sqlite:{store}", "--build", name, *_stripped(folder / name, "app", *options, runs=2))
    query = ["query", "--json", "--to", f"sqlite:{store}", "regressions", "1", "2"]
    before = try_sonde(*query)
    assert before.returncode == 2 and json.loads(before.stdout)["rows"] == [], before  # every stack seems to be new
    assert "frames of them have no names; 'sonde store symbolize' names them" in before.stderr, before
    _symbolize(store, "--debug-dir", folder / "1" / "debug", "--debug-dir", folder / "2" / "debug")
    after = try_sonde(*query)
    assert after.returncode == 1 and not after.stderr, after
    rows = json.loads(after.stdout)["rows"]
    grown = [row for row in rows if row["measure"] == "leaks"]
    assert [(row["old_n"], row["new_n"]) for row in grown] == [(80, 120)], rows


def an_interrupted_run_is_repaired(folder):
    """A run that was killed after an image and before the signatures."""
    store = fresh(".sqlite")
    sonde("store", "--to", f"sqlite:{store}", _stripped(folder, "app", "-O1", "-DMORE=0"))
    _symbolize(store, "--debug-dir", folder / "debug")
    signatures = _rows(store, "SELECT stack, signature FROM stacks ORDER BY stack")
    with sqlite3.connect(store) as db:
        db.execute("UPDATE stacks SET signature = 1")
    _symbolize(store, "--debug-dir", folder / "debug")
    assert _rows(store, "SELECT stack, signature FROM stacks ORDER BY stack") == signatures


def wrong_use_is_one_line(folder):
    for words in (["symbolize", "x"], ["--again", "x.sonde"], ["--debug-dir", str(folder), "x.sonde"],
                  ["symbolize", "--debug-dir", "/nonexistent"], ["symbolize", "--to", f"sqlite:{folder}/none"]):
        done = try_sonde("store", *words, env=dict(os.environ, XDG_DATA_HOME=str(folder)))
        assert done.returncode == 2 and done.stdout == "" and len(done.stderr.splitlines()) <= 2, (words, done)


if __name__ == "__main__":
    run_cases(globals())
