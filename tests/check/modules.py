#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the rules of the source layout: module order, files of each world, lengths, entries a folder.
usage: modules.py SOURCE-ROOT"""
import pathlib
import re
import sys

# The order of CONTRIBUTING.md: a module includes headers of its own line and of lines above.
LIB = [["base"], ["os", "arch"], ["image"], ["unwind"], ["python"], ["capture"], ["hook"], ["record"], ["sensor"], ["agent"], ["dormant"]]
TOOL = [["base"], ["target"], ["attach"], ["recorder"], ["reader"], ["symbol"], ["import"], ["analysis"], ["report"], ["store"], ["top"], ["cli"]]
LINES_MAX = 600
ENTRIES_MAX = 20
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')
# Headers of the hosted C library. Code in src/lib must not use them.
HOSTED = re.compile(r"^\s*#\s*include\s*<(stdio|stdlib|pthread|malloc|locale|assert)\.h>")
PLATFORM = re.compile(r"/(linux|apple|x86_64|aarch64)/")


def ranks(first, lines):
    return {module: first + rank for rank, line in enumerate(lines) for module in line}


RANK = {"lib": ranks(0, LIB), "tool": ranks(len(LIB), TOOL)}


def module_of_include(root, world, include):
    """(world, module) of the file that #include "INCLUDE" finds, or None."""
    for candidate in ("tool", "lib") if world == "tool" else ("lib",):
        if (root / "src" / candidate / include).exists():
            return candidate, include.split("/")[0]
    return None


def faults_of_file(root, path):
    where = path.relative_to(root)
    world, module = where.parts[1:3]
    if world not in RANK or module not in RANK[world]:
        yield f"{where}: src/{world}/{module} is not a module"
        return
    is_apple_os = where.parts[2:4] == ("os", "apple")  # libSystem is the only stable system call interface
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if world == "lib" and not is_apple_os and HOSTED.match(line):
            yield f"{where}:{number}: src/lib must not use {line.strip()}"
        match = INCLUDE.match(line)
        if not match or "/" not in match[1] or match[1].startswith("sonde/") or match[1].endswith(".pb-c.h"):
            continue
        found = module_of_include(root, world, match[1])
        if not found:
            if match[1] not in ("analysis/policies.h", "report/exports/page/built.h"):
                yield f"{where}:{number}: '{match[1]}' is in no module that src/{world} may include"
        elif RANK[found[0]][found[1]] > RANK[world][module]:
            yield f"{where}:{number}: {module}/ must not include {match[1]}: that module is below it"
        elif world == "tool" and found[0] == "lib" and PLATFORM.search("/" + match[1]):
            yield f"{where}:{number}: the command must not include the private header {match[1]}"


def faults_of_folder(root, folder):
    """A source and its header count as one entry."""
    entries = {path.stem if path.is_file() else path.name + "/" for path in folder.iterdir()}
    if len(entries) > ENTRIES_MAX:
        yield f"{folder.relative_to(root)}: {len(entries)} entries, at most {ENTRIES_MAX}"


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    faults, files = [], 0
    for path in sorted((root / "src").rglob("*")):
        if path.is_dir():
            faults += faults_of_folder(root, path)
        elif path.suffix in (".c", ".h", ".S"):
            files += 1
            faults += faults_of_file(root, path)
    for folder in ("src", "include", "tests", "bench", "fuzz", "examples", "packaging"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".c", ".h", ".S", ".py", ".sh") and path.is_file():
                count = len(path.read_text().splitlines())
                if count > LINES_MAX:
                    faults.append(f"{path.relative_to(root)}: {count} lines, at most {LINES_MAX}")
    print("\n".join(faults) or f"{files} source files: no layering violations")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
