#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Redis' own tests, from the source package of the redis that is installed: once as they are, and once with all servers
recorded with `--malloc=all --stall --sample --audit`. Each test must have the same result. The seed of each file's random
numbers is fixed. Tests that fail in one run alone are run again, recorded and not, since some depend on time.

The files of FAST take some minutes each way: types, keys, scripts, forks that save, and transactions. The whole suite
takes about 20 minutes twice on an idle machine. Each file is named when it is done.

usage: redis_tests.py [all | UNIT…]   for example unit/type/list; default: FAST"""
import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1])]

from helpers import BUILD, SONDE, SOURCE, free_port, report  # noqa: E402  (the path is set above)

PROGRAMS = ("redis-server", "redis-cli", "redis-benchmark", "redis-check-aof", "redis-check-rdb", "redis-sentinel")
TAKE_LONGEST = ("unit/obuf-limits", "unit/memefficiency")
FAST = ("unit/dump", "unit/auth", "unit/protocol", "unit/keyspace", "unit/scan", "unit/info", "unit/type/string",
        "unit/type/incr", "unit/type/list", "unit/type/set", "unit/type/zset", "unit/type/hash", "unit/type/stream-cgroups",
        "unit/sort", "unit/expire", "unit/other", "unit/multi", "unit/quit", "unit/acl", "unit/acl-v2", "unit/scripting",
        "unit/functions", "unit/bitops", "unit/bitfield", "unit/geo", "unit/hyperloglog", "unit/pubsub", "unit/slowlog",
        "unit/tracking", "unit/lazyfree", "unit/shutdown", "integration/aof", "integration/aof-multi-part", "integration/rdb",
        "integration/corrupt-dump", "integration/logging", "integration/shutdown")
SENSORS = ["--malloc=all", "--stall", "--sample", "--audit"]
AGAIN = 3
READ_MAX = 200  # of the recordings, each of which takes a moment
CLIENTS = ["--clients", "4", "--baseport", str(min(free_port() + 100, 28000)), "--portcount", "3000"]
RESULT = re.compile(r"^\[(ok|err|skip|ignore|exception|timeout)\]: (.*?)(?: \(\d+ ms\))?$", re.M)


def make_tree(folder):
    """The tests with the installed programs, so that sonde meets what users run."""
    sources = pathlib.Path(BUILD, "soak")
    subprocess.run([sys.executable, os.path.join(SOURCE, "cmake", "apple-libraries.py"), sources, "redis"], check=True)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(sources / "redis", folder, symlinks=True)
    for name in filter(shutil.which, PROGRAMS):
        (folder / "src" / name).symlink_to(shutil.which(name))
    for path in [*folder.glob("tests/unit/**/*.tcl"), *folder.glob("tests/integration/*.tcl")]:
        path.write_text("expr {srand(7)}\n" + path.read_text(encoding="latin-1"), encoding="latin-1")


def results(folder, options, within=()):
    """{(result, test)}, with how often each was. Names of tests of replication have random numbers, left out here."""
    said = ""
    with subprocess.Popen([*within, "./runtest", *CLIENTS, *options], cwd=folder, stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.STDOUT, encoding="utf-8", errors="replace", stdin=subprocess.DEVNULL) as suite:
        for line in suite.stdout:
            line = re.sub(r"\x1b\[[0-9;]*m", "", line)
            said += line
            if re.match(r"\[\d+/\d+ done\]|\[(err|exception|timeout)\]", line):
                print(f"{folder.name}: {line}", end="", flush=True)
    (folder / "said.txt").write_text(said, encoding="utf-8")
    found = collections.Counter((kind, re.sub(r"#\d+|x = \d+", "N", test)) for kind, test in RESULT.findall(said))
    assert sum(found.values()) > 0, said
    return found


def recorded(folder, options):
    """The same, recorded. Each process has a recording, of which the newest part is kept."""
    recordings = folder / "recordings"
    shutil.rmtree(recordings, ignore_errors=True)
    recordings.mkdir()
    found = results(folder, options, [SONDE, "record", "--follow", *SENSORS, "--limit", "20M", "-o", recordings / "out.sonde", "--"])
    paths = sorted(recordings.glob("*.sonde"))
    chosen = paths[::max(1, len(paths) // READ_MAX)]
    print(f"{folder.name}: reading {len(chosen)} of {len(paths)} recordings", flush=True)
    blocks = sum(report(path, "malloc")["malloc"]["allocated"]["blocks"] for path in chosen)
    return found, f"{len(paths)} recordings; {len(chosen)} read, with {blocks} allocations in their newest parts"


def units_of(differing):
    """What a test that failed says of its file."""
    named = (re.search(r" in tests/(\S+)\.tcl$", test) for _, test in differing)
    return sorted({match[1] for match in named if match})


def main():
    plain, watched = (pathlib.Path(BUILD, "soak", name) for name in ("plain", "recorded"))
    options = [word for unit in sys.argv[1:] or FAST for word in ("--single", unit)]
    if sys.argv[1:] == ["all"]:
        options = [word for unit in TAKE_LONGEST for word in ("--skipunit", unit)]
    for folder in plain, watched:
        make_tree(folder)
    one, (other, said) = results(plain, options), recorded(watched, options)
    print(f"as it is: {collections.Counter(kind for kind, _ in one.elements())}", flush=True)
    print(f"recorded: {collections.Counter(kind for kind, _ in other.elements())}; {said}", flush=True)
    missing, more = set(one) - set(other), set(other) - set(one)
    for kind, test in missing:
        print(f"only as it is: [{kind}] {test}")
    for kind, test in more:
        print(f"only recorded: [{kind}] {test}", flush=True)
    differ = 0
    for unit in units_of([*missing, *more]):
        fails = [sum(any(kind in ("err", "exception") for kind, _ in run) for run in runs) for runs in (
            [results(plain, ["--single", unit]) for _ in range(AGAIN)],
            [recorded(watched, ["--single", unit])[0] for _ in range(AGAIN)])]
        print(f"{unit} again, {AGAIN} times: failed {fails[0]} times as it is, {fails[1]} times recorded", flush=True)
        differ += fails[1] == AGAIN and fails[0] < AGAIN
    unnamed = [test for kind, test in more if kind in ("exception", "timeout")]
    print(f"{differ + len(unnamed)} differences that last")
    return differ + len(unnamed) > 0


sys.exit(main())
