#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""libsonde-dormant.so: a program sleeps until `sonde ctl PID record` wakes its agent, without ptrace. The oracles are
the program's own counts, its descriptors, threads and mappings, strace on sonde, and callgrind for the cost."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

from helpers import (
    LIB, NOT_FOR_OTHERS, SONDE, TIMEOUT_SECONDS, WORK, compile_c, fresh, kill, needs, needs_agent, needs_strace,
    others_can_run_sonde, report, run_cases, runs_on, skip, try_sonde, until, until_threads)

needs_agent()

# Works once for each byte that it reads, and polls meanwhile: an idle event loop.
COUNTED = r"""
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>
static void *old[1000];
static void *work(void *count) {
  for (long i = 0; i < (long)count; i++) {
    void *volatile block = malloc((size_t)(16 + i % 100));
    block = realloc(block, (size_t)(200 + i % 50));
    free(block);
  }
  return NULL;
}
static void wait_for(char *line) {
  struct pollfd in = {.fd = 0, .events = POLLIN};
  while (poll(&in, 1, 5) == 0) {
  }
  if (read(0, line, 1) != 1) exit(0);
}
int main(int count, char **arguments) {
  char line;
  pthread_t threads[4];
  sigset_t all;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, NULL);
  for (int i = 0; i < 1000; i++) old[i] = malloc(50);
  if (write(1, "ready\n", 6) != 6) return 1;
  for (;;) {
    wait_for(&line);
    if (line == 'e') execv("/proc/self/exe", arguments);
    if (line == 'f' && fork() == 0) { prctl(PR_SET_PDEATHSIG, SIGKILL); continue; }
    for (int i = 0; line == 'o' && i < 1000; i++) close(open("/dev/null", O_RDONLY));
    for (int i = 0; i < 1000; i++) { free(old[i]); old[i] = NULL; }
    work((void *)1000);
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work, (void *)5000);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    if (write(1, "done\n", 5) != 5 || count > 9) return 1;
  }
}
"""

# Never in a wait, and has a filter that kills for any other call than read, write and exit.
STRICT = r"""
#include <linux/seccomp.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
static void *volatile block;
int main(void) {
  char line;
  block = malloc(10);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0 || write(1, "ready\n", 6) != 6) return 1;
  while (read(0, &line, 1) == 1) {
    for (int i = 0; i < 10000; i++) { free(block); block = malloc(10); }
    if (write(1, "done\n", 5) != 5) return 1;
  }
  syscall(SYS_exit, 0);
}
"""

CHURNS = r"""
#include <stdlib.h>
static void *volatile block;
int main(int count, char **arguments) {
  for (long i = 0, end = count > 1 ? atol(arguments[1]) : 0; i < end; i++) { block = malloc(32); free(block); }
  return 0;
}
"""


def _install():
    """The libraries in a folder that every user can enter."""
    folder = pathlib.Path(WORK) / "dormant"
    if not folder.exists():
        folder.mkdir(mode=0o755)
        for name in ("libsonde-dormant.so", "libsonde-attached.so"):
            shutil.copy(os.path.join(LIB, name), folder)
    return folder / "libsonde-dormant.so"


def _compile(source, *options):
    path = compile_c(source, "-O1", "-g", "-fno-builtin", "-pthread", *options)
    os.chmod(path, 0o755)
    return path


class Program:
    def __init__(self, source, *before, library=None, user=None):
        how = {"user": user, "group": user, "extra_groups": []} if user else {}
        self.process = subprocess.Popen(
            [*before, source], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, "LD_PRELOAD": str(library or _install())}, **how)
        self.pid = self.process.pid
        assert self.process.stdout.readline() == b"ready\n"

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        kill(self.process)
        self.process.communicate()

    def tell(self, letter=b"x"):
        self.process.stdin.write(letter)
        self.process.stdin.flush()

    def work(self):
        self.tell()
        assert self.process.stdout.readline() == b"done\n"

    def boards(self):
        with open(f"/proc/{self.pid}/maps", encoding="utf-8") as maps:
            return re.findall(r"rw-s .* (/\S*/sonde-dormant-\S+)", maps.read())

    def state(self):
        with open(f"/proc/{self.pid}/status", encoding="utf-8") as file:
            status = re.findall(r"^(?:Threads|Sig(?:Blk|Ign|Cgt)):.*", file.read(), re.M)
        return status, sorted(os.listdir(f"/proc/{self.pid}/fd"))


class Woken:
    """`sonde ctl PID record` while the agent is awake."""

    def __init__(self, pid, *options, before=(), **how):
        self.path = fresh()
        os.chmod(WORK, 0o777)
        self.recorder = subprocess.Popen(
            [*before, SONDE, "ctl", str(pid), "record", *(options or ("--malloc=all",)), "-o", self.path],
            stderr=subprocess.PIPE, text=True, **how)
        line = self.recorder.stderr.readline()
        while "notices at its next" in line:
            line = self.recorder.stderr.readline()
        assert "with the agent in it" in line, line

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        kill(self.recorder)
        self.recorder.communicate()

    def end(self, section="malloc"):
        self.recorder.send_signal(signal.SIGINT)
        _, told = self.recorder.communicate(timeout=TIMEOUT_SECONDS)
        assert self.recorder.returncode == 0 and "rests" not in told, told
        return report(self.path, section)[section]


def _is_exact(told, earlier):
    assert told["allocated"]["blocks"] == 42000 and told["reallocs"] == 21000, told
    assert told["frees"] == 21000 + earlier and told["prerecording_frees"] == earlier, told
    assert told["unknown_frees"] == 0, told


def blocks_equal_the_programs_own_count(folder):
    with Program(_compile(COUNTED)) as program:
        program.work()  # the C library installs a handler with the first thread
        until_threads(program.pid, 1)
        before = program.state()
        for _ in range(3):
            with Woken(program.pid) as woken:
                program.work()
                _is_exact(woken.end(), 0)
            until(lambda: program.state() == before, lambda: (program.state(), before))  # the agent's thread ends
            program.work()


def an_audit_is_woken(folder):
    with Program(_compile(COUNTED)) as program:
        for _ in range(2):
            with Woken(program.pid, "--audit=files") as woken:
                program.tell(b"o")
                assert program.process.stdout.readline() == b"done\n"
                told = woken.end("audit")
                assert [finding["calls"] for finding in told["findings"]] == [1000], told
            program.work()


def calls_are_traced(folder):
    with Program(_compile(COUNTED)) as program:
        for _ in range(2):
            with Woken(program.pid, "--trace=open") as woken:
                program.tell(b"o")
                assert program.process.stdout.readline() == b"done\n"
                told = woken.end("trace")
                assert [node["calls"] for node in told["nodes"] if node["function"].startswith("open")] == [1000], told
            program.work()


def a_sleeping_program_has_nothing_but_the_library_and_a_page(folder):
    source = _compile(COUNTED)
    with Program(source, library="") as plain, Program(source) as program:
        assert program.state() == plain.state()
        assert len(program.boards()) == 1, program.boards()
        stat = os.stat(program.boards()[0])
        assert stat.st_mode & 0o7777 == 0o600 and stat.st_uid == os.geteuid(), stat


def _needs_another_user():
    """One that runs sonde."""
    if os.geteuid():
        skip("another user is needed")
    if not others_can_run_sonde():
        skip(NOT_FOR_OTHERS)


def no_ptrace_and_no_capability_is_used(folder):
    needs_strace()
    _needs_another_user()
    user, log = 61234, fresh(".strace")
    os.chmod(WORK, 0o777)
    with Program(_compile(COUNTED), user=user) as program:
        trace = ("strace", "-f", "-o", log, "-e", "trace=openat,open,ptrace,process_vm_readv,process_vm_writev,kcmp")
        with Woken(program.pid, before=trace, user=user, group=user, extra_groups=[]) as woken:
            program.work()
            os.kill(_recorder_of(woken.recorder.pid), signal.SIGINT)
            _, told = woken.recorder.communicate(timeout=TIMEOUT_SECONDS)
            assert woken.recorder.returncode == 0, told
        _is_exact(report(woken.path, "malloc")["malloc"], 1000)
    text = pathlib.Path(log).read_text(encoding="utf-8")
    calls = re.findall(rf'.*(?:ptrace\(|process_vm_\w+\({program.pid}|/proc/{program.pid}/mem").*', text)
    assert not calls and f"/proc/{program.pid}/maps" in text, calls


def _recorder_of(tracer):
    with open(f"/proc/{tracer}/task/{tracer}/children", encoding="utf-8") as file:
        return int(file.read().split()[0])


def another_user_cannot_wake_it(folder):
    _needs_another_user()
    os.chmod(WORK, 0o777)
    with Program(_compile(COUNTED), user=61234) as program:
        done = try_sonde("ctl", program.pid, "record", "--malloc", "--seconds", "1", "-o", fresh(),
                         user=61235, group=61235, extra_groups=[])
        assert done.returncode == 2 and "another user" in done.stderr, done
        program.work()
        with Woken(program.pid) as woken:  # root can
            program.work()
            _is_exact(woken.end(), 0)


def a_forked_child_is_woken_alone(folder):
    with Program(_compile(COUNTED)) as program:
        program.tell(b"f")
        until(lambda: _children(program.pid), "a child")
        assert program.process.stdout.readline() == b"done\n"
        child = _children(program.pid)[0]
        with Woken(child) as woken:
            time.sleep(0.1)
            assert "sonde-agent" not in _slots_owner(program.pid)
            woken.end()
        for pid in (child, program.pid):
            assert runs_on(pid), pid


def _children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
        return [int(word) for word in file.read().split()]


def _slots_owner(pid):
    """Names of anonymous mappings: an awake agent has shared buffers."""
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        return "sonde-agent" if "memfd:sonde" in maps.read() else ""


def the_next_program_sleeps_again(folder):
    with Program(_compile(COUNTED)) as program, Woken(program.pid) as woken:
        program.tell(b"e")
        assert program.process.stdout.readline() == b"ready\n"
        woken.recorder.send_signal(signal.SIGINT)
        woken.recorder.communicate(timeout=TIMEOUT_SECONDS)
        with Woken(program.pid) as again:
            program.work()
            _is_exact(again.end(), 1000)


def a_killed_recorder_is_replaced(folder):
    with Program(_compile(COUNTED)) as program:
        with Woken(program.pid) as woken:
            program.work()
            kill(woken.recorder)
        with Woken(program.pid) as again:
            program.work()
            _is_exact(again.end(), 0)
        program.work()


def a_filter_is_refused_and_nobody_is_killed(folder):
    with Program(_compile(STRICT)) as strict, Program(_compile(COUNTED)) as program:
        done = try_sonde("ctl", strict.pid, "record", "--malloc", "-o", fresh())
        assert done.returncode == 2 and "seccomp" in done.stderr, done
        with Woken(program.pid) as woken:  # its call is on the same board
            strict.work()
            program.work()
            strict.work()
            woken.end()
        strict.work()


def a_foreign_board_is_never_used(folder):
    """The name is taken by what an attacker could put there. The program runs, and the victim is untouched."""
    if os.geteuid():
        skip("another user is needed")
    user = 61240
    board, victim = pathlib.Path(f"/dev/shm/sonde-dormant-1-{user}"), pathlib.Path(folder) / "victim"
    victim.write_bytes(b"precious")
    victim.chmod(0o666)
    os.chmod(folder, 0o777)
    source = _compile(COUNTED)

    def other_user():
        board.touch(0o600)

    def open_for_all():
        board.touch()
        board.chmod(0o666)
        os.chown(board, user, user)

    def two_names():
        os.chown(victim, user, user)
        victim.chmod(0o600)
        os.link(shutil.copy(victim, "/dev/shm/sonde-test-victim"), board)
        os.chown(board, user, user)

    attacks = {"symlink": lambda: board.symlink_to(victim), "fifo": lambda: os.mkfifo(board, 0o666),
               "folder": board.mkdir, "other user": other_user, "open for all": open_for_all, "two names": two_names}
    for name, attack in attacks.items():
        try:
            attack()
            with Program(source, user=user) as program:
                assert not any(path.startswith("/dev/shm/") for path in program.boards()), name
                program.work()
            assert victim.read_bytes() == b"precious", name
        finally:
            board.rmdir() if board.is_dir() else board.unlink(missing_ok=True)
            pathlib.Path("/dev/shm/sonde-test-victim").unlink(missing_ok=True)
            pathlib.Path(f"/tmp/sonde-dormant-1-{user}").unlink(missing_ok=True)


def a_changed_path_is_never_followed(folder):
    """After the start, the program's own user replaces the board: root must not write to what is there."""
    if os.geteuid():
        skip("another user is needed")
    user, victim = 61241, pathlib.Path(folder) / "victim"
    board = pathlib.Path(f"/dev/shm/sonde-dormant-1-{user}")
    victim.write_bytes(bytes(8192))
    try:
        with Program(_compile(COUNTED), user=user) as program:
            for attack in (lambda: board.symlink_to(victim), lambda: os.mkfifo(board), lambda: os.link(victim, board)):
                board.unlink()
                try:
                    attack()
                except OSError:  # another file system
                    board.write_bytes(bytes(8192))
                done = try_sonde("ctl", program.pid, "record", "--malloc", "--seconds", "1", "-o", fresh())
                assert done.returncode == 2 and "board" not in done.stderr and board.name in done.stderr, done
                assert victim.read_bytes() == bytes(8192)
            program.work()
    finally:
        board.unlink(missing_ok=True)


def a_program_with_more_rights_does_not_sleep(folder):
    """Set-user-ID, and capabilities of the file: the loader ignores the variable."""
    if os.geteuid():
        skip("another user is needed")
    needs("setcap")
    source = _compile(COUNTED)
    for prepare in (["chmod", "u+s"], ["setcap", "cap_net_raw+ep"]):
        path = os.path.join(WORK, f"rights-{prepare[0]}")
        shutil.copy(source, path)
        os.chmod(path, 0o755)
        subprocess.run([*prepare, path], check=True)
        with Program(path, user=61242) as program:
            with open(f"/proc/{program.pid}/maps", encoding="utf-8") as maps:
                assert "dormant" not in maps.read(), prepare


def another_build_is_refused(folder):
    library = pathlib.Path(folder) / "libsonde-dormant.so"
    shutil.copy(_install(), library)
    shutil.copy(library, pathlib.Path(folder) / "libsonde-attached.so")  # an object, but another one
    with Program(_compile(COUNTED), library=library) as program:
        done = try_sonde("ctl", program.pid, "record", "--malloc", "--seconds", "1", "-o", fresh())
        assert done.returncode == 2 and "libsonde-attached.so" in done.stderr, done
        program.work()
        os.unlink(pathlib.Path(folder) / "libsonde-attached.so")
        done = try_sonde("ctl", program.pid, "record", "--malloc", "--seconds", "1", "-o", fresh())
        assert done.returncode == 2 and "cannot be opened" in done.stderr, done
        program.work()


def a_program_in_other_namespaces_is_woken(folder):
    """As in a container: its own pids, mounts, network, and memory file system; sonde is outside."""
    needs("unshare", "nsenter")
    if os.geteuid():
        skip("root is needed")
    unshare = ["unshare", "--pid", "--net", "--fork", "--mount", "--mount-proc", "sh", "-c"]
    script = "mount -t tmpfs none /dev/shm"
    if subprocess.run([*unshare, script], capture_output=True, check=False).returncode:
        skip("no such namespaces can be made")
    source = _compile(COUNTED)
    with Program(source, *unshare, f'{script} && exec env LD_PRELOAD={_install()} "$0"', library="") as outer:
        pid = outer.pid
        while _children(pid):
            pid = _children(pid)[0]
        done = try_sonde("ctl", pid, "record", "--malloc", "--seconds", "1", "-o", fresh())
        assert done.returncode == 2 and "nsenter --net" in done.stderr, done
        with Woken(pid, before=("nsenter", "--net", "--target", str(pid))) as woken:
            outer.work()
            _is_exact(woken.end(), 1000)


def the_cost_asleep_is_a_few_instructions(folder):
    """callgrind counts: a call of malloc and one of free, asleep and plain."""
    needs("valgrind")
    source = _compile(CHURNS)

    def instructions(count, library):
        done = subprocess.run(
            ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", source, str(count)], check=True,
            capture_output=True, text=True, env={**os.environ, "LD_PRELOAD": str(library)})
        return int(re.search(r"Collected : (\d+)", done.stderr)[1])

    cost = {library: (instructions(3000, library) - instructions(1000, library)) / 4000
            for library in ("", _install())}
    extra = cost[_install()] - cost[""]
    assert 0 < extra <= 6, cost
    return f"{extra:.1f} instructions a call"


if __name__ == "__main__":
    run_cases(globals())
