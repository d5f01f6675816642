# SPDX-License-Identifier: MIT
"""What the benchmarks of recording share: programs, tools, runs."""
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SONDE = str(pathlib.Path(os.environ.get("SONDE_BUILD", ROOT / "build-test")) / "bin" / "sonde")
sys.path.insert(0, str(ROOT / "tests" / "format"))

ROWS = {"sqlite3": 1000000, "python3": 150000, "perl": 700000, "cc1": 1500}


def sqlite3(rows):
    return ["sqlite3", ":memory:",
            "create table t(a,b); with recursive c(x) as (select 1 union all select x+1 from c where "
            f"x<{rows}) insert into t select x, hex(x) from c; create index i on t(b); "
            "select count(*),sum(a) from t where b>'3';"]


def python3(rows):
    return [os.path.realpath("/usr/bin/python3"), "-c",
            f"import json; d=[{{'a':i,'b':str(i)*3}} for i in range({rows})]; "
            "print(len(json.loads(json.dumps(d))))"]


def perl(rows):
    return ["perl", "-e", f'my %h; for(1..{rows}){{$h{{$_}}=[$_,"x$_"]}} print scalar(keys %h)']


def cc1(functions, folder):
    name = subprocess.run(["gcc", "-print-prog-name=cc1"], capture_output=True, text=True).stdout
    source = os.path.join(folder, f"big{functions}.c")
    with open(source, "w") as f:
        for i in range(functions):
            f.write(f"int g{i}(int a, int b) {{ int s = 0; for (int i = 0; i < a; i++) "
                    f"s += (i * {i} ^ b) % (a + {i} + 1); return s + (a > b ? g(a) : {i}); }}\n"
                    if i else "int g(int); int g0(int a) { return g(a); }\n")
    return [name.strip(), "-quiet", "-O2", source, "-o", os.devnull]


def programs(folder, part=1):
    """The programs nobody here wrote, at one PARTth of the work."""
    found = {"sqlite3": sqlite3(ROWS["sqlite3"] // part), "python3": python3(ROWS["python3"] // part),
             "perl": perl(ROWS["perl"] // part), "cc1": cc1(ROWS["cc1"] // part, folder)}
    return {n: c for n, c in found.items() if shutil.which(c[0])}


def build_allocate(folder, name, *options):
    out = os.path.join(folder, name)
    subprocess.run(["gcc", "-O2", "-pthread", *options, "-o", out, str(HERE / "allocate.c")], check=True)
    return out


class Run:
    """One run: CPU seconds of it and its children, wall seconds, most resident bytes of a process."""

    def __init__(self, command, env=None):
        env = dict(os.environ, PYTHONMALLOC="malloc", **(env or {}))
        began = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)
        _, status, used = os.wait4(process.pid, 0)
        self.wall = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{command[:6]} ended with {process.returncode}")
        self.cpu = used.ru_utime + used.ru_stime
        self.rss = 1024 * used.ru_maxrss


class Runs:
    """The same command again and again; medians."""

    def __init__(self):
        self.all = []

    def again(self, command, env=None):
        self.all.append(Run(command, env))

    def __getattr__(self, what):
        return statistics.median(getattr(r, what) for r in self.all)


class Recorded(Runs):
    """Runs under sonde record, of which the last one's recording is kept."""

    def __init__(self, path, *options):
        super().__init__()
        self.path, self.options = path, options

    def again(self, command, env=None):
        if os.path.exists(self.path):
            os.unlink(self.path)
        super().again([SONDE, "record", *self.options, "-o", self.path, "--", *command], env)

    def told(self):
        return json.loads(subprocess.run([SONDE, "report", "--json", "--top", "1", self.path],
                                         capture_output=True, check=True).stdout)["malloc"]


class Heaptrack(Runs):
    """Runs under heaptrack -r, of which the last one's data is kept."""

    def __init__(self, folder):
        super().__init__()
        self.base = os.path.join(folder, "ht")

    def again(self, command, env=None):
        super().again(["heaptrack", "-r", "-o", self.base, *command], env)

    def data(self):
        return self.base + ".raw.zst"


def version(package, *command):
    """Of a rival: what the package manager says, or it itself."""
    done = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], capture_output=True, text=True)
    if done.returncode == 0:
        return f"{package} {done.stdout}"
    done = subprocess.run(command, capture_output=True, text=True) if command else None
    return f"{package} {done.stdout.strip()}" if done else package


def library(name):
    return next((str(p) for p in pathlib.Path("/usr/lib").glob(f"*/{name}")), None)


class Bars:
    """Collects what falls short of its bar, to be said at the end."""

    def __init__(self):
        self.missed = []

    def check(self, what, value, bar, form="{:.3f}"):
        if value <= bar:
            return f"(bar {form.format(bar)})"
        self.missed.append(f"{what}: {form.format(value)}, bar {form.format(bar)}")
        return f"(bar {form.format(bar)}: missed)"

    def tell(self):
        print("what it loses at: " + ("" if self.missed else "nothing of the above"))
        for line in self.missed:
            print("  " + line)
