#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`sonde store --to clickhouse://…` against servers that are none, are down or refuse, and what it sends, decoded by
ClickHouse's description of RowBinary. tests/soak/clickhouse.py does the rest with a real server."""
import json
import struct
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.parse

from helpers import SONDE, compile_c, free_port, fresh, needs_agent, record, run_cases, sonde, try_sonde, until
from shared.receiver import Receiver, environment

needs_agent()

PROGRAM = """#include <stdlib.h>
void *kept[40]; __attribute__((noinline)) void *leak(int i) { return kept[i] = malloc(100 + i); }
int main(void) { for (int i = 0; i < 40; i++) leak(i); return 0; }"""
_made = {}


def _recording():
    if not _made:
        _made["path"], done = record([compile_c(PROGRAM, "-O1", "-g")], "--malloc")
        assert done.returncode == 0, done
    return _made["path"]


def _store(url, folder, *paths, **more):
    return try_sonde("store", "--json", "--to", url, *(paths or [_recording()]),
                     env=environment(XDG_DATA_HOME=str(folder), **more))


def _url(server):
    return f"clickhouse://127.0.0.1:{server.port}/fleet"


def _fails(done, *texts):
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done
    for text in texts:
        assert text in done.stderr, (text, done.stderr)


def _clickhouse(path, body):
    """The answers to the questions that a loader asks."""
    if body.startswith(b"SELECT DISTINCT recording"):
        return 200, {}, b""
    if body.startswith(b"SELECT toInt64(sum"):
        return 200, {}, struct.pack("<q", 4096)
    if body.startswith(b"SELECT toInt64("):
        return 200, {}, struct.pack("<q", int(body[len("SELECT toInt64("):body.index(b")")]))
    return 200, {}, b""


def _rows(data, kinds):
    at, rows = 0, []
    while at < len(data):
        row = []
        for kind in kinds:
            if kind != "String":
                row.append(struct.unpack_from("<q" if kind == "Int64" else "<d", data, at)[0])
                at += 8
                continue
            length = shift = 0
            while True:
                byte = data[at]
                at += 1
                length |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    break
            row.append(data[at:at + length])
            at += length
        rows.append(row)
    return rows


def _spool(folder):
    spool, = folder.rglob("spool-*.sqlite")
    return spool


def _spooled(folder):
    return sqlite3.connect(_spool(folder)).execute("SELECT count(*) FROM sessions").fetchone()[0]


def _asked(server):
    return [body for _, _, body in server.requests if body.startswith(b"SELECT DISTINCT recording")]


def what_is_sent_is_what_sqlite_has(folder):
    server, local = Receiver(_clickhouse), fresh(".sqlite")
    done = _store(_url(server), folder, "--device", "d", "--build", "b", _recording())
    assert done.returncode == 0 and json.loads(done.stdout)["sessions"] == 1, done
    sonde("store", "--to", f"sqlite:{local}", "--device", "d", "--build", "b", _recording())
    columns, sent, order = {}, {}, []
    for path, _, body in server.requests:
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(path).query))
        if body.startswith(b"CREATE TABLE"):
            name, rest = body.decode().split("IF NOT EXISTS ")[1].split(" (", 1)
            columns[name] = [column.split() for column in rest.split(") ENGINE")[0].split(", ")]
        if "query" in query:
            name = query["query"].split()[2]
            order.append(name)
            assert query["database"] == "fleet" and query["query"].endswith("FORMAT RowBinary"), query
            sent.setdefault(name, []).extend(_rows(body, [kind for _, kind in columns[name]]))
    assert order[-1] == "sessions" and order.count("sessions") == 1, order
    session = sent["sessions"][0][0]
    for name, rows in sent.items():
        there = sqlite3.connect(local).execute(f"SELECT * FROM {name}").fetchall()
        if columns[name][-2][0] == "build":  # of the session, as the day
            assert {(row[-2], row[-1]) for row in rows} == {(sent["sessions"][0][3], sent["sessions"][0][6])}, name
        mine = [[value.decode() if isinstance(value, bytes) and not isinstance(value_there, bytes) else value
                 for value, value_there in zip(row, there[0])] for row in rows]
        if [column for column, _ in columns[name]][0] == "session":
            assert {row[0] for row in mine} == {session} and {row[0] for row in there} == {1}, name
            mine, there = [row[1:] for row in mine], [row[1:] for row in there]
        if name == "sessions":  # all but the time of storing
            mine, there = [row[:-1] for row in mine], [row[:-1] for row in there]
        assert sorted(mine) == sorted(list(row) for row in there), (name, mine[:2], there[:2])
    assert {"allocations", "leaks", "stacks", "frames", "images"} <= sent.keys(), sent.keys()
    assert _spooled(folder) == 0


def a_server_that_is_none_gets_no_recordings(folder):
    for number, reply in enumerate(((200, {}, b""), (200, {}, b"<html>hello, this is another server</html>"),
                                    (200, {}, bytes(8)), (200, {}, b"\x01" + bytes(7)), (200, {}, bytes(24)))):
        server = Receiver(reply)
        home = folder / str(number)
        _fails(_store(_url(server), home), "not one of a ClickHouse server", "wait in")
        assert not any("query=INSERT" in path for path, _, _ in server.requests)
        assert _spooled(home) == 1
        done = try_sonde("query", "--to", _url(server), "builds", env=environment())
        _fails(done, "ClickHouse server")


def a_server_that_is_down_or_refuses_loses_nothing(folder):
    port = free_port()
    _fails(_store(f"clickhouse://127.0.0.1:{port}/fleet", folder), "wait in")
    again = _store(f"clickhouse://127.0.0.1:{port}/fleet", folder)
    _fails(again, "wait in")
    assert _spooled(folder) == 1
    refusing = Receiver((500, {}, b"Code: 241, DB::Exception: Memory limit\nmore"))
    _fails(_store(_url(refusing), folder / "2"), "status 500: Code: 241, DB::Exception: Memory limit;", "wait in")
    page = Receiver((500, {}, b"<html>\n<h1>Internal error</h1></html>"))
    _fails(_store(_url(page), folder / "4"), "status 500: <html>;", "wait in")
    _fails(try_sonde("query", "--to", _url(refusing), "builds"), "status 500")
    half = Receiver(lambda path, body: (503, {}, b"") if "query=INSERT" in path else _clickhouse(path, body))
    _fails(_store(_url(half), folder / "3"), "status 503", "wait in")
    assert not any("INTO%20sessions" in path for path, _, _ in half.requests), "a commit after a failure"


def _never(path, body):
    """A reply that does not end, and does not begin while the client waits for the first byte."""
    threading.Event().wait(600)
    return 200, {}, b""


def a_server_that_answers_too_slowly_costs_limited_time(folder):
    """No test of a time: without a limit, neither reply would end before the test does."""
    def dripping(out):
        begun.append(out)
        try:
            while not time.sleep(0.01):
                out.write(b"x")
        except OSError:
            gone.append(out)

    begun, gone = [], []
    for number, reply in enumerate((_never, (200, {"Content-Length": 1 << 30}, dripping))):
        server, home = Receiver(reply), folder / str(number)
        _fails(_store(f"{_url(server)}?timeout=1", home), "imed out", "wait in")
        assert _spooled(home) == 1
        _fails(try_sonde("query", "--to", f"{_url(server)}?timeout=1", "builds", env=environment()), "imed out")
    until(lambda: len(gone) == len(begun), "no client waits for a reply any longer")
    server.replies[0] = _clickhouse  # the limit does not make it another store
    assert _store(_url(server), home).returncode == 0 and _spooled(home) == 0


def a_server_that_closes_within_a_reply_loses_nothing(folder):
    server = Receiver((200, {"Content-Length": 4096}, lambda out: out.write(b"half")))
    _fails(_store(_url(server), folder), "wait in")
    assert _spooled(folder) == 1
    server.replies[0] = _clickhouse
    assert _store(_url(server), folder).returncode == 0 and _spooled(folder) == 0


def a_full_disk_of_the_spool_stores_nothing_and_says_so(folder):
    server = Receiver((503, {}, b"down"))
    many, _ = record([sys.executable, "-c", "pass"], "--malloc")  # thousands of stacks
    _fails(_store(_url(server), folder), "wait in")
    words = ["sh", "-c", 'ulimit -f 64; trap "" XFSZ; exec "$@"', "sh", SONDE, "store", "--to", _url(server), many]
    done = subprocess.run(words, capture_output=True, text=True, check=False,
                          env=environment(XDG_DATA_HOME=str(folder)))
    _fails(done, str(_spool(folder)), "cannot be written")
    assert _spooled(folder) == 1, "a part of what did not fit is stored"
    server.replies[0] = _clickhouse
    told = json.loads(_store(_url(server), folder, many).stdout)
    assert (told["sessions"], told["present"]) == (1, 0) and _spooled(folder) == 0, told
    sent, = [body for path, _, body in server.requests if "INTO%20sessions" in path]
    assert len(sent) == 2 * 128, "both"


PAGE, FULL_PAGES = 4096, (1 << 30) // 4096 + 1000


def _fill(spool, is_free):
    """Appends pages to a finished database, which are a hole in its file: to the list of free pages (SQLite's file
    format, 1.3 and 1.5), or else in use by nothing."""
    with open(spool, "r+b") as file:
        header = bytearray(file.read(100))
        page, count, trunk, free = (struct.unpack_from(f">{form}", header, at)[0]
                                    for at, form in ((16, "H"), (28, "I"), (32, "I"), (36, "I")))
        assert page == PAGE and struct.unpack_from(">I", header, 24) == struct.unpack_from(">I", header, 92)
        file.truncate(FULL_PAGES * PAGE)
        first, each = count + 1, PAGE // 4 - 8
        while is_free and first <= FULL_PAGES:
            leaves = list(range(first + 1, min(first + each, FULL_PAGES) + 1))
            file.seek((first - 1) * PAGE)
            file.write(struct.pack(f">II{len(leaves)}I", trunk, len(leaves), *leaves))
            trunk, free, first = first, free + 1 + len(leaves), first + 1 + len(leaves)
        struct.pack_into(">III", header, 28, FULL_PAGES, trunk, free)
        file.seek(0)
        file.write(header)
    with sqlite3.connect(spool) as db:
        if is_free:
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert db.execute("PRAGMA page_count").fetchone()[0] * PAGE > 1 << 30


def a_full_spool_is_sent_first(folder):
    """It takes nothing more while the server is down, and works again once it is up."""
    answers = [(503, {}, b"down")]
    server = Receiver(lambda path, body: answers[0] if answers[0] else _clickhouse(path, body))
    _fails(_store(_url(server), folder, _recording()), "status 503", "wait in")
    _fill(_spool(folder), is_free=False)
    other, _ = record(["true"], "--malloc")
    _fails(_store(_url(server), folder, other), "the spool is full", "status 503", "wait in")
    assert _spooled(folder) == 1
    answers[0] = None
    done = _store(_url(server), folder, other)
    assert done.returncode == 0 and json.loads(done.stdout)["sessions"] == 1 and _spooled(folder) == 0, done
    assert sum("INTO%20sessions" in path for path, _, _ in server.requests) == 2


def a_large_spool_that_was_sent_is_not_full(folder):
    server = Receiver(_clickhouse)
    assert _store(_url(server), folder, _recording()).returncode == 0
    _fill(_spool(folder), is_free=True)
    server.replies[0] = (503, {}, b"down")
    _fails(_store(_url(server), folder, _recording()), "wait in")
    assert _spooled(folder) == 1


def _runs(folder, count):
    """Copies of the recording, as of other processes."""
    with open(_recording(), "rb") as file:
        data = bytearray(file.read())
    folder.mkdir(parents=True)
    for pid in range(count):
        struct.pack_into("<I", data, 80, 100000 + pid)
        (folder / f"{pid:03}.sonde").write_bytes(data)
    return folder


def a_server_is_asked_rarely_and_what_it_had_counts_as_present(folder):
    runs, there = _runs(folder / "runs", 40), set()

    def has(path, body):
        if not body.startswith(b"SELECT DISTINCT recording"):
            return _clickhouse(path, body)
        asked = [int(number) for number in body[body.index(b"(") + 1:body.index(b")")].split(b",")]
        return 200, {}, b"".join(struct.pack("<q", number) for number in asked if number in there)

    server = Receiver(has)
    first = json.loads(_store(_url(server), folder / "1", runs).stdout)
    assert (first["sessions"], first["present"]) == (40, 0), first
    assert len(_asked(server)) < 10, _asked(server)
    there.update(int(number) for number in _asked(server)[-1].split(b"(")[1].split(b")")[0].split(b","))
    assert len(there) == 40
    server.requests.clear()
    again = json.loads(_store(_url(server), folder / "2", runs).stdout)
    assert (again["sessions"], again["present"], again["events"]) == (0, 40, 0), again
    half = set(sorted(there)[:20])
    there.intersection_update(half)
    server.requests.clear()
    done = json.loads(_store(_url(server), folder / "3", runs).stdout)
    assert (done["sessions"], done["present"], done["events"]) == (20, 20, first["events"] // 2), done
    body = next(body for path, _, body in server.requests if "INTO%20sessions" in path)
    assert len({struct.unpack_from("<q", body, at + 8)[0] for at in range(0, len(body), 128)} - half) == 20


def passwords_are_sent_and_not_printed(folder):
    server = Receiver((403, {}, b"wrong password s3cr3t"))
    env = {"CLICKHOUSE_USER": "me", "CLICKHOUSE_PASSWORD": "s3cr3t"}
    done = _store(_url(server), folder, **env)
    _fails(done, "status 403")
    assert "s3cr3t" not in done.stderr, done
    headers = server.requests[0][1]
    assert (headers["X-ClickHouse-User"], headers["X-ClickHouse-Key"]) == ("me", "s3cr3t"), headers


def wrong_urls_are_one_line(folder):
    for url, text in (("clickhouse://", "clickhouse://HOST"), ("clickhouse://host", "clickhouse://HOST"),
                      ("clickhouse://host/a;b", "clickhouse://HOST"), ("clickhouse:///db", "clickhouse://HOST"),
                      ("clickhouse://a b/db", "malformed"), ("clickhouse://me:s3cr3t@host/db", "credentials"),
                      ("clickhouse://host/db?timeout=0", "1 to 86400 seconds"),
                      ("mysql://host/db", "sqlite:FILE or clickhouse")):
        done = _store(url, folder)
        _fails(done, text)
        assert "s3cr3t" not in done.stderr, done


if __name__ == "__main__":
    run_cases(globals())
