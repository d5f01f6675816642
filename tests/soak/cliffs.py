#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Searches for costs that explode: ten programs, with every pair of sensors and with every resource exhausted.

The cost of a run is its CPU time, the recorder's included, in seconds. A row's factor is this cost divided by the
expected one:

  two sensors   the program alone, and what each of the two sensors adds to it alone
  a resource    the same sensors without the limit

A limit is the smallest of its list with which the program alone still does its work, so what sonde adds is what
exceeds it. A row fails if its factor is above FACTOR and its cost above the expected one by EXCESS seconds, twice;
if output or status differ from the program's alone; or if the run does not end. A recording that is refused, with
status 125 and a reason, is no failure.

usage: cliffs.py [--pairs | --resources] [PROGRAM…]

The table, worst first, is printed and written to build-test/results/cliffs.md."""
import itertools
import os
import pathlib
import shutil
import subprocess
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1])]

from helpers import BUILD, SONDE  # noqa: E402  (the path is set above)
from programs import Program, Run  # noqa: E402
from program_list import words  # noqa: E402  (programs adds its folder)

FACTOR, EXCESS, LIMIT_SECONDS = 2.5, 0.1, 60
RESULTS = pathlib.Path(BUILD) / "results" / "cliffs.md"
REFUSED = 125
SENSORS = {"sample": "--sample", "malloc": "--malloc=all", "live": "--malloc=live", "sampled": "--malloc=sample:512K",
           "wall": "--wall", "cpu": "--cpu", "stall": "--stall", "trace": "--trace=lib*:*", "audit": "--audit"}
MODES_OF_MALLOC = {"malloc", "live", "sampled"}
# The sensors that write most, those of a record without options, and everything.
SETS = {"malloc": ["malloc"], "trace": ["trace"], "default": ["sample", "stall", "sampled"],
        "all": ["malloc", "trace", "sample", "wall", "cpu", "stall", "audit"]}

# Tenths of a second each: a cliff is higher than noise.
PERL = 'my %h; for my $i (1..300000) { $h{$i % 5000} .= "x$i"; } my $n = 0; $n += length for values %h; print "$n\\n";'
RUBY = 'h = {}; 60_000.times { |i| (h[i % 3000] ||= []) << "v#{i}" }; puts h.sum { |k, v| v.join.size }'
LUA = "local t = {} for i = 1, 100000 do local k = i % 3000; t[k] = t[k] or {}; table.insert(t[k], 'v' .. i) end " \
      "local n = 0 for _, v in pairs(t) do n = n + #table.concat(v) end print(n)"
PYTHON = "d = {}\nfor i in range(300000): d.setdefault(i % 3000, []).append(str(i))\n" \
         "print(sum(len(''.join(v)) for v in d.values()))"
NODE = "const m = new Map(); for (let i = 0; i < 100000; i++) { const k = i % 3000; m.set(k, (m.get(k) || '') + i); } " \
       "let n = 0; for (const v of m.values()) n += v.length; console.log(n)"
SQL = "create table t(a integer primary key, b text); with recursive c(x) as (select 1 union all select x+1 from c " \
      "where x<80000) insert into t select x, hex(x*x) from c; create index i on t(b); select count(*), sum(a) from t " \
      "where b > 'A';"
C = "#include <stdio.h>\n" + "".join(f"int f{i}(int x) {{ return x * {i} + printf(\"%d\", x); }}\n" for i in range(600))
CC1 = subprocess.run(["gcc", "-print-prog-name=cc1"], capture_output=True, text=True, check=False).stdout.strip()
REPOSITORY = ("git init -q . && for i in 1 2 3 4 5 6 7 8; do seq $i 7 60000 > f$i && git add . && "
              "git -c user.name=a -c user.email=a@b commit -qm $i; done")

PROGRAMS = [
    dict(name="sqlite3", command=["sqlite3", ":memory:", SQL], packages="sqlite3"),
    dict(name="python3", command=["/usr/bin/python3", "-c", PYTHON], packages="python3"),
    dict(name="perl", command=["perl", "-e", PERL]),
    dict(name="lua", command=["lua5.4", "-e", LUA], packages="lua5.4"),
    dict(name="ruby", command=["/usr/bin/ruby", "-e", RUBY], packages="ruby"),
    dict(name="git", command=["git", "--no-pager", "log", "-p", "--format=%s"], packages="git", prepare=REPOSITORY),
    dict(name="xz", command=["xz", "-3", "-T2", "-t", "words.xz", "words.xz", "words.xz"], packages="xz-utils",
         prepare=words(200000) + "xz -k -3 words"),
    dict(name="cc1", command=[CC1, "-O1", "-quiet", "w.i", "-o", "/dev/null"],
         prepare=f"cat > w.c <<'END'\n{C}END\ngcc -E w.c -o w.i"),
    dict(name="redis", command=["redis-server", "--port", "7431", "--save", ""], port=7431,
         packages="redis-server redis-tools", ignore=r".*\n",
         clients=["redis-benchmark -p 7431 -q -n 10000 -r 1000 set k:__rand_int__ v > /dev/null; redis-cli -p 7431 ping"]),
    dict(name="node", command=["node", "-e", NODE]),
]

# ---- resources -----------------------------------------------------------------------------------

NOBODY = 'exec setpriv --reuid=65534 --regid=65534 --clear-groups -- "$@"'
MOUNT = 'mkdir -p mount && mount -t tmpfs -o size=%s,mode=1777 none %s && '


def limited(option, sizes, run='exec "$@"'):
    return [f"ulimit -{option} {size}; {run}" for size in sizes]


# Texts for the shell, from the tightest limit to the widest, that execute "$@".
RESOURCES = {
    "disk": [MOUNT % (size, "mount") + 'exec "$@"' for size in ("64k",)],
    "disk 1 MB": [MOUNT % ("1m", "mount") + 'exec "$@"'],
    "disk 4 MB": [MOUNT % ("4m", "mount") + 'exec "$@"'],
    "-v": limited("v", [1 << n for n in range(13, 24)] + ["unlimited"]),
    "-v with 128 MB": limited("v", [(1 << n) + 131072 for n in range(13, 24)] + ["unlimited"]),
    "-n": limited("n", [4, 5, 6, 8, 12, 16, 24, 32, 64, 128]),
    "-n with 8": limited("n", [12, 16, 24, 32, 40, 72, 136]),
    "-u": limited("u", [1, 2, 4, 8, 16, 32, 64], NOBODY),
    "-s": limited("s", [128, 256, 512, 1024]),
    "-f": limited("f", [0, 1, 16, 64, 256, 1024, 4096]),
    "-f 1 MB": limited("f", [1024, 4096]),
    "memlock": limited("l", [0], NOBODY),
    "/dev/shm": [MOUNT % ("16k", "/dev/shm") + 'exec "$@"'],
    "read-only folder": ['mkdir -p mount && mount -t tmpfs -o ro none mount && exec "$@"'],
}


def prefix_of(text):
    """A limit as words before a command. Mounts are undone with their namespace."""
    return [*(["unshare", "-m"] if "mount" in text else []), "sh", "-c", text, "sh"] if text else []


class Case:
    """One program with its costs, measured once each."""

    def __init__(self, program):
        self.program, self.costs = program, {}
        self.alone = self.measure("")

    def measure(self, limit, sensors=()):
        """Runs it; a run of SENSORS is recorded below the current folder, or in mount/ where LIMIT makes one."""
        words = prefix_of(limit)
        if sensors:
            folder = "mount" if "mount -t" in limit and "/dev/shm" not in limit else "."
            path = os.path.join(self.program.folder, folder, "run.sonde")
            words += [SONDE, "record", *[SENSORS[sensor] for sensor in sensors], "--force", "-o", path, "--"]
        run = Run(self.program, words)
        pathlib.Path(self.program.folder, "run.sonde").unlink(missing_ok=True)
        return run

    def cost(self, *sensors):
        """Of the unlimited run: the least of two, since a peak of noise would hide a cliff."""
        if sensors not in self.costs:
            self.costs[sensors] = min(self.measure("", sensors).cpu for _ in range(2))
        return self.costs[sensors]

    def row(self, what, limit, sensors, expected):
        row = {"program": self.program.name, "what": what, "expected": expected, "note": ""}
        for _ in range(2):
            run = self.measure(limit, sensors)
            row["cost"] = min(run.cpu, row.get("cost", run.cpu))
            row["factor"] = row["cost"] / max(expected, 0.01)
            if row["factor"] <= FACTOR or row["cost"] - expected <= EXCESS:
                break
        else:
            row["note"] = "FAILED: costs too much"
        if run.hung:
            row["note"] = "FAILED: did not end"
        elif run.status == REFUSED:
            row["note"] = "refused"
        elif run.status != self.alone.status and what.startswith("-v,"):
            row["note"] = "the program lacks address space"
        elif run.status != self.alone.status:
            row["note"] = f"FAILED: status {run.status}, alone {self.alone.status}"
        elif run.output != self.alone.output:
            row["note"] = "FAILED: other output"
            (RESULTS.parent / f"cliff.{self.program.name}.{what.replace('/', '_')}.out").write_bytes(run.output)
        return row

    def pairs(self):
        alone = self.cost()
        for pair in itertools.combinations(SENSORS, 2):
            if not set(pair) <= MODES_OF_MALLOC:
                added = sum(max(self.cost(sensor) - alone, 0) for sensor in pair)
                yield self.row(" + ".join(pair), "", pair, alone + added)

    def tightest(self, limits):
        """The first of LIMITS with which the program alone works; None: there is none."""
        for limit in limits:
            run = self.measure(limit)
            if run.status == self.alone.status and run.output == self.alone.output:
                return limit
        return None

    def resources(self):
        for name, limits in RESOURCES.items():
            limit = self.tightest(limits)
            for chosen, sensors in SETS.items() if limit else ():
                yield self.row(f"{name}, {chosen}", limit, tuple(sensors), self.cost(*sensors))


# ---- the table -----------------------------------------------------------------------------------

COLUMNS = ("program", "what", "factor", "cost", "expected", "note")


def text_of(row):
    return [f"{row[column]:.2f}" if isinstance(row[column], float) else row[column] for column in COLUMNS]


def write_rows(rows):
    """Failures first, then by factor."""
    rows.sort(key=lambda row: ("FAILED" not in row["note"], -row["factor"]))
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    RESULTS.write_text("\n".join(lines + ["| " + " | ".join(text_of(row)) + " |" for row in rows]) + "\n", encoding="utf-8")


def main(arguments):
    kinds = [word for word in arguments if word.startswith("--")]
    names = [word for word in arguments if not word.startswith("--")]
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    rows = []
    for program in (Program(**entry, limit=LIMIT_SECONDS) for entry in PROGRAMS):
        if names and program.name not in names:
            continue
        absent = program.ready(install=True)
        if absent:
            print(f"{program.name}: {absent}", flush=True)
            continue
        case = Case(program)
        searches = [search for kind, search in (("--pairs", case.pairs), ("--resources", case.resources)) if not kinds or kind in kinds]
        for row in itertools.chain(*(search() for search in searches)):
            rows.append(row)
            print("  ".join(f"{word:>8}" for word in text_of(row)), flush=True)
            write_rows(rows)
        shutil.rmtree(program.folder, ignore_errors=True)
    failed = sum("FAILED" in row["note"] for row in rows)
    print(f"\n{len(rows)} rows, {failed} failed; the worst:")
    for row in rows[:25]:
        print("  ".join(f"{word:>10}" for word in text_of(row)))
    return 1 if failed or not rows else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
