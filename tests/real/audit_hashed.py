#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Hashed arguments of audited calls: the recording has none of their bytes, equal arguments of a run have equal hashes,
and another run has others."""
import json
import re

from helpers import compile_c, needs_agent, record, report, run_cases, sonde, try_sonde, write

needs_agent()

PROGRAM = r"""
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
__attribute__((noinline)) static void ask(const char *name) { getenv(name); __asm__ volatile(""); }
int main(void) {
  char first[] = "K3Y-FIRST", again[] = "K3Y-FIRST", other[] = "K3Y-OTHER", path[400] = "/nowhere/K3Y-PATH", cut[300];
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9), .sin_addr = {htonl(0x7f0a0b0c)}};
  char *words[] = {first, other, NULL}, *same[] = {again, other, NULL};
  ask(first), ask(again), ask(other);
  open(path, O_RDONLY);
  memset(cut, '/', sizeof cut), strcpy(cut + 290, "K3Y-CUT");
  open(cut, O_RDONLY);
  open((const char *)8, O_RDONLY);
  connect(-1, (struct sockaddr *)&to, sizeof to);
  execvp("/nowhere/program", words), execvp("/nowhere/program", same);
  return 0;
}
"""
POLICY = """version: 1
extends: none
categories:
  - id: own.hashed
    title: Hashed
    functions: [getenv(hashed-text), "open(hashed-path, flags)", "connect(-, hashed-address)", "execvp(-, hashed-strings)"]
"""
# The system calls of PROGRAM's functions, made without them.
DIRECT = r"""
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void) {
  char path[] = "/nowhere/K3Y-PATH";
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9), .sin_addr = {htonl(0x7f0a0b0c)}};
  for (int i = 0; i < 3; i++) syscall(SYS_openat, AT_FDCWD, path, O_RDONLY);
  syscall(SYS_connect, -1, &to, sizeof to);
  open(path, O_RDONLY);
  connect(-1, (struct sockaddr *)&to, sizeof to);
  return 0;
}
"""
COVERED = """version: 1
extends: none
categories:
  - id: own.covered
    title: Covered
    functions: ["open(KIND, flags)", "openat(-, path, flags)", "connect(-, ADDRESS)"]
"""
HASH = re.compile(r"^#[0-9a-f]{16}$")
_made = []


def _runs():
    """Two recordings of the program and, of each, {function: [arguments]}."""
    program, policy = compile_c(write(PROGRAM, ".c"), "-O1"), write(POLICY, ".yaml")
    for _ in range(2 - len(_made)):
        path, done = record([program], f"--audit={policy}")
        assert done.returncode == 0, done
        told = {}
        for row in report(path, "--all", "audit")["audit"]["findings"]:
            told.setdefault(row["function"], []).extend([row["arguments"]] * row["calls"])
        _made.append((path, told))
    return _made


def equal_arguments_have_equal_hashes():
    for _, told in _runs():
        asked = told["getenv"]
        assert len(asked) == 3 and len(set(asked)) == 2 and max(map(asked.count, asked)) == 2, told
        opened = [text.split(", ") for text in told["open"]]
        assert len({hashed for hashed, _ in opened}) == 3 and all(flags == "O_RDONLY" for _, flags in opened), told
        assert len(set(told["execvp"])) == 1 and len(told["execvp"]) == 2 and len(told["connect"]) == 1, told
        for text in asked + told["connect"] + told["execvp"] + [hashed for hashed, _ in opened]:
            assert HASH.match(text), told


def another_run_has_other_hashes():
    (_, one), (_, other) = _runs()
    for function in one:
        hashes = [{text.split(",")[0] for text in told[function]} for told in (one, other)]
        assert not hashes[0] & hashes[1], (function, hashes)


def the_recording_has_no_byte_of_them():
    for path, _ in _runs():
        with open(path, "rb") as file:
            data = file.read()
        address = bytes((0x7f, 0x0a, 0x0b, 0x0c))
        assert b"K3Y-" not in data and b"\x00\x09" + address not in data, path


def _covered(path_kind, address_kind):
    """The recording, and its system calls below the hooks as {call: {arguments: calls}}."""
    policy = write(COVERED.replace("KIND", path_kind).replace("ADDRESS", address_kind), ".yaml")
    path, done = record([compile_c(write(DIRECT, ".c"), "-O1")], f"--audit={policy}", "--coverage")
    assert done.returncode == 0, done
    told = {}
    for row in report(path, "audit")["audit"]["coverage"]["system_calls"]:
        if row["class"] == "below":
            told.setdefault(row["call"], {})[row["arguments"]] = row["calls"]
    return path, told


def system_calls_are_recorded_as_the_policy_keeps_them():
    address = bytes((0x7f, 0x0a, 0x0b, 0x0c))
    path, told = _covered("path", "address")
    assert told["openat"] == {'"/nowhere/K3Y-PATH", O_RDONLY': 3}, told
    assert list(told["connect"].values()) == [1] and "127.10.11.12" in list(told["connect"])[0], told
    for kinds in ("-", "-"), ("hashed-path", "hashed-address"):
        path, told = _covered(*kinds)
        with open(path, "rb") as file:
            data = file.read()
        assert b"K3Y-" not in data and b"\x00\x09" + address not in data, kinds
        assert told == {"openat": {"O_RDONLY": 3}, "connect": {"-1": 1}}, told
        lines = [json.loads(line) for line in sonde("events", path).splitlines()]
        assert sorted(line["arguments"] for line in lines if line.get("class") == "below") == ["-1", "O_RDONLY"], lines


def a_baseline_knows_them_again():
    (one, _), (other, _) = _runs()
    known = write(sonde("audit", "baseline", one), ".json")
    assert try_sonde("diff", known, other).returncode == 0


def they_cannot_be_matched():
    done = try_sonde("audit", "check", write(POLICY + '    match: ["K3Y-*"]\n', ".yaml"))
    assert done.returncode == 2 and "match" in done.stderr, done
    text = sonde("audit", "check", write(POLICY, ".yaml"))
    assert "open(hashed-path, flags)" in text, text


run_cases(globals())
