#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""SARIF of real programs against the schema of SARIF 2.1.0, which an npm package brings, and against GitHub's limits."""
import json
import os
import pathlib
import sys

from helpers import BUILD, needs_agent, run_cases, skip, sonde, write
from macho.build import fetch
from shared.audits import compile_audited, record_audit

try:
    import jsonschema
except ImportError:  # the distribution's package is for the distribution's python
    jsonschema = None
    if sys.executable != "/usr/bin/python3" and os.path.exists("/usr/bin/python3"):
        os.execv("/usr/bin/python3", ["/usr/bin/python3", *sys.argv])


needs_agent()
if not jsonschema:
    skip("no python3-jsonschema to validate with")

PACKAGE, SCHEMA = "@microsoft/jest-sarif@1.0.0-beta.0", "sarif-2.1.0*.json"  # the last draft of the standard, which became it


def _validator():
    keep = pathlib.Path(BUILD, "npm-packages")
    keep.mkdir(parents=True, exist_ok=True)
    home = keep / PACKAGE.replace("/", "-")
    why = None if home.exists() else fetch(PACKAGE, keep, home)
    if why:
        skip(why)
    schema = json.loads(sorted(home.rglob(SCHEMA))[-1].read_text())
    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    return kind(schema)


VALIDATOR = _validator()
ALLOWED = """version: 1
allow:
  - category: user.database
    reason: it is what id does
    expires: 2999-12-31
"""


def _valid(sarif):
    errors = [f"{'/'.join(map(str, e.absolute_path))}: {e.message[:300]}" for e in VALIDATOR.iter_errors(sarif)]
    assert not errors, errors[:5]


def _exported(*arguments):
    sarif = json.loads(sonde("export", "--as", "sarif", *arguments))
    _valid(sarif)
    assert sarif["version"] == "2.1.0" and len(sarif["runs"]) == 1
    results = sarif["runs"][0]["results"]
    rules = {rule["id"] for rule in sarif["runs"][0]["tool"]["driver"]["rules"]}
    assert all(r["ruleId"] in rules and r["partialFingerprints"] and r["occurrenceCount"] > 0 for r in results)
    prints = [json.dumps(r["partialFingerprints"]) for r in results]
    assert len(set(prints)) == len(prints) <= 5000 and all(len(r["locations"]) <= 100 for r in results)
    return results


def real_programs_are_valid():
    policy = write(ALLOWED, ".yaml")
    for command in (["id", "root"], ["curl", "-s", "http://127.0.0.1:9/"], ["git", "--version"],
                    ["/usr/bin/python3", "-c", "import socket, os; socket.getaddrinfo('localhost', 80); os.getenv('A_TOKEN')"]):
        path, _ = record_audit(command, policy, "--coverage")
        results = _exported(path)
        assert results and all(r["stacks"] for r in results)
        baseline = write(sonde("audit", "baseline", path), ".json")
        assert {r["baselineState"] for r in _exported("--baseline", baseline, path)} == {"unchanged"}
        print(f"{command[0]}: {len(results)} results")


def nothing_found_is_valid():
    path, _ = record_audit(["true"], write("version: 1\nextends: none\ncategories:\n  - id: x\n    functions: [getservent()]\n", ".yaml"))
    assert _exported(path) == []


def text_of_any_bytes_is_valid():
    program = compile_audited(r"""
#include <unistd.h>
#include <stdlib.h>
static void again(int depth, const char *name) { if (depth) again(depth - 1, name); else unlink(name); __asm__(""); }
int main(void) {
  unlink("/nonexistent/\"\\\x01\x80\xff\n");
  unlink("/nonexistent/\xc3\xa4");
  for (int i = 0; i < 20; i++) again(i, "/nonexistent/deep"); /* stacks that look alike */
  getenv("A TOKEN ");
  return 0;
}""")
    path, _ = record_audit([program])
    assert len(_exported(path)) >= 3


def the_validator_finds_what_is_wrong():
    path, _ = record_audit(["id", "root"])
    sarif = json.loads(sonde("export", "--as", "sarif", path))
    sarif["runs"][0]["results"][0]["level"] = "grave"
    try:
        _valid(sarif)
    except AssertionError:
        return
    raise AssertionError("an unknown level was let pass")


run_cases(globals())
