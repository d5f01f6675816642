#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A store in ClickHouse: the answers are those of a SQLite store of the same recordings, and the totals are exact after
loaders and servers were killed, two loaders sent the same recordings, and the server was down.

usage: clickhouse.py [CASE…]   KILLS=100 sets the number of kills"""
import base64
import datetime
import gzip
import json
import os
import pathlib
import random
import re
import shutil
import sqlite3
import subprocess
import urllib.request

from helpers import SEED, SONDE, compile_c, needs_agent, record, run_cases, skip, skip_part, sonde, try_sonde, write
from shared.clickhouse import SERVER, Cluster, Server
from shared.derived import Original

needs_agent()
if not SERVER:
    skip("clickhouse-server is not installed")

KILLS = int(os.environ.get("KILLS", "100"))
PROGRAM = r"""
#include <stdlib.h>
static void *kept[64];
__attribute__((noinline)) void *leak(int i) { return kept[i % 64] = malloc(1000 + i); }
__attribute__((noinline)) void churn(int i) { void *volatile block = malloc(100 + i); free(block); }
int main(void) {
  for (int i = 0; i < 64; i++) leak(i);
  for (int i = 0; i < 1000; i++) churn(i);
  volatile double x = 1;
  for (long i = 0; i < 30000000; i++) x = x * 1.0000001;
  return 0;
}
"""
QUERIES = [["builds"], ["allocations", "--all"], ["leaks", "--all"], ["samples", "--all"], ["stalls"], ["audit"],
           ["crashes"], ["regressions", "a", "b", "--all"], ["allocations"], ["allocations", "--top", "1"],
           ["allocations", "b", "--top", "3"], ["leaks", "b"], ["samples", "a"], ["regressions", "b", "a"]]
_made = {}


def _original():
    if not _made:
        program = compile_c(write(PROGRAM, ".c"), "-O1", "-g", "-Wl,--build-id")
        path, done = record([program], "--malloc", "--sample=200", "--audit=files")
        assert done.returncode == 0, done
        _made["original"], _made["path"], _made["program"] = Original(path, program), path, program
    return _made["original"]


def _recordings(folder, count, build=b""):
    folder.mkdir(exist_ok=True)
    original = _original()
    for number in range(count):
        (folder / f"{number}.sonde").write_bytes(
            original.header(1000 + number + 5000 * bool(build), later_ns=number * 60_000_000_000) +
            original.layout(number % 8, build))
    return folder


def _environment(folder, **more):
    return {**os.environ, "XDG_DATA_HOME": str(folder / "xdg"), **more}


def _answers(url, queries=None, **how):
    out = {}
    for words in queries or QUERIES:
        done = try_sonde("query", "--to", url, "--json", *words, **how)
        assert done.returncode in (0, 1) or "are not compared" in done.stderr, done
        out[" ".join(words)] = json.loads(done.stdout)["rows"] + [done.returncode, done.stderr]
    return out


def _equal(one, other):
    """Sums of squares are added in another order."""
    if isinstance(one, float) or isinstance(other, float):
        return abs(one - other) <= 1e-9 * max(abs(one), abs(other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    return one == other


def _compare(folder, url):
    """Stores two builds in the store URL and in one of SQLite, and compares all answers."""
    for name, build in ("a", b""), ("b", b"another build of it!"):
        _recordings(folder / name, 20, build)
    for to in url, f"sqlite:{folder}/s.sqlite":
        for name in "a", "b":
            told = json.loads(sonde("store", "--json", "--to", to, "--device", "d", "--build", name, folder / name,
                                    env=_environment(folder)))
            assert (told["sessions"], told["present"]) == (20, 0), told
    expected, found = _answers(f"sqlite:{folder}/s.sqlite"), _answers(url)
    for name in expected:
        assert _equal(found[name], expected[name]), (name, found[name][:3], expected[name][:3])
    stack = expected["leaks --all"][0]["stack"]
    words = ["query", "--json", "stack", stack, "--to"]
    assert json.loads(sonde(*words, url)) == json.loads(sonde(*words, f"sqlite:{folder}/s.sqlite"))
    assert json.loads(sonde("query", "--json", "--to", url, "--sql", "SELECT count(*) AS n FROM sessions"))[
        "rows"] == [{"n": 40}]
    done = try_sonde("query", "--to", url, "--sql", "SELECT * FROM samples")
    assert done.returncode == 2 and "no such table" in done.stderr, done


def _compare_names(folder, url):
    """After _compare: names that come later."""
    stores, rows = (url, f"sqlite:{folder}/s.sqlite"), []
    for to in stores:
        told = json.loads(sonde("store", "symbolize", "--json", "--to", to, env=_environment(folder)))
        assert told["named"] > 0, told
        rows.append(json.loads(sonde("query", "--json", "--to", to, "leaks", "--all"))["rows"])
    assert _equal(*rows) and any("leak " in row["function"] for row in rows[0]), rows[0][:3]


def _page(folder, url, *words):
    """The data of the page of an answer."""
    sonde("query", "--to", url, *words, "--html", folder / "page.html")
    packed = re.search(r'id="answer">([^<]*)<', (folder / "page.html").read_text())[1]
    return json.loads(gzip.decompress(base64.b64decode(packed)))


def answers_are_those_of_sqlite(folder):
    with Server(folder) as server:
        _compare(folder, server.url())


def answers_of_two_shards_are_those_of_sqlite(folder):
    with Cluster(folder) as pair:
        _compare(folder, pair.url())
        parts = [[int(server.ask(f"SELECT count() FROM {table}_local")) for server in pair.servers]
                 for table in ("sessions", "allocations", "stacks", "frames")]
        assert all(min(counts) > 0 for counts in parts), parts  # each shard has some of each
        rows = int(pair.servers[1].ask("SELECT count() FROM allocations"))
        assert rows == sum(parts[1]), (rows, parts)
        _compare_names(folder, pair.url())
        pages = [_page(folder, url, "leaks", "--all") for url in (pair.url(), f"sqlite:{folder}/s.sqlite")]
        assert pages[0]["stacks"] == pages[1]["stacks"] != {} and _equal(pages[0]["rows"], pages[1]["rows"]), pages
        size = json.loads(sonde("store", "--json", "--to", pair.url(), folder / "a" / "0.sonde",
                                env=_environment(folder)))
        assert size["present"] == 1 and size["size_bytes"] > 0, size


def a_shard_that_is_down_loses_nothing(folder):
    _recordings(folder / "a", 30)
    with Cluster(folder) as pair:
        sonde("store", "--to", pair.url(), folder / "a" / "0.sonde", env=_environment(folder))
        pair.servers[1].kill()
        done = try_sonde("store", "--to", pair.url(), folder / "a", env=_environment(folder))
        assert done.returncode == 2 and "wait in" in done.stderr and len(done.stderr.splitlines()) == 1, done
        assert f":{pair.servers[1].port}" in done.stderr, done
        pair.servers[1].start()
        sonde("store", "--to", pair.url(), folder / "a", env=_environment(folder))
        assert _totals(pair.url()) == _expected(folder, 30)


def _drop_weeks(folder, url):
    """What is left is what SQLite has after the same drop, of a day on which a week begins."""
    original, runs = _original(), folder / "weeks"
    runs.mkdir()
    for number in range(28):  # of four weeks, and facts of each day
        (runs / f"{number}.sonde").write_bytes(
            original.header(1000 + number, later_ns=number * 24 * 3600 * 10 ** 9) + original.layout(number % 8))
    local = f"sqlite:{folder}/weeks.sqlite"
    for to in url, local:
        sonde("store", "--to", to, "--device", "d", "--build", "a", runs, env=_environment(folder))
    days = [row["day"] for row in json.loads(sonde("query", "--json", "--to", local, "--sql",
                                                   "SELECT day FROM sessions ORDER BY day"))["rows"]]
    for before in days[0] + 10, days[0] + 20, days[-1] + 8:
        whole = before - before % 7
        told = json.loads(sonde("store", "drop", "--json", "--to", url, "--before", _date(before),
                                env=_environment(folder)))
        expected = json.loads(sonde("store", "drop", "--json", "--to", local, "--before", _date(whole)))
        assert (told["before"], told["dropped"]) == (expected["before"], expected["dropped"]), (told, expected)
        ready = [words for words in QUERIES if not {"a", "b"} & set(words)]
        found, wanted = _answers(url, ready), _answers(local, ready)
        for name, rows in found.items():
            assert _equal(rows, wanted[name]), (name, rows[:3], wanted[name][:3])
        assert _totals(url) == _totals(local)
    assert _totals(url) == []
    told = json.loads(sonde("store", "--json", "--to", url, "--device", "d", "--build", "a", runs,
                            env=_environment(folder)))
    assert told["sessions"] == 28, told  # they can be stored again


def _date(day):
    return datetime.date(1970, 1, 1) + datetime.timedelta(days=day)


def a_current_engine_gives_the_same_answers(folder):
    """The package chdb is a current release in a process, and server.cjs is the HTTP interface."""
    modules = pathlib.Path(os.environ.get("CHDB", folder / "modules"))
    if not (modules / "node_modules" / "chdb").exists():
        done = shutil.which("npm") and subprocess.run(["npm", "install", "--silent", "--prefix", modules, "chdb"],
                                                      stdout=subprocess.DEVNULL, check=False)
        if not done or done.returncode:
            skip_part("a current engine", "chdb cannot be installed; CHDB names a folder with node_modules/chdb")
            return
    script = pathlib.Path(__file__).parent / "chdb" / "server.cjs"
    with subprocess.Popen(["node", script, modules, folder], stdout=subprocess.PIPE, text=True) as engine:
        try:
            host = f"127.0.0.1:{int(engine.stdout.readline())}"
            _compare(folder, f"clickhouse://{host}/fleet")
            _compare_names(folder, f"clickhouse://{host}/fleet")
            _drop_weeks(folder, f"clickhouse://{host}/weeks")
            with urllib.request.urlopen(f"http://{host}/", data=b"SELECT version()") as reply:
                return f"version {reply.read().decode().strip()}"
        finally:
            engine.kill()


def old_weeks_are_dropped(folder):
    with Server(folder) as server:
        _drop_weeks(folder, server.url())


def old_weeks_are_dropped_on_each_shard(folder):
    with Cluster(folder) as pair:
        _drop_weeks(folder, pair.url())
        rows = [server.ask("SELECT count() FROM sessions_local") for server in pair.servers]
        assert all(int(count) > 0 for count in rows), rows


def names_come_later(folder):
    with Server(folder) as server:
        env = _environment(folder)
        for url in server.url(), f"sqlite:{folder}/s.sqlite":
            sonde("store", "--to", url, "--build", "a", "--device", "d", _recordings(folder / "a", 3), env=env)
            told = json.loads(sonde("store", "symbolize", "--json", "--to", url, env=env))
            assert told["named"] > 0, told
            again = json.loads(sonde("store", "symbolize", "--json", "--to", url, env=env))
            if url == server.url():  # each name is sent once, and no frame without one
                rows, different = server.ask("SELECT count(), uniqExact(frame, label) FROM frames").split()
                assert rows == different, (rows, different)
            assert again["named"] == 0 and again["addresses"] == told["addresses"] - told["named"], again
        leak = json.loads(sonde("query", "--json", "--to", server.url(), "leaks", "--top", "1"))["rows"][0]["stack"]
        assert "leak" in sonde("query", "--to", server.url(), "stack", leak)
        for words in ["leaks", "--all"], ["allocations", "--top", "2"], ["stack", leak]:
            rows = [json.loads(sonde("query", "--json", "--to", url, *words))["rows"]
                    for url in (server.url(), f"sqlite:{folder}/s.sqlite")]
            assert rows[0] == rows[1] and (words[0] == "stack" or any(
                row["function"].startswith(("leak ", "churn ")) for row in rows[0])), rows


def passwords_are_needed_and_not_printed(folder):
    with Server(folder, password="s3cr3t") as server:
        path = _recordings(folder / "a", 1) / "0.sonde"
        done = try_sonde("store", "--to", server.url(), path, env=_environment(folder))
        assert done.returncode == 2 and "status" in done.stderr and "s3cr3t" not in done.stderr, done
        env = _environment(folder, CLICKHOUSE_USER="default", CLICKHOUSE_PASSWORD="s3cr3t")
        told = json.loads(sonde("store", "--json", "--to", server.url(), path, env=env))
        assert told["sessions"] + told["present"] == 1, told
        assert json.loads(sonde("query", "--json", "--to", server.url(), "builds", env=env))["rows"][0]["sessions"] == 1


def _totals(url):
    sql = "SELECT measure, sum(sessions), sum(count), sum(amount) FROM totals GROUP BY 1 ORDER BY 1"
    rows = json.loads(sonde("query", "--json", "--to", url, "--sql", sql))["rows"]
    return [tuple(row.values()) for row in rows]


def _expected(folder, count):
    alone = folder / "alone.sqlite"
    sonde("store", "--to", f"sqlite:{alone}", folder / "a" / "0.sonde")
    rows = sqlite3.connect(alone).execute(
        "SELECT measure, sum(sessions), sum(count), sum(amount) FROM totals GROUP BY 1 ORDER BY 1").fetchall()
    return [(row[0], *(count * value for value in row[1:])) for row in rows]


def a_server_that_is_down_loses_nothing(folder):
    _recordings(folder / "a", 30)
    with Server(folder) as server:
        server.kill()
        done = try_sonde("store", "--to", server.url(), folder / "a", env=_environment(folder))
        assert done.returncode == 2 and "wait in" in done.stderr and len(done.stderr.splitlines()) == 1, done
        server.start()
        told = json.loads(sonde("store", "--json", "--to", server.url(), folder / "a" / "0.sonde",
                                env=_environment(folder)))
        assert told["present"] == 1, told
        assert _totals(server.url()) == _expected(folder, 30)


def two_loaders_count_each_recording_once(folder):
    _recordings(folder / "a", 60)
    with Server(folder) as server:
        loaders = [subprocess.Popen([SONDE, "store", "--to", server.url(), folder / "a"], stdout=subprocess.DEVNULL,
                                    env=_environment(folder / str(number))) for number in range(2)]
        assert [loader.wait() for loader in loaders] == [0, 0]
        assert _totals(server.url()) == _expected(folder, 60)


def _kill(folder, url, servers, clear):
    """Kills loaders and, every fourth time, a server at random times."""
    count, rng, kills = 120, random.Random(SEED), 0
    _recordings(folder / "a", count)
    while kills < KILLS:
        env = _environment(folder / str(kills % 3))  # each with its own spool
        loader = subprocess.Popen([SONDE, "store", "--to", url, folder / "a"], env=env,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            loader.wait(timeout=rng.random() * 2)
        except subprocess.TimeoutExpired:
            if kills % 4 == 3:
                server = rng.choice(servers)
                server.kill()
                server.start()
            loader.kill()
            loader.wait()
            kills += 1
            continue
        assert loader.returncode == 0, loader.stderr.read()  # nobody disturbed it: all are there, and it begins again
        assert _totals(url) == _expected(folder, count)
        clear()
    for number in range(3):
        sonde("store", "--to", url, folder / "a", env=_environment(folder / str(number)))
    assert _totals(url) == _expected(folder, count)
    return f"{kills} kills, SONDE_SEED={SEED}"


def kills_leave_exact_totals(folder):
    with Server(folder) as server:
        return _kill(folder, server.url(), [server], lambda: server.ask("DROP DATABASE fleet", "default"))


def kills_of_shards_leave_exact_totals(folder):
    def clear():
        for server in pair.servers:
            server.ask("DROP DATABASE fleet", "default")

    with Cluster(folder) as pair:
        return _kill(folder, pair.url(), pair.servers, clear)


if __name__ == "__main__":
    run_cases(globals())
