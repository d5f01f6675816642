#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""One line of source has several call instructions after the compiler unrolled its loop. People see one place, so
text has one row for it; JSON has each stack."""
import json
import re

from helpers import compile_c, needs_agent, record, report, run_cases, sonde

needs_agent()

SOURCE = r"""
#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/socket.h>
static void *volatile kept;
static int reach(void) {
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(1), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  return connect(fd, (struct sockaddr *)&a, sizeof a);
}
int main(void) {
  int failed = 0;
#pragma GCC unroll 6
  for (int i = 0; i < 6; i++) failed += reach();
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) kept = malloc(100 + 10 * (size_t)i);
  kept = 0;
  return failed == 0;
}
"""


def program(*options):
    return compile_c(SOURCE, "-g", "-O2", *options)


def a_line_that_leaks_is_one_row():
    path, _ = record([program()], "--leaks")
    told = json.loads(sonde("leaks", "--json", path))
    assert len(told["stacks"]) == 4, told
    for text in sonde("leaks", path), sonde("report", path, "leaks"):
        assert len(re.findall(r" blocks?  e\.g\.", text)) == 1, text
        assert re.search(r" 460 B in 4 blocks  e\.g\. 0x\w+  stack \d+ and 3 alike\n", text), text
    text = sonde("report", "--by", "leaked", path, "malloc")
    assert re.search(r"\n +460 B +[\d.]+ % +4  stack \d+\n", text), text
    assert re.search(r"all \d+ stacks", text) or text.count("  stack ") == 1, text


def descriptors_do_not_split_a_finding():
    """The calls of a static program are traced, those of the other are hooked."""
    for options in (), ("-static",):
        path, _ = record([program(*options)], "--audit=net")
        told = report(path, "audit")["audit"]["findings"]
        assert sum(row["function"] == "connect" for row in told) == 6, told
        for text in sonde("report", path), sonde("report", path, "audit"):
            assert len(re.findall(r" 6 ×  connect\(…, 127\.0\.0\.1:1\) = -1 ECONNREFUSED", text)) == 1, text
            assert len(re.findall(r" 6 ×  socket\(AF_INET, SOCK_STREAM, 0\) = 3, …", text)) == 1, text
            assert text.count("connect(") == 1 + text.count("with connect("), text
        assert re.search(r"\n +reach  /.*\.c:9  \(inlined\)\n", sonde("report", path)), sonde("report", path)


def one_call_keeps_its_descriptor():
    path, _ = record([compile_c(SOURCE.replace("i < 6", "i < 1"), "-g", "-O2")], "--audit=net")
    assert " 1 ×  connect(3, 127.0.0.1:1) = -1 ECONNREFUSED" in sonde("report", path, "audit")


run_cases(globals())
