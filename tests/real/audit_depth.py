#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Audits of limited depth count what a whole audit counts, by the innermost frames; and the built-in
policies for files, networks and programs record what a small program does, with flags by name."""
import collections
import json

from helpers import compile_c, needs_agent, run_cases, sonde, try_sonde, write

needs_agent()

# Every path of calls through four levels of two functions opens a file: 16 stacks, 4 of each inner pair.
PATHS = """
#include <fcntl.h>
#include <unistd.h>
#define LEVEL(name, next) \\
  __attribute__((noinline)) static void left_##name(unsigned way) { next; __asm__ volatile(""); } \\
  __attribute__((noinline)) static void right_##name(unsigned way) { next; __asm__ volatile(""); }
static void call(unsigned way) { close(open(way & 1 ? "/etc/passwd" : "/etc/group", O_RDONLY | O_CLOEXEC)); }
LEVEL(1, call(way >> 1))
LEVEL(2, way & 1 ? right_1(way >> 1) : left_1(way >> 1))
LEVEL(3, way & 1 ? right_2(way >> 1) : left_2(way >> 1))
LEVEL(4, way & 1 ? right_3(way >> 1) : left_3(way >> 1))
int main(void) { for (unsigned way = 0; way < 320; way++) if (way & 1) right_4(way >> 1); else left_4(way >> 1); }
"""
DOES = """
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
int main(void) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9), .sin_addr = {htonl(INADDR_LOOPBACK)}};
  int fd = open("made", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0640);
  close(fd); chmod("made", 0600); unlinkat(AT_FDCWD, "made", 0); mkdir("folder", 0755); rmdir("folder");
  close(open("/", O_RDONLY | O_DIRECTORY | O_PATH));
  fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0); connect(fd, (void *)&to, sizeof to); send(fd, "", 0, MSG_NOSIGNAL);
  kill(getpid(), 0);
  return system("true");
}
"""


def _findings(path):
    return json.loads(sonde("report", "--json", "--top", "10000", path, "audit"))["audit"]["findings"]


def _audit(folder, program, *options):
    path = folder / "run.sonde"
    sonde("record", "--force", *options, "-o", path, "--", program, cwd=folder)
    return _findings(path)


def _by_frames(findings, depth):
    """Calls by arguments and the innermost DEPTH functions."""
    sums = collections.Counter()
    for row in findings:
        functions = [frame.get("function") for frame in row["frames"] if not frame.get("inlined")]
        sums[row["arguments"], tuple(functions[:depth])] += row["calls"]
    return sums


def a_limited_audit_counts_the_same(folder):
    program = compile_c(PATHS, "-O1", "-g", "-fno-inline", "-fno-optimize-sibling-calls")
    policy = write("version: 1\nextends: none\ndepth: 3\ncategories:\n  - id: a.open\n    title: opens\n"
                   "    functions: ['open(path, flags)']\n", ".yaml")
    whole = _audit(folder, program, "--audit=files")
    assert len(whole) >= 32 and sum(row["calls"] for row in whole) == 320, whole
    for depth, options in ((1, ("--audit=files", "--audit-depth", "1")), (2, ("--audit-depth=2", "--audit=files")),
                           (3, (f"--audit={policy}",)), (64, ("--audit=files", "--audit-depth=64"))):
        rows = _audit(folder, program, *options)
        assert all(len(row["frames"]) <= depth for row in rows), (depth, rows)
        assert _by_frames(rows, depth) == _by_frames(whole, depth), (depth, rows)
        print(f"depth {depth}: {len(rows)} findings of {len(whole)}")
        assert depth == 64 or len(rows) < len(whole), (depth, len(rows))
    for wrong in "0", "65", "x":
        done = try_sonde("record", "--audit-depth", wrong, "--", "true")
        assert done.returncode == 125 and "from 1 to 64" in done.stderr, done
    done = try_sonde("audit", "check", write("version: 1\ndepth: 99\n", ".yaml"))
    assert done.returncode == 2 and ":2: 'depth' is a number of frames from 1 to 64" in done.stderr, done


def ready_policies_name_flags(folder):
    program = compile_c(DOES, "-O1", "-g")
    expected = {
        "files": {'open("made", O_WRONLY|O_CREAT|O_EXCL|O_NOFOLLOW)', 'chmod("made", 0600)', 'mkdir("folder", 0755)',
                  'unlinkat("made", 0)', 'open("/", O_RDONLY|O_PATH|O_DIRECTORY)', 'rmdir("folder")'},
        "net": {"socket(AF_INET, SOCK_DGRAM|SOCK_CLOEXEC, 0)", "connect(3, 127.0.0.1:9)"},
        "exec": {'system("true")', "kill("}}
    expected["exec,files,net"] = set().union(*expected.values())
    for policy, calls in expected.items():
        said = {f"{row['function']}({row['arguments']})" for row in _audit(folder, program, f"--audit={policy}")}
        missing = [call for call in calls if not any(one.startswith(call) for one in said)]
        assert not missing, (policy, missing, said)
        assert "valid" in sonde("audit", "check", policy)
    for wrong in "files,", ",net", "files,nets", "files net":
        done = try_sonde("audit", "check", wrong)
        assert done.returncode == 2 and "or a list of them" in done.stderr, done


def of_two_ready_policies_the_last_has_a_function(folder):
    program = compile_c(DOES, "-O1", "-g")
    for policy, category in ("descriptors,net", "net.socket"), ("net,descriptors", "descriptor.socket"):
        rows = _audit(folder, program, f"--audit={policy}")
        assert {row["category"] for row in rows if row["function"] == "socket"} == {category}, (policy, rows)
        assert any(row["category"] == "net.connect" for row in rows), (policy, rows)


def notes_are_no_faults(folder):
    path = folder / "run.sonde"
    sonde("record", "--audit=net,exec", "-o", path, "--", compile_c(DOES, "-O1", "-g"), cwd=folder)
    assert "Sensitive call" not in sonde("why", path), sonde("why", path)


run_cases(globals())
