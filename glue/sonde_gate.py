# SPDX-License-Identifier: MIT
"""Runs a program under `sonde record` and lists what exceeds the limits. Used by the fixture for pytest
(sonde_pytest.py) and by sonde_add_test of CMake.

usage: sonde_gate.py [limits] -- COMMAND…     exit 1 if a limit is exceeded; else the exit status of COMMAND

Limits:
  --leaked BYTES      memory that the program's own code allocates and never frees; 0: none. What libraries allocate
                      before main, and the buffers of stdio, do not count.
  --allocated BYTES   bytes allocated in all
  --allocations N     calls that allocate
  --stall MS          iterations of event loops, or iterations that the program declares (sonde/stall.h)
  --calls BASELINE    sensitive calls that are not in the file BASELINE, of 'sonde audit baseline'

The environment variable SONDE names the command; by default it is `sonde`."""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

STACKS_SHOWN, FRAMES_SHOWN = 3, 8


def sonde(*arguments):
    """The finished process of a verb that reads."""
    command = os.environ.get("SONDE") or "sonde"
    return subprocess.run([command, *map(str, arguments)], capture_output=True, text=True, check=False)


def report(path, *words):
    done = sonde("report", "--json", path, *words)
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stderr.strip())
    return json.loads(done.stdout)


def stack_lines(frames):
    """The program's own part of a stack: up to main, at most FRAMES_SHOWN frames."""
    for frame in frames[:FRAMES_SHOWN]:
        place = f"  {os.path.basename(frame['file'])}:{frame.get('line', '?')}" if frame.get("file") else ""
        yield f"    {frame.get('function') or frame.get('module') or frame['pc']}{place}"
        if frame.get("function") == "main":
            break


SYSTEM = re.compile(r"(ld-linux|ld-musl|libc|libm|libpthread|libstdc\+\+|libgcc_s|libc\+\+)[-.]")


def is_own(frames):
    """Whether code of the program allocated: not the loader before main, nor stdio for a stream."""
    functions = {frame.get("function") for frame in frames}
    return "_IO_file_doallocate" not in functions and any(
        frame.get("function") != "_start" and not SYSTEM.match(frame.get("module") or "libc.") for frame in frames)


def heaviest(stacks, measure):
    """The stacks with most bytes, each with its amount above it."""
    ranked = sorted((each for each in stacks if each[measure]["bytes"]), key=lambda each: -each[measure]["bytes"])
    for each in ranked[:STACKS_SHOWN]:
        yield f"  {each[measure]['bytes']:,} bytes in {each[measure]['blocks']:,} blocks:"
        yield from stack_lines(each["frames"])
    if len(ranked) > STACKS_SHOWN:
        yield f"  and {len(ranked) - STACKS_SHOWN} more stacks"


def memory_findings(path, leaked, allocated, allocations):
    if leaked is None and allocated is None and allocations is None:
        return
    words = [] if leaked is None else ["--by", "leaked"]
    found = report(path, *words, "--top", "100000000", "malloc")["malloc"]
    stacks = [each for each in found["stacks"] if is_own(each["frames"])]
    never_freed = sum(each["live"]["bytes"] for each in stacks)
    if leaked is not None and never_freed > leaked:
        yield "\n".join([f"{never_freed:,} bytes are never freed, allowed are {leaked:,}:", *heaviest(stacks, "live")])
    for what, value, limit in (("bytes", found["allocated"]["bytes"], allocated),
                               ("allocations", found["allocated"]["blocks"], allocations)):
        if limit is not None and value > limit:
            yield "\n".join([f"{value:,} {what}, the budget is {limit:,}:", *heaviest(stacks, "allocated")])


def stall_findings(path, limit_ms):
    if limit_ms is None:
        return
    done = sonde("report", path, "stalls", "--max", f"{limit_ms}ms")
    if done.returncode == 1:
        lines = [line for line in done.stdout.splitlines() if line.strip()]
        yield "\n".join([done.stderr.strip().removeprefix("sonde report: "), *lines[3:]])
    elif done.returncode:
        raise RuntimeError(done.stderr.strip())


def call_findings(path, baseline):
    if baseline is None:
        return
    done = sonde("diff", baseline, path)
    if done.returncode == 1:
        yield f"sensitive calls that are not in {baseline}:\n" + done.stdout.rstrip()
    elif done.returncode:
        raise RuntimeError(done.stderr.strip())


def run(command, leaked=None, allocated=None, allocations=None, stall=None, calls=None, **how):
    """Runs COMMAND (a list) under `sonde record`; HOW goes to subprocess.run. Returns the finished process, whose
    attribute `findings` is a list of texts, one for each limit that is exceeded. The limits are those above."""
    sensors = []
    if (leaked, allocated, allocations) != (None, None, None):
        sensors.append("--malloc")
    if stall is not None:
        sensors.append(f"--stall={max(10, int(stall))}")
    if calls is not None:
        sensors.append("--audit")
    if not sensors:
        raise ValueError("no limit is given")
    with tempfile.TemporaryDirectory(prefix="sonde-gate-") as folder:
        path = os.path.join(folder, "run.sonde")
        words = [os.environ.get("SONDE") or "sonde", "record", *sensors, "-o", path, "--", *map(str, command)]
        done = subprocess.run(words, check=False, **how)
        if not os.path.exists(path):
            raise RuntimeError(f"sonde record made no recording; its status is {done.returncode}")
        done.findings = [*memory_findings(path, leaked, allocated, allocations), *stall_findings(path, stall),
                         *call_findings(path, calls)]
    return done


def main():
    parser = argparse.ArgumentParser(usage="sonde_gate.py [limits] -- COMMAND…")
    for name in ("leaked", "allocated", "allocations", "stall"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--calls", metavar="BASELINE")
    parser.add_argument("command", nargs="+")
    arguments = vars(parser.parse_args())
    try:
        done = run(arguments.pop("command"), **arguments)
    except (RuntimeError, ValueError, OSError) as error:
        sys.exit(f"sonde_gate.py: {error}")
    for finding in done.findings:
        print(f"sonde: {finding}", file=sys.stderr)
    return 1 if done.findings else done.returncode if done.returncode >= 0 else 128 - done.returncode


if __name__ == "__main__":
    sys.exit(main())
