#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""usage: ios.py BUILD: every file of libsonde is compiled for arm64 iOS, by the commands of the cross-build for macOS in
BUILD. The headers are macOS's, so this shows that nothing is asked for which iOS marks as not there; nothing is linked."""
import json
import pathlib
import shlex
import subprocess
import sys

DROPPED_WITH_VALUE = ("-o", "-MF", "-MT")
DROPPED = ("-c", "-MD", "-mmacosx-version-min", "-D__ENVIRONMENT_OS_VERSION")


def for_ios(command):
    words = [word for word in shlex.split(command) if not word.endswith("ccache")]
    out, skip = [], False
    for word in words:
        if skip or word in DROPPED_WITH_VALUE:
            skip = not skip
        elif word.startswith("--target="):
            out.append("--target=arm64-apple-ios14.0")
        elif not word.startswith(DROPPED):
            out.append(word)
    return [*out, "-fsyntax-only", "-D__ENVIRONMENT_OS_VERSION_MIN_REQUIRED__=140000"]


def main():
    commands = json.loads((pathlib.Path(sys.argv[1]) / "compile_commands.json").read_text())
    failed = count = 0
    for entry in commands:
        if "sonde_lib.dir" not in entry["command"]:
            continue
        done = subprocess.run(for_ios(entry["command"]), capture_output=True, text=True, cwd=entry["directory"])
        count += 1
        if done.returncode:
            failed += 1
            print(entry["file"], done.stderr)
    print(f"{count} files compiled for iOS, {failed} with errors")
    return 1 if failed or not count else 0


sys.exit(main())
