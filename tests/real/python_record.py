#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Python frames in recordings, against what the interpreter says of its threads: function, file and line of every
Python frame."""
import json
import os
import re
import shutil
import subprocess

from helpers import (
    SONDE, compile_c, fresh, needs_agent, needs_strace, record, report, run_cases, second_reader, skip, sonde, source_file, until,
    write)
from shared.python_frames import compare_handlers, compare_library

needs_agent()


def _interpreter():
    return "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else shutil.which("python3") or skip("no python3")


def python_frames(row):
    return [[f["function"], f.get("file"), f.get("line")] for f in row.get("frames", []) if f.get("language") == "python"]


def blocked(options):
    """Records a program whose threads all wait. Returns the recording and the frames that the threads have."""
    path = fresh()
    run = subprocess.Popen([SONDE, "record", *options, "-o", path, "--", _interpreter(),
                            source_file("real", "python", "states.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                           text=True)
    told = json.loads(run.stdout.readline())

    def all_seen():
        rows = report(path, "--top", 100, "wall").get("wall", {}).get("stacks", [])
        return len([row for row in rows if row["time_ns"] > 2e8]) >= len(told)
    until(all_seen, "not every thread has a stack")
    run.stdin.close()
    assert run.wait() == 0
    return path, list(told.values())


def wall():
    path, told = blocked(["--wall"])
    rows = [python_frames(row) for row in report(path, "--top", 100, "wall")["wall"]["stacks"]]
    for frames in told:
        assert frames in rows, (frames[:5], [row[:3] for row in rows])
    printed = sonde("report", path, "--top", 100, "wall")
    assert "rest  " in printed and "EvalFrame" not in printed.split("by stack")[1].split("Py_")[0], printed[:3000]
    assert second_reader(path)
    return f"{len(told)} threads, {sum(map(len, told))} frames"


def _run(program, *options, status=0):
    """Records PROGRAM, the text of a Python program. Returns the recording."""
    path, run = record([_interpreter(), write(program, ".py")], *options)
    assert run.returncode == status, run
    return path


def sample():
    """CPU samples of two threads have the functions that compute, and nothing is missing."""
    path = _run("""
import threading, time
def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(100))
def of_thread():
    burn(0.3)
def of_main():
    burn(0.3)
thread = threading.Thread(target=of_thread)
thread.start()
of_main()
thread.join()
""", "--sample=500")
    told = report(path, "--top", 1000, "sample")["sample"]
    rows = [(row["samples"], [f[0] for f in python_frames(row)]) for row in told["stacks"]]
    count = {name: sum(n for n, names in rows if f"of_{name}" in names) for name in ("thread", "main")}
    assert count["thread"] > 20 and count["main"] > 20, (count, rows)
    text = sonde("report", "--top", 1000, path, "sample")
    assert "EvalFrame" not in text.split("by function of the program")[1].split("by innermost")[0] and "burn" in text
    assert sum(n for n, names in rows if "[missing Python functions]" in names) <= 0.01 * sum(n for n, _ in rows), rows
    return f"{count}"


def one_name_in_two_files():
    """Functions of one name in two files are two functions."""
    other = write("""
import time
def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(100))
""", ".py")
    path = _run(f"""
import runpy, time
other = runpy.run_path({other!r})
def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(100))
burn(0.1)
other["burn"](0.3)
""", "--sample=500")
    rows = [row for row in report(path, "--top", 1000, "sample")["sample"]["functions"] if row["function"] == "burn"]
    assert len(rows) == 2 and len({row["file"] for row in rows}) == 2, rows
    more, less = (row["total"] for row in sorted(rows, key=lambda row: row["file"] != other))
    assert more > 1.5 * less > 0, rows


LIGHT_AND_HEAVY = """
import time
def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(100))
def light():
    burn(0.02)
def heavy():
    burn(0.06)
def begin():
    burn(0.4)
input()
begin()
for i in range(20):
    light()
    heavy()
"""


def _sampled_from_outside(traced=False):
    """The samples of LIGHT_AND_HEAVY without those of begin, and those of light and of heavy. The recorder polls an
    idle program every 100 ms; the first sample counts for all CPU time until then, so it is one of begin."""
    path = fresh()
    with subprocess.Popen([_interpreter(), write(LIGHT_AND_HEAVY, ".py")], stdin=subprocess.PIPE) as run:
        tracer = subprocess.Popen(["strace", "-o", "/dev/null", "-p", str(run.pid)], stderr=subprocess.PIPE) \
            if traced else None
        if tracer:
            assert b"attached" in tracer.stderr.readline()
        recorder = subprocess.Popen([SONDE, "record", "-p", str(run.pid), "--sample=250", "-o", path],
                                    stderr=subprocess.PIPE, text=True)
        assert "recording process" in recorder.stderr.readline()
        run.communicate(b"\n")
        recorder.communicate()
        if tracer:
            tracer.communicate()
    told = report(path, "--top", 1000, "sample")["sample"]
    rows = [(row["samples"], [f[0] for f in python_frames(row)]) for row in told["stacks"]]
    begin, light, heavy = (sum(n for n, names in rows if name in names) for name in ("begin", "light", "heavy"))
    return told["samples"] - begin, light, heavy


def from_outside():
    """CPU samples of a running program have its Python functions."""
    samples, light, heavy = _sampled_from_outside()
    if os.uname().machine == "x86_64":
        # Three quarters, up to more than four standard deviations: on a busy machine there are fewer samples.
        assert abs(heavy / (light + heavy) - 0.75) < 2 / samples ** 0.5, (samples, light, heavy)
        assert samples > 50 and light + heavy > 0.9 * samples, (samples, light, heavy)
    else:
        assert samples and not light + heavy, "docs/python.md says that there are none"


def under_strace():
    """A traced thread cannot be stopped; the kernel samples it."""
    needs_strace()
    samples, _, _ = _sampled_from_outside(traced=True)
    assert samples > 100, samples


def crash():
    path = _run("""
import ctypes
class Kind:
    def method(self):
        ctypes.string_at(0)
Kind().method()
""", status=-11)
    told = report(path, "crash")["crash"]
    frames = python_frames(told["threads"][0])
    assert [f[0] for f in frames] == ["string_at", "Kind.method", "<module>"] and frames[1][2] == 5, told


def malloc():
    """Sampled blocks have Python frames."""
    path = _run("""
def hoard(n):
    return [bytearray(200000) for i in range(n)]
kept = hoard(200)
""", "--malloc=sample:64K")
    text = sonde("report", path, "malloc")
    assert re.search(r" hoard  .*:3", text) or re.search(r"hoard.<locals>.<listcomp>  .*:3", text), text


HOARD = """
import os, signal, time
kept = []
def hoard():
    for i in range(300):
        kept.append([str(n) for n in range(40)])
for i in range(60):
    hoard()
    time.sleep(0.03)
os.kill(os.getpid(), signal.SIGKILL)
"""


def growth():
    """`why` says how to see who makes the objects of a program that grows, and then says it."""
    for options in [], ["--malloc"]:
        told = " ".join(sonde("why", _run(HOARD, *options, status=-9)).split())
        assert "memory grows to the end" in told and "record with PYTHONMALLOC=malloc and --malloc" in told, told
        assert "mapped in" not in told, told
    os.environ["PYTHONMALLOC"] = "malloc"
    try:
        path = _run(HOARD, "--malloc", status=-9)
        told = " ".join(sonde("why", path).split())
    finally:
        del os.environ["PYTHONMALLOC"]
    assert "The heap grows to the end" in told and "allocated by hoard" in told, told
    assert "PYTHONMALLOC" not in told, told
    libraries = report(path, "malloc")["malloc"]["libraries"]
    assert libraries[0]["module"] == "[Python]" and libraries[0]["peak"]["bytes"] > 1e7, libraries


def every_block():
    """Each block has the Python frames that allocated it, with and without history."""
    found = {}
    for mode in ("all", "live"):
        path = _run("""
import json
def hoard(n):
    return [bytearray(200000) for i in range(n)]
class Keeper:
    def keep(self, text):
        return json.loads(text, object_hook=lambda found: hoard(20))
def spin(n):
    return spin(n - 1) if n else hoard(1)
for i in range(50):
    spin(i)
kept = Keeper().keep('{"a": 1}')
import os
os._exit(0)
""", f"--malloc={mode}")
        text = sonde("report", path, "malloc", "--all")
        assert not re.search(r":0$", text, re.M), "a line that is not known is shown as 0"
        folded = sonde("export", path, "--by", "leaked")
        lines = [line for line in folded.splitlines() if "Keeper.keep;" in line and ";hoard" in line]
        found[mode] = sum(int(line.rpartition(" ")[2]) for line in lines)
        assert "[missing Python functions]" not in folded, folded[:3000]
        if mode == "live":
            continue
        theirs = [e["frames"] for e in second_reader(path) if "frames" in e]
        listed = [json.loads(line) for line in sonde("events", "--stacks", path).splitlines()]
        assert theirs == [e["frames"] for e in listed if "frames" in e] and len(theirs) > 1000, len(theirs)
    assert all(20 * 200000 <= total <= 22 * 200000 for total in found.values()), (found, folded[:3000])
    return f"{found} bytes"


def allocations_by_function():
    """Functions of one name in two files are two rows. Blocks of the start have Python functions, not the interpreter's
    allocator."""
    other = write("def hoard(n):\n    return [bytearray(100000) for i in range(n)]\n", ".py")
    path = _run(f"""
import runpy
other = runpy.run_path({other!r})
def hoard(n):
    return [bytearray(100000) for i in range(n)]
kept = other["hoard"](10), hoard(30)
import os
os._exit(0)
""", "--malloc=all")
    rows = report(path, "--top", 1000, "--by", "leaked", "malloc")["malloc"]["functions"]
    held = {row["file"] == other: row["live"]["bytes"] for row in rows if "hoard" in row["function"]}
    assert 10 * 100000 <= held[True] < 11 * 100000 and 30 * 100000 <= held[False] < 31 * 100000, held
    assert not [row for row in rows if row["function"] == "PyObject_Malloc"], rows
    assert any("importlib" in row.get("file", "") for row in rows), rows


def audit():
    """Sensitive calls have Python frames."""
    path = _run("""
import socket
def dial():
    try:
        socket.create_connection(("127.0.0.1", 9))
    except OSError:
        pass
dial()
""", "--audit")
    text = sonde("report", path, "audit")
    assert "dial  " in text and "create_connection  " in text, text
    assert re.search(r"connect\(3, 127\.0\.0\.1:9\) = -1 ECONNREFUSED .*  the program", text), text
    assert "unknown code" not in text, text


def audit_of_each_line():
    """Every frame has its line; a limited depth leaves out the outer frames."""
    program = """
import os
def change():
    os.chmod(__file__, 0o600)
def both():
    change()
    change()
for i in range(50):
    both()
"""
    for options, lines in ((("--audit=files",), {(4, 6, 9), (4, 7, 9)}), (("--audit=files", "--audit-depth=2"), {(4,)})):
        rows = [row for row in report(_run(program, *options), "--top", 1000, "audit")["audit"]["findings"]
                if row["function"] == "chmod"]
        found = {tuple(line for _, file, line in python_frames(row) if file.endswith(".py")) for row in rows}
        found.discard(())  # the interpreter's own functions are innermost until it specializes the call
        assert found == lines and sum(row["calls"] for row in rows) == 100, (options, rows)


def audit_of_a_package(folder):
    """The owner of a call by an installed package is the distribution that lists its file; without one, the package
    by its import name."""
    package = folder / "site-packages" / "dialer"
    package.mkdir(parents=True)
    (package / "__main__.py").write_text("import socket\n"
                                         "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(('127.0.0.1', 9))\n")
    info = package.parent / "Dial.er-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: Dial.er\nVersion: 1.2\n\nName: of no interest\n")
    for listed, owner in (("", "dialer"), ("dialer/other.py,,\n", "dialer"),
                          ('"a,b.py",,\nMETADATA,,\ndialer/__main__.py,sha256=x,77\n', "Dial.er")):
        (info / "RECORD").write_text(listed)
        path, run = record([_interpreter(), "-m", "dialer"], "--audit",
                           env={**os.environ, "PYTHONPATH": str(package.parent)})
        assert run.returncode == 0, run
        text = sonde("report", path, "audit")
        assert re.search(r"connect\(3, 127\.0\.0\.1:9\) = 0  " + re.escape(owner) + r"(\s|$)", text), text[:2000]


def exchanged_stacks():
    """A program that exchanges the content of its stack, as greenlet does, is recorded without harm."""
    library = compile_c(source_file("real", "python", "exchange.c"), "-O1", "-fPIC", "-shared", "-fno-omit-frame-pointer",
                        out=fresh(".so"))
    path = _run(f"""
import ctypes
library = ctypes.PyDLL({library!r})
def nested(n):
    if n:
        return next(map(nested, (n - 1,)))
    for _ in range(100):
        library.exchange()
nested(10)
""", "--malloc=all")
    assert second_reader(path)
    blocks = report(path, "--top", 1000, "malloc")["malloc"]["allocated"]["blocks"]
    assert blocks >= 400, blocks


def handlers():
    """Stacks in signal handlers and of events equal those that the interpreter prints at the same instant."""
    library, results = compare_library(), []
    for lines in True, False:
        captures, inside, compared, frames, events = compare_handlers(_interpreter(), library, 0.4, lines)
        assert compared > 100 and frames > 3 * compared and events > 1000, (captures, inside, compared, frames, events)
        results.append(f"{captures} captures, {inside} in the evaluator; {compared} compared, {frames} frames; "
                       f"{events} events compared")
    return results


run_cases(globals())
