#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sonde_log_remove_orphan: a recording that a crash left behind is removed; one that is finished, or that a process may
still write, never is."""
import os
import shutil
import signal
import struct
import subprocess

from helpers import (
    INCLUDE, LINK_SHARED, check, compile_c, fresh, needs_plain_build, report, run_cases, sonde, source_file, write)

needs_plain_build()
PROGRAM = compile_c(source_file("real", "record", "orphan.c"), "-O1", INCLUDE, *LINK_SHARED)
EFORMAT, EIO = -12, -13
HEADER = {"pid": (80, "<I"), "recorder_pid": (120, "<I"), "pid_space": (160, "<Q")}  # docs/format.md


def answer(*arguments):
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=True)
    return [int(word) for word in done.stdout.split()]


def started(path, *before):
    """A program that writes the log PATH."""
    writer = subprocess.Popen([*before, PROGRAM, "write", path], stdout=subprocess.PIPE, text=True)
    check(writer.stdout.readline() == "started\n", "the program did not start")
    return writer


def end(process):
    process.kill()
    process.wait()


def a_crash_leaves_a_recording_that_is_readable_and_then_removed():
    path = fresh()
    writer = started(path)
    check(answer("remove", path) == [0] and os.path.exists(path), "a recording of a living process")
    writer.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, writer.pid, os.WEXITED | os.WNOWAIT)
    told = sonde("clean", os.path.dirname(path))
    check(os.path.basename(path) in told, told)  # at once, although nobody has reaped it
    check(not report(path)["finished"], "finished")
    check(answer("remove", path) == [1] and not os.path.exists(path), "an orphan")
    check(answer("remove", path) == [EIO], "a file that does not exist")
    writer.wait()


def its_own_recording_and_a_finished_one_are_kept():
    path = fresh()
    check(answer("own", path) == [0, 0] and report(path)["finished"], "own recording")
    check(answer("remove", path) == [0] and os.path.exists(path), "finished recording")


def changed(path, **fields):
    """A copy of the recording PATH whose header has FIELDS."""
    copy = fresh()
    shutil.copy(path, copy)
    with open(copy, "r+b") as file:
        for name, value in fields.items():
            at, form = HEADER[name]
            file.seek(at)
            file.write(struct.pack(form, value))
    return copy


def an_id_of_a_living_process_or_of_another_namespace_keeps_it():
    path = fresh()
    end(started(path))
    for fields in {"pid": os.getpid()}, {"recorder_pid": os.getpid()}, {"pid_space": 1}, {"pid_space": 0}:
        copy = changed(path, **fields)
        check(answer("remove", copy) == [0] and os.path.exists(copy), fields)
    check(answer("reused", path) == [1] and not os.path.exists(path), "an id that the asking process has again")


def what_is_no_recording_is_kept():
    for text in "", "x", "a file of some other program\n" * 500:
        path = write(text, ".sonde")
        check(answer("remove", path) == [EFORMAT] and os.path.exists(path), text[:10])


run_cases(globals())
