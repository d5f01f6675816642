#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Programs that leave the agent little room, or look closely at what it left: they go on as if they were
not recorded, and the recording is whole."""
import json
import os
import resource
import signal
import subprocess

from shared.cases import WORK, fresh, needs_agent, run

needs_agent()
SONDE = os.environ["SONDE"]
HERE = os.path.join(os.environ["SONDE_SOURCE"], "tests/real/tight")
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def compile_c(name):
    out = os.path.join(WORK, name)
    subprocess.run(["cc", "-O1", "-o", out, os.path.join(HERE, name + ".c"), "-pthread", "-ldl"], check=True)
    return out


def record(options, *command, path=None):
    path = path or fresh()
    done = subprocess.run([SONDE, "record", *options, "-o", path, "--", *command], capture_output=True,
                          text=True, timeout=300)
    return path, done


def report(path):
    done = subprocess.run([SONDE, "report", "--json", path], capture_output=True, check=True)
    return json.loads(done.stdout)


def a_small_signal_stack_is_enough():
    program = compile_c("signal_stack")
    for options in ["--sample=1000"], ["--wall=1000"], ["--sample=1000", "--malloc"]:
        path, done = record(options, program)
        assert done.returncode == 0, (options, done)
        assert not any(report(path)["missing"].values()), report(path)["missing"]


def a_crash_is_recorded_from_a_small_signal_stack():
    path, done = record(["--malloc"], compile_c("signal_stack"), "crash")
    assert done.returncode == -signal.SIGFPE, done
    crash = report(path)["crash"]
    assert crash["signal"] == signal.SIGFPE, crash


def a_jump_out_of_a_handler_ends_no_recording():
    path, done = record(["--sample=1000"], compile_c("jumps_out"))
    told = report(path)
    assert done.returncode == 0, done
    assert not any(told["missing"].values()), told["missing"]
    assert told["sample"]["samples"] > 20, told["sample"]


def a_small_stack_is_enough_to_execute():
    program = compile_c("small_exec")
    for options in ["--sample"], ["--malloc"], ["--malloc", "--follow"]:
        _, done = record(options, program)
        assert done.returncode == 7, (options, done)


def what_children_of_vfork_execute_with_is_given_back():
    os.mkdir(os.path.join(WORK, "children"))
    _, done = record(["--malloc", "--follow"], compile_c("many_children"),
                     path=os.path.join(WORK, "children/run.sonde"))
    grown = int(done.stdout)
    print(f"{grown} KB more for 200 children")
    assert done.returncode == 0 and grown < 200, done


def handlers_of_ours_are_not_seen():
    _, done = record(["--malloc"], compile_c("looks_at_handlers"))
    assert done.returncode == 0, done


def a_signal_may_come_when_libsonde_is_closed():
    library = os.path.join(os.environ["SONDE_BUILD"], "lib/libsonde.so")
    done = subprocess.run([compile_c("closes_library"), library], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done


run(globals())
