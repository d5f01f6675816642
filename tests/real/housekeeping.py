#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What `sonde record` does for the disk: it stops before the file system is full, and it removes old
recordings of its command that nobody finished. A recording of a living process is never removed."""
import os
import shutil
import signal
import subprocess
import time

from helpers import SONDE, needs_agent, record, report, run_cases, sonde, states_of, try_sonde, until

needs_agent()

DAY = 24 * 60 * 60


def recording_ends_before_the_disk_is_full(folder):
    work = ["perl", "-e", "for (1..30) { push @a, 'x' x 5000; select undef, undef, undef, 0.1 }"]
    path, done = record(work, "--malloc", "--keep-free", "100000G", path=folder / "a.sonde", text=True)
    assert done.returncode == 0 and "less disk space is left than stays free (--keep-free)" in done.stderr, done.stderr
    assert "less disk space" in report(path)["missing"]["stopped"], report(path)["missing"]
    for options in (), ("--keep-free", "0"), ("--keep-free", "1K"):
        path, done = record(["true"], *options, "--force", path=folder / "b.sonde", text=True)
        assert "stopped" not in done.stderr and not report(path)["missing"].get("stopped"), done.stderr
    assert try_sonde("record", "--keep-free", "some", "--", "true").returncode == 125


def _has_ended(pid):
    """Whether a process is gone, or waits for the parent that it has now."""
    try:
        return states_of(pid).get(pid, "Z") == "Z"
    except FileNotFoundError:
        return True


def _orphan(folder, command):
    """A recording with a default name whose program and recorder were killed."""
    recorder = subprocess.Popen([SONDE, "record", "--malloc", "--", command, "1000"], cwd=folder)
    until(lambda: list(folder.glob("*.sonde")), "the command runs")
    (path,) = folder.glob("*.sonde")
    pid = int(path.name.split(".")[1])
    until(lambda: path.stat().st_size > 4096, "the recording has chunks")
    recorder.kill()
    recorder.wait(60)
    os.kill(pid, signal.SIGKILL)
    until(lambda: _has_ended(pid), "it ended")
    return path


def old_orphans_of_the_command_are_removed(folder):
    work, made = folder / "work", folder / "made"
    work.mkdir(), made.mkdir()
    orphan = _orphan(made, "sleep")
    living = subprocess.Popen([SONDE, "record", "--malloc", "--", "sleep", "1000"], cwd=work)
    until(lambda: list(work.glob("sleep.*.sonde")), "the living one records")
    (alive,) = work.glob("sleep.*.sonde")
    until(lambda: alive.stat().st_size > 4096, "the recording has chunks")
    old = time.time() - 2 * DAY
    sonde("record", "-o", work / "sleep.14.sonde", "--", "true")
    (work / "sleep.15.sonde").write_bytes(b"not a recording")
    for name in "sleep.11.sonde", "sleep.12.sonde", "other.13.sonde", "sleep.sonde":
        shutil.copy(orphan, work / name)
    for path in work.iterdir():
        if path.name != "sleep.12.sonde":
            os.utime(path, (old, old))
    done = try_sonde("record", "--", "sleep", "0", cwd=work)
    left = {path.name for path in work.iterdir()}
    os.kill(int(alive.name.split(".")[1]), signal.SIGKILL)
    living.wait(60)
    assert "removed 1 recording of 'sleep'" in done.stderr, done.stderr
    assert "sleep.11.sonde" not in left, left
    kept = {"sleep.12.sonde", "other.13.sonde", "sleep.sonde", "sleep.14.sonde", "sleep.15.sonde", alive.name}
    assert left >= kept, kept - left


def lists_tell_of_damage(folder):
    """Lists that end early look complete, so a note says that they are not."""
    whole, spoiled = folder / "whole.sonde", folder / "spoiled.sonde"
    assert try_sonde("record", "--malloc=all", "-o", whole, "--", "/bin/ls", "/usr/bin").returncode == 0
    data = bytearray(whole.read_bytes())
    for i in range(len(data) // 2, len(data) // 2 + 3000):
        data[i] ^= 0x5a
    spoiled.write_bytes(data)
    for words in ["events"], ["export"], ["history", "stack:1"]:
        for path in whole, spoiled:
            run = try_sonde(words[0], path, *words[1:])
            assert ("is damaged: events are missing" in run.stderr) == (path == spoiled), (words, run.stderr)


run_cases(globals())
