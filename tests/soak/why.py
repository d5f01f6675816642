#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Programs with one fault each, and healthy ones, under `sonde why`. The comment of a program in tests/soak/why/faults
says what must be found, "Expected: KIND FUNCTION", in the first sentence; "-" stands for any function. Nothing may be
found in the programs of tests/soak/why/healthy and in the packaged programs below.

usage: why.py [PROGRAM…]"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import SONDE, sonde  # noqa: E402  (the path is set above)

FOLDER = pathlib.Path(__file__).resolve().parent / "why"
SENSORS = ["--sample", "--stall", "--wall", "--malloc"]
HANGS_AFTER_SECONDS = 6
PACKAGED = {
    "sort": "sort numbers.txt", "gzip": "gzip -c numbers.txt", "xz": "xz -1 -c numbers.txt",
    "sqlite3": "sqlite3 :memory: 'create table t(a); with recursive c(x) as (select 1 union all select x+1 from c where"
               " x<300000) insert into t select hex(randomblob(9)) from c; select max(a) from t order by a'",
    "python3": "python3 -c 'd = {i: str(i) for i in range(500000)}'", "perl": "perl -e '$h{$_} = $_ for 1..500000'",
    "awk": "awk '{n[$1 % 1000]++} END {print length(n)}' numbers.txt", "find": "find /usr/share -name x",
    "tar": "tar cf /dev/null /usr/include", "sha256sum": "sha256sum numbers.txt"}


def compiled(source, work):
    program = work / source.stem
    compiler = "g++" if source.suffix == ".cc" else "gcc"
    subprocess.run([compiler, "-g", "-O1", "-fno-optimize-sibling-calls", "-pthread", "-o", program, source, "-lm"],
                   check=True)
    return [str(program)]


def explained(command, options, work):
    path = work / "why.sonde"
    process = subprocess.Popen([SONDE, "record", "--force", *SENSORS, *options, "-o", path, "--", *command], cwd=work,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        process.wait(HANGS_AFTER_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGINT)
        process.wait()
    return json.loads(sonde("why", "--json", path))


def judged_fault(source, work):
    kind, function = re.search(r"Expected: (\S+) (\S+)", source.read_text(encoding="utf-8")).groups()
    told = explained(compiled(source, work), ["--audit"] if kind == "sensitive-call" else [], work)
    first = (told["findings"] or [{}])[0]
    good = not told["healthy"] and first["kind"] == kind and (
        function == "-" or first.get("culprit", {}).get("function", "").split("(")[0] == function)
    return good, first.get("sentence", "nothing")


def judged_healthy(command, work):
    told = explained(command, [], work)
    return told["healthy"], "; ".join(finding["sentence"] for finding in told["findings"] if finding["fault"])


def main(names):
    work, failed = pathlib.Path(tempfile.mkdtemp(prefix="sonde-why-")), 0
    (work / "numbers.txt").write_text("".join(f"{i * 7919 % 1000003}\n" for i in range(400000)), encoding="ascii")
    jobs = {s.stem: (lambda s=s: judged_fault(s, work)) for s in sorted((FOLDER / "faults").iterdir())}
    jobs.update({s.stem: (lambda s=s: judged_healthy(compiled(s, work), work))
                 for s in sorted((FOLDER / "healthy").iterdir())})
    jobs.update({name: (lambda c=command: judged_healthy(["sh", "-c", "exec " + c], work))
                 for name, command in PACKAGED.items() if shutil.which(name)})
    for name in names or jobs:
        good, sentence = jobs[name]()
        failed += not good
        print(f"{'ok  ' if good else 'FAIL'} {name}: {sentence}", flush=True)
    shutil.rmtree(work, ignore_errors=True)
    print(f"{failed} of {len(names or jobs)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    os.environ["NO_COLOR"] = "1"
    sys.exit(main(sys.argv[1:]))
