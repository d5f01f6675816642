#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compiles the library's files that use thread slots as for an agent that is attached to a running program: they
compile, and no variable of theirs is in thread-local storage, which the program's threads do not have for it.
usage: attached.py SOURCE-ROOT COMPILER READELF"""
import pathlib
import re
import subprocess
import sys
import tempfile

USES = re.compile(r"\bSLOT_HERE\b|\bSONDE_ATTACHED\b|\b__thread\b|\b_Thread_local\b")
FLAGS = ["-std=gnu11", "-O1", "-fPIC", "-Wall", "-Werror", "-DSONDE_ATTACHED", "-ftls-model=initial-exec"]
TLS = re.compile(r"TPOFF|TPREL|GOTTPOFF|TLS")


def fault_of(root, compiler, readelf, source, out):
    includes = [f"-I{root}/src/lib", f"-I{root}/include"]
    compiled = subprocess.run([compiler, *FLAGS, *includes, "-c", str(source), "-o", out], capture_output=True, text=True)
    if compiled.returncode:
        return compiled.stderr
    listing = subprocess.run([readelf, "-rsW", out], capture_output=True, text=True, check=True).stdout
    return next((f"thread-local storage: {line.strip()}" for line in listing.splitlines() if TLS.search(line)), None)


def main():
    root, compiler, readelf = sys.argv[1:]
    sources = [path for path in sorted(pathlib.Path(root, "src/lib").rglob("*.c"))
               if "apple" not in path.parts and USES.search(path.read_text())]
    assert len(sources) > 4, sources
    faults = 0
    with tempfile.TemporaryDirectory() as folder:
        for source in sources:
            fault = fault_of(root, compiler, readelf, source, f"{folder}/a.o")
            if fault:
                print(f"{source}: {fault}")
                faults += 1
    print(f"{len(sources)} files, {faults} with faults")
    sys.exit(faults > 0)


main()
