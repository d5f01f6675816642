#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Programs that nobody here wrote, each with nine sets of sensors: does the program notice, and do the figures add up?

For each run the matrix compares with runs of the program alone: the output, the exit status and the CPU time. It
compares the figures of the report with other sources:

  cpu       samples and time not sampled, of the CPU time that the kernel counted: in percent
  sampled   samples alone, of the same
  blocks    allocations, of those that heaptrack counted: in percent
  complete  stacks of samples, and of allocations with --malloc=all, that are complete: in percent

A row fails if output or status differ, if the run takes more than LIMIT seconds and LIMIT times the plain run, or if
the recording lacks events without saying so.

usage: programs.py [--set NAME]… [--no-install] [PROGRAM…]
       programs.py --list

The programs are in tests/soak/matrix/program_list.py; those that are not installed are installed with apt-get first.
The table is written to build-test/results/programs.md as it grows."""
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent / "matrix"), str(pathlib.Path(__file__).resolve().parents[1])]

from helpers import BUILD, SONDE, report  # noqa: E402  (the path is set above)
from program_list import PROGRAMS  # noqa: E402

SETS = {"default": [], "malloc": ["--malloc=all"], "live": ["--malloc=live"], "wall": ["--wall", "--cpu"],
        "stall": ["--stall"], "audit": ["--audit"], "trace": ["--trace=lib*:*"],
        "all": ["--malloc=all", "--sample", "--wall", "--cpu", "--stall", "--audit", "--trace=lib*:*"],
        "follow": ["--follow", "--sample", "--malloc=all", "--cpu"]}
PLAIN_RUNS, LIMIT_FACTOR, LIMIT_SECONDS = 3, 40, 60
RESULTS = pathlib.Path(BUILD) / "results" / "programs.md"
OURS = re.compile(rb"sonde record: .*\n?")


class Run:
    """One run of a program: what it printed, how it ended, and what it cost."""

    def __init__(self, program, prefix=()):
        limit = program.limit or LIMIT_SECONDS
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        self.hung = False
        try:
            self.output, self.status = (program.serve if program.port else program.run)(prefix, limit)
        except subprocess.TimeoutExpired:
            self.hung, self.output, self.status = True, b"", None
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.wall = time.monotonic() - began
        self.cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


class Program:
    """An entry of the list. COMMAND is a list of words, or a text for the shell, in an empty folder. A server has a
    PORT and CLIENTS, shell commands whose output counts; it is ended by STOP."""

    def __init__(self, name, command, packages="", prepare="", port=0, clients=(), stop=signal.SIGTERM, ignore="",
                 limit=0, counted=True):
        self.name, self.packages, self.prepare, self.port, self.limit = name, packages.split(), prepare, port, limit
        self.is_shell = isinstance(command, str)
        self.command = ["sh", "-c", command] if self.is_shell else command
        self.clients, self.stop, self.ignore, self.counted = clients, stop, ignore, counted
        self.folder = None

    def ready(self, install):
        """Whether it is installed and prepared; what is missing otherwise."""
        missing = [p for p in self.packages if subprocess.run(["dpkg", "-s", p], capture_output=True, check=False).returncode]
        if missing and install:
            subprocess.run(["apt-get", "install", "-y", "--no-install-recommends", *missing], capture_output=True, check=False,
                           env=dict(os.environ, DEBIAN_FRONTEND="noninteractive"))
            missing = [p for p in missing if subprocess.run(["dpkg", "-s", p], capture_output=True, check=False).returncode]
        if missing:
            return "not installed: " + " ".join(missing)
        self.folder = tempfile.mkdtemp(prefix=f"sonde-{self.name}-")
        os.chmod(self.folder, 0o777)
        if self.prepare:
            done = subprocess.run(["sh", "-ec", self.prepare], cwd=self.folder, capture_output=True, text=True, check=False)
            if done.returncode:
                return "cannot be prepared: " + (done.stderr.strip().splitlines() or ["?"])[-1][:60]
        return None

    def clean(self, output):
        output = OURS.sub(b"", output)
        return re.sub(self.ignore.encode(), b"", output, flags=re.M) if self.ignore else output

    def run(self, prefix, limit):
        process = subprocess.Popen([*prefix, *self.command], cwd=self.folder, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            output, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise
        return self.clean(output), process.returncode

    def until_ready(self, process):
        while process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.02)
        raise OSError(f"{self.name} ended at its start")

    def serve(self, prefix, limit):
        log = open(os.path.join(self.folder, "log"), "wb")
        process = subprocess.Popen([*prefix, *self.command], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log,
                                   stderr=log, start_new_session=True)
        output = b""
        try:
            self.until_ready(process)
            for client in self.clients:
                done = subprocess.run(["sh", "-c", client], cwd=self.folder, capture_output=True, timeout=limit, check=False)
                output += done.stdout + b"status %d\n" % done.returncode
            for pid in children(process.pid) if SONDE in prefix else [process.pid]:
                os.kill(pid, self.stop)
            process.wait(limit)
        except (subprocess.TimeoutExpired, OSError) as error:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            raise subprocess.TimeoutExpired(self.command, limit) from error
        finally:
            log.close()
        return self.clean(output), process.returncode


def children(pid):
    return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def percent(part, whole):
    return f"{100 * part / whole:.1f}" if whole else ""


def heaptrack_count(program):
    """The allocations that heaptrack counted, or None."""
    if not shutil.which("heaptrack") or program.port or not program.counted or program.is_shell:
        return None
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "h")
        try:
            program.run(["heaptrack", "-o", out], program.limit or LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            return None
        files = list(pathlib.Path(folder).glob("h*"))
        if not files:
            return None
        said = subprocess.run(["heaptrack_print", "-p0", "-a0", "-T0", "-l0", files[0]], capture_output=True, text=True,
                              errors="replace", check=False).stdout
        found = re.search(r"calls to allocation functions: (\d+)", said)
        return int(found[1]) if found else None


def figures(paths, heaptrack, run_cpu):
    """The columns from the reports of all processes: CPU accounted, allocations, complete stacks; and what is wrong."""
    counted, faults = dict.fromkeys(("kernel_ns", "covered_ns", "sampled_ns", "blocks", "stacks", "complete", "processes"), 0), []
    for path in paths:
        try:
            told = report(path)
        except (AssertionError, ValueError) as error:
            faults.append(f"report: {str(error)[:60]}")
            continue
        add_cpu(counted, told)
        counted["processes"] += 1
        malloc = told.get("malloc")
        if malloc and "allocated" in malloc and not malloc["sampled"]:
            counted["blocks"] += malloc["allocated"]["blocks"]
            counted["stacks"] += malloc["allocated"]["blocks"]
            counted["complete"] += malloc["depth"]["complete"]
        faults += [f"{count} {key} missing" for key, count in told["missing"].items() if count]
        faults += [f"no recording of {process['command'][:30]}, and no reason"
                   for process in told.get("processes", {}).get("list", []) if not {"file", "not_recorded"} & set(process)]
        if not told["finished"]:
            faults.append("not finished")
    faults += cpu_faults(counted, run_cpu)
    return {"cpu": percent(counted["covered_ns"], counted["kernel_ns"]),
            "sampled": percent(counted["sampled_ns"], counted["kernel_ns"]),
            "blocks": percent(counted["blocks"], heaptrack) if counted["blocks"] and heaptrack else "",
            "complete": percent(counted["complete"], counted["stacks"]), "fault": "; ".join(sorted(set(faults))[:2])}


def add_cpu(counted, told):
    if "sample" in told:
        time_of = told["sample"]["cpu_time"]
        counted["kernel_ns"] += time_of["cpu_ns"]
        counted["covered_ns"] += time_of["sampled_ns"] + sum(cause["time_ns"] for cause in time_of["unsampled"])
        counted["sampled_ns"] += time_of["sampled_ns"]
        counted["stacks"] += told["sample"]["samples"]
        counted["complete"] += told["sample"]["complete"]


def cpu_faults(counted, run_cpu):
    """What is wrong with the CPU time. RUN_CPU is that of the program and of the recorder, as wait4(2) gave it."""
    kernel, covered = counted["kernel_ns"] / 1e9, counted["covered_ns"] / 1e9
    if abs(covered - kernel) > max(0.02 * kernel, 0.002):
        return [f"CPU time accounted {covered:.3f} of {kernel:.3f} s"]
    is_alone = counted["processes"] == 1  # the CPU time of others than children is not in RUN_CPU
    return [f"CPU time {kernel:.3f} s, of {run_cpu:.3f} s of the run"] if is_alone and kernel > 1.02 * run_cpu + 0.02 else []


def compare(program, set_name, plain, heaptrack):
    """The row of one set of sensors."""
    with tempfile.TemporaryDirectory(prefix="sonde-matrix-") as folder:
        os.chmod(folder, 0o777)
        path = os.path.join(folder, "run.sonde")
        follow = ["--follow"] if program.is_shell and set_name != "follow" else []
        run = Run(program, [SONDE, "record", *SETS[set_name], *follow, "-o", path, "--"])
        row = {"program": program.name, "set": set_name}
        row.update(figures(sorted(pathlib.Path(folder).glob("run*.sonde")), heaptrack, run.cpu))
    cpu = statistics.median(each.cpu for each in plain)
    wall = statistics.median(each.wall for each in plain)
    row.update(cpu_factor=f"{run.cpu / cpu:.2f}" if cpu > 0.01 else "", wall_factor=f"{run.wall / wall:.2f}")
    if run.hung:
        row["fault"] = "did not end"
    elif run.status != plain[0].status:
        row["fault"] = f"status {run.status}, alone {plain[0].status}"
    elif run.output != plain[0].output and plain[0].output == plain[-1].output:
        row["fault"] = "other output"
        (RESULTS.parent / f"{program.name}.{set_name}.out").write_bytes(run.output)
        (RESULTS.parent / f"{program.name}.plain.out").write_bytes(plain[0].output)
    elif run.wall > max(LIMIT_SECONDS, LIMIT_FACTOR * wall):
        row["fault"] = "too slow"
    return row


COLUMNS = ("program", "set", "cpu_factor", "wall_factor", "cpu", "sampled", "blocks", "complete", "fault")


def write_rows(rows):
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    lines += ["| " + " | ".join(str(row.get(column, "")) for column in COLUMNS) + " |" for row in rows]
    RESULTS.write_text("\n".join(lines) + "\n")
    RESULTS.with_suffix(".json").write_text(json.dumps(rows, indent=1))


def main(words):
    programs = [Program(**entry) for entry in PROGRAMS]
    if "--list" in words:
        print("\n".join(program.name for program in programs))
        return 0
    sets = [words[i + 1] for i, word in enumerate(words) if word == "--set"] or list(SETS)
    names = [word for i, word in enumerate(words) if not word.startswith("--") and (i == 0 or words[i - 1] != "--set")]
    rows, faults, absent = [], 0, []
    for program in programs:
        if names and program.name not in names:
            continue
        why = program.ready("--no-install" not in words)
        if why:
            absent.append(program.name)
            print(f"{program.name}: {why}", flush=True)
            continue
        plain = [Run(program) for _ in range(PLAIN_RUNS)]
        if any(run.hung for run in plain) or len({run.status for run in plain}) > 1:
            print(f"{program.name}: does not run alone: {[run.status for run in plain]}: {plain[0].output[-300:]!r}", flush=True)
            absent.append(program.name)
            continue
        heaptrack = heaptrack_count(program) if any("--malloc=all" in SETS[name] for name in sets) else None
        for name in sets:
            rows.append(compare(program, name, plain, heaptrack))
            faults += bool(rows[-1]["fault"])
            print("  ".join(f"{rows[-1].get(column, '')!s:>9}" for column in COLUMNS), flush=True)
            write_rows(rows)
        shutil.rmtree(program.folder, ignore_errors=True)
    print(f"{len(rows)} rows, {faults} with a fault; {len(absent)} programs did not run: {' '.join(absent)}; {RESULTS}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
