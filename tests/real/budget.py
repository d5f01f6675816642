#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`sonde record --budget`: samples become fewer until sonde keeps to its share of a CPU, and times remain correct."""
import re
import subprocess

from helpers import (
    compile_c, events, fresh, needs_agent, report, run_cases, sonde, start_record, try_sonde, until, until_child)

needs_agent()

# Says that it runs, and computes until its input ends.
BURN = r"""
#include <poll.h>
#include <unistd.h>
int main(void) {
  struct pollfd input = {.fd = 0, .events = POLLIN};
  if (write(1, "ready\n", 6) != 6) return 1;
  for (volatile unsigned long n = 0; poll(&input, 1, 0) < 1;)
    for (int i = 0; i < 1000000; i++) n += i;
  return 0;
}
"""


def _status(pid):
    return dict(line.split(" ", 1) for line in sonde("ctl", pid, "status").splitlines())


def _record(*options):
    path, recorder = start_record([compile_c(BURN, "-O1")], *options, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True)
    assert recorder.stdout.readline() == "ready\n"
    return path, recorder, until_child(recorder.pid)


def _markers(path):
    return [e["name"] for e in events(path) if e["event"] == "marker"]


def samples_become_fewer_and_stand_for_more():
    """A thousand readings of all stacks a second cost more than a thousandth of a CPU on any machine."""
    path, recorder, pid = _record("--sample=1000", "--wall=1000", "--budget=0.1")
    until(lambda: int(_status(pid).get("slowed", "1/1")[2:]) >= 4, lambda: f"slower twice: {_status(pid)}")
    until(lambda: [e for e in events(path) if e["event"] == "sample" and e["missed"] >= 3], "samples of four intervals")
    assert "sample 500" in sonde("ctl", pid, "sample=500")
    recorder.stdin.close()
    said = recorder.stderr.read()
    assert recorder.wait() == 0, said
    assert said.count("samples and readings are fewer") == 1 and "budget is 0.1 %" in said, said
    paces = [int(re.search(r"1/(\d+) as often", name)[1]) for name in _markers(path)[:2]]
    assert paces[-1] >= 4 and paces == sorted(paces), paces
    whole = report(path, "cpu", "sample", "usage")
    used = whole["usage"]["sonde_ns"]["last"]
    times = whole["sample"]["cpu_time"]
    print(f"sonde {used / 1e6:.0f} ms, program {times['cpu_ns'] / 1e6:.0f} ms, sampled {times['sampled_ns'] / 1e6:.0f} ms")
    assert used > 0 and times["unsampled_ns"] < 0.1 * times["cpu_ns"] + 20e6, times


def nothing_changes_without_a_budget():
    path, recorder, pid = _record("--sample=1000", "--wall=1000")
    until(lambda: report(path, "usage")["usage"].get("sonde_ns"), "sonde's own CPU time is recorded")
    recorder.stdin.close()
    said = recorder.stderr.read()
    assert recorder.wait() == 0 and "fewer" not in said and not _markers(path), said


def a_budget_is_a_percentage():
    for word in "0", "101", "1x", "", "-1", "nan":
        done = try_sonde("record", f"--budget={word}", "-o", fresh(), "--", "true")
        assert done.returncode == 125 and "--budget takes" in done.stderr, (word, done)
    assert try_sonde("record", "--budget=off", "-o", fresh(), "--", "true").returncode == 0


run_cases(globals())
