# SPDX-License-Identifier: MIT
"""Servers under load that are recorded again and again, from outside or with the agent, beside a twin that is not
recorded: no request fails, and the process has afterwards what it had before."""
import getpass
import hashlib
import os
import pathlib
import pwd
import re
import shutil
import signal
import struct
import subprocess
import threading
import time

from helpers import BUILD, SONDE, TIMEOUT_SECONDS, compile_c, connect, free_port, fresh, report, until

CONNECTIONS = 4
ATTACHED = os.path.join(BUILD, "lib", "libsonde-attached.so")
# A program that executes another one, to which the system refuses a call: perf_event_open, if no other is named.
REFUSES = """
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#ifndef CALL
#define CALL SYS_perf_event_open
#define ERROR EPERM
#endif
int main(int argc, char **argv) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CALL, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ERROR),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  struct sock_fprog filter = {4, code};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
  return argc > 1 ? execvp(argv[1], argv + 1) : 127;
}
"""
GET = (b"GET /index.html HTTP/1.1\r\nHost: here\r\n\r\n", re.compile(rb"HTTP/1\.1 200 .*?\r\n\r\nhello$", re.S))
NODE = """require('http').createServer((q, a) => { let n = 0; for (let i = 0; i < 20000; i++) n += i;
a.writeHead(200, {'Content-Length': 5}); a.end('hello'); }).listen(%d, '127.0.0.1')"""
PYTHON = """
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    def log_message(self, *unused): pass
    def do_GET(self):
        sum(i * i for i in range(2000))
        self.send_response(200); self.send_header("Content-Length", "5"); self.end_headers()
        self.wfile.write(b"hello")
http.server.ThreadingHTTPServer(("127.0.0.1", %d), Handler).serve_forever()
"""


def _nginx(port, folder):
    config = pathlib.Path(folder) / "nginx.conf"
    pathlib.Path(folder, "index.html").write_text("hello", encoding="utf-8")
    config.write_text(f"daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log; events {{}} "
                      f"http {{ access_log off; keepalive_requests 100000000; client_body_temp_path {folder}; "
                      f"proxy_temp_path {folder}; fastcgi_temp_path {folder}; uwsgi_temp_path {folder}; "
                      f"scgi_temp_path {folder}; server {{ listen 127.0.0.1:{port}; root {folder}; }} }}",
                      encoding="utf-8")
    return ["nginx", "-c", str(config), "-p", folder]


def _postgres(port, folder):
    """It does not run as root, and initdb wants the name of its user."""
    user = pwd.getpwnam("nobody" if os.geteuid() == 0 else getpass.getuser())
    os.chown(folder, user.pw_uid, user.pw_gid)
    programs = pathlib.Path(shutil.which("postgres")).resolve().parent
    within = ["setpriv", f"--reuid={user.pw_uid}", "--clear-groups"] if os.geteuid() == 0 else []
    return [*within, "sh", "-c", f"cd {folder} && {programs}/initdb -A trust -U user -N data && exec {programs}/postgres "
            f"-D data -p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"]


# NAME: the command, a request, what its answer matches, and what a client sends and receives before.
SERVICES = {
    "redis-server": (lambda port, folder: ["redis-server", "--port", str(port), "--save", "", "--dir", folder],
                     b"SET key value\r\nLRANGE list 0 9\r\nGET key\r\n",
                     re.compile(rb"\+OK\r\n\*0\r\n\$5\r\nvalue\r\n$")),
    "nginx": (_nginx, *GET),
    "node": (lambda port, folder: ["node", "-e", NODE % port], *GET),
    "python3": (lambda port, folder: ["/usr/bin/python3", "-c", PYTHON % port], *GET),
    "postgres": (_postgres, b"Q\0\0\0\x26SELECT length(repeat('x', 90000))\0", re.compile(rb"T.*D.*90000.*Z\x00\x00\x00\x05I$", re.S),
                 b"\0\0\0\x25\0\3\0\0user\0user\0database\0postgres\0\0",
                 re.compile(rb"R.*K\x00\x00\x00\x0c(....).*Z\x00\x00\x00\x05I$", re.S)),
}
# Beside twice the twin's growth: node's heap grows and shrinks.
GROWTH_KB = {"node": 65536}
# libuv keeps a large array on the stack that it does not fill, so words of the agent may stay in it.
MAY_SLEEP = {"node"}


class Mapping:
    """A mapping of executable memory; PATH is "" without a file."""

    def __init__(self, pid, line):
        place, _, _, _, inode, *path = line.split(maxsplit=5)
        self.pid, self.path = pid, path[0].strip() if inode != "0" else ""
        self.start, self.end = (int(word, 16) for word in place.split("-"))

    def read(self, size=None):
        with open(f"/proc/{self.pid}/mem", "rb", 0) as memory:
            memory.seek(self.start)
            return memory.read(size or self.end - self.start)


def executable_mappings(pid):
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        return [Mapping(pid, line) for line in maps
                if "x" in line.split()[1] and not line.endswith(("[vdso]\n", "[vsyscall]\n"))]


def gates_in(pid):
    """The pages of gates, by their mark."""
    return [m.start for m in executable_mappings(pid) if not m.path and m.read(8) == b"snde-gt1"]


def agents_in(pid):
    """Where the code of the attached agent is: anonymous memory that begins as the code in its file."""
    with open(ATTACHED, "rb") as file:
        header = struct.unpack_from("<16x16xQ14xHH", file.read(64))
        for i in range(header[2]):
            file.seek(header[0] + i * header[1])
            kind, rights, offset, _, _, size = struct.unpack("<IIQQQQ", file.read(40))
            if kind == 1 and rights & 1:  # PT_LOAD, PF_X
                file.seek(offset)
                code = file.read(min(size, 4096))
    return [m.start for m in executable_mappings(pid) if not m.path and m.read(len(code)) == code]


class Server:
    """A server with clients that send one request after the other."""

    def __init__(self, name):
        self.name = name
        self.command, self.request, self.answer, *self.greeting = SERVICES[name]
        self.port, self.folder = free_port(), fresh(".served")
        os.mkdir(self.folder)
        self.process = subprocess.Popen(self.command(self.port, self.folder), stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        self.pid = self.process.pid
        self.requests, self.failures, self.longest, self.ended = 0, [], 0.0, False
        self.served = set()  # clients that have had an answer, so that the server has all their connections
        self.watched = None  # the client of the recorded process, if that serves one only
        self.watched_requests = 0
        self.clients = [threading.Thread(target=self._talk) for _ in range(CONNECTIONS)]
        for client in self.clients:
            client.start()
        until(lambda: self.requests > 50 * CONNECTIONS and len(self.served) == CONNECTIONS or self.failures,
              f"{name} serves")

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.ended = True
        for client in self.clients:
            client.join()
        self.process.kill()
        self.process.wait(timeout=TIMEOUT_SECONDS)

    def _ask(self, client, request, expected):
        answer = b""
        client.sendall(request)
        while not (match := expected.match(answer)):
            part = client.recv(65536)
            if not part or len(answer) > 4096:
                raise ConnectionError(f"answer {answer[:200]}")
            answer += part
        return match

    def _connect(self):
        """postgres has a process for each connection; that of the last one is recorded. While it starts, it refuses."""
        for _ in range(100):
            client = connect(self.port)
            client.settimeout(TIMEOUT_SECONDS)
            try:
                if self.greeting:
                    self.pid, self.watched = int.from_bytes(self._ask(client, *self.greeting)[1], "big"), client
                return client
            except ConnectionError as error:
                client.close()
                last = error
                time.sleep(0.1)
        raise last

    def _talk(self):
        try:
            with self._connect() as client:
                while not self.ended:
                    began = time.monotonic()
                    self._ask(client, self.request, self.answer)
                    self.longest = max(self.longest, time.monotonic() - began)
                    self.requests += 1
                    self.watched_requests += self.watched in (None, client)
                    self.served.add(client)
        except OSError as error:
            self.failures.append(error)

    def code(self):
        """A digest of the bytes of each executable mapping of a file."""
        return {(m.start, m.path): hashlib.sha256(m.read()).hexdigest() for m in executable_mappings(self.pid) if m.path}

    def _descriptors(self):
        """All but that of the file which nginx opens for each request."""
        for name in os.listdir(f"/proc/{self.pid}/fd"):
            try:
                if not os.readlink(f"/proc/{self.pid}/fd/{name}").endswith("/index.html"):
                    yield name
            except FileNotFoundError:
                pass

    def counts(self):
        """Descriptors, threads, and mappings of files."""
        with open(f"/proc/{self.pid}/maps", encoding="utf-8") as maps:
            mapped = sum(line.split()[4] != "0" for line in maps)
        return len(list(self._descriptors())), len(os.listdir(f"/proc/{self.pid}/task")), mapped


def start_observing(pid, *options, within=(), **how):
    """A recorder of the process PID that has begun to record, and its recording."""
    path = fresh()
    recorder = subprocess.Popen([*within, SONDE, "record", "-p", str(pid), *options, "-o", path], stderr=subprocess.PIPE,
                                text=True, **how)
    said = recorder.stderr.readline()
    while said and "recording process" not in said:
        said = recorder.stderr.readline()
    assert said, "it has not begun"
    return path, recorder


def start_attached(pid, path, *options):
    """A recorder whose agent is in the process PID; its `retries` says how often it was started before. On a busy
    machine a thread may get no CPU time, so that it does not stop in time; the command then says to try again."""
    words = [SONDE, "record", "-p", str(pid), *options, "-o", path]
    for retries in range(100):
        recorder = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        said = recorder.stderr.readline()
        if "with the agent in it" in said:
            recorder.retries = retries
            return recorder
        recorder.communicate(timeout=TIMEOUT_SECONDS)
        assert "try again" in said, said
    raise AssertionError(said)


def _attach(server, kills, seconds):
    """One recording by the agent, which leaves nothing unless it is asleep. If KILLS, SIGKILL ends the recorder, and the
    agent stays. The next one replaces it. Returns how often the agent could not be loaded at first, and whether it is
    asleep."""
    path = fresh()
    with start_attached(server.pid, path, "--malloc=all") as recorder:
        enough = server.watched_requests + 10 * CONNECTIONS
        time.sleep(seconds)
        until(lambda: server.watched_requests > enough or server.failures, "requests are served with the agent")
        recorder.send_signal(signal.SIGKILL if kills else signal.SIGINT)
        said = recorder.stderr.read()
        recorder.wait(TIMEOUT_SECONDS)
    sleeps = ", asleep: " in said
    assert bool(agents_in(server.pid)) == (kills or sleeps), said
    if not kills:
        assert recorder.returncode == 0, (recorder.returncode, said)
        assert report(path, "malloc")["malloc"]["allocated"]["blocks"], said
    if os.path.exists(path):
        os.unlink(path)
    return recorder.retries, sleeps


def _cycle(server, number, no_perf, seconds):
    """One recording: sampled by the kernel, sampled by stops, or ended by SIGKILL of the recorder."""
    path, recorder = start_observing(server.pid, "--sample=997", "--wall=499", "--stall=50",
                                     within=[no_perf] if number % 3 == 1 else [])
    with recorder:
        time.sleep(seconds)
        recorder.send_signal(signal.SIGKILL if number % 3 == 2 else signal.SIGINT)
        _, said = recorder.communicate(timeout=TIMEOUT_SECONDS)
    if number % 3 != 2:
        assert recorder.returncode == 0, (recorder.returncode, said)
        assert report(path, "wall")["wall"]["threads"], said
    if os.path.exists(path):
        os.unlink(path)


def _anonymous_kb(server):
    """Resident memory that is of no file, so the program's own and what the agent leaves."""
    with open(f"/proc/{server.pid}/status", encoding="utf-8") as status:
        return int(re.search(r"RssAnon:\s+(\d+)", status.read())[1])


def _anonymous_code(server):
    """Executable memory of no file but gates. Node generates code, so its own differs from time to time."""
    return [] if server.name == "node" else [
        (m.start, m.end) for m in executable_mappings(server.pid) if not m.path and m.start not in gates_in(server.pid)]


def record_again_and_again(name, cycles, seconds=0.5, agent=False):
    """Returns a line of figures. Fails if a request failed or the process has changed."""
    if not shutil.which(name):
        return None
    no_perf, retries, asleep = compile_c(REFUSES, "-w"), 0, 0
    with Server(name) as server, Server(name) as twin:
        before, code, anonymous_code = server.counts(), server.code(), _anonymous_code(server)
        anonymous_kb = _anonymous_kb(server), _anonymous_kb(twin)
        server.requests = twin.requests = 0
        server.longest = twin.longest = 0.0
        for number in range(cycles):
            if agent:
                failed, sleeps = _attach(server, number % 5 == 3 and number + 1 < cycles, seconds)
                retries, asleep = retries + failed, asleep + sleeps
            else:
                _cycle(server, number, no_perf, seconds)
            assert not server.failures and not twin.failures, (number, server.failures, twin.failures)
            assert server.process.poll() is None, (number, server.process.returncode)
        assert asleep <= (cycles // 5 if name in MAY_SLEEP else 0), f"asleep after {asleep} of {cycles} recordings"
        for _ in range(20 * agent):
            if agents_in(server.pid):
                _attach(server, False, seconds)
        assert server.counts() == before, (before, server.counts())
        assert server.code() == code, "code has changed"
        assert _anonymous_code(server) == anonymous_code, (anonymous_code, _anonymous_code(server))
        assert len(gates_in(server.pid)) == agent and not agents_in(server.pid)
        assert retries <= cycles, f"{retries} attempts to load the agent failed in {cycles} recordings"
        grown = [_anonymous_kb(s) - kb for s, kb in zip((server, twin), anonymous_kb)]
        assert grown[0] <= max(2 * grown[1], 0) + GROWTH_KB.get(name, 2048), grown
        line = (f"{name}: {cycles} recordings, {server.requests} requests, 0 failed, longest "
                f"{1000 * server.longest:.0f} ms; twin {twin.requests}, longest {1000 * twin.longest:.0f} ms; anonymous "
                f"memory grew by {grown[0]} KB, twin's by {grown[1]} KB; {retries} retries, {asleep} times asleep")
    assert not server.failures and not twin.failures, (server.failures, twin.failures)
    return line
