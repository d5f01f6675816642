#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Counts what ran. Reads ctest's JUnit files and prints a line for each stage, every skip with its
reason, every failure with what the test printed of it, and the sum. A cmocka program counts as its
cases, and so does a Python test, from the lines of tests/helpers.py; any other script counts as one.
Beside FILE.xml there may be FILE.again.xml: tests that failed, run twice more. One that passed then counts as
passed; it is listed as unsteady, with what it printed when it failed.

usage: tally.py STAGE=FILE.xml… [STAGE=pass | STAGE=fail | STAGE=skip:REASON]…
Exit 1 when anything failed or nothing passed."""
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

# Cases that a stage cannot try by its nature. The file explains its form.
NOT_APPLICABLE = pathlib.Path(__file__).with_name("not_applicable.txt")

# Of a failed test's output its last lines are shown, and before them what tells of a failure with the
# lines that led to it: a case in the middle of a program may be the one that failed.
LAST_LINES, LINES_BEFORE, LINES_MAX, CHARACTERS_MAX = 25, 8, 120, 2000
FAILURE = re.compile(r"FAIL|ERROR|\bError\b|Error:|[Aa]ssert|[Ss]anitizer|runtime error")


def excerpt(output):
    """The lines of OUTPUT that explain a failure; "…" stands for lines left out."""
    lines = output.rstrip().splitlines()
    shown = set(range(len(lines) - LAST_LINES, len(lines)))
    for i, line in enumerate(lines):
        if FAILURE.search(line) and len(shown) < LINES_MAX:
            shown.update(range(i - LINES_BEFORE, i + 2))
    told, before = [], -1
    for i in sorted(i for i in shown if 0 <= i < len(lines)):
        told += ["…"] * (i > before + 1) + [lines[i][:CHARACTERS_MAX]]
        before = i
    return told


def cases_of(name, output, status):
    """(passed, failed, skips) of one test, from the lines of cmocka or tests/helpers.py where it printed them."""
    passed = len(re.findall(r"^\[ +OK \] |^ok   \S+ \(\d+\.\d s\)", output, re.M))
    failed = len(set(re.findall(r"^\[  FAILED  \] (\S+)$|^FAIL (\S+): ", output, re.M)))
    # cmocka prints no reason; the line before it may: "skipped: REASON". It tells of all again at its end.
    reasons = {}
    for reason, case in re.findall(r"(?:^skipped: (.*)\n)?^\[  SKIPPED \] (\S+)$", output, re.M):
        reasons[case] = reasons.get(case) or reason
    reasons.update(re.findall(r"^skip (\S+): (.*)$", output, re.M))
    skips = [f"{name}: {case} ({why})" if why else f"{name}: {case}" for case, why in reasons.items()]
    if status == "notrun":
        last = (output.strip().splitlines() or ["no reason given"])[-1]
        return 0, 0, skips or [f"{name}: {last.removeprefix('skipped: ')}"]
    if status == "fail":
        return passed, max(failed, 1), skips
    return (passed, 0, skips) if passed or skips else (1, 0, [])


def count_stage(stage, result):
    """(passed, failed lines, skip lines, what failed tests printed) of a stage."""
    if result == "pass":
        return 1, [], [], []
    if result == "fail":
        return 0, [stage], [], []
    if result.startswith("skip:"):
        return 0, [], [f"{stage}: {result[5:]}"], []
    passed, failures, skips, told = 0, [], [], []
    preset = pathlib.Path(result).stem
    listed = {f"{stage}: {test}: {case}" for test, case in cases_not_applicable(preset)}
    try:
        tests = ElementTree.parse(result).getroot().iter("testcase")
    except (OSError, ElementTree.ParseError) as error:
        return 0, [f"{stage}: no result ({error})"], [], []
    again = tests_again(pathlib.Path(result).with_suffix(".again.xml"))
    for test in tests:
        name, output = f"{stage}: {test.get('name')}", test.findtext("system-out") or ""
        if test.get("status") == "fail" and again.get(test.get("name"), test).get("status") == "run":
            told += ["", f"---- UNSTEADY {name} failed after {float(test.get('time')):.1f} s and then passed", *excerpt(output)]
            test = again[test.get("name")]
            output = test.findtext("system-out") or ""
        good, bad, skipped = cases_of(name, output, test.get("status"))
        passed += good
        failures += [name] * bad
        skips += skipped
        if bad:
            told += ["", f"---- {name} failed after {float(test.get('time')):.1f} s", *excerpt(output)]
    met = {skip for skip in skips if skip.split(" (")[0] in listed}
    for case in sorted(listed - {skip.split(" (")[0] for skip in met}):
        told += ["", f"---- {case} is in {NOT_APPLICABLE.name} and is not skipped"]
    if met:
        print(f"{stage}: {len(met)} cases do not apply here ({NOT_APPLICABLE.name})")
    return passed, failures, [skip for skip in skips if skip not in met], told


def tests_again(path):
    """name -> testcase of the tests that were run again."""
    return {test.get("name"): test for test in ElementTree.parse(path).getroot().iter("testcase")} if path.exists() else {}


def cases_not_applicable(preset):
    """(test, case) of the lines of that preset that name a case."""
    rows = [line.split() for line in NOT_APPLICABLE.read_text().splitlines() if line[:1] not in ("", "#")]
    return [(row[1], row[2]) for row in rows if row[0] == preset and len(row) == 3]


def main():
    all_passed, all_failures, all_skips, all_told = 0, [], [], []
    for argument in sys.argv[1:]:
        stage, _, result = argument.partition("=")
        passed, failures, skips, told = count_stage(stage, result)
        print(f"{stage:<28} {passed:5} passed {len(failures):5} failed {len(skips):5} skipped")
        all_passed += passed
        all_failures += failures
        all_skips += skips
        all_told += told
    for skip in all_skips:
        print(f"SKIPPED {skip}")
    for line in all_told + [""] * bool(all_told):
        print(line)
    for failure in sorted(set(all_failures)):
        print(f"FAILED  {failure}")
    print(f"{all_passed} passed, {len(all_failures)} failed, {len(all_skips)} skipped")
    return 0 if all_passed and not all_failures else 1


if __name__ == "__main__":
    sys.exit(main())
