# SPDX-License-Identifier: MIT
"""Programs that wait for orders, and recordings of them by `sonde record -p` with the agent in them."""
import os
import platform
import re
import signal
import subprocess

from helpers import TIMEOUT_SECONDS, compile_c, fresh, report
from shared.serving import agents_in, gates_in, start_attached

BUFFERS = "/memfd:sonde-"


class Program:
    """A program that does its work once for each byte that it reads."""

    def __init__(self, *command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.pid = self.process.pid
        assert self.process.stdout.readline() == b"ready\n"

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate(timeout=TIMEOUT_SECONDS)

    def work(self, order=b"x", ready=False):
        """Returns the program's answer. With READY, it executes itself afterwards."""
        self.process.stdin.write(order)
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer == b"done\n" or answer.strip().isdigit(), answer
        assert not ready or self.process.stdout.readline() == b"ready\n"
        return answer

    def end(self):
        self.process.communicate(timeout=TIMEOUT_SECONDS)
        return self.process.returncode

    def mappings(self):
        """(start, end, protection, file) of each; "" without a file."""
        with open(f"/proc/{self.pid}/maps", encoding="utf-8") as file:
            for line in file:
                place, protection, _, _, inode, *name = line.split()
                start, end = (int(word, 16) for word in place.split("-"))
                yield start, end, protection, name[0] if int(inode) else ""

    def files(self):
        return [mapping for mapping in self.mappings() if mapping[3]]

    def code(self):
        """The bytes of all code and constants of files."""
        with open(f"/proc/{self.pid}/mem", "rb") as memory:
            return {start: (memory.seek(start), memory.read(end - start))[1]
                    for start, end, protection, _ in self.files() if "w" not in protection and "r" in protection}

    def gates(self):
        return gates_in(self.pid)

    def slots_into(self, page):
        """Places in the memory of files whose words lead into PAGE."""
        low = page & 0xf000
        word = re.compile(b"[\\x00-\\xff][" + b"".join(b"\\x%02x" % (low >> 8 | i) for i in range(16)) + b"]"
                          + re.escape((page >> 16).to_bytes(6, "little")), re.DOTALL)
        found = []
        with open(f"/proc/{self.pid}/mem", "rb") as memory:
            for start, end, protection, name in self.files():
                if "r" in protection and not name.startswith(BUFFERS) and memory.seek(start):
                    found += [start + m.start() for m in word.finditer(memory.read(end - start)) if m.start() % 8 == 0]
        return found

    def threads(self):
        return sorted(int(tid) for tid in os.listdir(f"/proc/{self.pid}/task"))

    def waits_in(self, call, tid):
        """Whether thread TID waits in the system call CALL."""
        number = {"x86_64": {"read": 0}, "aarch64": {"read": 63}}[platform.machine()][call]
        with open(f"/proc/{self.pid}/task/{tid}/syscall", encoding="utf-8") as file:
            return file.read().startswith(f"{number} ")

    def state(self, sleeps=False):
        """What an agent must leave as it was. SLEEPS: one is asleep, which keeps its buffers."""
        with open(f"/proc/{self.pid}/status", encoding="utf-8") as file:
            status = re.findall(r"^(?:TracerPid|Threads|Sig(?:Blk|Ign|Cgt)):.*", file.read(), re.M)
        folder = f"/proc/{self.pid}/fd"
        descriptors = sorted((name, os.readlink(f"{folder}/{name}")) for name in os.listdir(folder))
        return status, descriptors, [file for file in self.files() if not (sleeps and file[3].startswith(BUFFERS))]


class Attached:
    """`sonde record -p` while the agent is in the program."""

    def __init__(self, program, *options, path=None):
        self.path, self.pid = path or fresh(), program.pid
        self.recorder = start_attached(program.pid, self.path, *(options or ("--malloc=all",)))

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        if self.recorder.poll() is None:
            self.recorder.kill()
        self.recorder.communicate(timeout=TIMEOUT_SECONDS)

    def blocks(self, path=None):
        """How many blocks the growing recording has."""
        return report(path or self.path, "malloc").get("malloc", {"allocated": {"blocks": 0}})["allocated"]["blocks"]

    def end(self, section="malloc", sleeps=False):
        self.recorder.send_signal(signal.SIGINT)
        _, told = self.recorder.communicate(timeout=TIMEOUT_SECONDS)
        assert self.recorder.returncode == 0, told
        assert ("asleep" in told) == sleeps == bool(agents_in(self.pid)), told
        return report(self.path, section)[section]


def compile_program(source, *options, compiler="cc"):
    return compile_c(source, "-O1", "-g", "-pthread", *options, compiler=compiler)
