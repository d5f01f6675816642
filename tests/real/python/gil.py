# SPDX-License-Identifier: MIT
"""A program whose threads hold the GIL in ways that the test knows. Prints the ids of its threads as JSON.

usage: gil.py blocked|busy|deadlock|turns"""
import ctypes
import json
import sys
import threading
import time

HELD = ctypes.PyDLL(None)  # its calls keep the GIL
RELEASED = ctypes.CDLL(None)  # its calls release the GIL
MODE = sys.argv[1]
SECONDS = 600


def tid():
    return threading.get_native_id()


def start(ids, name, function):
    """Starts a thread with a known id."""
    known = threading.Event()

    def run():
        ids[name] = tid()
        known.set()
        function()
    threading.Thread(target=run, daemon=True).start()
    known.wait()


def sleep_with_the_lock():
    HELD.poll(None, 0, SECONDS * 1000)


def count_in_c():
    """The C library searches for "a" among 2^62 elements of no size, each of which is "b", and keeps the GIL."""
    count = ctypes.c_size_t(1 << 62)
    HELD.lfind(b"a", b"b", ctypes.byref(count), ctypes.c_size_t(0), ctypes.cast(HELD.strcmp, ctypes.c_void_p))


def compute():
    total = 0
    while True:
        total += 1


def take_turns():
    moment = (ctypes.c_long * 2)(0, 300000)
    while True:
        HELD.poll(None, 0, 1)
        RELEASED.pselect(0, None, None, None, moment, None)
        sum(range(2000))
        time.sleep(0.0001)


def deadlock(ids):
    """One thread keeps the GIL and waits for a mutex, another has the mutex and waits for the GIL."""
    mutex = ctypes.create_string_buffer(64)
    locked = threading.Event()

    def lock_and_wait():
        RELEASED.pthread_mutex_lock(mutex)
        locked.set()
        compute()

    def wait_with_the_lock():
        tell(ids)
        HELD.pthread_mutex_lock(mutex)

    start(ids, "mutex", lock_and_wait)
    locked.wait()
    start(ids, "gil", wait_with_the_lock)


def tell(ids):
    print(json.dumps(ids), flush=True)


def hold(ids, function):
    ids["holder"] = tid()
    tell(ids)
    function()


def main():
    ids = {}
    if MODE == "deadlock":
        deadlock(ids)
    elif MODE == "turns":
        for i in range(6):
            start(ids, f"turn {i}", take_turns)
        tell(ids)
    else:
        for i in range(3):
            start(ids, f"waiter {i}", compute)
        function = {"blocked": sleep_with_the_lock, "busy": count_in_c}[MODE]
        threading.Thread(target=hold, args=(ids, function), daemon=True).start()
    time.sleep(SECONDS)


main()
