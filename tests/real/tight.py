#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Programs that leave the agent little room, or look closely at what it left: they go on as if they were
not recorded, and the recording is whole."""
import os
import resource
import signal
import subprocess

from helpers import LIB, WORK, compile_c, needs_agent, nothing_missing, record, report, run_cases, source_file

needs_agent()
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def build(name):
    return compile_c(source_file("real", "tight", name + ".c"), "-O1", "-pthread", "-ldl", out=os.path.join(WORK, name))


def record_with(options, *command, path=None):
    return record(command, *options, path=path, text=True, timeout=300)


def a_small_signal_stack_is_enough():
    program = build("signal_stack")
    for options in ["--sample=1000"], ["--wall=1000"], ["--sample=1000", "--malloc"]:
        path, done = record_with(options, program)
        assert done.returncode == 0, (options, done)
        nothing_missing(report(path))


def a_crash_is_recorded_from_a_small_signal_stack():
    path, done = record_with(["--malloc"], build("signal_stack"), "crash")
    assert done.returncode == -signal.SIGFPE, done
    crash = report(path)["crash"]
    assert crash["signal"] == signal.SIGFPE, crash


def a_jump_out_of_a_handler_ends_no_recording():
    path, done = record_with(["--sample=1000"], build("jumps_out"))
    told = report(path)
    assert done.returncode == 0, done
    nothing_missing(told)
    assert told["sample"]["samples"] > 20, told["sample"]


def a_small_stack_is_enough_to_execute():
    program = build("small_exec")
    for options in ["--sample"], ["--malloc"], ["--malloc", "--follow"]:
        _, done = record_with(options, program)
        assert done.returncode == 7, (options, done)


def what_children_of_vfork_execute_with_is_given_back():
    os.mkdir(os.path.join(WORK, "children"))
    _, done = record_with(["--malloc", "--follow"], build("many_children"),
                     path=os.path.join(WORK, "children/run.sonde"))
    grown = int(done.stdout)
    print(f"{grown} KB more for 200 children")
    assert done.returncode == 0 and grown < 200, done


def handlers_of_ours_are_not_seen():
    _, done = record_with(["--malloc"], build("looks_at_handlers"))
    assert done.returncode == 0, done


def a_signal_may_come_when_libsonde_is_closed():
    library = os.path.join(LIB, "libsonde.so")
    done = subprocess.run([build("closes_library"), library], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done


run_cases(globals())
