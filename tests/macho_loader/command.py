#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""usage: command.py ARCH: runs the command that was cross-built for macOS ARCH under the loader of this folder, arm64 under
qemu-user. What it prints of recordings, logs, policies and damaged files, its exit statuses and the files it writes are those
of the command for Linux; what it cannot do there it says. The tests of imported logs and, at length, of names then run with
it in the place of the other. Exit status 1 when something differs, 77 with a reason when something is missing."""
import gzip
import os
import pathlib
import subprocess
import sys
import tempfile

import run as bench_of

ROOT, LINUX = bench_of.ROOT, bench_of.LINUX
ABSENT = ("stacks", "record", "ctl", "leaks", "clean", "doctor")
failures = 0


def check(good, what):
    global failures
    failures += not good
    print("ok" if good else "FAILED", what)


def names(*command):
    return {line.split()[-1] for line in bench_of.run(*command).splitlines()}


def make_command(arch):
    """A script that is the command for macOS."""
    bench = bench_of.Bench(arch, None)
    command = bench.build / "bin/sonde"
    if not command.exists():
        print("the command was not cross-built")
        sys.exit(77)
    loader = bench.make_loader()
    kernel = bench.make_system("opcodes")
    script = bench.out / "sonde"
    # qemu keeps accounts of every page of address space, and a report reserves a terabyte where it may.
    limit = "" if arch == "x86_64" else "ulimit -v 16000000\n"
    script.write_text(f'#!/bin/sh\n{limit}exec timeout 600 {" ".join(map(str, loader))} {kernel} {command} "$@"\n')
    script.chmod(0o755)
    there = set(bench_of.run(*loader, "--stand-ins").split()) | names(bench.nm, "--defined-only", "-g", kernel)
    missing = sorted({name.split("$")[0] for name in names(bench.nm, "-u", command)} - {name.split("$")[0] for name in there})
    check(not missing, f"imports without a stand-in: {' '.join(missing) or 'none'}")
    return script


def record(sonde, folder):
    """Two recordings of a program that is there."""
    made = []
    for name in ("old", "new"):
        made.append(folder / f"{name}.sonde")
        subprocess.run([sonde, "record", "--malloc", "--sample", "-o", made[-1], "--", "ls", "-lR", "/usr/include/linux"],
                       capture_output=True, check=True, timeout=600)
    return made


def questions(folder, old, new):
    damaged = folder / "damaged.sonde"
    data = bytearray(old.read_bytes())
    data[5000:5100] = bytes(100)
    damaged.write_bytes(data[:-333])
    elf = "/bin/ls"
    for recording in (old, damaged):
        yield from (["report", recording], ["report", recording, "malloc"], ["report", "--json", recording],
                    ["report", recording, "sample"], ["events", "--stacks", recording], ["export", recording],
                    ["export", "--as", "pprof", "-o", folder / "out.pb.gz", recording],
                    ["pack", recording, "-o", folder / "out.pack"], ["report", folder / "out.pack", "malloc"])
    yield from (["diff", old, new], ["diff", "--json", old, new], ["symbolize", "--image", elf, "0x6000", "0x7123", "0x1"],
                ["symbolize", "--json", "--no-index", "--image", elf, "0x6000", "0x7123"], ["audit", "check", "linux"],
                ["audit", "baseline", old],
                ["audit", "compile", "apple", "-o", folder / "out.aud"], ["audit", "compile", "nowhere.yaml", "-o", folder / "out.aud"], ["report", "nowhere"], ["reprot"], ["events", elf], ["--version"], ["--help"],
                ["help", "report"])


def content(file):
    data = file.read_bytes()
    return gzip.decompress(data) if file.suffix == ".gz" else data  # its head names the system


def answers(command, question, folder):
    written = [folder / name for name in ("out.pb.gz", "out.pack", "out.aud")] if "-o" in question else []
    for file in written:
        file.unlink(missing_ok=True)
    done = subprocess.run([command, *question], capture_output=True, timeout=600, stdin=subprocess.DEVNULL,
                          env={**os.environ, "XDG_CACHE_HOME": str(folder / pathlib.Path(command).parent.name)})
    return done.returncode, done.stdout, done.stderr, [content(file) for file in written if file.exists()]


def compare(sonde, command, folder):
    old, new = record(sonde, folder)
    count = 0
    for question in questions(folder, old, new):
        here, there = answers(sonde, question, folder), answers(command, question, folder)
        count += here == there
        if here != there:
            check(False, f"{' '.join(map(str, question))}: {here[0]} and {there[0]}, {there[2][-300:].decode(errors='replace')}")
    check(count > 25, f"{count} answers are those of the command for Linux, byte for byte")
    for verb in ABSENT:
        status, out, said, _ = answers(command, [verb, "1"], folder)
        check(status == 2 and not out and said.startswith(f"sonde {verb}: not supported on macOS: ".encode())
              and said.count(b"\n") == 1, f"{verb} says that it is not there")


def main():
    command = make_command(sys.argv[1])
    sonde = LINUX / "bin/sonde"
    if not sonde.exists():
        print("the command for Linux is not built: nothing to compare with")
        return 77
    with tempfile.TemporaryDirectory(prefix="sonde-") as temporary:
        compare(sonde, command, pathlib.Path(temporary))
    for test in ["import_apple.py", *sys.argv[2:]]:
        done = subprocess.run([sys.executable, ROOT / "tests/real" / test], capture_output=True, text=True, timeout=900,
                              env={**os.environ, "SONDE": str(command), "SONDE_BUILD": str(LINUX), "PYTHONPATH": str(ROOT / "tests")})
        check(done.returncode == 0, f"{test} with the command for macOS" + ("" if done.returncode == 0 else
              f":\n{done.stdout[-1500:]}{done.stderr[-500:]}"))
    return 1 if failures else 0


sys.exit(main())
