#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sonde why: programs with one seeded bug are told of with the function that has it, healthy programs with
nothing. The sources in tests/real/why say where the bug is."""
import atexit
import json
import os
import shutil
import subprocess

from helpers import (
    WORK, compile_c, fresh, kill, needs_agent, output_of, record, run_cases, sonde, source_file, states_of, try_sonde, until)

SENSORS = ["--sample", "--stall", "--wall", "--malloc"]


def build(name):
    return compile_c(source_file("real", "why", name + ".c"), "-O1", "-g", "-pthread", "-fno-optimize-sibling-calls",
                     out=os.path.join(WORK, name))


def why(*words):
    return json.loads(sonde("why", "--json", *words))


def explained(name, *arguments, sensors=SENSORS):
    path, _ = record([build(name), *map(str, arguments)], *sensors)
    return path, why(path)


def first(told, kind, function):
    """The first finding, which must be a fault of this kind in FUNCTION."""
    assert not told["healthy"] and told["findings"], told
    finding = told["findings"][0]
    assert finding["kind"] == kind and finding["fault"], told
    assert finding["culprit"]["function"] == function, told
    assert f"{function} ({os.path.basename(finding['culprit']['file'])}:" in finding["sentence"], told
    assert len(told["findings"]) <= 5
    return finding


def deadlock():
    path, told = explained("deadlock", 1000)
    finding = told["findings"][0]
    first(told, "deadlock", finding["culprit"]["function"])
    assert "transfer (" in finding["sentence"] and "rotate (" in finding["sentence"], finding
    assert len(told["findings"]) == 1, told
    text = sonde("why", path)
    assert text.startswith("1. Deadlock: ") and f"sonde report {path} waits" in text, text
    assert sonde("why", "--markdown", path).startswith("1. Deadlock: thread ")


def convoy():
    finding = first(explained("convoy")[1], "lock-convoy", "write_log")
    assert "look_up (" in finding["sentence"] and " usleep " in finding["advice"], finding
    assert finding["evidence"]["figure"].startswith("lock "), finding


def busy_loop():
    assert "sched_yield" in first(explained("spin")[1], "busy-loop", "wait_until_ready")["sentence"]


def growth_of_a_cache_that_is_freed_at_the_end():
    first(explained("cache")[1], "growth", "remember")


def null_pointer():
    finding = first(explained("null")[1], "crash", "key_of_next")
    assert "a null pointer plus 8" in finding["sentence"], finding


def use_of_a_block_that_was_given_out_again():
    sentence = first(explained("kept")[1], "crash", "dispatch")["sentence"]
    assert all(f"{name} (kept.c:" in sentence for name in ("message_new", "connection_new", "connection_close")), sentence


def use_of_the_link_in_a_freed_block():
    """Of glibc, which shifts the links of its free lists by 12 bits since 2.32."""
    name, version = os.confstr("CS_GNU_LIBC_VERSION").split()
    if name == "glibc" and tuple(map(int, version.split("."))) >= (2, 32):
        finding = first(explained("link", sensors=["--malloc=all"])[1], "crash", "drop")
        assert "link in a freed block" in finding["sentence"], finding
        assert "add allocated and drop freed" in finding["sentence"], finding


def descriptors():
    finding = first(explained("descriptors", sensors=["--audit=descriptors"])[1], "descriptor-leak", "read_settings")
    assert finding["amount"] >= 100, finding


def descriptors_without_a_sensor_that_sees_who_opens_them():
    """Also when samples show it."""
    for sensor in ("--wall=10", "--wall=1000"):
        sentence = first(explained("descriptors", sensors=[sensor])[1], "descriptor-leak", "read_settings")["sentence"]
        assert "mostly files open for reading" in sentence and "only this one opens some" in sentence, sentence


def process_and_core(folder):
    """A deadlock, observed from outside; the oracle of the core's case is the same source."""
    process = subprocess.Popen([build("deadlock"), "60000"])
    atexit.register(process.kill)
    until(lambda: list(states_of(process.pid).values()).count("S") == 3, "all threads wait")
    told = why(process.pid)
    if shutil.which("gcore"):
        output_of("gcore", "-o", folder / "core", process.pid)
    kill(process)
    first(told, "deadlock", told["findings"][0]["culprit"]["function"])
    assert "event loops" in told["not_recorded"], told
    if shutil.which("gcore"):
        first(why(folder / f"core.{process.pid}"), "deadlock", told["findings"][0]["culprit"]["function"])


def zombies_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as children:
        return sum("Z" in states_of(child).values() for child in children.read().split())


def observed(*arguments):
    """What is told of the program hang, when it waits."""
    process = subprocess.Popen([build("hang"), *arguments], start_new_session=True)
    atexit.register(process.kill)
    until(lambda: states_of(process.pid) == {process.pid: "S"} and zombies_of(process.pid) == 10, "it waits")
    told = why(process.pid)
    kill(process)
    return told


def wait_that_nobody_can_end():
    finding = first(observed(), "hang", "receive")
    assert "only the program itself can write to it" in finding["sentence"], finding


def where_the_workers_wait():
    """The thread that waits for a connection is not all that is told."""
    process = subprocess.Popen([build("workers")])
    try:
        until(lambda: list(states_of(process.pid).values()).count("S") == 4, "all threads wait")
        (finding,) = why(process.pid)["findings"]
        assert not finding["fault"] and finding["kind"] == "blocked", finding
        told = finding["sentence"]
        assert " in serve (workers.c:" in told and "; 3 threads wait for a condition" in told and \
            " in take_job (workers.c:" in told, told
    finally:
        kill(process)


def a_loop_that_waits_and_tries_again():
    """No wait lasts long. A stripped program has no function to name: its code is named as `sonde stacks` does."""
    for options, place in ((), "reach_server (retry.c:"), (("-s",), " in retry.stripped+0x"):
        program = compile_c(source_file("real", "why", "retry.c"), "-O1", "-g", *options,
                            out=os.path.join(WORK, "retry.stripped" if options else "retry"))
        process = subprocess.Popen([program])
        atexit.register(process.kill)
        told = why(process.pid)
        kill(process)
        (finding,) = told["findings"]
        assert told["healthy"] and finding["kind"] == "blocked" and finding["tid"] == process.pid, told
        sentence = finding["sentence"]
        assert " again and again, mostly for " in sentence and place in sentence, sentence
        assert ("(no symbol)" in sentence) == bool(options), sentence


def a_go_program_has_more_than_threads():
    """Its goroutines that wait are in no thread: the sentence says where they are. The note is what Go's linker leaves."""
    note = """__asm__(".section .note.go.buildid, \\"a\\", %note\\n.balign 4\\n.long 4, 4, 4\\n.asciz \\"Go\\"\\n"
".byte 0\\n.long 1\\n.text");"""
    for go in True, False:
        program = compile_c((note if go else "") + "\n#include <unistd.h>\nint main(void) { return (int)sleep(600); }")
        process = subprocess.Popen([program])
        atexit.register(process.kill)
        until(lambda pid=process.pid: states_of(pid) == {pid: "S"}, "it waits")
        text = sonde("why", process.pid)
        kill(process)
        assert (f"goroutines that wait have no thread: sonde stacks {process.pid}." in text) == go, text


def children_that_nobody_waits_for():
    """A handler might write to the pipe, so that the wait is no fault."""
    told = observed("handler")
    assert told["findings"][0]["kind"] == "zombies" and told["findings"][0]["amount"] == 10, told
    assert "only this one starts processes: main (hang.c:" in told["findings"][0]["sentence"], told
    assert all(finding["kind"] != "hang" for finding in told["findings"]), told


def report_begins_with_it():
    path, told = explained("null")
    text = sonde("report", path, env={**os.environ, "COLUMNS": "80"})
    head = text.split("\n\n")[0].splitlines()
    assert sum("key_of_next" in line for line in head) == 1, text
    assert all(len(line) <= 80 for line in head[3:]), head
    assert json.loads(sonde("report", "--json", path))["why"] == told


def healthy_programs():
    for command in (["sort", "/etc/services"], ["gzip", "-c", "/bin/bash"],
                    ["python3", "-c", "d = {i: str(i) for i in range(300000)}"]):
        path, _ = record(command, *SENSORS)
        told = why(path)
        assert told["healthy"], (command, told)
        text = sonde("why", path)
        assert text.startswith("No fault was found in ") and text.count("\n") == 1, text


def what_was_never_freed_is_a_fact():
    path, told = explained("leaves", sensors=["--malloc=all"])
    note = told["findings"][0]
    assert told["healthy"] and not note["fault"] and note["culprit"]["function"] == "read_line", told
    assert note["amount"] == 5e6 and "90 % of them by read_line" in note["sentence"], note
    assert "5.0 MB were still allocated at the end" in sonde("why", path)


def not_recorded_is_named():
    path, _ = record(["sort", "/etc/services"], "--sample")
    told = why(path)
    assert "allocations" in told["not_recorded"] and "waits" in told["not_recorded"], told
    assert "waits (--wall)" in sonde("why", path)


def wrong_use():
    for words, reason in ((), "takes"), (("--json", "--markdown", fresh()), "exclude"), (("/etc/passwd",), "passwd"):
        done = try_sonde("why", *words)
        assert done.returncode == 2 and reason in done.stderr and done.stderr.count("\n") == 1, done


needs_agent()
def other_programs_use_the_processor():
    """The program and one that has 68 times its share have one processor (sched(7): nice 19 and 0)."""
    spins = "#include <time.h>\nint main(void) { time_t end = time(0) + 6; while (time(0) < end) {} return 0; }\n"
    cpu = {min(os.sched_getaffinity(0))}
    with subprocess.Popen(["sh", "-c", "while :; do :; done"], preexec_fn=lambda: os.sched_setaffinity(0, cpu)) as other:
        path, _ = record(["taskset", "-c", str(*cpu), "nice", "-n", "19", compile_c(spins, "-O1")])
        kill(other)
    told = why(path)
    note = told["findings"][0]
    assert told["healthy"] and note["kind"] == "waits-for-cpu" and not note["fault"] and note["amount"] > 4, told
    assert "s for a CPU, and ran for" in sonde("why", path), told


run_cases(globals())
