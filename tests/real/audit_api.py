#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sonde/audit.h: a program that audits itself, by itself and under sonde record, with libsonde shared and static."""
import subprocess

from helpers import INCLUDE, LINK_SHARED, LINK_STATIC, fresh, needs_agent, record, run_cases, sonde, write
from shared.audits import audit_of, compile_audited

needs_agent()

POLICY = """version: 1
extends: none
categories:
  - id: env
    functions: [getenv(text)]
    match: ["ACME_*"]
  - id: file.delete
    functions: [unlink(path)]
phases:
  - before: consent
    deny: [env]
"""

PROGRAM = """
#include <dlfcn.h>
#include <pthread.h>
#include <sonde/audit.h>
#include <sonde/malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char policy[1 << 16] __attribute__((aligned(8)));
static size_t size;

static void load(const char *path) {
  FILE *file = fopen(path, "rb");
  size = fread(policy, 1, sizeof policy, file);
  fclose(file);
}

static void *threads(void *n) {
  for (long i = 0; i < (long)n; i++) getenv("ACME_THREAD");
  return 0;
}

#define SAY(call) printf("%s %d\\n", #call, call)

int main(int argc, char **argv) {
  load(argv[1]);
  const char *path = argc > 3 ? argv[3] : NULL;
  char *(*copied)(const char *) = (char *(*)(const char *))dlsym(RTLD_DEFAULT, "getenv");
  getenv("ACME_NEVER");
  SAY(sonde_audit_stop());
  SAY(sonde_audit_start("this is no policy at all, of whatever length it may be", 54, path));
  SAY(sonde_audit_start(policy, 40, path));
  if (!strcmp(argv[2], "join")) SAY(sonde_malloc_log_start(path, SONDE_MALLOC_BLOCKS));
  SAY(sonde_audit_start(policy, size, path));
  SAY(sonde_audit_start(policy, size, path));
  void *volatile block = malloc(77);
  free(block);
  getenv("ACME_EARLY");
  getenv("HOME");
  SAY(sonde_audit_phase("consent"));
  getenv("ACME_LATE");
  copied("ACME_COPIED"); /* taken before: not hooked */
  copied = (char *(*)(const char *))dlsym(RTLD_DEFAULT, "getenv");
  copied("ACME_FOUND");
  unlink("/nonexistent/x");
  pthread_t t[4];
  for (int i = 0; i < 4; i++) pthread_create(&t[i], 0, threads, (void *)1000L);
  for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
  if (!strcmp(argv[2], "again")) {
    SAY(sonde_audit_stop());
    getenv("ACME_NEVER");
    copied("ACME_NEVER");
    char next[4096];
    snprintf(next, sizeof next, "%s.again", path);
    load(argv[4]); /* another policy, whose functions have other numbers */
    SAY(sonde_audit_start(policy, size, next));
    copied("ACME_NEVER"); /* through the thunk of the policy before */
    getenv("ACME_AGAIN");
    unlink("/nonexistent/x");
  }
  if (strcmp(argv[2], "exit")) SAY(sonde_audit_stop());
  getenv("ACME_AFTER");
  if (!strcmp(argv[2], "join")) SAY(sonde_malloc_log_stop());
  return 0;
}"""

EXPECTED = {'"ACME_EARLY"': (1, "consent"), '"ACME_LATE"': (1, None), '"ACME_FOUND"': (1, None), '"ACME_THREAD"': (4000, None),
            '"/nonexistent/x"': (1, None)}


def _compiled(text):
    out = fresh(".aud")
    sonde("audit", "compile", write(text, ".yaml"), "-o", out)
    return out


def _programs():
    return {how: compile_audited(PROGRAM, INCLUDE, "-pthread", "-ldl", *link)
            for how, link in (("shared", LINK_SHARED), ("static", LINK_STATIC))}


PROGRAMS, FLAT = _programs(), _compiled(POLICY)


def _said(done):
    assert done.returncode == 0, done
    return dict(line.rsplit(" ", 1) for line in done.stdout.decode().splitlines())


def _found(path):
    return {r["arguments"]: (r["calls"], r.get("too_early")) for r in audit_of(path)["findings"]}


def _expected(way):
    return {**EXPECTED, '"ACME_AFTER"': (1, None)} if way == "exit" else EXPECTED


def a_program_audits_itself():
    for how, program in PROGRAMS.items():
        for way in ("stop", "exit", "join"):
            path = fresh()
            done = subprocess.run([program, FLAT, way, path], capture_output=True, timeout=150)
            said = _said(done)
            assert said["sonde_audit_phase(\"consent\")"] == "0", said
            assert _found(path) == _expected(way), (how, way, _found(path), done)
            assert ('"event":"malloc"' in sonde("events", path)) == (way == "join")


def one_policy_follows_another():
    other = _compiled("version: 1\nextends: none\ncategories:\n  - id: removes\n    functions: [remove(path), unlink(path), rmdir(path)]\n")
    for program in PROGRAMS.values():
        path = fresh()
        _said(subprocess.run([program, FLAT, "again", path, other], capture_output=True, timeout=150))
        assert _found(path) == EXPECTED, _found(path)
        assert _found(path + ".again") == {'"/nonexistent/x"': (1, None)}, _found(path + ".again")


def under_a_recorder_it_goes_into_its_recording():
    for program in PROGRAMS.values():
        for mode, way in (("--malloc=off", "stop"), ("--malloc=all", "exit")):
            path, done = record([program, FLAT, way], mode)
            _said(done)
            assert _found(path) == _expected(way), _found(path)


def a_recorders_audit_stays_in_force():
    policy = write(POLICY, ".yaml")
    for program in PROGRAMS.values():
        path, done = record([program, FLAT, "stop"], "--audit=" + policy)
        said = _said(done)
        busy = said["sonde_audit_start(policy, size, path)"]
        assert int(busy) < 0 and said["sonde_audit_stop()"] == busy, said
        found = _found(path)
        assert {k: v for k, v in found.items() if k not in ('"ACME_NEVER"', '"ACME_AFTER"', '"ACME_COPIED"')} == EXPECTED, found
        assert found['"ACME_NEVER"'] == (1, "consent") and found['"ACME_AFTER"'] == (1, None), found


def what_is_no_policy_is_refused():
    done = subprocess.run([PROGRAMS["shared"], FLAT, "stop", fresh()], capture_output=True, timeout=150)
    lines = [line.rsplit(" ", 1) for line in done.stdout.decode().splitlines()]
    codes = {name: int(code) for name, code in lines[:3]}
    assert all(code < 0 for code in codes.values()), codes
    sonde("audit", "compile", write("version: 1\nallow: 3\n", ".yaml"), "-o", fresh(), status=2)
    sonde("audit", "compile", "linux", status=2)
    sonde("audit", "compile", "linux", "-o", "/nonexistent/folder/x", status=2)


run_cases(globals())
