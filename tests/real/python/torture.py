# SPDX-License-Identifier: MIT
"""Computes in many kinds of Python frames for some seconds, while a signal handler compares stacks.
usage: torture.py LIBRARY SECONDS OUT"""
import ast
import asyncio
import ctypes
import functools
import json
import random
import re
import sys
import threading
import time


class Number:
    def __init__(self, value):
        self.value = value

    def __lt__(self, other):
        return str(self.value) < str(other.value)

    def __del__(self):
        str(self.value)

    @property
    def text(self):
        return "%r" % (self.value,)


def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def tree(n):
    if n:
        yield from tree(n - 1)
        yield str(n)
        yield from tree(n - 1)


async def add(a, b):
    await asyncio.sleep(0)
    return str(a) + str(b)


async def many():
    return await asyncio.gather(*(add(i, i) for i in range(10)))


def raising(n):
    try:
        if n == 0:
            raise KeyError(str(n))
        raising(n - 1)
    except KeyError as error:
        raise ValueError("x" * n) from error
    finally:
        str(n)


def churn():
    """Code objects that are freed, and new ones at the same addresses."""
    for i in range(20):
        lines = "\n" * random.randrange(50)
        scope = {}
        exec(f"def f(x):\n{lines}    return [str(y)\n        for y in range(x)]\nf(5)", scope)
        del scope


def deep(n):
    return str(n) if n == 0 else deep(n - 1) + "x"


def either(n):
    """Calls itself in the same call of the evaluator or in another one, with equal frames at equal addresses."""
    if n == 0:
        return str(n)
    return either(n - 1) if random.random() < 0.5 else next(map(either, (n - 1,)))


WORK = [
    lambda: fibonacci(10), lambda: list(tree(5)), lambda: asyncio.run(many()), churn, lambda: deep(80),
    lambda: [either(4) for _ in range(20)],
    lambda: sorted(Number(i % 7).text for i in range(50)), lambda: sorted([Number(i) for i in range(20)]),
    lambda: json.loads(json.dumps({str(i): [i] for i in range(20)}), object_hook=lambda d: dict(d)),
    lambda: re.sub("[a-c]", lambda m: m[0].upper(), "abcd" * 10),
    lambda: getattr(ast, "unparse", ast.dump)(ast.parse("a = [b for c in d]")),
    lambda: functools.reduce(lambda a, b: a + str(b), range(30), ""),
]


def raise_some():
    try:
        raising(5)
    except ValueError:
        pass


WORK.append(raise_some)


def run(end):
    chooser = random.Random(7)
    while time.process_time() < end:
        chooser.choice(WORK)()


library = ctypes.PyDLL(sys.argv[1])
with open(sys.argv[3], "wb") as out:
    if not library.compare_start(out.fileno(), 1000, 301, int(sys.argv[4])):
        sys.exit(77)
    end = time.process_time() + float(sys.argv[2])
    other = threading.Thread(target=run, args=(end,))
    other.start()
    run(end)
    other.join()
    inside = ctypes.c_int()
    captures = library.compare_stop(ctypes.byref(inside))
    different, merged = ctypes.c_int(), ctypes.c_int()
    events = library.compare_events(ctypes.byref(different), ctypes.byref(merged))
print(captures, inside.value, events, different.value, merged.value)
