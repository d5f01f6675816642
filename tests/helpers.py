# SPDX-License-Identifier: MIT
"""What the Python tests share: where the built files are, running the command, compiling programs, waiting,
and running the cases of a test.

A test is a script of cases that ends in `run_cases(globals())`. A case is a function without parameters, or
with one parameter `folder`, a new empty folder (pathlib.Path). It fails by an exception or by `check`, and it
is skipped by `skip`. What a case returns is printed beside its name. tests/tally.py counts the lines that
`run_cases` prints:

    ok   NAME (1.2 s)
    skip NAME: reason
    FAIL NAME: exception

ctest sets the environment. By hand: `./run check NAME`."""
import atexit
import inspect
import json
import os
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

SOURCE = os.environ.get("SONDE_SOURCE") or str(pathlib.Path(__file__).resolve().parent.parent)
BUILD = os.environ.get("SONDE_BUILD") or os.path.join(SOURCE, "build-test")
SONDE = os.environ.get("SONDE") or os.path.join(BUILD, "bin", "sonde")
# The command, and the library with its verbs where it is not built whole (with a sanitizer, for musl).
COMMAND = [SONDE, *map(str, pathlib.Path(SONDE).parent.parent.glob("lib/libsonde-verbs.so"))]
FIXTURES = pathlib.Path(os.environ.get("SONDE_FIXTURES") or os.path.join(BUILD, "tests", "fixtures"))
SANITIZED = bool(os.environ.get("SONDE_SANITIZED"))
SOAK = bool(os.environ.get("SOAK"))  # ./run soak
SCALE = 4 if SOAK else 1  # times as long, or as many, in a soak
TESTS = os.path.join(SOURCE, "tests")
LIB = os.path.join(BUILD, "lib")
INCLUDE = "-I" + os.path.join(SOURCE, "include")
# What a program needs to be linked with libsonde, shared or static.
LINK_SHARED = [f"-L{LIB}", "-lsonde", f"-Wl,-rpath,{LIB}"]
LINK_STATIC = [os.path.join(LIB, "libsonde.a")]
# Chooses all that a test chooses by chance. Printed, so that a failure can be repeated.
SEED = int(os.environ.get("SONDE_SEED") or random.randrange(1 << 31))
# For a process that hangs: many times what the slowest machine needs.
TIMEOUT_SECONDS = 150

WORK = tempfile.mkdtemp(prefix="sonde-test-")
os.chmod(WORK, 0o755)
atexit.register(shutil.rmtree, WORK, ignore_errors=True)
# A python3 that a version manager puts in front is a shell script, which takes a tenth of a second to start: programs
# that tests run find the Python that runs the tests.
os.mkdir(os.path.join(WORK, "bin"))
os.symlink(sys.executable, os.path.join(WORK, "bin", "python3"))
os.environ["PATH"] = os.path.join(WORK, "bin") + os.pathsep + os.environ.get("PATH", os.defpath)
_made = 0
_kept = []  # what is open until the end


# ---- files ---------------------------------------------------------------------------------------

def fresh(suffix=".sonde"):
    """The path of a file that does not exist yet."""
    global _made
    _made += 1
    return os.path.join(WORK, f"{_made}{suffix}")


def write(text, suffix):
    """The path of a new file that holds TEXT."""
    path = fresh(suffix)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def source_file(*parts):
    """The path of a file below tests/."""
    return os.path.join(TESTS, *parts)


def compile_c(source, *options, compiler="cc", out=None):
    """The path of a program. SOURCE is a path or C text; OPTIONS follow it, so that libraries may be among
    them."""
    out = out or fresh(".program")
    if "{" in str(source):
        source = write(source, ".c")
    done = subprocess.run([compiler, source, *options, "-o", out], capture_output=True, text=True, errors="replace",
                          check=False)
    assert done.returncode == 0, f"{compiler} {source}: {done.stderr}"
    return out


def output_of(*command, **how):
    """What a COMMAND that succeeds prints."""
    done = subprocess.run([str(word) for word in command], check=False, **{
        "capture_output": True, "text": True, "timeout": TIMEOUT_SECONDS, **how})
    if done.returncode:
        print(done.stderr, flush=True)
        done.check_returncode()
    return done.stdout


# ---- the command -----------------------------------------------------------------------------------

def try_sonde(*arguments, **how):
    """Runs the command. Returns the finished process, whatever its status; output is text unless
    `text=False`."""
    return subprocess.run([SONDE, *map(str, arguments)], check=False, **{
        "capture_output": True, "text": True, "timeout": TIMEOUT_SECONDS, **how})


def sonde(*arguments, status=0, **how):
    """What the command prints. Fails unless it exits with STATUS."""
    done = try_sonde(*arguments, **how)
    assert done.returncode == status, (arguments, done)
    return done.stdout


def record(command, *options, path=None, **how):
    """Runs COMMAND under `sonde record`. Returns the recording's path and the finished process, whose
    output is bytes unless `text=True`."""
    path = path or fresh()
    return path, try_sonde("record", *options, "-o", path, "--", *command, **{"text": False, **how})


def start_record(command, *options, path=None, **how):
    """Starts COMMAND under `sonde record`. Returns the recording's path and the recorder's process."""
    path = path or fresh()
    words = [SONDE, "record", *options, "-o", path, "--", *command]
    return path, subprocess.Popen([str(word) for word in words], **how)


def report(path, *words, **how):
    """`sonde report --json` of a recording. WORDS are options and sections."""
    return json.loads(sonde("report", "--json", path, *words, **how))


def events(path, *options):
    """`sonde events` of a recording, a dictionary each."""
    return [json.loads(line) for line in sonde("events", *options, path).splitlines()]


def second_reader(path, *options):
    """What the reader that was written from docs/format.md alone prints of a recording, as `events`."""
    reader = source_file("format", "reader.py")
    return [json.loads(line) for line in output_of(sys.executable, reader, *options, path).splitlines()]


def nothing_missing(told):
    """Fails where a report says that anything was not recorded."""
    assert not any(told["missing"].values()), told["missing"]


# ---- processes -------------------------------------------------------------------------------------

def until(condition, what, seconds=120):
    """Waits until CONDITION() is true. The limit is for a condition that never becomes true: a machine may be
    slow. WHAT describes the condition, or is a function that does."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not after {seconds} s: {what() if callable(what) else what}"
        time.sleep(0.002)


def states_of(pid):
    """{tid: state letter} of the threads of a process (proc_pid_stat(5)), without those that end meanwhile."""
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
    """Waits until a thread sleeps: the first one unless another is named."""
    until(lambda: states_of(pid).get(tid or pid) == "S", lambda: f"asleep: {states_of(pid)}")


def until_threads(pid, count):
    """Waits until a process has COUNT threads. One that was joined is still counted until the kernel has taken it away."""
    until(lambda: len(states_of(pid)) == count, lambda: f"{count} threads: {states_of(pid)}")


def runs_on(pid):
    """Whether the first thread of a process runs or waits, also for a page or a disk: it has not ended, nor is it stopped."""
    return states_of(pid)[pid] in "RSD"


def children_of(pid):
    """The process ids of the children that the first thread of a process has."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as children:
        return [int(child) for child in children.read().split()]


def child_of(pid):
    """The first child, which must be there."""
    return children_of(pid)[0]


def until_child(pid):
    """The first child, waited for."""
    until(lambda: children_of(pid), f"a child of {pid}")
    return child_of(pid)


def start_ready(command, asleep=True, **how):
    """Starts a program that prints "ready", waits for that line, and unless told otherwise until its first
    thread sleeps. The process is killed when the test ends."""
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True, **how)
    atexit.register(process.kill)
    assert process.stdout.readline() == "ready\n", command
    if asleep:
        until_asleep(process.pid)
    return process


def kill(process):
    """Kills a process and waits for its end."""
    process.kill()
    process.wait()


def free_port():
    """A TCP port of 127.0.0.1 that is free, and that the system gives to no connection: those have ports from 32768 on
    (ip_local_port_range, ip(7)). Chosen by chance, so that tests that run at a time have different ones."""
    while True:
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", random.SystemRandom().randrange(10000, 32768)))
            except OSError:  # taken
                continue
            return s.getsockname()[1]


def closed_port():
    """A TCP port of 127.0.0.1 that refuses connections until the test ends: it is taken, and nothing listens there."""
    _kept.append(socket.socket())
    _kept[-1].bind(("127.0.0.1", 0))
    return _kept[-1].getsockname()[1]


def connect(port):
    """A connection to a TCP server of 127.0.0.1, once it listens."""
    deadline = time.monotonic() + 120
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=120)
        except OSError as error:
            assert time.monotonic() < deadline, f"nothing listens on {port}: {error}"
            time.sleep(0.05)


class Delays:
    """How late this machine ran a thread while a `with` lasted, in seconds: `worst`, and the `sum` of delays
    above 5 ms. A monitor that samples a program at fixed times was as late, and its durations may be off by
    as much."""

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


# ---- cases -----------------------------------------------------------------------------------------

class Skipped(Exception):
    """Ends a case that cannot run here; its text is the reason."""


_case = None  # the name of the case that runs
_faults = 0   # failed checks of that case


def skip(reason):
    """Ends the case that runs, or the whole test before its cases, as one that cannot run here."""
    if _case:
        raise Skipped(reason)
    print(f"skipped: {reason}")
    sys.exit(77)


def skip_part(part, reason):
    """Counts a part of a case as skipped. The case continues."""
    print(f"skip {_case or os.path.basename(sys.argv[0])}/{part.replace(' ', '_')}: {reason}", flush=True)


def needs(*programs):
    """Skips unless all PROGRAMS are installed."""
    for program in programs:
        if not shutil.which(program):
            skip(f"{program} is not installed")


# Why a test does not run sonde as another user.
NOT_FOR_OTHERS = "the build is in a folder that other users cannot enter"


def others_can_run_sonde():
    """Whether other users reach the built command. They do not below a home folder of mode 0700."""
    path = pathlib.Path(SONDE).resolve()
    return all(each.stat().st_mode & 1 for each in (path, *path.parents))


def needs_strace():
    """Skips unless strace is installed and may trace."""
    needs("strace")
    if subprocess.run(["strace", "-o", os.devnull, "true"], capture_output=True, check=False).returncode:
        skip("strace may not trace")


# tests/CMakeLists.txt looks for lines that begin with these two calls, and does not register such a test in a
# build with a sanitizer: nothing of it could be tried there.

def needs_agent():
    """Skips in a build with a sanitizer, which has no agent."""
    if SANITIZED:
        skip("the agent, which has no libc, is not built with a sanitizer")


def needs_plain_build():
    """Skips in a build with a sanitizer, which has no examples, and handles crashes itself."""
    if SANITIZED:
        skip("the build has a sanitizer")


def check(good, what):
    """Fails the case unless GOOD, and continues it."""
    global _faults
    if not good:
        _faults += 1
        print("FAILED:", what, flush=True)
    return good


def _cases_of(script):
    return [case for name, case in script.items()
            if inspect.isfunction(case) and case.__module__ == "__main__" and not name.startswith("_")
            and list(inspect.signature(case).parameters) in ([], ["folder"])]


def _run_case(case):
    """What a case returns."""
    if not inspect.signature(case).parameters:
        return case()
    with tempfile.TemporaryDirectory(prefix="sonde-case-") as folder:
        return case(pathlib.Path(folder))


def run_cases(cases, only=None):
    """Runs the cases, or those alone whose name contains a word of ONLY (the command line), and ends the test.
    CASES is a list of functions, or globals(): then helpers without parameters have names that begin with _."""
    global _case, _faults
    ran, skipped, failed = 0, 0, 0
    words = sys.argv[1:] if only is None else only
    print(f"SONDE_SEED={SEED}", flush=True)
    for case in _cases_of(cases) if isinstance(cases, dict) else cases:
        if words and not any(word in case.__name__ for word in words):
            continue
        _case, _faults, began = case.__name__, 0, time.monotonic()
        try:
            said = _run_case(case)
            assert not _faults, f"{_faults} failed checks"
            ran += 1
            print(f"ok   {_case} ({time.monotonic() - began:.1f} s){f': {said}' if said else ''}", flush=True)
        except Skipped as reason:
            skipped += 1
            print(f"skip {_case}: {reason}", flush=True)
        except Exception as error:  # the others are tried nevertheless
            failed += 1
            traceback.print_exc(file=sys.stdout)
            print(f"FAIL {_case}: {type(error).__name__}: {error}", flush=True)
    sys.exit(1 if failed else 77 if skipped and not ran else 0)
