#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Inside the emulated machine: runs each test of the plan, one after the other, and prints a line
for each, with its cases and the end of its output where it failed. The host reads these lines from the console."""
import json
import os
import signal
import subprocess
import sys
import time

TAIL_BYTES = 3000


def run(test):
    environment = dict(os.environ, **test["environment"])
    begin = time.monotonic()
    process = subprocess.Popen(test["command"], env=environment, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               cwd=test["directory"], start_new_session=True)
    try:
        output, _ = process.communicate(timeout=test["seconds"])
        status = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        status = "timeout"
    return status, output.decode(errors="replace"), time.monotonic() - begin


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        plan = json.load(file)
    print("MACHINE", " ".join(os.uname()), flush=True)
    for test in plan:
        status, output, seconds = run(test)
        verdict = {0: "pass", 77: "skip"}.get(status, "fail")
        print(f"TEST {verdict} {test['name']} {seconds:.1f} s ({status})", flush=True)
        for line in output.splitlines():
            if line.startswith(("skip ", "skipped:")):
                print(f"SKIP {test['name']} {line.strip()}")
        if verdict == "fail" or test.get("show"):
            short = [line[:300] for line in output.splitlines() if line.startswith(("ok ", "FAIL "))]
            for line in [*short, *output[-TAIL_BYTES:].splitlines()]:
                print(f"  | {line}")
        sys.stdout.flush()
    print("MACHINE done", flush=True)


if __name__ == "__main__":
    main()
