#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a hostile user gives to the verbs that read files and processes: cut, overwritten and huge
ELF files, things that are no files, processes that are gone. The answer is an answer or one clear
line with exit 2, in bounded time and memory. The damage is random; SONDE_SEED repeats it."""
import json
import os
import pathlib
import random
import resource
import shutil
import subprocess
import time

from helpers import FIXTURES, SANITIZED, SEED, SONDE, kill, needs, run_cases, skip, try_sonde

MEMORY_BYTES = 1 << 30
IMAGES, CUTS = (48, 16) if SANITIZED else (120, 40)  # a command with a sanitizer starts slowly


def _limit_memory():
    if not SANITIZED:  # a sanitizer reserves terabytes
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def answer_or_refusal(*arguments):
    """Runs sonde; fails unless it answers, or refuses in one line."""
    run = try_sonde(*arguments, text=False, stdin=subprocess.DEVNULL, preexec_fn=_limit_memory)
    assert run.returncode in (0, 2), (arguments, run)
    if run.returncode == 2:
        lines = run.stderr.decode(errors="replace").splitlines()
        assert len(lines) == 1 and lines[0].startswith("sonde"), (arguments, run)
    return run


def refused(*arguments, says):
    run = answer_or_refusal(*arguments)
    assert run.returncode == 2, (arguments, run)
    assert says in run.stderr.decode(), (arguments, run.stderr)


def damage(whole, rng):
    """One of the ways in which files are damaged."""
    data, way = bytearray(whole), rng.randrange(5)
    if way == 0:
        return data[:rng.randrange(len(data))]
    if way == 1:  # the file header and the program headers
        for _ in range(rng.randrange(1, 8)):
            data[rng.randrange(16, 64 + 56 * 8)] = rng.choice((0, 1, 0x7f, 0xff, rng.randrange(256)))
    if way == 2:  # the section headers
        start = int.from_bytes(data[40:48], "little")
        for _ in range(rng.randrange(1, 20)):
            data[rng.randrange(start, len(data))] = rng.choice((0, 0xff, rng.randrange(256)))
    if way == 3:
        for _ in range(rng.randrange(1, 400)):
            data[rng.randrange(len(data))] = rng.randrange(256)
    if way == 4:
        start, length = rng.randrange(len(data)), rng.randrange(1, 8192)
        data[start:start + length] = bytes(len(data[start:start + length]))
    return data


def images(folder):
    rng, file, refusals = random.Random(SEED), folder / "image", 0
    originals = [(FIXTURES / name).read_bytes() for name in ("names", "busy-O2")]
    originals.append(pathlib.Path("/bin/ls").resolve().read_bytes())
    for number in range(IMAGES):
        file.write_bytes(damage(originals[number % 3], rng))
        addresses = [hex(rng.randrange(1 << 17)) for _ in range(30)]
        run = answer_or_refusal("symbolize", "--no-index", *rng.choice(([], ["--json"])), "--image", file,
                    *addresses)
        refusals += run.returncode == 2
        if b"addresses" in run.stdout:
            json.loads(run.stdout)
    assert refusals > IMAGES // 12, refusals  # the cut ones are among them
    return f"{IMAGES} damaged images: {refusals} refused, the rest answered"


def cuts(folder):
    """Every place where a copy may end."""
    whole, count = pathlib.Path("/bin/ls").resolve().read_bytes(), 0
    for size in [*range(64, 2000, 2000 // CUTS), *range(2000, len(whole), len(whole) // CUTS), len(whole) - 1]:
        (folder / "cut").write_bytes(whole[:size])
        refused("symbolize", "--image", folder / "cut", "4000", says="truncated")
        count += 1
    return f"/bin/ls cut at {count} places: always said to be truncated"


def programs_of_cores(folder):
    """A sound core file with a damaged program."""
    needs("gcore")
    process = subprocess.Popen([FIXTURES / "busy-O2", "5", "1"], stdout=subprocess.PIPE)
    process.stdout.readline()
    subprocess.run(["gcore", "-o", str(folder / "core"), str(process.pid)], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    kill(process)
    whole, rng = (FIXTURES / "busy-O2").read_bytes(), random.Random(SEED)
    for _ in range(25):
        (folder / "program").write_bytes(damage(whole, rng))
        answer_or_refusal("stacks", "--json", "--core", folder / f"core.{process.pid}", "--exe",
              folder / "program")
    return "25 damaged programs of a core file: an answer or one line"


def strange_files(folder):
    (folder / "empty").touch()
    os.mkfifo(folder / "fifo")
    os.symlink("loop", folder / "loop")
    with open(folder / "sparse", "wb") as sparse:
        sparse.write(pathlib.Path("/bin/ls").resolve().read_bytes()[:4096])
        sparse.truncate(1 << 36)
    with open(folder / "zeros", "wb") as zeros:
        zeros.truncate(1 << 36)
    files = [folder / name for name in ("empty", "fifo", "loop", "sparse", "zeros", "missing")]
    files += [folder, pathlib.Path("/dev/zero"), pathlib.Path("/dev/null"),
              pathlib.Path("/proc/self/mem")]
    verbs = (["symbolize", "--image"], ["symbolize"], ["stacks", "--core"], ["report"], ["events"],
             ["history"], ["export", "--as", "collapsed", "-o", folder / "out"])
    for verb in verbs:
        for file in files:
            if verb == ["symbolize"] and file.name == "fifo":
                continue  # <(sonde stacks --json PID) is one, and is waited for
            more = ["1000"] if verb[0] == "history" or "--image" in verb else []
            run = answer_or_refusal(*verb, file, *more)
            assert run.returncode == 2 or file.name == "sparse", (verb, file, run)
    return f"{len(verbs)} ways to read each of {len(files)} strange files: one line"


def processes():
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    refused("stacks", child.pid, says="")
    child.wait()
    refused("stacks", child.pid, says="no process")
    for text in ("0", "abc", "1x", "", "99999999", "99999999999999999999", "0x10", "2147483648",
                 "1 2", "\n", "../self"):
        refused("stacks", text, says="process")
    for _ in range(20):  # one that is ending
        child = subprocess.Popen([FIXTURES / "busy-O2", "3", "1"], stdout=subprocess.PIPE)
        child.stdout.readline()
        reader = subprocess.Popen([SONDE, "stacks", str(child.pid)], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE)
        time.sleep(random.Random(SEED + child.pid).random() * 0.02)
        child.kill()
        child.wait()
        _, errors = reader.communicate(timeout=150)
        assert reader.returncode in (0, 2), (reader.returncode, errors)
        assert reader.returncode == 0 or errors.count(b"\n") == 1, errors
    return "processes that are not, are gone, or are ending: one line"


def replaced_program(folder):
    """A program whose file was cut after it had started: it must be stopped, since its pages are
    gone, but the readers of its file must not be."""
    program = shutil.copy(FIXTURES / "waits", folder / "program")
    process = subprocess.Popen([program], stdout=subprocess.PIPE)
    process.stdout.readline()
    # Its file is replaced by a damaged one under the same name.
    (folder / "other").write_bytes(pathlib.Path(program).read_bytes()[:5000])
    os.rename(folder / "other", program)
    run = answer_or_refusal("stacks", "--json", process.pid)
    threads = json.loads(run.stdout)["threads"]
    kill(process)
    assert threads and all(thread["frames"] for thread in threads if thread["state"] != "ended")
    return f"a program replaced by a cut one: {len(threads)} threads"


def limits_of_memory(folder):
    """A report under any limit is the report without one, or an error."""
    if SANITIZED:
        skip("a sanitizer reserves terabytes")
    path = folder / "run.sonde"
    own = dict(os.environ, XDG_CACHE_HOME=str(folder / "cache"))  # other tests change the shared one meanwhile
    try_sonde("record", "--malloc", "--sample", "-o", path, "--", "perl", "-e", 'my %h; $h{$_} = "x$_" for 1..3000')
    whole, refusals = try_sonde("report", "--json", path, env=own).stdout, 0

    def limit(megabytes, small_stack):
        resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
        if small_stack:
            resource.setrlimit(resource.RLIMIT_STACK, (128 << 10, 128 << 10))

    steps = (*((megabytes, False) for megabytes in (*range(30, 102, 3), 70, 80, 100, 200, 500, 2000, 4000)), (200, True))
    for megabytes, small_stack in steps:
        run = try_sonde("report", "--json", path, env=own,
                        preexec_fn=lambda at=(megabytes, small_stack): limit(*at))
        refusals += run.returncode != 0
        assert run.returncode in (0, 2, 127), (megabytes, run)  # 127: the loader's
        assert run.returncode == 0 or megabytes < 2000, (megabytes, run)
        assert run.stderr if run.returncode else run.stdout == whole, (megabytes, run)
    assert whole and refusals < len(steps)
    return f"{refusals} of {len(steps)} limits were too low"


run_cases([limits_of_memory, cuts, images, programs_of_cores, strange_files, processes, replaced_program])
