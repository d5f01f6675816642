# SPDX-License-Identifier: MIT
"""A program whose threads wait in many kinds of Python frames. It prints what the interpreter says of each
thread, and waits: a JSON object from native thread ids to frames [function, file, line], innermost first.
With the argument "running" one thread runs native code instead. It runs on CPython 3.8 and later."""
import asyncio
import functools
import hashlib
import json
import os
import re
import sys
import threading
import time

ids = {}  # native id by identifier
gate = threading.Barrier(15)


def rest():
    """Waits without the interpreter's lock, for ever."""
    gate.wait()
    os.read(pipe[0], 1)


def deep(n):
    return deep(n - 1) if n else rest()


def generator(n):
    if n:
        yield from generator(n - 1)
    yield rest()


def late():
    result = []
    try:
        raise ValueError
    except ValueError:
        result.append(
            [rest()
             for _ in range(1)])
    finally:
        result.append(0)
    return result


class Thing:
    def __init__(self, method="__init__"):
        if method == "__init__":
            rest()

    def __eq__(self, other):
        rest()
        return True

    __hash__ = None

    @property
    def value(self):
        return functools.reduce(lambda a, b: rest(), [1, 2])

    @staticmethod
    def naïve_名前():
        eval(compile("(lambda: rest())()", "<généré 名>", "eval"))


async def inner():
    await asyncio.sleep(0)
    rest()


async def outer():
    await asyncio.gather(inner(), return_exceptions=False)


class Import:
    """A finder, called from inside an import."""
    def find_spec(self, name, path=None, target=None):
        if name == "no_module_has_this_name":
            rest()


def do_import():
    __import__("no_module_has_this_name")


def hash_long():
    """Runs native code without the interpreter's lock, if asked to."""
    if sys.argv[1:] != ["running"]:
        return rest()
    gate.wait()
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2000000000)


def many_lines():
    exec("\n" * 70000 + "rest()", globals())


def unwinding():
    class Closer:
        def __del__(self):
            rest()
    closer = Closer()
    del closer


def start(function):
    def run():
        ids[threading.get_ident()] = threading.get_native_id()
        function()
    threading.Thread(target=run, daemon=True).start()


def snapshot():
    told = {}
    ids[threading.get_ident()] = threading.get_native_id()
    for ident, frame in sys._current_frames().items():
        frames = []
        while frame:
            code = frame.f_code
            frames.append([getattr(code, "co_qualname", code.co_name), code.co_filename, frame.f_lineno])
            frame = frame.f_back
        told[ids[ident]] = frames
    told[ids[threading.get_ident()]].pop(0)  # this function
    print(json.dumps(told), flush=True)


pipe = os.pipe()
sys.meta_path.insert(0, Import())
for body in (rest, lambda: deep(200), lambda: list(generator(5)), late, Thing,
             lambda: Thing("") == 1, lambda: Thing("").value, Thing.naïve_名前,
             lambda: asyncio.run(outer()), do_import, hash_long,
             lambda: re.sub("a", lambda match: rest() or "", "aa"), many_lines, unwinding):
    start(body)
gate.wait()
time.sleep(float(os.environ.get("SETTLE", "0.3")))
snapshot() or sys.stdin.read()
