#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a verb does when the machine fails: the table of docs/reliability.md. Each cell is tried, and the word there must
be what became of it. In each of them the program answers as always, in all of its threads, and nothing is left over:
no process, no file that is not named, no tracer.

usage: reliability.py [FAULT…]     words of the first column; without them a third of the cells is tried, at random.
SONDE_THREADS: of the program with many threads"""
import contextlib
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time

from helpers import (
    SEED, SONDE, SOURCE, TIMEOUT_SECONDS, WORK, check, child_of, compile_c, events, fresh, needs_agent, others_can_run_sonde, report,
    run_cases, skip_part, source_file, states_of, until)

needs_agent()
PAGE = pathlib.Path(SOURCE, "docs", "reliability.md")
PROGRAM = compile_c(source_file("real", "reliability", "steady.c"), "-O1", "-g", "-pthread", "-fno-builtin")
ANSWER, ORDERS, SHARE = b"500\n", 40, 3
USER = "54321"  # has no processes
# Offsets the clock of the system by the seconds in a file, for the process that loads it.
CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static volatile long *jump;
__attribute__((constructor)) static void begin(void) {
  int fd = getenv("JUMP") ? open(getenv("JUMP"), O_RDONLY | O_CLOEXEC) : -1;
  void *page = fd < 0 ? MAP_FAILED : mmap(0, 4096, PROT_READ, MAP_SHARED, fd, 0);
  if (page != MAP_FAILED) jump = page;
  if (fd >= 0) close(fd);
}
int clock_gettime(clockid_t clock, struct timespec *t) {
  int status = (int)syscall(SYS_clock_gettime, clock, t);
  if (status == 0 && clock == CLOCK_REALTIME && jump) t->tv_sec += *jump;
  return status;
}
time_t time(time_t *out) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  if (out) *out = t.tv_sec;
  return t.tv_sec;
}
"""


# ---- what a fault needs --------------------------------------------------------------------------------------

class Ground:
    """Where a cell is tried. FOLDER is where sonde writes. SONDE_WITHIN and PROGRAM_WITHIN are the words before a
    command, and ENVIRONMENT is sonde's. The fault comes with `during`, once a recording has begun."""

    def __init__(self):
        self.folder = pathlib.Path(fresh(".ground"))
        self.folder.mkdir(mode=0o777)
        os.chmod(self.folder, 0o777)
        self.sonde_within, self.program_within, self.threads, self.order = [], [], 3, b"w\n"
        self.kills_sonde, self.seconds = False, 0.3
        self.environment = dict(os.environ, XDG_CACHE_HOME=os.path.join(WORK, "cache"))
        self.cleanup = contextlib.ExitStack()

    def during(self, program, recorder):
        pass


def _may_mount():
    return os.geteuid() == 0 and subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode == 0


def _mount(ground, *words):
    subprocess.run(["mount", *map(str, words), ground.folder], check=True)
    ground.cleanup.callback(subprocess.run, ["umount", "-l", ground.folder], check=True)


def _fill(folder):
    """Takes all space, by several files: the last bytes are given out in pieces."""
    for piece in 1 << 16, 1 << 12:
        with contextlib.suppress(OSError), open(folder / f"filler{piece}", "wb", buffering=0) as filler:
            while filler.write(bytes(piece)) == piece:
                os.fsync(filler.fileno())


def _fill_during(ground):
    """What sonde writes of many threads, once a second, does not fit into the last page of a file."""
    ground.during = lambda program, recorder: _fill(ground.folder)
    ground.threads, ground.seconds = 200, 3


def _full_disk(ground):
    _mount(ground, "-t", "tmpfs", "-o", "size=2m", "none")
    _fill_during(ground)


def _quota(ground):
    if not shutil.which("mkfs.btrfs"):
        return "mkfs.btrfs is not installed"
    image = fresh(".btrfs")
    with open(image, "wb") as file:
        file.truncate(128 << 20)
    subprocess.run(["mkfs.btrfs", "-q", "-M", image], check=True, capture_output=True)
    whole = ground.folder
    if subprocess.run(["mount", "-o", "loop", image, whole], capture_output=True, check=False).returncode:
        return "no btrfs can be mounted"
    ground.cleanup.callback(subprocess.run, ["umount", "-l", whole], check=True)
    ground.folder = whole / "volume"
    for words in (["subvolume", "create", ground.folder], ["quota", "enable", whole], ["qgroup", "limit", "2M", ground.folder]):
        subprocess.run(["btrfs", *words], check=True, capture_output=True)
    _fill_during(ground)
    return None


def _read_only(ground):
    _mount(ground, "-t", "tmpfs", "-o", "size=1m,ro", "none")


def _turned_read_only(ground):
    """What ext4 does on an error. A remount on request is refused while a file is open for writing."""
    image = fresh(".ext4")
    with open(image, "wb") as file:
        file.truncate(32 << 20)
    whole = ground.folder
    if subprocess.run(["mkfs.ext4", "-q", image], capture_output=True, check=False).returncode or subprocess.run(
            ["mount", "-o", "loop,errors=remount-ro", image, whole], capture_output=True, check=False).returncode:
        return "no ext4 can be mounted"
    ground.cleanup.callback(subprocess.run, ["umount", "-l", whole], check=True)
    device = pathlib.Path(subprocess.run(["findmnt", "-n", "-o", "SOURCE", whole], capture_output=True, text=True,
                                         check=True).stdout.strip()).name
    ground.threads, ground.seconds = 200, 3
    ground.during = lambda program, recorder: pathlib.Path("/sys/fs/ext4", device, "trigger_fs_error").write_text("1")
    return None


def _removed(ground):
    ground.folder = ground.folder / "gone"
    ground.folder.mkdir()
    ground.during = lambda program, recorder: shutil.rmtree(ground.folder)


def _group(ground):
    """A new group of processes with some 64 MB of memory: the file that takes a process into it. None: it cannot be made.

    A score of 1000 counts as 1000 times the whole thousands of pages of the limit (oom_badness), so the limit has no
    other pages. Else a process that has all of the memory may count for more than sonde."""
    for root, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        folder = pathlib.Path(fresh(".group"))
        folder = pathlib.Path(root, f"sonde-{os.getpid()}-{folder.stem}")
        try:
            folder.mkdir()
            (folder / limit).write_text(str(16000 * os.sysconf("SC_PAGE_SIZE")))
        except OSError:
            continue
        ground.cleanup.callback(until, lambda: not _still_there(folder), "the group is empty")
        return folder / "cgroup.procs"
    return None


def _still_there(folder):
    with contextlib.suppress(OSError):
        folder.rmdir()
    return folder.exists()


def _program_without_memory(ground):
    group, ground.order = _group(ground), b"m\n"
    ground.during = lambda program, recorder: group.write_text(str(program))
    return None if group else "no group with a limit of memory can be made"


def _sonde_without_memory(ground):
    """Another process of the group takes all of it. The kernel prefers to kill sonde for that."""
    group, ground.kills_sonde = _group(ground), True
    if not group:
        return "no group with a limit of memory can be made"
    ground.sonde_within = ["choom", "-n", "1000", "--"]

    def during(program, recorder):
        pathlib.Path(f"/proc/{recorder}/oom_score_adj").write_text("1000")
        group.write_text(str(recorder))
        taker = subprocess.Popen(["sh", "-c", 'echo $$ >"$0"; exec "$1" 0', group, PROGRAM], stdin=subprocess.PIPE,
                                 stdout=subprocess.DEVNULL)
        taker.stdin.write(b"m\n")
        taker.stdin.flush()
        taker.wait(TIMEOUT_SECONDS)
    ground.during = during
    return None


def _jump(days):
    def begin(ground):
        library, file = compile_c(CLOCK, "-shared", "-fPIC"), pathlib.Path(fresh(".clock"))
        file.write_bytes(bytes(4096))
        ground.environment |= {"LD_PRELOAD": library, "JUMP": str(file)}
        seconds = days * 86400

        def jump(program, recorder):
            with open(file, "r+b") as clock:
                clock.write(seconds.to_bytes(8, "little", signed=True))
        ground.during = jump
    return begin


def _other_clock(ground):
    within = ["unshare", "-T", "--monotonic", "1000000", "--boottime", "1000000"]
    if subprocess.run([*within, "true"], capture_output=True, check=False).returncode:
        return "no time namespace can be made"
    ground.program_within = within
    return None


def _threads(ground):
    ground.threads = int(os.environ.get("SONDE_THREADS", "6000"))


def _limit(*words):
    def begin(ground):
        ground.sonde_within = ground.program_within = ["prlimit", *words]
    return begin


def _no_more_threads(ground):
    """Of a user without other processes, who may have sonde and the program, and no thread beside them."""
    if os.geteuid() or not others_can_run_sonde():
        return "sonde cannot be run as another user"
    ground.program_within = ["setpriv", "--reuid=" + USER, "--regid=" + USER, "--clear-groups"]
    ground.sonde_within = [*ground.program_within, "prlimit", "--nproc=2"]
    ground.environment["XDG_CACHE_HOME"] = str(ground.folder)
    ground.threads = 0
    return None


def _crash(*words):
    def begin(ground):
        ground.order = b"c\n"
        ground.sonde_within = ground.program_within = ["prlimit", *words]
    return begin


FAULTS = {
    "a full disk": _full_disk, "a disk quota that is used up": _quota, "a read-only folder": _read_only,
    "the file system becomes read-only": _turned_read_only,
    "a removed folder": _removed, "the kernel kills the program: no memory": _program_without_memory,
    "the kernel kills sonde: no memory": _sonde_without_memory, "the clock jumps a day ahead": _jump(1),
    "the clock jumps a day back": _jump(-1), "another time namespace": _other_clock, "thousands of threads": _threads,
    "`ulimit -n 20`": _limit("--nofile=20"), "`ulimit -v 100000`": _limit("--as=102400000"),
    "`ulimit -Ss 128`": _limit("--stack=131072:8388608"), "`ulimit -s 128`": _limit("--stack=131072"), "`ulimit -u 2`": _no_more_threads,
    "`ulimit -f 64`": _limit("--fsize=65536"), "`ulimit -l 0`": _limit("--memlock=0"),
    "`ulimit -c 0`, and a crash": _crash("--core=0")}
NEEDS_MOUNTS = (_full_disk, _quota, _read_only, _turned_read_only)


# ---- the program --------------------------------------------------------------------------------------------

class Steady:
    """The program, started by itself or by the recorder."""

    def __init__(self, ground, process, pid=None):
        self.ground, self.process, self.pid = ground, process, pid or process.pid
        self.ends_by = {b"m\n": signal.SIGKILL, b"c\n": signal.SIGABRT}.get(ground.order)

    def works(self, times=ORDERS):
        """Whether it answers as always."""
        for _ in range(times):
            self.process.stdin.write(b"w\n")
            self.process.stdin.flush()
            if self.process.stdout.readline() != ANSWER:
                return False
        return True

    def is_unharmed(self):
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return self.works(1) and "TracerPid:\t0\n" in status and len(states_of(self.pid)) == self.ground.threads + 1

    def end_by_fault(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(self.ground.order)
            self.process.stdin.flush()


def _start(ground):
    process = subprocess.Popen([*ground.program_within, PROGRAM, str(ground.threads)], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, cwd="/")
    assert process.stdout.readline() == b"ready\n"
    return Steady(ground, process)


def _of_recorder(ground, process):
    """The program that the recorder has started; None if it was refused."""
    if process.stdout.readline() != b"ready\n":
        return None
    pid = child_of(process.pid)
    return Steady(ground, process, pid)


# ---- outcomes -----------------------------------------------------------------------------------------------

def _judge_recording(path, said):
    """The word for a recording that has ended, and that sonde has told of in SAID."""
    if "the recording is lost" in said:
        assert not path.exists(), said
        return "lost"
    told = report(path)
    missing = {name: value for name, value in told["missing"].items() if value}
    assert told["duration_ns"] < 1e9 * TIMEOUT_SECONDS, told["duration_ns"]
    if not missing and "no thread could be started" in said:
        assert any("no thread could be started" in e["name"] for e in events(path) if e["event"] == "marker"), said
        return "in part"
    if not missing:
        return "complete"
    assert re.search("stopped early|lost|could not be written", said) or "recorder" in missing, (said, missing)
    return "in part"


def _refused(status, said):
    print(said.strip(), flush=True)
    assert status in (2, 125) and re.match(r"sonde[ a-z]*: .", said) and said.count("\n") <= 2, (status, said)
    return "refused"


def _sonde(ground, *words):
    return [*ground.sonde_within, SONDE, *map(str, words)]


def _finish(ground, steady, recorder):
    """Lets the fault come while the program works."""
    assert steady.works()
    ground.during(steady.pid, recorder.pid)
    if ground.kills_sonde:
        assert recorder.wait(TIMEOUT_SECONDS) == -signal.SIGKILL and steady.works(4 * ORDERS)
    elif steady.ends_by:
        steady.end_by_fault()
    else:
        end = time.monotonic() + ground.seconds
        assert steady.works(4 * ORDERS)
        while time.monotonic() < end:
            assert steady.works(1)
            time.sleep(0.01)


def _record_command(ground):
    path = ground.folder / "run.sonde"
    errors = open(fresh(".err"), "w+", encoding="utf-8")
    within = [] if ground.program_within == ground.sonde_within[:len(ground.program_within)] else ground.program_within
    words = _sonde(ground, "record", "--malloc", "--wall", "--stall", "--keep-free=0", "-o", path, "--", *within, PROGRAM,
                   ground.threads)
    recorder = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=ground.environment)
    steady = _of_recorder(ground, recorder)
    if steady:
        _finish(ground, steady, recorder)
        with contextlib.suppress(BrokenPipeError):
            recorder.stdin.close()
    status = recorder.wait(TIMEOUT_SECONDS)
    errors.seek(0)
    said = errors.read()
    if not steady:
        assert not path.exists() or path.stat().st_size == 0, said
        return _refused(status, said)
    expected = -signal.SIGKILL if ground.kills_sonde else -steady.ends_by if steady.ends_by else 7
    assert status == expected, (status, said)
    if ground.kills_sonde:
        until(lambda: not os.path.exists(f"/proc/{steady.pid}"), "the program ends")
    return _judge_recording(path, said)


def _record_running(*options):
    def record_running(ground):
        path, steady = ground.folder / "run.sonde", _start(ground)
        recorder = subprocess.Popen(_sonde(ground, "record", "-p", steady.pid, "--keep-free=0", *options, "-o", path),
                                    stderr=subprocess.PIPE, text=True, env=ground.environment)
        said = recorder.stderr.readline()
        while said and "recording process" not in said.splitlines()[-1] and recorder.poll() is None:
            said += recorder.stderr.readline()
        begun = "recording process" in said
        if begun:
            _finish(ground, steady, recorder)
            if recorder.poll() is None and not steady.ends_by:
                recorder.send_signal(signal.SIGINT)
        said += recorder.stderr.read()
        recorder.wait(TIMEOUT_SECONDS)
        if begun and not ground.kills_sonde:
            assert recorder.returncode == 0, (recorder.returncode, said)
        if not (begun and steady.ends_by):
            assert steady.is_unharmed(), said
            steady.process.stdin.close()
            assert steady.process.wait(TIMEOUT_SECONDS) == 7, said
        else:
            assert steady.process.wait(TIMEOUT_SECONDS) == -steady.ends_by, said
        return _judge_recording(path, said) if begun else _refused(recorder.returncode, said)
    return record_running


def _recording():
    """A recording from before."""
    path = pathlib.Path(WORK, "whole.sonde")
    if not path.exists():
        subprocess.run([SONDE, "record", "--malloc", "--sample", "-o", path, "--", PROGRAM, "1"], stdin=subprocess.DEVNULL,
                       check=False, capture_output=True)
        path.chmod(0o644)
    return path


def _try_all(ground, *verbs):
    """The one word for what the VERBS do, which are words of a command and perhaps the file that it writes."""
    words = set()
    for verb, out in verbs:
        done = subprocess.run(_sonde(ground, *verb), capture_output=True, text=True, env=ground.environment, check=False,
                              timeout=TIMEOUT_SECONDS)
        if done.returncode in (0, 1):
            assert out.stat().st_size > 0 if out else done.stdout, done
            words.add("complete")
        else:
            assert not out or not out.exists(), done
            words.add(_refused(done.returncode, done.stderr))
    return " or ".join(sorted(words))


def _report(ground):
    ground.during(0, 0)
    return _try_all(ground, (["report", _recording()], None), (["why", _recording()], None))


def _export(ground):
    ground.during(0, 0)
    out, packed = ground.folder / "out", ground.folder / "packed"
    return _try_all(ground, (["export", "--as", "pprof", "-o", out, _recording()], out),
                    (["pack", "-o", packed, _recording()], packed))


def _look(ground):
    steady = _start(ground)
    word = _try_all(ground, (["stacks", steady.pid], None), (["why", steady.pid], None))
    assert steady.is_unharmed()
    steady.process.stdin.close()
    assert steady.process.wait(TIMEOUT_SECONDS) == 7
    return word


VERBS = {"`record -- COMMAND`": _record_command, "`record -p PID`": _record_running("--wall", "--stall", "--sample"),
         "`record -p PID --malloc`": _record_running("--malloc"), "`report`, `why FILE`": _report, "`export -o`, `pack`": _export,
         "`stacks`, `why PID`": _look}


# ---- the table ------------------------------------------------------------------------------------------------

def _table():
    """{(fault, verb): word} of the page."""
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in PAGE.read_text().splitlines()
            if line.startswith("|")]
    head = next(row for row in rows if row[0] == "fault")
    assert head[1:] == list(VERBS), head
    return {(row[0], verb): word for row in rows if row[0] in FAULTS and len(row) == len(head)
            for verb, word in zip(head[1:], row[1:])}


def _cell(fault, verb):
    """What becomes of it; None if it cannot be tried here."""
    ground = Ground()
    with ground.cleanup:
        if FAULTS[fault] in NEEDS_MOUNTS and not _may_mount():
            why = "nothing can be mounted"
        else:
            why = FAULTS[fault](ground)
        if why:
            skip_part(f"{fault}, {verb}", why)
            return None
        return VERBS[verb](ground)


def each_cell_is_what_the_page_says():
    table = _table()
    assert {fault for fault, _ in table} == set(FAULTS), set(FAULTS) ^ {fault for fault, _ in table}
    cells = [cell for cell in table if table[cell] != "—" and (not CHOSEN or any(word in cell[0] for word in CHOSEN))]
    if not CHOSEN:
        cells = sorted(random.Random(SEED).sample(cells, len(cells) // SHARE), key=cells.index)
    for fault, verb in cells:
        try:
            word = _cell(fault, verb)
        except Exception as error:  # the others are tried nevertheless
            word = f"{type(error).__name__}: {error}"
        if word is not None:
            check(word == table[fault, verb], f"{fault}, {verb}: {word}, and not {table[fault, verb]}")
        print(f"{fault}, {verb}: {word}", flush=True)


def address_space_suffices_each_time():
    """Whether the C library reserves space for the allocations of another thread is a matter of time."""
    steady = _start(ground := Ground())
    with ground.cleanup:
        for _ in range(40):
            done = subprocess.run(["prlimit", "--as=102400000", SONDE, "stacks", str(steady.pid)], capture_output=True,
                                  text=True, check=False)
            assert done.returncode == 0, done.stderr
        steady.process.stdin.close()
        assert steady.process.wait(TIMEOUT_SECONDS) == 7


CHOSEN = sys.argv[1:]
if os.geteuid() == 0 and not os.environ.get("SONDE_OWN_MOUNTS") and _may_mount():
    os.execvpe("unshare", ["unshare", "-m", sys.executable, *sys.argv], dict(os.environ, SONDE_OWN_MOUNTS="1"))
run_cases(globals(), only=[])
