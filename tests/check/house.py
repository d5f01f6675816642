#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The rules of the house that a machine can check: rooms include only their own and those above,
files stay short. usage: house.py SOURCE-ROOT"""
import pathlib
import re
import sys

ROOMS = [["base", "os", "arch"], ["image"], ["unwind"], ["stack"], ["hook"], ["record"],
         ["sensor"], ["agent"], ["target"], ["monitor"], ["symbol"], ["import"], ["analysis"], ["report"], ["store"], ["cli"]]
RANK = {room: rank for rank, rooms in enumerate(ROOMS) for room in rooms}
LAST_INSIDE = RANK["agent"]
LINES_MAX = 600
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')
# Hosted headers that no file of the inside has a use for.
HOSTED = re.compile(r"^\s*#\s*include\s*<(stdio|stdlib|pthread|malloc|locale|assert)\.h>")


def is_inside(path, room):
    """record/ holds the writer, which is inside, and the reader, which is not."""
    return RANK[room] <= LAST_INSIDE and not (room == "record" and path.name.startswith("read"))


def faults_of_file(root, path):
    room = path.relative_to(root / "src").parts[0]
    where = path.relative_to(root)
    is_apple = where.parts[1:3] == ("os", "apple")  # libSystem is the only stable way to the kernel there
    if room not in RANK:
        yield f"{where}: '{room}' is no room of the house"
        return
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if is_inside(path, room) and not is_apple and HOSTED.match(line):
            yield f"{where}:{number}: the inside does without {line.strip()}"
        match = INCLUDE.match(line)
        if not match or "/" not in match[1] or match[1].startswith("sonde/"):
            continue
        other = match[1].split("/")[0]
        if other not in RANK:
            yield f"{where}:{number}: '{match[1]}' is in no room of the house"
        elif RANK[other] > RANK[room]:
            yield f"{where}:{number}: {room}/ may not include {match[1]}, a room below it"


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    faults, files = [], 0
    for path in sorted((root / "src").rglob("*.[chS]")):
        files += 1
        faults += faults_of_file(root, path)
    for folder in ("src", "include", "tests", "bench", "fuzz", "examples"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".c", ".h", ".S", ".py", ".sh") and path.is_file():
                count = len(path.read_text().splitlines())
                if count > LINES_MAX:
                    faults.append(f"{path.relative_to(root)}: {count} lines, at most {LINES_MAX}")
    print("\n".join(faults) or f"{files} source files keep the order of the rooms")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
