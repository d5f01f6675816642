#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the Python functions in a stack add to an event of sonde record --malloc=all, in CPU time.

Each program runs in Debian's python3 and in a copy of it in which the symbol PyCode_Type has another name. sonde does not
know the copy as an interpreter, so its stacks have native frames alone. Both run plain and recorded, in turn. The cost is
the difference of what recording adds to each, divided by the events; least of the rounds, since other work only adds.

usage: bench/python_frames.py [ROUNDS [WORD…]]      after a build; WORD: programs whose name has it"""
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "record"))
from measure import Bars, Recorded, Runs, version  # noqa: E402

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 7
PYTHON, SYMBOL = os.path.realpath("/usr/bin/python3"), b"\0PyCode_Type\0"
LOOP = """
def at(depth, n):
    if depth > 1:
        return at(depth - 1, n)
    for _ in range(n):
        [None] * 7
at({depth}, {n})
"""
# Each Python function is called by a C function, which is called by a Python function.
BY_C = """
def at(depth, n):
    if depth > 1:
        return max([depth], key=lambda _: at(depth - 2, n))
    for _ in range(n):
        [None] * 7
at({depth}, {n})
"""
LIBRARIES = {
    "json": "import json\nfor _ in range(300): json.loads(json.dumps([{'a': i, 'b': str(i)} for i in range(300)], indent=1))",
    "re": "import re\nfor i in range(20000): re.sub(r'(a|b)+c', lambda m: m[0] * 2, 'xxabcab' * 8)",
    "sqlite3": "import sqlite3\nc = sqlite3.connect(':memory:')\nc.execute('create table t(a, b)')\n"
               "for i in range(60000): c.execute('insert into t values(?, ?)', (i, str(i)))",
    "asyncio": "import asyncio\nasync def one(n):\n    await asyncio.sleep(0)\n    return [n]\n"
               "async def main():\n    for _ in range(300): await asyncio.gather(*(one(i) for i in range(50)))\n"
               "asyncio.run(main())",
    "ast.unparse": "import ast, inspect\ntree = ast.parse(inspect.getsource(ast))\nfor _ in range(4): ast.unparse(tree)"}
GOALS = {10: 25, 20: 45}  # nanoseconds at a Python depth, of LOOP


def interpreter_without_python(folder):
    content = pathlib.Path(PYTHON).read_bytes()
    if content.count(SYMBOL) != 1:
        raise SystemExit(f"{PYTHON} does not have the symbol PyCode_Type once")
    copy = pathlib.Path(folder, "python3")
    copy.write_bytes(content.replace(SYMBOL, b"\0PyCode_Typo\0"))
    copy.chmod(0o755)
    return str(copy)


def least(runs):
    return min(run.cpu for run in runs.all)


def measure(program, interpreters, folder):
    """Nanoseconds that recording adds to an event: in Python, and in the copy; events."""
    runs = [(name, Runs(), Recorded(os.path.join(folder, f"{i}.sonde"), "--malloc=all")) for i, name in enumerate(interpreters)]
    for _ in range(ROUNDS):
        for name, plain, recorded in runs:
            command = [name, "-S", "-c", program]
            plain.again(command)
            recorded.again(command)
    events = [recorded.told()["events"] for _, _, recorded in runs]
    if abs(events[0] - events[1]) > events[0] / 100:
        raise SystemExit(f"the two interpreters allocate differently: {events}")
    return [1e9 * (least(recorded) - least(plain)) / events[0] for _, plain, recorded in runs], events[0]


def main():
    bars = Bars()
    programs = {f"a loop at Python depth {depth}": (LOOP.format(depth=depth, n=2000000), GOALS.get(depth)) for depth in (3, 10, 20)}
    programs |= {f"the same, called by C, {depth}": (BY_C.format(depth=depth, n=2000000), None) for depth in (3, 10, 20)}
    programs |= {name: (text, None) for name, text in LIBRARIES.items()}
    programs = {name: programs[name] for name in programs if not sys.argv[2:] or any(word in name for word in sys.argv[2:])}
    print(f"{version('python3.11')}, PYTHONMALLOC=malloc; rounds {ROUNDS}, least")
    print("  ns of CPU an event:           with Python  without  Python adds")
    with tempfile.TemporaryDirectory() as folder:
        interpreters = [PYTHON, interpreter_without_python(folder)]
        for name, (program, goal) in programs.items():
            (python, native), events = measure(program, interpreters, folder)
            verdict = bars.check(name, python - native, goal, "{:.1f}") if goal else ""
            print(f"  {name:30} {python:10.1f} {native:8.1f} {python - native:8.1f}  ({events} events) {verdict}", flush=True)
    bars.tell()


main()
