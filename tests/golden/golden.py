#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs one golden case: a file that reads as documentation and is checked as a test.

Prose stands at the margin. Indented by two spaces stand commands and what they must print:

    sonde names the verb that was probably meant.

      $ sonde stakcs
      2> sonde: no verb 'stakcs'; did you mean 'sonde stacks'?
      [exit 2]

  $ COMMAND     run by sh in an empty folder; `sonde` and the fixtures are on PATH
  & COMMAND     started and left running until the case ends; the case goes on when the program
                printed its first line and its first thread sleeps, and $PID is its process
  2> LINE       a line of stderr;  other lines are stdout, in order
  [exit N]      the exit status, when it is not 0
  ...           any number of lines of stdout

Before comparing, process ids, thread ids, addresses, times and paths are replaced by words (PID,
TID, 0xADDRESS, TIME, BUILD-ID, BUILD, SOURCE). A case whose first line is `needs the agent` is skipped
(exit 77) in a build without one; tests/CMakeLists.txt does not register it there.

usage: golden.py [--update] CASE BUILD-DIR"""
import difflib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

SKIP = 77
COMMAND_SECONDS = 150  # for what hangs


class Step:
    """One command of a case with the lines that are expected after it."""

    def __init__(self, kind, command):
        self.kind, self.command, self.expected = kind, command, []


def parse(text):
    """The case as a list of prose lines (str) and steps."""
    parts = []
    for line in text.splitlines():
        if line.startswith("  $ ") or line.startswith("  & "):
            parts.append(Step(line[2], line[4:]))
        elif line.startswith("  ") and parts and isinstance(parts[-1], Step):
            parts[-1].expected.append(line[2:])
        elif line == "" and parts and isinstance(parts[-1], Step):
            parts[-1].expected.append("")
        else:
            parts.append(line)
    for part in parts:
        if isinstance(part, Step):
            part.blank_after = 0
            while part.expected and part.expected[-1] == "":
                part.expected.pop()
                part.blank_after += 1
    return parts


def first_thread_sleeps(pid):
    stat = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    return stat[stat.rindex(")") + 2] == "S"


def masked(text):
    """TEXT with words for build-ids, addresses and times. tests/golden/page.py uses it too."""
    text = re.sub(r"\b[0-9a-f]{40}\b", "BUILD-ID", text)
    text = re.sub(r"\b0x[0-9a-f]{4,16}\b", "0xADDRESS", text)
    text = re.sub(r"\b\d+(\.\d+)? ?(ns|us|µs|ms|s)\b", "TIME", text)
    return re.sub(r'("(?:elapsed|stopped)_us": ?)\d+(\.\d+)?', r"\1TIME", text)


class Case:
    def __init__(self, build):
        self.build = build.resolve()
        self.source = pathlib.Path(__file__).resolve().parents[2]
        self.scratch = tempfile.TemporaryDirectory(prefix="sonde-golden-")
        self.started, self.ids = [], {}
        fixtures = self.build / "tests" / "fixtures"
        self.environment = {
            "PATH": f"{self.build / 'bin'}:{fixtures}:{os.environ.get('PATH', '/usr/bin:/bin')}",
            "HOME": self.scratch.name, "LC_ALL": "C", "TERM": "dumb", "COLUMNS": "80",
            "SONDE_FIXTURES": str(fixtures), "SONDE_SOURCE": str(self.source)}
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "SONDE_SANITIZED"):
            if name in os.environ:
                self.environment[name] = os.environ[name]

    def start(self, command):
        process = subprocess.Popen(["sh", "-c", "exec " + command], cwd=self.scratch.name,
                                   env=self.environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, start_new_session=True)
        self.started.append(process)
        if not process.stdout.readline():
            return [f"[did not start: exit {process.wait()}]"]
        while not first_thread_sleeps(process.pid):
            time.sleep(0.002)
        self.environment["PID"] = str(process.pid)
        for tid in os.listdir(f"/proc/{process.pid}/task"):
            self.ids[tid] = "TID"
        self.ids[str(process.pid)] = "PID"
        return []

    def run(self, command):
        done = subprocess.run(["sh", "-c", command], cwd=self.scratch.name, env=self.environment,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="replace", timeout=COMMAND_SECONDS, check=False)
        lines = self.normal(done.stdout) + ["2> " + line for line in self.normal(done.stderr)]
        return lines + ([f"[exit {done.returncode}]"] if done.returncode else [])

    def normal(self, text):
        text = text.replace(str(self.build), "BUILD").replace(str(self.source), "SOURCE")
        text = masked(text.replace(self.scratch.name, "SCRATCH"))
        return [re.sub(r"\d+", lambda m: self.ids.get(m[0], m[0]), line).rstrip()
                for line in text.splitlines()]

    def end(self):
        for process in self.started:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        self.scratch.cleanup()


def here(expected):
    """On aarch64 the kernel has one system call for several of x86_64."""
    if os.uname().machine != "aarch64":
        return expected
    return [re.sub(r"\b(pause|poll)\b", "ppoll", line).replace("epoll_wait", "epoll_pwait")
            for line in expected]


def agrees(expected, actual):
    """Whether ACTUAL is EXPECTED, in which "..." stands for any number of lines."""
    if not expected:
        return not actual
    if expected[0] == "...":
        return any(agrees(expected[1:], actual[skip:]) for skip in range(len(actual) + 1))
    return bool(actual) and expected[0] == actual[0] and agrees(expected[1:], actual[1:])


def run_case(path, build, update):
    parts = parse(path.read_text())
    case, failed = Case(build), False
    try:
        if parts[0] == "needs the agent" and not (case.build / "lib" / "libsonde-agent.so").exists():
            print("skipped: the agent is not built with a sanitizer")
            return SKIP
        for part in parts:
            if isinstance(part, str):
                continue
            actual = case.start(part.command) if part.kind == "&" else case.run(part.command)
            if agrees(here(part.expected), actual):
                continue
            failed = True
            print(f"{path.name}: {part.kind} {part.command}")
            print("\n".join(difflib.unified_diff(part.expected, actual, "expected", "actual",
                                                 lineterm="")))
            part.expected = actual
    finally:
        case.end()
    if failed and update:
        path.write_text("".join(render(part) for part in parts))
        print(f"{path.name}: updated")
        return 0
    return 1 if failed else 0


def render(part):
    if isinstance(part, str):
        return part + "\n"
    lines = [f"  {part.kind} {part.command}"] + [("  " + line).rstrip() for line in part.expected]
    return "\n".join(lines) + "\n" * (1 + part.blank_after)


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--update"]
    if len(arguments) != 2:
        print(__doc__.rsplit("\n", 1)[-1], file=sys.stderr)
        return 2
    return run_case(pathlib.Path(arguments[0]), pathlib.Path(arguments[1]),
                    "--update" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
