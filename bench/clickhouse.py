#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A store in ClickHouse, filled with the recordings of store.py: how fast `sonde store` fills it, how large it is, and
how long the ready queries take.

usage: clickhouse.py [RECORDINGS]   (default 2000)"""
import os
import pathlib
import sys
import tempfile

import store
from shared.clickhouse import SERVER, Server


def main():
    if not SERVER:
        print("clickhouse-server is not installed")
        return
    count = int(sys.argv[1]) if len(sys.argv) > 1 and int(sys.argv[1]) > 1 else 2000
    with tempfile.TemporaryDirectory(prefix="sonde-bench-clickhouse-") as name, Server(name) as server:
        folder = pathlib.Path(name)
        os.environ["XDG_DATA_HOME"] = str(folder / "xdg")
        original, layouts = store.made()
        before = server.cpu_s()
        wall, cpu, events = store.fill(folder, server.url(), original, layouts, count)
        used = server.cpu_s() - before
        print(f"{count} recordings in {wall:.1f} s, {cpu:.1f} s of CPU time of the loader and {used:.1f} s of the server: "
              f"{count / wall:.0f} recordings a second, {count / (cpu + used):.0f} a second of CPU time; {events} events")
        store.symbolize(folder / "debug", server.url(), original)
        for words in store.QUERIES[:7]:
            took = min(store.timed("query", "--to", server.url(), *words)[0] for _ in range(3))
            print(f"query {' '.join(words)}: {took:.3f} s")


if __name__ == "__main__":
    main()
