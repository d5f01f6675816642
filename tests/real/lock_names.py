#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Waits name the function that the program called, and locks the variables that they are; nm names the addresses,
too. Equal waits of several threads are one row of the text."""
import re

from helpers import compile_c, needs_agent, output_of, record, report, run_cases, sonde, write

needs_agent()

SOURCE = r"""
#include <mutex>
#include <thread>
#include <unistd.h>
#include <vector>
namespace work {
std::mutex global_lock;
struct queue_t { long items[4]; std::mutex lock; };
queue_t queue;
void hold_global() { for (int i = 0; i < 3; i++) { std::lock_guard<std::mutex> l(global_lock); usleep(60000); } }
void hold_queue() { for (int i = 0; i < 3; i++) { std::lock_guard<std::mutex> l(queue.lock); usleep(60000); } }
}
int main() {
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; i++) threads.emplace_back(work::hold_global);
  for (int i = 0; i < 2; i++) threads.emplace_back(work::hold_queue);
  for (auto &t : threads) t.join();
}
"""
_made = []


def _recording():
    if not _made:
        program = compile_c(write(SOURCE, ".cpp"), "-O2", "-g", "-no-pie", "-pthread", compiler="c++")
        path, done = record([program], "--wall")
        assert done.returncode == 0, done
        _made.extend((program, path))
    return _made


def locks_are_variables():
    program, path = _recording()
    symbols = {name: int(address, 16) for address, name in
               re.findall(r"^([0-9a-f]+) [bB] (\S+)$", output_of("nm", "-C", program), re.M)}
    locks = {lock["variable"]: int(lock["lock"], 16) for lock in report(path, "waits")["waits"]["locks"]}
    assert locks == {"work::global_lock": symbols["work::global_lock"],
                     "work::queue+0x20": symbols["work::queue"] + 0x20}, (locks, symbols)


def equal_waits_are_one_row():
    text = sonde("report", _recording()[1], "waits")
    rows = re.findall(r"^ +[\d.]+ s  (.*)$", text.split("locks, by time")[0], re.M)
    assert sum("a lock work::global_lock" in row for row in rows) == 1, rows
    assert any("the end of a thread" in row for row in rows), rows
    assert sum(row.startswith("3 threads  usleep") for row in rows) == 1, rows
    assert any(row.endswith("usleep") for row in rows) and "futex" not in "".join(rows), rows


def calls_are_what_the_program_called():
    rows = report(_recording()[1], "wall")["wall"]["stacks"]
    called = {row["called"] for row in rows if row["where"] == "blocked"}
    assert {"pthread_mutex_lock", "pthread_join", "usleep"} <= called and "futex" not in called, called


def a_hook_of_sonde_is_not_what_was_called():
    """The agent's poll is between the program and the C library."""
    program = compile_c("#include <poll.h>\nint main(void) { for (int i = 0; i < 3; i++) poll(0, 0, 100); }")
    path, _ = record([program], "--wall", "--stall")
    called = {row.get("called") for row in report(path, "wall")["wall"]["stacks"] if row["where"] == "blocked"}
    assert "poll" in called and "[sonde]" not in called, called


run_cases(globals())
