#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Programs with one known fault each, and healthy programs: does `sonde why` say what is wrong, and who does it?

The programs are in tests/soak/seeded/faulty and tests/soak/seeded/healthy. Their authors had not read how `sonde why`
decides. The comment at the top of each program has lines of the form `// key: value`:

  fault    the fault, in plain words; a healthy program has `does` instead
  culprit  functions, any of which the first sentence must name
  site     functions where the fault shows, if these are not the culprit
  symptom  words for what the fault does to the program, if these do not say its kind
  untrue   words that a true first sentence does not contain
  kind     words, any of which the first sentence must contain; upper and lower case are the same
  record   options of `sonde record` that the documentation recommends for the symptom; empty: the defaults
  stop     seconds after which Control-C stops the recording
  why      instead of `record`: seconds after which `sonde why PID` examines the running program
  build    the compiler and its options

Verdicts on a faulty program:

  right    the first sentence claims a fault, and has culprit and kind
  later    another sentence does
  part     the first sentence is true but not enough: it has the culprit or the site, and the kind or the symptom; or
           it has the kind, and names nobody
  named    no fault is claimed, but the text names the culprit as the function that used most CPU time or memory
  silent   no fault is claimed
  wrong    the first sentence claims a fault with another culprit or kind, or contains what is untrue

A healthy program is `quiet` if no fault is claimed, and `alarm` otherwise. `broken` is a program that does not compile,
or that sonde did not record or examine.

usage: seeded.py [--list] [--output FILE] [--keep FOLDER] [--repeat N] [--strict] [--sensors OPTIONS] [PROGRAM…]

PROGRAM is a name without its suffix, `faulty` or `healthy`. The status is 1 if a program was broken; with `--strict`,
also if a verdict was wrong or alarm. `--sensors='--malloc=all --wall'` replaces the options that the programs name;
programs that are examined while they run are then recorded for three seconds."""
import argparse
import collections
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import textwrap
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from helpers import SONDE  # noqa: E402  (the path is set above)

FOLDER = pathlib.Path(__file__).resolve().parent / "seeded"
RUN_SECONDS, WHY_SECONDS = 40, 60
VERDICTS = ("right", "later", "part", "named", "silent", "wrong", "quiet", "alarm", "broken")


class Program:
    """A program and what its comment expects."""

    def __init__(self, path):
        self.path, self.name, self.is_faulty = path, path.stem, path.parent.name == "faulty"
        keys, source = {}, path.read_text(encoding="utf-8")
        for line in source.splitlines():
            match = re.match(r"// ([a-zA-Z-]+):\s*(.*)", line)
            if not match:
                break
            keys[match[1]] = match[2].strip()
        wanted = {"build", "fault", "culprit", "kind"} if self.is_faulty else {"build", "does"}
        assert wanted <= keys.keys() and ("record" in keys) != ("why" in keys), f"{path}: the comment at the top"
        self.text = keys.get("fault") or keys.get("does")
        self.culprits, self.sites, self.kinds, self.symptoms, self.untrue = (
            [word.strip() for word in keys.get(key, "").split(",") if word.strip()]
            for key in ("culprit", "site", "kind", "symptom", "untrue"))
        code = source[source.index("#include"):]
        unknown = [name for name in self.culprits + self.sites if not names(code, [name.lstrip("~")])]
        assert not unknown, f"{path}: no {', '.join(unknown)} in the program"
        self.build, self.options = shlex.split(keys["build"]), shlex.split(keys.get("record", ""))
        self.stop_seconds = float(keys["stop"]) if "stop" in keys else None
        self.why_seconds = float(keys["why"]) if "why" in keys else None

    def use(self, options):
        """Records with these OPTIONS instead."""
        if self.why_seconds is not None:
            self.why_seconds, self.stop_seconds = None, 3
        self.options = options

    def expected(self):
        return f"{', '.join(self.culprits)}: {', '.join(self.kinds)}" if self.is_faulty else "nothing"

    def command(self):
        """The words that a user would type."""
        return "sonde why PID" if self.why_seconds is not None else " ".join(["sonde record", *self.options])


class Broken(Exception):
    """A program that was not examined, and why."""


def compile_program(program, folder):
    out = folder / program.name
    done = subprocess.run([*program.build, program.path, "-o", out], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Broken(f"does not compile: {done.stderr.splitlines()[:1]}")
    return out


def end(process, *signals):
    """Ends the process group that PROCESS leads."""
    for number in signals:
        try:
            os.killpg(process.pid, number)
            process.wait(10)
            return
        except subprocess.TimeoutExpired:
            continue
        except ProcessLookupError:
            break
    process.wait()


def obey_interrupts():
    """In a process that a shell started in the background, SIGINT is ignored, and its children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(words, folder):
    return subprocess.Popen([str(word) for word in words], cwd=folder, stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
                            preexec_fn=obey_interrupts)


def record(program, binary, folder):
    """The path of a recording of one run."""
    path = folder / f"{program.name}.sonde"
    process = start([SONDE, "record", *program.options, "-o", path, "--", binary], folder)
    try:
        process.wait(program.stop_seconds or RUN_SECONDS)
    except subprocess.TimeoutExpired:
        end(process, signal.SIGINT, signal.SIGKILL)
        if not program.stop_seconds:
            raise Broken(f"ran longer than {RUN_SECONDS} s") from None
    if not path.exists():
        raise Broken(f"was not recorded, status {process.returncode}")
    return path


def ask(target):
    """The answer of `sonde why --json`."""
    try:
        done = subprocess.run([SONDE, "why", "--json", str(target)], capture_output=True, text=True,
                              timeout=WHY_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise Broken(f"sonde why took more than {WHY_SECONDS} s") from None
    if done.returncode not in (0, 1) or not done.stdout:
        raise Broken(f"sonde why: status {done.returncode}, {done.stderr.strip()}")
    return json.loads(done.stdout)


def examine(program, folder):
    binary = compile_program(program, folder)
    if program.why_seconds is None:
        return ask(record(program, binary, folder))
    process = start([binary], folder)
    try:
        time.sleep(program.why_seconds)
        if process.poll() is not None:
            raise Broken(f"ended early, status {process.returncode}")
        return ask(process.pid)
    finally:
        end(process, signal.SIGKILL)


def names(sentence, functions):
    """Whether the sentence contains one of the functions as a whole word."""
    return any(re.search(rf"(?<![\w~]){re.escape(function)}(?!\w)", sentence) for function in functions)


def has_kind(sentence, kinds):
    return any(kind.lower() in sentence.lower() for kind in kinds)


def judge(program, answer):
    """The verdict and the sentence that it is about."""
    findings = answer["findings"]
    accused = [finding for finding in findings if finding["fault"]]
    faults = [finding["sentence"] for finding in accused]
    if not program.is_faulty:
        return ("alarm", faults[0]) if faults or not answer["healthy"] else ("quiet", first_note(findings))
    if not faults:
        notes = [f["sentence"] for f in findings if names(f["sentence"], program.culprits)]
        return ("named", notes[0]) if notes else ("silent", first_note(findings))
    first, *others = faults
    if has_kind(first, program.untrue):
        return "wrong", first
    fits = [names(s, program.culprits) and has_kind(s, program.kinds) for s in (first, *others)]
    if fits[0]:
        return "right", first
    if any(fits):
        return "later", first
    if names(first, program.culprits + program.sites) and has_kind(first, program.kinds + program.symptoms):
        return "part", first
    if not accused[0].get("culprit") and has_kind(first, program.kinds):
        return "part", first
    return "wrong", first


def first_note(findings):
    return findings[0]["sentence"] if findings else "No fault was found."


def select(words):
    everything = [Program(path) for kind in ("faulty", "healthy") for path in sorted((FOLDER / kind).glob("*.c*"))]
    known = {"faulty", "healthy"} | {program.name for program in everything}
    unknown = set(words) - known
    if unknown:
        sys.exit(f"seeded.py: no program {', '.join(sorted(unknown))}; --list lists them")
    return [p for p in everything if not words or {p.name, p.path.parent.name} & set(words)]


def row(program, verdict, sentence):
    """A row of the table: two columns of fixed width, and the sentences in lines below."""
    lines = [f"{program.name:<22} {verdict:<7} {program.command()}"]
    for title, text in (("fault" if program.is_faulty else "does", program.text), ("expected", program.expected()),
                        ("said", sentence)):
        lines += textwrap.wrap(text, 108, initial_indent=f"    {title + ':':<10}", subsequent_indent=" " * 14)
    return "\n".join(lines)


def summary(counts):
    def part(which, total):
        told = ", ".join(f"{counts[verdict]} {verdict}" for verdict in which if counts[verdict])
        return f"{total} programs: {told}" if total else ""

    faulty = sum(counts[v] for v in VERDICTS[:6])
    healthy = sum(counts[v] for v in VERDICTS[6:8])
    parts = [part(VERDICTS[:6], faulty) and "faulty " + part(VERDICTS[:6], faulty),
             part(VERDICTS[6:8], healthy) and "healthy " + part(VERDICTS[6:8], healthy),
             f"{counts['broken']} broken" if counts["broken"] else ""]
    return "summary: " + "; ".join(text for text in parts if text)


def main():
    parser = argparse.ArgumentParser(description="see the comment at the top")
    parser.add_argument("--list", action="store_true", help="list the programs")
    parser.add_argument("--output", help="write the table to this file, too")
    parser.add_argument("--keep", help="keep programs and recordings in this folder")
    parser.add_argument("--repeat", type=int, default=1, help="run each program so often")
    parser.add_argument("--sensors", help="options of sonde record for every program")
    parser.add_argument("--strict", action="store_true", help="status 1 if a verdict was wrong or alarm")
    parser.add_argument("programs", nargs="*")
    options = parser.parse_args()
    programs = select(options.programs)
    if options.sensors is not None:
        for program in programs:
            program.use(shlex.split(options.sensors))
    if options.list:
        print("\n".join(f"{p.path.parent.name:<8} {p.name:<22} {p.command():<45} {p.text}" for p in programs))
        return
    counts, output = collections.Counter(), open(options.output, "w", encoding="utf-8") if options.output else None

    def tell(text):
        print(text, flush=True)
        if output:
            print(text, file=output, flush=True)

    with tempfile.TemporaryDirectory(prefix="sonde-seeded-") as scratch:
        folder = pathlib.Path(options.keep or scratch).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        for program in programs * options.repeat:
            try:
                answer = examine(program, folder)
                verdict, sentence = judge(program, answer)
                (folder / f"{program.name}.json").write_text(json.dumps(answer, indent=1), encoding="utf-8")
            except Broken as error:
                verdict, sentence = "broken", str(error)
            counts[verdict] += 1
            tell(row(program, verdict, sentence))
            if not options.keep:
                (folder / f"{program.name}.sonde").unlink(missing_ok=True)
    tell(summary(counts))
    if output:
        output.close()
    bad = ("broken", "wrong", "alarm") if options.strict else ("broken",)
    sys.exit(1 if any(counts[verdict] for verdict in bad) else 0)


if __name__ == "__main__":
    main()
