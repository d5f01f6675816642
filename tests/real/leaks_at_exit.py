#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sonde record --leaks: what a program that ends has leaked is what memcheck says, block by block and
by the function that allocated; a program that does not exit by itself is not searched, and says so."""
import collections
import json
import re
import subprocess

from helpers import compile_c, fresh, needs, needs_agent, record, run_cases, sonde, source_file, try_sonde

needs_agent()

OWN = ("drop", "chain", "ring", "itself", "keep", "containers", "wait_for_ever", "leave")


def _programs():
    for options in ("-O0",), ("-O2", "-fno-inline", "-fno-optimize-sibling-calls"):
        yield compile_c(source_file("real", "leaks", "at_exit.cc"), "-g", "-fno-builtin", "-pthread",
                        *options, compiler="c++")


def _own(names):
    """The innermost of the program's functions."""
    plain = [re.sub(r"\(.*", "", name.replace("(anonymous namespace)::", "")) for name in names]
    assert set(plain) & set(OWN), names
    return next(name for name in plain if name in OWN)


def _memcheck(command):
    """Blocks and bytes that are leaked, and that hang on these; the functions of each leaked stack with
    the number of its blocks."""
    totals, stacks = {}, []
    text = subprocess.run(["valgrind", "--leak-check=full", "--num-callers=40", *command], capture_output=True,
                          text=True, check=False, errors="replace", timeout=150).stderr
    for key, words in ("leaked", "definitely"), ("indirect", "indirectly"):
        found = re.search(words + r" lost: ([\d,]+) bytes in ([\d,]+) blocks", text)
        assert found or "All heap blocks were freed" in text, text
        size, count = (int(n.replace(",", "")) for n in found.groups()) if found else (0, 0)
        totals[key] = {"blocks": count, "bytes": size}
    for line in text.splitlines():
        record_of = re.search(r" in ([\d,]+) blocks are (\w+) lost", line)
        frame = re.search(r"(?:at|by) 0x[0-9A-F]+: (.*) \(.*?\)$", line)
        if record_of:
            stacks.append((int(record_of[1].replace(",", "")), record_of[2], []))
        elif frame and stacks:
            stacks[-1][2].append(frame[1])
    return totals, [(count, names) for count, kind, names in stacks if kind == "definitely"]


def _leaks(path, *words):
    return json.loads(sonde("leaks", "--json", "--top", "1000", *words, path))


def _by_function(told):
    found = collections.Counter()
    for stack in told["stacks"]:
        names = [frame["function"] for frame in stack["frames"]]
        found[_own(names)] += stack["leaked"]["blocks"]
    return found


def _is_uncertain(told):
    return any(stack["uncertain"] for stack in told["stacks"])


def _searched(command, *mode):
    """What is leaked at the exit of a command. A thread that gets no CPU time for 0.1 s, on a busy machine, tells no
    registers, so that all is uncertain: then the command runs once more."""
    for _ in range(20):
        path, done = record(command, "--leaks", *mode, text=True)
        assert done.returncode == 0 and re.search(" blocks leaked.*; 'sonde leaks", done.stderr), done
        told = _leaks(path)
        if not _is_uncertain(told):
            break
    return told


def the_leaks_are_memchecks():
    needs("valgrind")
    compared = 0
    for program, words in zip(_programs(), (["return"], ["exit", "thread"])):
        totals, stacks = _memcheck([program, *words])
        by_function = collections.Counter()
        for count, names in stacks:
            by_function[_own(names)] += count
        assert totals["leaked"]["blocks"] > 25, totals
        for mode in [], ["--malloc=all"]:
            told = _searched([program, *words], *mode)
            assert told["result"] == "searched" and told["every_block_recorded"], told
            assert {key: told[key] for key in totals} == totals, (words, mode, told, totals)
            assert not _is_uncertain(told), told
            found = _by_function(told)
            assert found == by_function, (words, mode, found - by_function, by_function - found)
            compared += 1
    print(compared, "runs leak what memcheck says")


def stacks_of_ended_threads_hold_nothing():
    needs("valgrind")
    program = compile_c(source_file("real", "leaks", "ended.c"), "-O1", "-g", "-fno-builtin", "-pthread")
    totals = _memcheck([program])[0]
    assert totals["leaked"]["blocks"] == 24, totals
    told = _searched([program])
    assert {key: told[key] for key in totals} == totals, (totals, told)


def programs_that_nobody_here_wrote():
    needs("valgrind", "perl", "sqlite3")
    for command in (["perl", "-e", "my @a = (1 .. 100); print scalar @a"],
                    ["sqlite3", ":memory:", "create table t(a); insert into t values(1); select * from t"]):
        path, done = record(command, "--leaks", text=True)
        assert done.returncode == 0, done
        told = _leaks(path)
        totals = _memcheck(command)[0]
        assert {key: told[key] for key in totals} == totals, (command, told["leaked"], totals)


def what_does_not_exit_is_not_searched():
    program = next(_programs())
    for how, status in ("_exit", 0), ("abort", -6):
        path, done = record([program, how], "--leaks", text=True)
        assert done.returncode == status and "were not searched for" in done.stderr, done
        assert _leaks(path)["result"] == "no_exit"
        assert "not searched" in sonde("leaks", path)
        assert try_sonde("leaks", "--max", "0", path).returncode == 2
    path, _ = record([program, "return"], "--malloc")
    done = try_sonde("leaks", path)
    assert done.returncode == 2 and "--by leaked" in done.stderr, done
    assert try_sonde("record", "--leaks", "--malloc=sample:512K", "--", program, "return").returncode == 125


def a_result_that_cannot_be_written_is_told_of():
    program = next(_programs())
    path, done = record(["sh", "-c", f"sleep 2; exec {program} return"], "--leaks", "--keep-free", "100000G", text=True)
    assert done.returncode == 0 and f"search for leaks cannot be written to '{path}'" in done.stderr, done
    assert "sonde leaks" not in done.stderr and try_sonde("leaks", path).returncode == 2, done


def every_total_is_of_all_that_is_lost():
    """record, leaks, the report, its summary and the gate count blocks that nothing points to and what these lead to."""
    program = compile_c(source_file("real", "leaks", "audits.c"), "-g", "-O1")
    path, done = record([program], "--leaks", text=True)
    told = _leaks(path)
    expected = [{"blocks": 80, "bytes": 40 * (16 + 900)}, {"blocks": 40, "bytes": 640}, {"blocks": 40, "bytes": 36000}]
    for counts in told, *told["stacks"]:
        assert [counts[key] for key in ("total", "leaked", "indirect")] == expected, told
    parts = ": 640 B in 40 blocks that nothing points to, the rest reachable only from them"
    assert f"36.6 KB in 80 blocks leaked{parts}; 'sonde leaks" in done.stderr, done
    assert f"\nleaked  36.6 KB in 80 blocks{parts}\n     36.6 KB in 80 blocks{parts}  e.g." in sonde("leaks", path)
    assert f"leaks at exit\n  leaked     36.6 KB in 80 blocks{parts}\n" in sonde("report", path)
    assert f"\nleaked  36.6 KB in 80 blocks{parts}\n" in sonde("report", path, "leaks")
    assert "36.6 KB leaked > 1.0 KB" in try_sonde("leaks", "--max", "1K", path).stderr
    assert "36.6 KB in 80 blocks leaked" in " ".join(sonde("why", path).split())


def the_gate_and_the_report_tell_of_it():
    program = next(_programs())
    path, _ = record([program, "return"], "--leaks")
    assert try_sonde("leaks", "--max", "1M", path).returncode == 0
    done = try_sonde("leaks", "--max", "0", path)
    assert done.returncode == 1 and "(--max)" in done.stderr, done
    assert "leaks at exit\n  leaked " in sonde("report", path)
    said = json.loads(sonde("report", "--json", path, "leaks"))["leaks"]
    assert {k: said[k] for k in ("leaked", "indirect")} == {k: _leaks(path)[k] for k in ("leaked", "indirect")}
    first = " ".join(sonde("why", path).split())
    assert re.match(r"1\. [\d.]+ KB in \d+ blocks leaked; .*containers \(at_exit.cc:\d+\) allocated", first), first
    packed = fresh()
    sonde("pack", "-o", packed, path)
    assert _leaks(packed) == _leaks(path)


run_cases(globals())
