# SPDX-License-Identifier: MIT
"""What scripts of several cases share: a folder to work in, and how their cases are run."""
import atexit
import inspect
import os
import shutil
import sys
import tempfile
import threading
import time
import traceback

WORK = tempfile.mkdtemp(prefix="sonde-test-")
os.chmod(WORK, 0o755)
atexit.register(shutil.rmtree, WORK, ignore_errors=True)
_made = 0


def fresh(suffix=".sonde"):
    """The path of a file that is not there yet."""
    global _made
    _made += 1
    return os.path.join(WORK, f"{_made}{suffix}")


def until(condition, what, seconds=120):
    """Waits for CONDITION() to hold, which it will on a machine however slow: the limit is for what never
    comes. WHAT says it, or is a function that does."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not after {seconds} s: {what() if callable(what) else what}"
        time.sleep(0.002)


class Delays:
    """How late this machine let a thread run while a `with` lasted, in seconds: `worst`, and the `sum` of
    what was more than 5 ms. What looks at a program at fixed times was as late, and what it says of times
    is allowed to be off by that."""

    def __init__(self):
        self.worst, self.sum, self.over = 0.0, 0.0, threading.Event()

    def __enter__(self):
        self.thread = threading.Thread(target=self.measure, daemon=True)
        self.thread.start()
        return self

    def measure(self):
        while not self.over.is_set():
            before = time.monotonic()
            time.sleep(0.005)
            late = time.monotonic() - before - 0.005
            self.worst = max(self.worst, late)
            self.sum += late if late > 0.005 else 0

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


def states_of(pid):
    """The state letter of each thread (proc_pid_stat(5)); of those that end meanwhile none."""
    states = {}
    for tid in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{tid}/stat", encoding="utf-8", errors="replace") as stat:
                text = stat.read()
        except (FileNotFoundError, ProcessLookupError):
            continue
        states[int(tid)] = text[text.rindex(")") + 2]
    return states


def until_asleep(pid, tid=None):
    """Waits until a thread sleeps, the first one unless another is named: it has come to its wait."""
    until(lambda: states_of(pid).get(tid or pid) == "S", lambda: f"asleep: {states_of(pid)}")


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def needs_agent():
    if os.environ.get("SONDE_SANITIZED"):
        skip("the agent, which has no libc, is not built with a sanitizer")


def run(script):
    """Tries every case of a script, whose globals() these are, or those alone whose name holds the
    word on the command line, and ends. A case is a function that takes nothing and is no _helper."""
    failed = 0
    for name, case in list(script.items()):
        if (not inspect.isfunction(case) or case.__module__ != "__main__" or name.startswith("_")
                or inspect.signature(case).parameters or not all(w in name for w in sys.argv[1:2])):
            continue
        began = time.time()
        try:
            case()
            print(f"ok   {name} ({time.time() - began:.1f} s)", flush=True)
        except Exception as e:  # the others are tried nevertheless
            failed += 1
            traceback.print_exc(file=sys.stdout)
            print(f"FAIL {name}: {type(e).__name__}: {e}", flush=True)
    sys.exit(failed != 0)
