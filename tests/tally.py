#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Counts what ran. Reads ctest's JUnit files and prints every failure and every skip with its
reason, a line a stage, and the sum. A cmocka program counts as its cases, a script as one.

usage: tally.py STAGE=FILE.xml… [STAGE=pass | STAGE=fail | STAGE=skip:REASON]…
Exit 1 when anything failed or nothing passed."""
import re
import sys
import xml.etree.ElementTree as ElementTree


def cases_of(name, output, status):
    """(passed, failed, skips) of one test, from cmocka's own lines where it printed them."""
    passed = len(re.findall(r"^\[ +OK \] ", output, re.M))
    failed = len(set(re.findall(r"^\[  FAILED  \] (\S+)$", output, re.M)))
    # cmocka prints no reason; the line before it may: "skipped: REASON". It tells of all again at its end.
    reasons = {}
    for reason, case in re.findall(r"(?:^skipped: (.*)\n)?^\[  SKIPPED \] (\S+)$", output, re.M):
        reasons[case] = reasons.get(case) or reason
    skips = [f"{name}: {case} ({why})" if why else f"{name}: {case}" for case, why in reasons.items()]
    if status == "notrun":
        last = (output.strip().splitlines() or ["no reason given"])[-1]
        return 0, 0, skips or [f"{name}: {last.removeprefix('skipped: ')}"]
    if status == "fail":
        return passed, max(failed, 1), skips
    return (passed, 0, skips) if passed or skips else (1, 0, [])


def count_stage(stage, result):
    """(passed, failed lines, skip lines) of a stage."""
    if result == "pass":
        return 1, [], []
    if result == "fail":
        return 0, [stage], []
    if result.startswith("skip:"):
        return 0, [], [f"{stage}: {result[5:]}"]
    passed, failures, skips = 0, [], []
    try:
        tests = ElementTree.parse(result).getroot().iter("testcase")
    except (OSError, ElementTree.ParseError) as error:
        return 0, [f"{stage}: no result ({error})"], []
    for test in tests:
        output = test.findtext("system-out") or ""
        good, bad, skipped = cases_of(f"{stage}: {test.get('name')}", output, test.get("status"))
        passed += good
        failures += [f"{stage}: {test.get('name')}"] * bad
        skips += skipped
    return passed, failures, skips


def main():
    all_passed, all_failures, all_skips = 0, [], []
    for argument in sys.argv[1:]:
        stage, _, result = argument.partition("=")
        passed, failures, skips = count_stage(stage, result)
        print(f"{stage:<28} {passed:5} passed {len(failures):5} failed {len(skips):5} skipped")
        all_passed += passed
        all_failures += failures
        all_skips += skips
    for skip in all_skips:
        print(f"SKIPPED {skip}")
    for failure in sorted(set(all_failures)):
        print(f"FAILED  {failure}")
    print(f"{all_passed} passed, {len(all_failures)} failed, {len(all_skips)} skipped")
    return 0 if all_passed and not all_failures else 1


if __name__ == "__main__":
    sys.exit(main())
