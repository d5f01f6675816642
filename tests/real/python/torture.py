# SPDX-License-Identifier: MIT
"""Computes in many kinds of Python frames for some seconds, while a signal handler compares stacks. numpy takes part
where it is installed.
usage: torture.py LIBRARY SECONDS OUT LINES"""
import ast
import asyncio
import ctypes
import functools
import gc
import json
import pickle
import random
import re
import sqlite3
import sys
import threading
import time
import weakref
import xml.parsers.expat

try:
    import numpy
except ImportError:
    numpy = None


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


def renamed():
    """A function with another name than its code was compiled with, as numpy's dispatchers are."""
    def function():
        return [str(i) for i in range(5)]
    function.__code__ = function.__code__.replace(co_name="another")
    function()


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


class Pickled:
    def __init__(self, value):
        self.value = value

    def __reduce__(self):
        return Pickled, (str(self.value),)


def query():
    """Functions, an aggregate and an order of SQL, which sqlite3 calls."""
    class Longest:
        def __init__(self):
            self.value = ""

        def step(self, value):
            self.value = max(self.value, str(value), key=len)

        def finalize(self):
            return self.value.upper()

    base = sqlite3.connect(":memory:", check_same_thread=False)
    base.create_function("twice", 1, lambda x: str(x) * 2)
    base.create_aggregate("longest", 1, Longest)
    base.create_collation("backward", lambda a, b: (a < b) - (a > b))
    base.execute("create table t(a)")
    base.executemany("insert into t values (?)", ((str(i),) for i in range(12)))
    list(base.execute("select twice(a) from t order by a collate backward"))
    list(base.execute("select longest(twice(a)) from t"))
    base.close()


def parse():
    names = []
    parser = xml.parsers.expat.ParserCreate()
    parser.StartElementHandler = lambda name, attributes: names.append(name + str(len(attributes)))
    parser.EndElementHandler = lambda name: names.append(str(name))
    parser.Parse("<a>" + "<b x='1'/>" * 10 + "</a>", True)


def collect():
    """Garbage that refers to itself, with finalizers and callbacks."""
    told = []
    for i in range(5):
        one = Number(i)
        one.self = one
        weakref.finalize(one, lambda i=i: told.append(str(i)))
    del one
    gc.collect()


def callbacks():
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
    numbers = (ctypes.c_int * 8)(*range(8, 0, -1))
    ctypes.CDLL(None).qsort(numbers, 8, 4, kind(lambda a, b: int(str(a[0])) - int(str(b[0]))))


def arrays():
    twice = numpy.frompyfunc(lambda x: str(x) * 2, 1, 1)
    twice(numpy.arange(10))
    numpy.apply_along_axis(lambda row: row * len(str(row)), 1, numpy.ones((3, 3)))


WORK += [renamed, query, parse, collect, callbacks, lambda: pickle.loads(pickle.dumps([Pickled(i) for i in range(10)]))]
WORK += [arrays] if numpy else []


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
