# SPDX-License-Identifier: MIT
"""A program whose threads hold locks of the module threading. Prints the ids of its threads as JSON.

usage: locks.py deadlock|acquired|itself|held|condition|pool Lock|RLock"""
import json
import sys
import threading
import time

MODE, KIND = sys.argv[1:]
FIRST = getattr(threading, KIND)()
SECOND = getattr(threading, KIND)()
IDS = {}
BOTH = threading.Barrier(2)


def start(name, function, *arguments):
    """Starts a thread with a known id."""
    known = threading.Event()

    def run():
        IDS[name] = threading.get_native_id()
        known.set()
        function(*arguments)
    thread = threading.Thread(target=run, daemon=MODE == "pool")
    thread.start()
    known.wait()
    return thread


def transfer(one, other):
    with one:
        BOTH.wait()
        with other:
            pass


def acquire_both(one, other):
    one.acquire()
    BOTH.wait()
    other.acquire()


def take_twice():
    with FIRST:
        with FIRST:
            pass


def hold(lock):
    for _ in range(2):  # the value that the first block leaves on the stack is none of the second
        with SECOND:
            pass
    with lock:
        for _ in range(3):
            try:
                with open("/dev/null", "rb"):
                    time.sleep(600)
            finally:
                pass


def want(lock):
    with lock:
        pass


def wait_at_condition(lock):
    condition = threading.Condition(lock)
    with lock:
        condition.wait()


def acquire(lock):
    lock.acquire()
    time.sleep(600)


def store():
    while True:
        with FIRST:
            time.sleep(0.01)


if MODE == "deadlock":
    threads = [start("one", transfer, FIRST, SECOND), start("other", transfer, SECOND, FIRST)]
elif MODE == "acquired":
    threads = [start("one", acquire_both, FIRST, SECOND), start("other", acquire_both, SECOND, FIRST)]
elif MODE == "itself":
    threads = [start("one", take_twice)]
elif MODE == "held":
    threads = [start("holder", hold, FIRST)]
    time.sleep(0.1)
    threads += [start(f"waiter {i}", want, FIRST) for i in range(3)] + [start("free", want, SECOND)]
elif MODE == "condition":
    threads = [start("sleeper", wait_at_condition, FIRST)]
    time.sleep(0.1)
    threads += [start("holder", acquire, FIRST)]
    time.sleep(0.1)
    threads += [start("waiter", want, FIRST)]
else:
    threads = [start(f"worker {i}", store) for i in range(4)]
print(json.dumps(IDS), flush=True)
for each in threads:
    each.join()
