#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Mach-O: symbolizes 100,000 addresses of a published library of 15,000 symbols from a cached index, compared with
llvm-symbolizer in the same run; and how many records of a malloc stack log are imported in a second of one core.
Best of ten rounds, processor time, start-up included."""
import os
import pathlib
import random
import resource
import subprocess
import tempfile

from apple import generate
from macho import build

SONDE = os.environ["SONDE"]
ADDRESSES, ROUNDS, RECORDS = 100_000, 10, 10_000_000


def seconds(command, text):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, input=text, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def names(folder):
    files, why = build.published(folder)
    libraries = [(file, arch) for file, arch in files if file.suffix == ".dylib"]
    if not libraries:
        print(f"names: skipped, {why}")
        return
    file, arch = libraries[0]
    listed = subprocess.run(["llvm-nm", "--defined-only", file], capture_output=True, text=True, check=True).stdout
    starts = [int(line.split()[0], 16) for line in listed.splitlines() if " T " in line or " t " in line]
    rng = random.Random(1)
    text = "".join(f"{rng.choice(starts) + rng.randrange(64):#x}\n" for _ in range(ADDRESSES)).encode()
    ours = [SONDE, "symbolize", "--image", str(file)]
    theirs = ["llvm-symbolizer", f"--obj={file}"]
    seconds(ours, text)
    rounds = [(seconds(ours, text), seconds(theirs, text)) for _ in range(ROUNDS)]
    mine, other = (min(column) for column in zip(*rounds))
    print(f"{ADDRESSES:,} addresses of {file.name} {arch}: sonde {mine * 1e3:.0f} ms, llvm-symbolizer {other * 1e3:.0f} ms, "
          f"1/{other / mine:.1f}")


def records(folder):
    rng = random.Random(1)
    table = generate.Table(rng, 1 << 14)
    stacks = [table.stack([rng.randrange(1 << 20) * 4 for _ in range(20)] + [0x16f000001]) for _ in range(300)]
    history, _ = generate.history(rng, 10_000, stacks)
    (folder / "table").write_bytes(table.bytes())
    for size in (24, 32):
        block = b"".join(generate.record(size, a, at, stack, kind, tag) for kind, a, at, stack, tag in history)
        with open(folder / "log", "wb") as log:
            for _ in range(RECORDS // len(history)):
                log.write(block)
        command = [SONDE, "import", "--records", str(size), folder / "log", folder / "table", "-o", folder / "out"]
        best = min(seconds(command, b"") for _ in range(3))
        print(f"import, records of {size} bytes: {RECORDS / best / 1e6:.0f} million a second")


with tempfile.TemporaryDirectory(prefix="sonde-", dir="/dev/shm") as temporary:
    names(pathlib.Path(temporary))
    records(pathlib.Path(temporary))
