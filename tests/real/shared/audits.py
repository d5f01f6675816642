# SPDX-License-Identifier: MIT
"""What the tests of the audit share: recording, reading what was found, programs to run."""
import shutil
import subprocess

from helpers import NOT_FOR_OTHERS, compile_c, nothing_missing, others_can_run_sonde, record, report, skip_part


def record_audit(command, policy="linux", *options, **how):
    return record(command, "--audit=" + policy, *options, **how)


def audit_of(path):
    told = report(path, "audit")
    nothing_missing(told)
    assert told["audit"]["damaged"] == 0
    return told["audit"]


def compile_audited(source, *options):
    return compile_c(source, "-O2", "-w", *options)


# A program that puts a seccomp filter over itself: uname fails from then on, and nothing else.
OWN_FILTER = compile_audited("""
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
  struct sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                                 BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_uname, 0, 1),
                                 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                                 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  struct sock_fprog program = {4, filter};
  struct utsname name;
  int first = uname(&name), status;
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  int set = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
  int second = uname(&name), error = errno;
  if (fork() == 0) _exit(getenv("HOME") != 0);
  wait(&status);
  printf("%d %d %d %d %d\\n", first, set, second, error, status);
  return 6;
}""")

COMMANDS = [
    ["id", "root"], ["ls", "-l", "/etc"], ["git", "--version"], ["sh", "-c", "echo a; exit 3"], ["true"], ["false"],
    ["bash", "-c", "for i in 1 2 3; do (exit $i); echo $?; done"], ["python3", "-c", "import socket; print(socket.gethostbyname('localhost'))"],
    ["python3", "-c", "import subprocess; print(subprocess.run(['uname', '-s'], capture_output=True).stdout)"],
    ["sqlite3", ":memory:", "select 1 + 1;"], ["env", "-i", "/bin/echo", "x"], ["nice", "-n", "1", "echo", "y"],
    ["timeout", "1", "sleep", "3"], ["cat", "/nonexistent"], ["find", "/etc", "-name", "passwd"], ["sort", "/etc/passwd"],
    ["perl", "-e", "print getpwuid(0), qq(\\n); exit 5"], ["curl", "-s", "http://127.0.0.1:9/"], ["xargs", "-a", "/etc/hostname", "echo"],
    ["setpriv", "--reuid=65534", "--clear-groups", "id", "-u"], ["sh", "-c", "kill -SEGV $$"], ["tar", "cf", "-", "/etc/hostname"],
    ["env", "A=b", "nice", "-n", "1", "sh", "-c", "exec id -u"], ["setpriv", "--no-new-privs", "id", "-g"],
    ["sh", "-c", "(sleep 0.3; kill -CONT $$) & kill -STOP $$; wait; echo on"], ["bash", "-c", "trap 'echo got; exit 9' USR1; kill -USR1 $$; sleep 1"],
    ["python3", "-c", "import os, threading; threading.Thread(target=lambda: os.execv('/bin/echo', ['echo', 'from a thread'])).start()"],
    [OWN_FILTER],
]


def compare_commands(*options):
    """The programs of COMMANDS do the same with and without sonde record --audit."""
    ran = 0
    for command in COMMANDS:
        if not shutil.which(command[0]):
            continue
        if "--reuid=65534" in command and not others_can_run_sonde():
            skip_part("setpriv", NOT_FOR_OTHERS)
            continue
        plain = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=150)
        path, done = record_audit(command, "linux", *options, stdin=subprocess.DEVNULL)
        own = [line for line in done.stderr.splitlines() if not line.startswith(b"sonde record:")]
        assert done.returncode == plain.returncode, (command, done.returncode, plain.returncode, done.stderr)
        assert done.stdout == plain.stdout, command
        assert own == plain.stderr.splitlines(), (command, own, plain.stderr)
        ran += 1
    print(f"{ran} commands")
    assert ran >= 20
