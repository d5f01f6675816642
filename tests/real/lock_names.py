#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Waits name the function that the program called, and locks the variables and members that they are; nm names the
addresses, too. Equal waits of several threads are one row of the text."""
import platform
import re

from helpers import compile_c, needs_agent, output_of, record, report, run_cases, skip, sonde, write

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
                     "work::queue.lock": symbols["work::queue"] + 0x20}, (locks, symbols)


MEMBERS = r"""
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
struct counted { int count; };
struct account : counted { long balance; pthread_mutex_t door; };
static account accounts[4];
static struct { int kind; union { long number; struct { int pad; pthread_mutex_t inner; } parts; }; } any;
struct lock_pair { pthread_mutex_t first, second; };
pthread_mutex_t row[5];
static pthread_mutex_t *local() { static struct { char name[16]; lock_pair pair; } kept; return &kept.pair.second; }
static void *wait_for(void *lock) {
  pthread_mutex_lock((pthread_mutex_t *)lock);
  pthread_mutex_unlock((pthread_mutex_t *)lock);
  return 0;
}
int main() {
  pthread_mutex_t *locks[] = {&accounts[2].door, &any.parts.inner, local(), &row[3]};
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) pthread_mutex_lock(locks[i]);
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, wait_for, locks[i]);
  usleep(300000);
  for (int i = 0; i < 4; i++) pthread_mutex_unlock(locks[i]);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
}
"""


def members_are_named():
    """Of arrays, base classes, unnamed unions, static variables of functions. Without debug information, the offset."""
    source = write(MEMBERS, ".cpp")
    for options, expected in (
            (["-g"], {"accounts[2].door", "any.parts.inner", "local()::kept.pair.second", "row[3]"}),
            (["-g", "-gdwarf-4"], {"accounts[2].door", "any.parts.inner", "local()::kept.pair.second", "row[3]"}),
            ([], {"accounts+0x80", "any+0x10", "local()::kept+0x38", "row+0x78"})):
        program = compile_c(source, "-O2", "-pthread", *options, compiler="c++")
        path, _ = record([program], "--wall")
        assert {lock["variable"] for lock in report(path, "waits")["waits"]["locks"]} == expected, (options, report(path, "waits")["waits"]["locks"])


def equal_waits_are_one_row():
    text = sonde("report", _recording()[1], "waits")
    rows = re.findall(r"^ +[\d.]+ s  (.*)$", text.split("locks, by time")[0], re.M)
    # A stack that could not be read, or not to its end, is a row of its own: it may be of another place.
    waits = [wait for wait in report(_recording()[1], "waits")["waits"]["waits"] if wait.get("variable") == "work::global_lock"]
    unread = [wait for wait in waits if "stack" not in wait]
    stacks = {wait["stack"] for wait in waits if "stack" in wait}
    found = [row for row in rows if "a lock (work::global_lock)" in row]
    assert len(found) == len(stacks) + len(unread) and re.match("[23] threads", found[0]), (found, waits)
    assert any("the end of a thread" in row for row in rows), rows
    assert sum(bool(re.fullmatch("3 threads +usleep", row)) for row in rows) == 1, rows
    assert any(row.endswith("usleep") for row in rows) and "futex" not in "".join(rows), rows


def calls_are_what_the_program_called():
    rows = report(_recording()[1], "wall")["wall"]["stacks"]
    called = {row.get("called") for row in rows if row["where"] == "blocked"}
    assert {"pthread_mutex_lock", "pthread_join", "usleep"} <= called and "futex" not in called, called


UNNAMED = r"""
#include <string.h>
#include <sys/mman.h>
#include <time.h>
int main(void) {
  static const unsigned char nanosleep_call[] = {0xb8, 35, 0, 0, 0, 0x0f, 0x05, 0xc3}; /* mov, syscall, ret */
  const struct timespec time = {0, 300000000};
  void *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(code, nanosleep_call, sizeof nanosleep_call);
  ((void (*)(const struct timespec *, void *))code)(&time, 0);
}
"""


def a_stack_that_shows_no_function_has_no_called():
    """As when a library was mapped after the images were read. The text names the system call."""
    if platform.machine() != "x86_64":
        skip("the machine code is of x86_64")
    path, _ = record([compile_c(UNNAMED)], "--wall")
    rows = [row for row in report(path, "wall")["wall"]["stacks"] if row.get("syscall") == "nanosleep"]
    assert rows and not any("called" in row for row in rows), rows
    assert re.search(r"blocked +nanosleep", sonde("report", path, "wall")), sonde("report", path, "wall")


def a_hook_of_sonde_is_not_what_was_called():
    """The agent's poll is between the program and the C library."""
    program = compile_c("#include <poll.h>\nint main(void) { for (int i = 0; i < 3; i++) poll(0, 0, 100); }")
    path, _ = record([program], "--wall", "--stall")
    called = {row.get("called") for row in report(path, "wall")["wall"]["stacks"] if row["where"] == "blocked"}
    assert "poll" in called and "[sonde]" not in called, called


run_cases(globals())
